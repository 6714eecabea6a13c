// SPDX-License-Identifier: MIT
/* persistent.c - 1.6: pins that only put_pages_persistent ends. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct nvp2p_test_call get(int slot, uint64_t va, uint64_t length, uint64_t flags)
{
	return T(.op = T_GET_PERSISTENT, .slot = slot, .va = va, .length = length, .value = flags);
}

static int put(int slot)
{
	return T(.op = T_PUT_PERSISTENT, .slot = slot).ret;
}

static void aligned(const char *what, uint64_t va, uint64_t length)
{
	struct nvp2p_test_call c = get(0, va, length, 0);

	judge(c.ret == -22 && c.out == OUT_UNTOUCHED, "1.6", what, "-EINVAL, *page_table untouched", "%s, %s",
	      errname(c.ret), c.out == OUT_UNTOUCHED ? "untouched" : "written to");
	if (!c.ret)
		put(0);
}

static void arguments(void)
{
	gpu_ptr p = cuda_alloc(2 * BLOCK);
	struct nvp2p_test_call c;
	int null;

	aligned("address not a multiple of 64 KiB", p + 4096, BLOCK);
	aligned("length not a multiple of 64 KiB", p, 4096);
	c = get(0, p, BLOCK, 0);
	returns("1.6", "get_pages_persistent of an allocation", 0, c.ret);
	if (c.ret)
		return;
	judge(c.page_size == 1 && c.entries == BLOCK / KIB64, "1.6", "its table: page_size and entries", "1 and 32",
	      "%u and %u", c.page_size, c.entries);
	null = T(.op = T_PUT_PERSISTENT, .flags = W_NULL_TABLE).ret;
	judge(!null || null == -22, "1.6", "put_pages_persistent of NULL", "0 (from release 610 on: -EINVAL)", "%s", errname(null));
	returns("1.6", "put_pages_persistent, flags not 0", -22, T(.op = T_PUT_PERSISTENT, .value = 1).ret);
	returns("1.6", "put_pages_persistent of NULL, flags not 0", -22,
		T(.op = T_PUT_PERSISTENT, .value = 1, .flags = W_NULL_TABLE).ret);
	returns("1.6", "put_pages_persistent", 0, put(0));
	c = get(0, p, BLOCK, 0x80);
	returns("1.6", "get_pages_persistent, a flag that is none", 0, c.ret);
	if (!c.ret)
		put(0);
	if (!(features & F_FORCE_BAR1)) {
		row(NA, "1.6", "flag FORCE_BAR1_MAPPING", "", "nv-p2p.h does not have it");
		return;
	}
	c = get(0, p, BLOCK, 1);
	judge(c.ret == -ENOTSUPP || !c.ret, "1.6", "flag FORCE_BAR1_MAPPING", "-ENOTSUPP; 0 on coherent GPUs", "%s",
	      errname(c.ret));
	if (!c.ret)
		put(0);
}

/* Uses of the module that provides the interface; -1: not known. */
static long module_uses(void)
{
	FILE *f = fopen("/sys/module/nvidia/refcnt", "r");
	long n = -1;

	if (f) {
		if (fscanf(f, "%ld", &n) != 1)
			n = -1;
		fclose(f);
	}
	return n;
}

static void outlives_free(void)
{
	gpu_ptr p = cuda_alloc(BLOCK), other[8];
	uint64_t before[BLOCK / KIB64], after[BLOCK / KIB64];
	uint32_t word = 0;

	cuda_write(p, 0x5eed0003);
	if (get(0, p, BLOCK, 0).ret)
		exit(2);
	t_pages(0, before, BLOCK / KIB64);
	cuda_free(p);
	returns("1.6", "cuMemFree under a persistent pin: callbacks", 0, (int)t_state(0).callbacks);
	for (int i = 0; i < 8; i++) {
		other[i] = cuda_alloc(BLOCK);
		cuda_write(other[i], 0xbad);
	}
	t_pages(0, after, BLOCK / KIB64);
	judge(!memcmp(before, after, sizeof(before)), "1.6", "the addresses after that", "the same", "%s",
	      memcmp(before, after, sizeof(before)) ? "others" : "the same");
	T(.op = T_PEEK, .data = (uintptr_t)&word, .length = 4);
	judge(word == 0x5eed0003, "1.6", "the memory after that, and after 8 allocations", "0x5eed0003", "%#x", word);
	returns("1.6", "put_pages_persistent after that", 0, put(0));
}

static void leave_pin(void *arg)
{
	gpu_ptr p;

	(void)arg;
	cuda_up();
	p = cuda_alloc(BLOCK);
	cuda_write(p, 0x5eed0004);
	if (get(0, p, BLOCK, 0).ret)
		exit(2);
}

/* No CUDA here: the pin's owner is a process that has ended. */
static void outlives_process(void)
{
	long uses = module_uses(), with_pin;
	uint32_t word = 0;

	if (!in_child(leave_pin, NULL)) {
		row(FAIL, "1.6", "a process that leaves a persistent pin", "an end", "it broke off");
		return;
	}
	returns("1.6", "exit under a persistent pin: callbacks", 0, (int)t_state(0).callbacks);
	T(.op = T_PEEK, .data = (uintptr_t)&word, .length = 4);
	judge(word == 0x5eed0004, "1.6", "the memory after exit", "0x5eed0004", "%#x", word);
	with_pin = module_uses();
	if (uses < 0)
		row(NA, "1.6", "the provider cannot be unloaded meanwhile", "one use more", "no /sys/module/nvidia/refcnt");
	else
		judge(with_pin > uses, "1.6", "the provider cannot be unloaded meanwhile", "more uses of the module",
		      "%ld, before %ld", with_pin, uses);
	returns("1.6", "put_pages_persistent by another process, after exit", 0, put(0));
	row(NA, "1.6", "MIG, vGPU and protected modes", "-ENOTSUPP", "not made here");
}

const struct group persistent_groups[] = {
	{ "1.6", "arguments of the persistent calls", .run = arguments, .needs = F_PERSISTENT },
	{ "1.6", "a persistent pin outlives cuMemFree", .run = outlives_free, .needs = F_PERSISTENT },
	{ "1.6", "a persistent pin outlives its process", .run = outlives_process, .needs = F_PERSISTENT, .no_cuda = true },
	{ 0 }
};
