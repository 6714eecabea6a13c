// SPDX-License-Identifier: MIT
/*
 * nvp2p_conform - does this provider of nvidia_p2p_* keep the rules?
 *
 * Asks it for each, through nvp2p_test.ko, a client that does what it is told, and
 * a CUDA driver; prints what was done, what was expected and what was seen.
 */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static char *gpu;		/* the driver, and the GPU: a process of its own asks */

struct options options = { .bar1_mib = 512, .seconds = 120 };
uint64_t features;
static int client = -1;

static const char usage[] =
	"usage: nvp2p_conform [--json] [--only RULE] [--gpu N] [--peer ADDRESS] [--bar1 MIB] [--timeout SECONDS]\n"
	"\n"
	"Whether the provider of nvidia_p2p_* that is loaded keeps the interface's rules.\n"
	"Needs nvp2p_test.ko loaded, libcuda.so.1, and root.\n"
	"\n"
	"  --json      one object instead of the table\n"
	"  --only R    only the rules of one section, such as 1.5\n"
	"  --gpu N     CUDA's number of the GPU (0)\n"
	"  --peer A    a PCI device to map for, such as 0000:02:00.0: no DMA is done, but\n"
	"              addresses are made and taken back, so best one without a driver.\n"
	"              Without it 1.9 is left out\n"
	"  --bar1 MIB  how much to pin at most in search of BAR1's end (512)\n"
	"  --timeout   seconds that a group of rules may take (120)\n"
	"\n"
	"Exit code: 0 all rules are kept, 1 some are not, 2 it could not be tried.\n";

/* ---- the client module ---- */

struct nvp2p_test_call t_do(struct nvp2p_test_call c)
{
	if (ioctl(client, NVP2P_TEST_CALL, &c)) {
		fprintf(stderr, "operation %u on slot %u: %s\n", c.op, c.slot, strerror(errno));
		exit(2);
	}
	return c;
}

void t_pages(int slot, uint64_t *pages, int n)
{
	T(.op = T_PAGES, .slot = slot, .data = (uintptr_t)pages, .length = n);
}

void pin(int slot, uint64_t va, uint64_t length)
{
	int ret = t_get(slot, va, length).ret;

	if (!ret)
		return;
	fprintf(stderr, "get_pages of %llu KiB: %s\n", (unsigned long long)length >> 10, errname(ret));
	exit(2);
}

bool pin_mapped(const char *rule, const char *what, uint64_t va, uint64_t *dma)
{
	pin(0, va, BLOCK);
	if (T(.op = T_DMA_MAP, .bdf = options.peer).ret) {
		row(FAIL, rule, what, "that it can be mapped", "it cannot");
		return false;
	}
	*dma = 0;
	T(.op = T_DMA_ADDRESSES, .data = (uintptr_t)dma, .length = 1);
	return true;
}

void leads_nowhere(const char *rule, const char *what, uint64_t dma)
{
	struct nvp2p_test_call t = T(.op = T_TRANSLATE, .bdf = options.peer, .va = dma);

	if (!t.pointer)
		row(NA, rule, what, "its address leads nowhere", "no IOMMU translates");
	else
		judge(!t.value, rule, what, "its address leads nowhere", "to %#llx", (unsigned long long)t.value);
}

/* ---- running ---- */

static const struct group *group;

static void run_it(void)
{
	if (!group->no_cuda)
		cuda_up();
	group->run();
	T(.op = T_RESET);
}

static void run_group(const struct group *g)
{
	if (options.only && strcmp(options.only, g->rule))
		return;
	if ((features & g->needs) != g->needs) {
		row(NA, g->rule, g->name, "", "nv-p2p.h does not have it");
		return;
	}
	if (g->needs_peer && !options.peer) {
		row(NA, g->rule, g->name, "", "name a PCI device by --peer");
		return;
	}
	group = g;
	run_alone(run_it, g->rule, g->name, options.seconds);
	T(.op = T_RESET);
}

static void run_groups(const struct group *groups)
{
	for (; groups->run; groups++)
		run_group(groups);
}

/* ---- telling ---- */

static const char *provider(void)
{
	static char version[64] = "?";
	FILE *f = fopen("/sys/module/nvidia/version", "r");

	if (f) {
		if (fscanf(f, "%63s", version) != 1)
			strcpy(version, "?");
		fclose(f);
	}
	return version;
}

static void json_text(const char *key, const char *s, const char *after)
{
	printf("\"%s\": \"", key);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		if ((unsigned char)*s >= ' ')
			putchar(*s);
	}
	printf("\"%s", after);
}

static void json(void)
{
	const struct row *r;
	unsigned int n = rows(&r);

	printf("{\"schema\": \"nvp2p-conform/1\", ");
	json_text("provider", provider(), ", ");
	json_text("gpu", gpu, ", ");
	printf("\"features\": %llu, \"ok\": %u, \"failed\": %u, \"not_applicable\": %u,\n \"rows\": [",
	       (unsigned long long)features, count(OK), count(FAIL), count(NA));
	for (unsigned int i = 0; i < n; i++, r++) {
		printf("%s\n  {", i ? "," : "");
		json_text("rule", r->rule, ", ");
		json_text("what", r->what, ", ");
		json_text("expected", r->expected, ", ");
		json_text("seen", r->seen, ", ");
		json_text("verdict", verdicts[r->verdict], "}");
	}
	printf("\n]}\n");
}

static int cannot(const char *why)
{
	fprintf(stderr, "nvp2p_conform: %s\n", why);
	return 2;
}

static bool number(const char *text, unsigned int *to)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	*to = (unsigned int)n;
	return *text && !*end && n == *to;
}

static bool parse(int argc, char **argv)
{
	static const struct option list[] = {
		{ "json", no_argument, NULL, 'j' }, { "only", required_argument, NULL, 'o' }, { "gpu", required_argument, NULL, 'g' },
		{ "peer", required_argument, NULL, 'p' }, { "bar1", required_argument, NULL, 'b' },
		{ "timeout", required_argument, NULL, 't' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	bool good = true;
	int c;

	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		switch (c) {
		case 'j':
			options.json = true;
			break;
		case 'o':
			options.only = optarg;
			break;
		case 'g':
			good &= number(optarg, &options.gpu);
			break;
		case 'p':
			good &= pci_address(optarg, &options.peer);
			break;
		case 'b':
			good &= number(optarg, &options.bar1_mib);
			break;
		case 't':
			good &= number(optarg, &options.seconds);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			good = false;
		}
	}
	return good && optind == argc;
}

int main(int argc, char **argv)
{
	const char *why;

	if (!parse(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	client = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (client < 0)
		return cannot("cannot open /dev/" NVP2P_TEST_DEVICE ": load nvp2p_test.ko, and be root");
	why = cuda_load();
	if (why)
		return cannot(why);
	gpu = board_up();
	if (!gpu)
		return cannot(strerror(errno));
	cuda_describe(gpu, ABOUT);
	if (!gpu[0])
		return cannot("there is no such GPU");
	features = T(.op = T_FEATURES).value;
	run_groups(other_groups);
	run_groups(get_groups);
	run_groups(persistent_groups);
	run_groups(put_groups);
	run_groups(callback_groups);
	run_groups(dma_groups);
	if (options.json) {
		json();
	} else {
		printf("nvidia_p2p of nvidia %s on %s\n\n", provider(), gpu);
		print_table(5);
	}
	return count(FAIL) ? 1 : 0;
}
