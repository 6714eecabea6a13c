// SPDX-License-Identifier: MIT
/*
 * nvp2p_rules - asks a provider of nvidia_p2p for every rule of nv-p2p.h, one
 * case each, through nvp2p_test.ko.
 *
 *   nvp2p_rules [PART OF A CASE'S NAME]
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <time.h>
#include "nvp2p_rules.h"

static int test_fd = -1;
const char *const out_names[] = { "untouched", "NULL", "set" };

void t_call(struct nvp2p_test_call *c)
{
	if (ioctl(test_fd, NVP2P_TEST_CALL, c)) {
		printf("not ok: operation %u on slot %u: %s\n", c->op, c->slot, strerror(errno));
		exit(1);
	}
}

void t_pages(int slot, uint64_t *pages, int n)
{
	T(.op = T_PAGES, .slot = slot, .data = PTR(pages), .length = n);
}

uint64_t need_alloc(struct gpu *g, uint64_t len)
{
	uint64_t va;

	NEED(!sg_alloc(g->fd, g->ctx, len, &va));
	return va;
}

void nap_ms(int ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

/* ---- peers ---- */

#define PCI	"/sys/bus/pci/devices"

static bool file_says(const char *device, const char *file, const char *want)
{
	char path[512], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), PCI "/%s/%s", device, file);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	return !strncmp(text, want, strlen(want));
}

/* The nth of QEMU's edu cards, by name, in the order of their addresses. */
static bool find_card(int n, char name[NAME_MAX + 1])
{
	struct dirent **list;
	int i, count = scandir(PCI, &list, NULL, alphasort);
	bool found = false;

	for (i = 0; i < count; i++) {
		if (list[i]->d_name[0] != '.' && file_says(list[i]->d_name, "vendor", "0x1234") &&
		    file_says(list[i]->d_name, "device", "0x11e8") && !n--) {
			strcpy(name, list[i]->d_name);
			found = true;
		}
		free(list[i]);
	}
	if (count >= 0)
		free(list);
	return found;
}

uint32_t peer_bdf(int n)
{
	unsigned int domain, bus, device, function;
	char name[NAME_MAX + 1];

	if (!find_card(n, name) ||
	    sscanf(name, "%x:%x:%x.%u", &domain, &bus, &device, &function) != 4 || domain)
		return 0;
	return bus << 8 | device << 3 | function;
}

bool peer_is_translated(int n)
{
	char name[NAME_MAX + 1];

	return find_card(n, name) && file_says(name, "iommu_group/type", "DMA");
}

/* ---- running ---- */

static void run_case(void *arg)
{
	const struct test_case *t = arg;
	struct gpu g = gpu_up(0);

	t->run(&g);
	T(.op = T_RESET);
	close(g.fd);
}

static void run_cases(const struct test_case *cases, const char *only, int info_fd,
		      const struct idle *idle)
{
	const struct test_case *t;

	for (t = cases; t->rule; t++) {
		int before = failures;

		if (only && !strstr(t->rule, only))
			continue;
		if (!in_child(run_case, (void *)t))
			check_at(__LINE__, false, t->rule, "did not end well");
		T(.op = T_RESET);
		check_idle(info_fd, idle, t->rule);
		printf("%s: %s\n", failures == before ? "ok" : "NOT OK", t->rule);
	}
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	struct idle idle;
	int info_fd;

	test_fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (test_fd < 0 || access("/dev/softgpu0", F_OK)) {
		printf("skip: no /dev/%s: load softgpu.ko, nvidia.ko and nvp2p_test.ko first\n",
		       test_fd < 0 ? NVP2P_TEST_DEVICE : "softgpu0");
		return EXIT_SKIP;
	}
	if (!only)
		misc_rules();
	info_fd = sg_open(0);
	NEED(info_fd >= 0);
	idle = idle_now(info_fd);
	run_cases(get_cases, only, info_fd, &idle);
	run_cases(end_cases, only, info_fd, &idle);
	run_cases(callback_cases, only, info_fd, &idle);
	run_cases(sharing_cases, only, info_fd, &idle);
	if (peer_bdf(0))
		run_cases(dma_cases, only, info_fd, &idle);
	else
		printf("skip: no DMA card (1234:11e8): the cases of DMA mappings are left out\n");
	return test_end("nvp2p_rules");
}
