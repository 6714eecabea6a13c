/* SPDX-License-Identifier: MIT */
/* nvp2p_client.h - nvp2p_test.ko's operations for a program in the virtual machine. */
#pragma once

#include "nvp2p_test.h"
#include "vmtest.h"

/* The kernel's own: not supported.  No program sees it but through the test client. */
#define ENOTSUPP	524

__attribute__((weak)) int nvp2p_client;		/* the open device */

/* Before all of the following; false: it is not loaded. */
static inline bool t_open(void)
{
	nvp2p_client = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	return nvp2p_client >= 0;
}

/* Does an operation; ends the process if the operation itself makes no sense. */
static inline struct nvp2p_test_call t_do(struct nvp2p_test_call c)
{
	MUST(!ioctl(nvp2p_client, NVP2P_TEST_CALL, &c), "operation %u on slot %u", c.op, c.slot);
	return c;
}
#define T(...)	t_do((struct nvp2p_test_call){ __VA_ARGS__ })

/* get_pages of [va, va + len) into a slot. */
static inline struct nvp2p_test_call t_get(int slot, uint64_t va, uint64_t len)
{
	return T(.op = T_GET, .slot = slot, .va = va, .length = len);
}

static inline int t_put(int slot)
{
	return T(.op = T_PUT, .slot = slot).ret;
}

static inline struct nvp2p_test_call t_state(int slot)
{
	return T(.op = T_STATE, .slot = slot);
}

static inline void t_on_callback(int slot, uint32_t what)
{
	T(.op = T_ON_CALLBACK, .slot = slot, .value = what);
}

static inline void t_reset(void)
{
	T(.op = T_RESET);
}

static inline void t_pages(int slot, uint64_t *pages, int n)
{
	T(.op = T_PAGES, .slot = slot, .data = (uintptr_t)pages, .length = n);
}
