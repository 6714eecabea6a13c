// SPDX-License-Identifier: MIT
/*
 * test_hsa.c - libpeerdma-hooks preloaded, in front of a stand-in for HSA's runtime:
 * what is made and ended there is told, and each call gets through with all that it
 * was given.
 */
#include <dlfcn.h>

#include "../check.h"
#include "peerdma_hooks.h"

struct handle {
	uint64_t handle;
};

#define SIZE 12345UL

static struct peerdma_hook_event told[4];
static unsigned int ntold;

static void tell(void *arg, const struct peerdma_hook_event *event)
{
	if (ntold < 4)
		told[ntold++] = *event;
}

static int was(unsigned int kind, unsigned int events, uint64_t addr, uint64_t length, const char *call)
{
	int right = ntold == events;

	for (unsigned int i = 0; i < events; i++)
		right = right && told[i].kind == kind && told[i].after == i && told[i].addr == addr &&
			told[i].length == length && !strcmp(told[i].call, call);
	ntold = 0;
	return right;
}

static int was_made(const void *p, size_t size, const char *call)
{
	return was(PEERDMA_HOOK_ALLOC, 1, (uintptr_t)p, size, call);
}

static int was_ended(const void *p, size_t size, const char *call)
{
	return was(PEERDMA_HOOK_FREE, 2, (uintptr_t)p, size, call);
}

static void report(void)
{
	struct peerdma_hook_report r[PEERDMA_HOOKS_MAX];
	unsigned int n = peerdma_hooks_report(r, PEERDMA_HOOKS_MAX), seen = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (strncmp(r[i].call, "hsa_", 4)) {
			CHECK(r[i].missed == PEERDMA_HOOK_ABSENT);	/* CUDA's: not in this process */
			continue;
		}
		if (r[i].missed & PEERDMA_HOOK_ABSENT)
			continue;
		seen++;
		CHECK(r[i].ways == PEERDMA_HOOK_BY_DLSYM || r[i].ways == (PEERDMA_HOOK_BY_DLSYM | PEERDMA_HOOK_BY_NAME));
		CHECK(!r[i].missed);
		CHECK(r[i].events > 0);
	}
	CHECK(seen == 10);
}

int main(int argc, char **argv)
{
	int (*shut_down)(void), (*release)(void *), (*unmap)(void *, size_t);
	int (*region)(struct handle, size_t, void **), (*pool)(struct handle, size_t, uint32_t, void **);
	int (*attach)(const uint32_t *, size_t, uint32_t, const struct handle *, void **);
	int (*map)(void *, size_t, size_t, struct handle, uint64_t);
	const struct handle agent = { 6 };
	const uint32_t exported = 9;
	void *hsa, *p = NULL;

	CHECK(peerdma_hooks_active());
	CHECK(!peerdma_hooks_report(NULL, 0));
	hsa = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!CHECK(hsa != NULL))
		return 1;
	region = (int (*)(struct handle, size_t, void **))(uintptr_t)dlsym(hsa, "hsa_memory_allocate");
	pool = (int (*)(struct handle, size_t, uint32_t, void **))(uintptr_t)dlsym(hsa, "hsa_amd_memory_pool_allocate");
	attach = (int (*)(const uint32_t *, size_t, uint32_t, const struct handle *, void **))(uintptr_t)
		dlsym(hsa, "hsa_amd_ipc_memory_attach");
	map = (int (*)(void *, size_t, size_t, struct handle, uint64_t))(uintptr_t)dlsym(hsa, "hsa_amd_vmem_map");
	unmap = (int (*)(void *, size_t))(uintptr_t)dlsym(hsa, "hsa_amd_vmem_unmap");
	shut_down = (int (*)(void))(uintptr_t)dlsym(hsa, "hsa_shut_down");
	CHECK(!peerdma_hooks_subscribe(tell, NULL));

	CHECK(!region((struct handle){ 7 }, SIZE, &p) && was_made(p, SIZE, "hsa_memory_allocate"));
	release = (int (*)(void *))(uintptr_t)dlsym(hsa, "hsa_memory_free");
	CHECK(!release(p) && was_ended(p, SIZE, "hsa_memory_free"));
	CHECK(region((struct handle){ 1 }, SIZE, &p) && !ntold);
	CHECK(release(NULL) && !ntold);

	CHECK(!pool((struct handle){ 8 }, SIZE, 0, &p) && was_made(p, SIZE, "hsa_amd_memory_pool_allocate"));
	release = (int (*)(void *))(uintptr_t)dlsym(hsa, "hsa_amd_memory_pool_free");
	/* From the middle it fails; what is told is the allocation all the same. */
	CHECK(release((char *)p + 5) && was_ended(p, SIZE, "hsa_amd_memory_pool_free"));
	CHECK(!release(p) && was_ended(p, SIZE, "hsa_amd_memory_pool_free"));
	/* HSA does not know this one: it may be any. */
	CHECK(release(p) && was_ended(NULL, UINT64_MAX, "hsa_amd_memory_pool_free"));

	CHECK(!attach(&exported, SIZE, 1, &agent, &p) && was_made(p, SIZE, "hsa_amd_ipc_memory_attach"));
	release = (int (*)(void *))(uintptr_t)dlsym(hsa, "hsa_amd_ipc_memory_detach");
	CHECK(!release(p) && was_ended(p, SIZE, "hsa_amd_ipc_memory_detach"));

	/* Host memory that is made known to a GPU ends at the host's addresses. */
	release = (int (*)(void *))(uintptr_t)dlsym(hsa, "hsa_amd_memory_unlock");
	CHECK(!release((void *)0x200100UL) && was_ended((void *)0x200000UL, 0x3000, "hsa_amd_memory_unlock"));
	CHECK(release(NULL) && !ntold);

	p = (void *)(uintptr_t)0x100000;
	CHECK(!map(p, SIZE, 0, (struct handle){ 10 }, 0) && was_made(p, SIZE, "hsa_amd_vmem_map"));
	CHECK(!unmap(p, SIZE) && was_ended(p, SIZE, "hsa_amd_vmem_unmap"));
	CHECK(!shut_down() && was_ended(NULL, UINT64_MAX, "hsa_shut_down"));
	report();
	peerdma_hooks_unsubscribe(tell, NULL);
	return check_end(NULL);
}
