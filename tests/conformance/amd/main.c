// SPDX-License-Identifier: MIT
/* amd_conform - does this provider of amd_rdma_interface keep the rules?  docs/amd.md */
#include "conform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int api;
bool callbacks = true;
uint32_t peer;
static unsigned int seconds = 120;
static const char *only;
const char *group_name;
static int client = -1;

static struct {
	int (*hipMalloc)(void **p, size_t size);
	int (*hipFree)(void *p);
	int (*hipMemcpy)(void *dst, const void *src, size_t size, int kind);
	int (*hipHostMalloc)(void **p, size_t size, unsigned int flags);	/* NULL: an older HIP */
	int (*hipHostFree)(void *p);
} hip;

static const char usage[] =
	"usage: amd_conform [--no-callbacks] [--only GROUP] [--peer ADDRESS] [--timeout SECONDS]\n"
	"\n"
	"Whether the provider of amd_rdma_interface that is loaded keeps the interface's rules.\n"
	"Needs amd_rdma_test.ko (version 2.0) or amd_rdma_test_1.ko (1.0), libamdhip64, and root.\n"
	"\n"
	"  --no-callbacks  the driver is one that never calls back: memory stays until put_pages\n"
	"  --only G        only this group of rules\n"
	"  --peer A        a PCI device to map for, such as 0000:02:00.0: no DMA is done\n"
	"  --timeout       seconds that a group of rules may take (120)\n"
	"\n"
	"Exit code: 0 all rules are kept, 1 some are not, 2 it could not be tried.\n";

struct amd_rdma_test_call t_do(struct amd_rdma_test_call c)
{
	if (ioctl(client, AMD_RDMA_TEST_CALL, &c)) {
		fprintf(stderr, "operation %u on slot %u: %s\n", c.op, c.slot, strerror(errno));
		exit(2);
	}
	return c;
}

/* ---- HIP ---- */

bool hip_up(void)
{
	void *lib = dlopen("libamdhip64.so.6", RTLD_NOW);

	if (!lib)
		lib = dlopen("libamdhip64.so", RTLD_NOW);
	if (!lib)
		return false;
	hip.hipMalloc = (int (*)(void **, size_t))dlsym(lib, "hipMalloc");
	hip.hipFree = (int (*)(void *))dlsym(lib, "hipFree");
	hip.hipMemcpy = (int (*)(void *, const void *, size_t, int))dlsym(lib, "hipMemcpy");
	hip.hipHostMalloc = (int (*)(void **, size_t, unsigned int))dlsym(lib, "hipHostMalloc");
	hip.hipHostFree = (int (*)(void *))dlsym(lib, "hipHostFree");
	return hip.hipMalloc && hip.hipFree && hip.hipMemcpy;
}

static void hip_must(int error, const char *call)
{
	if (!error)
		return;
	fprintf(stderr, "%s: error %d\n", call, error);
	exit(2);
}

char *gpu_alloc(size_t size)
{
	void *p = NULL;

	hip_must(hip.hipMalloc(&p, size), "hipMalloc");
	return p;
}

void gpu_free(void *p)
{
	hip_must(hip.hipFree(p), "hipFree");
}

char *host_alloc(size_t size)
{
	void *p = NULL;

	if (hip.hipHostMalloc && hip.hipHostFree)
		hip_must(hip.hipHostMalloc(&p, size, 0), "hipHostMalloc");
	return p;
}

void host_free(void *p)
{
	hip_must(hip.hipHostFree(p), "hipHostFree");
}

void gpu_copy(void *dst, const void *src, size_t size)
{
	hip_must(hip.hipMemcpy(dst, src, size, 4), "hipMemcpy");
}

/* ---- running ---- */

static void (*group_run)(void);

static void run_it(void)
{
	if (!hip_up()) {
		fprintf(stderr, "there is no libamdhip64.so.6\n");
		exit(2);
	}
	group_run();
}

static void run_group(const struct group *g)
{
	if (only && strcmp(only, g->name))
		return;
	group_name = g->name;
	group_run = g->run;
	run_alone(run_it, g->name, "an end", seconds);
	T(.op = A_RESET);
}

static int cannot(const char *why)
{
	fprintf(stderr, "amd_conform: %s\n", why);
	return 2;
}

static bool parse(int argc, char **argv)
{
	static const struct option list[] = {
		{ "no-callbacks", no_argument, NULL, 'n' }, { "only", required_argument, NULL, 'o' },
		{ "peer", required_argument, NULL, 'p' }, { "timeout", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		switch (c) {
		case 'n':
			callbacks = false;
			break;
		case 'o':
			only = optarg;
			break;
		case 'p':
			if (!pci_address(optarg, &peer))
				return false;
			break;
		case 't':
			seconds = (unsigned int)atoi(optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			return false;
		}
	}
	return optind == argc && seconds;
}

int main(int argc, char **argv)
{
	if (!parse(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	client = open("/dev/" AMD_RDMA_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (client < 0)
		return cannot("/dev/" AMD_RDMA_TEST_DEVICE ": load amd_rdma_test.ko or amd_rdma_test_1.ko, and be root");
	if (!board_up())
		return cannot("no memory");
	api = (int)T(.op = A_VERSION).value;
	for (const struct group *g = groups; g->run; g++)
		run_group(g);
	printf("amd_rdma_interface %d.0\n\n", api);
	print_table(14);
	if (!count(OK))
		return cannot("nothing was tried");
	return count(FAIL) ? 1 : 0;
}
