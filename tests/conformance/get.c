// SPDX-License-Identifier: MIT
/* get.c - 1.5: get_pages, and what of 1.4 shows there. */
#include "conform.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const out_names[] = { "untouched", "NULL", "set" };

/* What failed calls left in *page_table, and put_pages made of it. */
static unsigned int left_over, left_over_bad;

static void fails_with(const char *what, struct nvp2p_test_call c, int want, bool untouched)
{
	char expected[40];
	int ret;

	c = t_do(c);
	snprintf(expected, sizeof(expected), "%s%s", errname(want), untouched ? ", *page_table untouched" : "");
	judge(c.ret == want && (!untouched || c.out == OUT_UNTOUCHED), "1.5", what, expected, "%s, *page_table %s",
	      errname(c.ret), out_names[c.out]);
	if (!c.ret)
		t_put(c.slot);
	if (!c.ret || c.out != OUT_SET)
		return;
	/* As clients do that do not look at what get_pages says. */
	left_over++;
	ret = T(.op = T_PUT, .slot = c.slot, .flags = W_GARBAGE_TABLE, .value = c.pointer).ret;
	left_over_bad += ret && ret != -22;
}

static struct nvp2p_test_call get(uint64_t va, uint64_t length)
{
	return (struct nvp2p_test_call){ .op = T_GET, .va = va, .length = length };
}

static void after_failures(void)
{
	judge(!left_over_bad, "1.5", "put_pages of what those calls left in *page_table", "0 or -EINVAL", "%s",
	      left_over_bad ? "another errno" : left_over ? "as expected" : "they left nothing");
}

static void arguments(void)
{
	uint64_t va = cuda_alloc(2 * BLOCK);
	struct nvp2p_test_call c = get(va, BLOCK);

	if (features & F_NULL_CALLBACK) {
		row(NA, "1.5", "free_callback NULL", "-EINVAL", "means persistent with this header");
	} else {
		c.flags = W_NULL_CALLBACK;
		fails_with("free_callback NULL", c, -22, true);
		c.va = 1;
		c.length = 1;
		c.token = 1;
		fails_with("free_callback NULL, all else wrong too: found first", c, -22, true);
	}
	fails_with("address not a multiple of 64 KiB: by 1", get(va + 1, BLOCK), -22, true);
	fails_with("address not a multiple of 64 KiB: by 4 KiB", get(va + 4096, BLOCK), -22, true);
	fails_with("length not a multiple of 64 KiB: less 1", get(va, BLOCK - 1), -22, true);
	fails_with("length not a multiple of 64 KiB: 4 KiB", get(va, 4096), -22, true);
	fails_with("length 0", get(va, 0), -22, false);
	fails_with("past the end of the allocation", get(va + BLOCK, 2 * BLOCK), -22, false);
	fails_with("far past it", get(va, (uint64_t)1 << 40), -22, false);
	fails_with("a length that wraps around", get(va, 0 - KIB64), -22, false);
	after_failures();
}

static void data_null(void)
{
	gpu_ptr p = cuda_alloc(BLOCK);
	int ret = T(.op = T_GET, .va = p, .length = BLOCK, .flags = W_NULL_DATA).ret;

	returns("1.5", "data NULL", 0, ret);
	cuda_free(p);
	if (!ret)
		judge(t_state(0).callbacks_done == 1, "1.5", "data NULL: the callback is given it", "one callback", "%u",
		      t_state(0).callbacks_done);
}

static void two_allocations(void)
{
	gpu_ptr p[16];

	for (int i = 0; i < 16; i++)
		p[i] = cuda_alloc(BLOCK);
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 16; j++) {
			if (p[j] == p[i] + BLOCK) {
				fails_with("two allocations side by side", get(p[i], 2 * BLOCK), -22, false);
				return;
			}
		}
	}
	row(NA, "1.5", "two allocations side by side", "-EINVAL", "none of 16 were neighbours");
}

static void not_gpu_memory(void)
{
	gpu_ptr freed = cuda_alloc(BLOCK), managed = 0;
	void *own = NULL, *pinned = NULL, *registered = NULL;

	cuda_free(freed);
	if (posix_memalign(&own, KIB64, BLOCK) || posix_memalign(&registered, KIB64, BLOCK))
		exit(2);
	memset(own, 0, BLOCK);
	memset(registered, 0, BLOCK);
	fails_with("address 0", get(0, BLOCK), -22, false);
	fails_with("memory of the process", get((uintptr_t)own, KIB64), -22, false);
	if (!cuda.cuMemAllocHost_v2(&pinned, 2 * BLOCK))
		fails_with("host memory of cuMemAllocHost", get(((uintptr_t)pinned + KIB64 - 1) & ~(KIB64 - 1), KIB64),
			   -22, false);
	if (!cuda.cuMemHostRegister_v2(registered, BLOCK, 0))
		fails_with("host memory of cuMemHostRegister", get((uintptr_t)registered, KIB64), -22, false);
	if (!cuda.cuMemAllocManaged(&managed, 2 * BLOCK, 1))
		fails_with("managed memory", get((managed + KIB64 - 1) & ~(KIB64 - 1), KIB64), -22, false);
	fails_with("GPU memory that was freed", get(freed, BLOCK), -22, false);
	after_failures();
}

/* ---- who may ---- */

#define WORD	0x5eed0006u

struct owner {
	uint64_t va, token;
	uint32_t va_space;
	bool has_tokens;
};

static void other_process(void *arg)
{
	const struct owner *o = arg;
	struct nvp2p_test_call c = get(o->va, BLOCK);
	uint32_t word = 0;

	fails_with("another process's address, no tokens", c, -22, false);
	if (!o->has_tokens)
		return;
	c.token = o->token;
	c.va_space = o->va_space;
	c = t_do(c);
	returns("1.5", "another process's address, with its tokens", 0, c.ret);
	if (!c.ret)
		T(.op = T_PEEK, .data = (uintptr_t)&word, .length = 4);
	judge(c.ret || word == WORD, "1.5", "  what is pinned then", "the other process's memory", "%#x", word);
	/* Without the token it would not be found. */
	if (!c.ret)
		T(.op = T_PUT, .token = o->token);
}

/* A process of its own that shares this one's memory, as between vfork and exec. */
static int same_mm(uint64_t va)
{
	volatile int ret = 0;
	pid_t pid = vfork();

	if (!pid) {
		ret = t_do(get(va, BLOCK)).ret;
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return ret;
}

static void *get_in_thread(void *arg)
{
	struct nvp2p_test_call *c = arg;

	*c = t_do(*c);
	return NULL;
}

static void tokens(void)
{
	struct owner o = { .va = cuda_alloc(BLOCK) };
	struct nvp2p_test_call c = get(o.va, BLOCK), thread = c;
	pthread_t id;
	int ret;

	cuda_write(o.va, WORD);
	o.has_tokens = cuda_tokens(o.va, &o.token, &o.va_space);
	returns("1.5", "token 0 and va_space 0: the caller's own memory", 0, t_do(c).ret);
	t_put(0);
	if (pthread_create(&id, NULL, get_in_thread, &thread))
		exit(2);
	pthread_join(id, NULL);
	returns("1.5", "the same from another thread", 0, thread.ret);
	if (!thread.ret)
		t_put(0);
	ret = same_mm(o.va);
	judge(ret == -22, "1.5", "from a process that shares the mm (vfork): tgid counts", "-EINVAL", "%s", errname(ret));
	if (!ret)
		t_put(0);
	if (!in_child(other_process, &o))
		row(FAIL, "1.5", "another process", "an end", "none");
	if (!o.has_tokens) {
		row(NA, "1.5", "tokens", "", "this driver has no P2P_TOKENS");
	} else {
		c.token = o.token;
		c.va_space = o.va_space;
		returns("1.5", "right tokens, own memory", 0, t_do(c).ret);
		t_put(0);
		c.token ^= 1;
		fails_with("an unknown token: one bit is wrong", c, -22, false);
		c.token = o.token;
		c.va_space ^= 1;
		fails_with("an unknown va_space: one bit is wrong", c, -22, false);
	}
	c.token = 0x1234;
	c.va_space = 0;
	fails_with("token without va_space", c, -5, false);
	returns("1.4", "all other causes: token without va_space", -5, t_do(c).ret);
	row(NA, "1.5", "an address that two client objects know", "-EIO", "CUDA cannot make that");
	after_failures();
}

/* ---- success ---- */

static bool aligned(const uint64_t *pages, int n)
{
	for (int i = 0; i < n; i++) {
		if (!pages[i] || pages[i] % KIB64)
			return false;
		for (int j = 0; j < i; j++) {
			if (pages[i] == pages[j])
				return false;
		}
	}
	return true;
}

/* Words through the address that the table has, and through CUDA. */
static void same_memory(gpu_ptr p)
{
	const uint64_t last = BLOCK - KIB64;
	uint32_t word = 0, out = 0x5eed0002;

	cuda_write(p + last, 0x5eed0001);
	T(.op = T_PEEK, .va = last, .data = (uintptr_t)&word, .length = 4);
	judge(word == 0x5eed0001, "1.5", "what CUDA wrote to the last page, read at its address", "0x5eed0001", "%#x", word);
	T(.op = T_POKE, .va = last, .data = (uintptr_t)&out, .length = 4);
	word = cuda_read(p + last);
	judge(word == out, "1.5", "what was written there, read by CUDA", "0x5eed0002", "%#x", word);
}

static void table(void)
{
	const int n = BLOCK / KIB64;
	unsigned char uuid[16] = { 0 };
	uint64_t pages[BLOCK / KIB64];
	gpu_ptr p = cuda_alloc(BLOCK);
	struct nvp2p_test_call c = t_get(0, p, BLOCK);
	uint32_t version = T(.op = T_FEATURES).version;
	bool good;

	returns("1.5", "get_pages of an allocation", 0, c.ret);
	if (c.ret)
		return;
	good = c.version >> 16 == version >> 16 && (c.version & 0xffff) >= (version & 0xffff);
	judge(good, "1.5", "page table: version, compatible with the header's", "its major, and no smaller minor",
	      "%#x, header %#x", c.version, version);
	if (c.version >> 16 != version >> 16) {
		row(NA, "1.5", "page table: all else", "", "not read: another major version");
		t_put(0);
		return;
	}
	judge(c.page_size == 1, "1.5", "page table: page_size", "1 (64 KiB)", "%u", c.page_size);
	judge((int)c.entries == n, "1.5", "page table: entries", "length / 64 KiB: 32", "%u", c.entries);
	judge(c.registers_zero, "1.5", "page table: request registers", "0", "%s", c.registers_zero ? "0" : "others");
	if (features & F_TABLE_FLAGS)
		judge(!(c.table_flags & ~1u), "1.5", "page table: flags", "0, or 1 (CPU_CACHEABLE)", "%#x",
		      c.table_flags);
	else
		row(NA, "1.5", "page table: flags", "", "nv-p2p.h does not have it");
	cuda.cuDeviceGetUuid(uuid, (int)options.gpu);
	judge(c.uuid_pointer && !memcmp(uuid, c.uuid, sizeof(uuid)), "1.5", "page table: gpu_uuid", "CUDA's", "%s",
	      !c.uuid_pointer ? "NULL" : memcmp(uuid, c.uuid, sizeof(uuid)) ? "another" : "CUDA's");
	if (c.page_size == 1 && (int)c.entries == n) {
		t_pages(0, pages, n);
		good = aligned(pages, n);
		judge(good, "1.5", "page table: addresses", "64 KiB pages, all different", "%s", good ? "such" : "others");
		same_memory(p);
		if (c.table_flags & 1)
			row(NA, "1.5", "page table: addresses in BAR1", "in a BAR", "memory is coherent");
		else
			judge(T(.op = T_IN_BAR).ret, "1.5", "page table: addresses in BAR1", "in a BAR of a PCI device", "%s",
			      T(.op = T_IN_BAR).ret ? "in one" : "elsewhere");
	}
	t_put(0);
}

static void again(void)
{
	uint64_t one[BLOCK / KIB64], two[BLOCK / KIB64], part[1];
	gpu_ptr p = cuda_alloc(BLOCK);
	struct nvp2p_test_call a, b, c;
	bool shared;

	pin(0, p, BLOCK);
	a = t_state(0);
	b = t_get(1, p, BLOCK);
	c = t_get(2, p + KIB64, KIB64);
	judge(!b.ret && b.pointer != a.pointer, "1.5", "the same range pinned again", "0, another table", "%s, %s table",
	      errname(b.ret), b.pointer == a.pointer ? "the same" : "another");
	returns("1.5", "part of it pinned again", 0, c.ret);
	if (!b.ret && !c.ret && b.page_size == 1 && b.entries == BLOCK / KIB64) {
		t_pages(0, one, BLOCK / KIB64);
		t_pages(1, two, BLOCK / KIB64);
		t_pages(2, part, 1);
		judge(!memcmp(one, two, sizeof(one)) && part[0] == one[1], "1.5", "overlapping pins share BAR1",
		      "the same addresses", "%s", memcmp(one, two, sizeof(one)) || part[0] != one[1] ? "others" : "the same");
		shared = b.uuid_pointer == t_get(3, p, BLOCK).uuid_pointer;
		judge(!shared, "1.5", "each table has its own copy of gpu_uuid", "its own", "%s", shared ? "one for all" : "its own");
	}
}

/* ---- BAR1 ---- */

static void bar1(void)
{
	const uint64_t chunk = (options.bar1_mib / 60 + 2) / 2 * BLOCK;
	gpu_ptr p = 0;
	int i, ret = 0;

	for (i = 0; i < 60 && !ret; i++) {
		if (cuda.cuMemAlloc_v2(&p, chunk))
			break;
		ret = t_get(i, p, chunk).ret;
	}
	if (!ret) {
		row(NA, "1.5", "BAR1 is full", "-ENOMEM", "not after %llu MiB: see --bar1",
		    (unsigned long long)(chunk >> 20) * i);
		row(NA, "1.4", "insufficient resources", "-ENOMEM", "see 1.5, BAR1 is full");
		return;
	}
	returns("1.5", "BAR1 is full", -12, ret);
	returns("1.4", "insufficient resources: BAR1 is full", -12, ret);
	if (i < 2)
		return;
	/* The last slot has nothing: what its memory needs is freed by another pin's end. */
	t_put(0);
	returns("1.5", "BAR1 has room again", 0, t_get(0, p, chunk).ret);
}

const struct group get_groups[] = {
	{ "1.5", "arguments of get_pages", .run = arguments },
	{ "1.5", "data NULL", .run = data_null },
	{ "1.5", "two allocations", .run = two_allocations },
	{ "1.5", "what is not GPU memory", .run = not_gpu_memory },
	{ "1.5", "who may pin", .run = tokens },
	{ "1.5", "the page table", .run = table },
	{ "1.5", "several pins of one range", .run = again },
	{ "1.5", "BAR1 is full", .run = bar1 },
	{ 0 }
};
