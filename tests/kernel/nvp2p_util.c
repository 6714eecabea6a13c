// SPDX-License-Identifier: MIT
/* nvp2p_util.c - nvp2p_test.ko's operations, for programs in the virtual machine. */
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
