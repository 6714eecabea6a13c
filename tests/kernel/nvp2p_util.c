// SPDX-License-Identifier: MIT
/* nvp2p_util.c - nvp2p_test.ko's operations, and the peers there are, for programs in the virtual machine. */
#include <dirent.h>
#include <limits.h>
#include <time.h>
#include "nvp2p_rules.h"

static int test_fd = -1;
const char *const out_names[] = { "untouched", "NULL", "set" };

bool t_open(void)
{
	test_fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	return test_fd >= 0;
}

void t_close(void)
{
	close(test_fd);
}

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
