// SPDX-License-Identifier: MIT
/*
 * test_query.c - peerdma_query() of addresses that change hands between the host and
 * CUDA, whichever libcuda.so.1 is there, held against what was done to them.
 *
 *	test_query hooks [ROUNDS [SEED]]	linked with libpeerdma-hooks, which sees all: answers are remembered
 *	test_query alone [ROUNDS [SEED]]	without it: none is
 *
 * Exit code 77: there is no CUDA.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "../lib/cuda_calls.h"
#include "peerdma.h"
#include "../lib/checks.h"

#define SLOTS 8
#define THREADS 2

static struct cuda_calls cu;
static void *context;
static size_t grain;
static struct cuda_prop prop = { .type = 1, .location_type = 1 };
static int remembers, on_softgpu;

static struct peerdma_memory query(const void *p)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	if (peerdma_query(NULL, p, &m))
		m.kind = 99;
	return m;
}

/* ---- addresses that change hands ---- */

enum state { NOT_MAPPED, WAS_HOSTS, HOSTS, REGISTERED, CUDAS, STATES };

/*
 * version is odd while the memory changes hands.  Who asks compares the answer only if
 * it was even before and is the same after: then state and id were as read.
 */
static struct slot {
	char *p;
	_Atomic unsigned int version;
	_Atomic int state;
	_Atomic uint64_t id;
	unsigned long long memory;	/* cuMemCreate's */
} slots[SLOTS];

/* For each slot: NVIDIA's libcuda crashes now and then if memory is freed while another thread asks about it (peerdma.h). */
static pthread_rwlock_t asked[SLOTS] = { [0 ... SLOTS - 1] = PTHREAD_RWLOCK_INITIALIZER };

static _Atomic int over;
static _Atomic unsigned int refused;
static unsigned int rounds = 1500, first_seed = 1;

static unsigned int next(unsigned int *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/*
 * On softgpu the addresses are within its window, where unmapped memory is reserved
 * memory: what another thread maps must not land there.
 */
static int map(struct slot *s, int prot)
{
	int place = on_softgpu ? MAP_FIXED : MAP_FIXED_NOREPLACE;

	return mmap(s->p, grain, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | place, -1, 0) == s->p;
}

static void unmap(struct slot *s)
{
	if (on_softgpu)
		map(s, PROT_NONE);
	else
		munmap(s->p, grain);
}

static int cuda_takes(struct slot *s)
{
	struct cuda_access access = { .location_type = 1, .flags = 3 };
	unsigned long long id = 0;
	gpu_ptr p = 0;

	if (cu.cuMemAddressReserve(&p, grain, 0, (uintptr_t)s->p, 0))
		return 0;
	if (p == (uintptr_t)s->p && !cu.cuMemCreate(&s->memory, grain, &prop, 0)) {
		if (!cu.cuMemMap(p, grain, 0, s->memory, 0)) {
			cu.cuMemSetAccess(p, grain, &access, 1);
			if (!cu.cuPointerGetAttribute(&id, 7, p) && id) {
				atomic_store(&s->id, id);
				return 1;
			}
			cu.cuMemUnmap(p, grain);
		}
		cu.cuMemRelease(s->memory);
	}
	cu.cuMemAddressFree(p, grain);
	return 0;
}

static void cuda_gives_back(struct slot *s)
{
	if (!on_softgpu)
		pthread_rwlock_wrlock(&asked[s - slots]);
	cu.cuMemUnmap((uintptr_t)s->p, grain);
	cu.cuMemRelease(s->memory);
	cu.cuMemAddressFree((uintptr_t)s->p, grain);
	if (!on_softgpu)
		pthread_rwlock_unlock(&asked[s - slots]);
}

/* Somewhere else by the same way: what it is now, or as it was if that cannot be had. */
static enum state step(struct slot *s, enum state from, unsigned int choice)
{
	switch (from) {
	case NOT_MAPPED:
	case WAS_HOSTS:
		if (choice % 3 ? cuda_takes(s) : map(s, PROT_READ | PROT_WRITE))
			return choice % 3 ? CUDAS : HOSTS;
		break;
	case HOSTS:
		if (choice % 3 == 0) {
			if (!cu.cuMemHostRegister_v2(s->p, grain, 0))
				return REGISTERED;
			break;
		}
		unmap(s);
		return WAS_HOSTS;
	case REGISTERED:
		cu.cuMemHostUnregister(s->p);
		return HOSTS;
	default:
		cuda_gives_back(s);
		return NOT_MAPPED;
	}
	atomic_fetch_add(&refused, 1);
	return from;
}

static int right(const struct peerdma_memory *m, enum state state, uint64_t id, const char *p)
{
	switch (state) {
	case CUDAS:
		return m->kind == PEERDMA_KIND_DEVICE && m->buffer_id == id;
	case REGISTERED:
		return m->kind == PEERDMA_KIND_HOST && m->flags & PEERDMA_MEMORY_CUDA && m->base == (uintptr_t)p;
	case HOSTS:
		return m->kind == PEERDMA_KIND_HOST && !(m->flags & PEERDMA_MEMORY_CUDA);
	case WAS_HOSTS:		/* munmap() is not reported */
		return m->kind == PEERDMA_KIND_UNKNOWN || (remembers && m->kind == PEERDMA_KIND_HOST);
	default:		/* freed GPU memory, always */
		return m->kind == PEERDMA_KIND_UNKNOWN;
	}
}

/* 0: something changed meanwhile; 1: right; -1: wrong. */
static int ask(struct slot *s, size_t offset)
{
	unsigned int version = atomic_load(&s->version);
	enum state state = atomic_load(&s->state);
	uint64_t id = atomic_load(&s->id);
	struct peerdma_memory m;

	if (!on_softgpu)
		pthread_rwlock_rdlock(&asked[s - slots]);
	m = query(s->p + offset);
	if (!on_softgpu)
		pthread_rwlock_unlock(&asked[s - slots]);
	if (version & 1 || atomic_load(&s->version) != version)
		return 0;
	if (right(&m, state, id, s->p))
		return 1;
	printf("# %p + %zu, state %d: kind %u, flags %#x, id %llu (%llu)\n", (void *)s->p, offset, (int)state, m.kind, m.flags,
	       (unsigned long long)m.buffer_id, (unsigned long long)id);
	return -1;
}

static void *changes(void *arg)
{
	unsigned int n = (uintptr_t)arg, seed = first_seed + n;
	uintptr_t wrong = 0;

	cu.cuCtxSetCurrent(context);
	for (unsigned int i = 0; i < rounds; i++) {
		struct slot *s = &slots[next(&seed) % (SLOTS / THREADS) * THREADS + n];	/* each thread has its own */

		atomic_fetch_add(&s->version, 1);
		atomic_store(&s->state, step(s, atomic_load(&s->state), next(&seed)));
		atomic_fetch_add(&s->version, 1);
		for (unsigned int j = 0; j < 4; j++)
			wrong += ask(s, j / 2 * 64) < 0;
	}
	return (void *)wrong;
}

static void *asks(void *arg)
{
	unsigned int seed = first_seed + 100 + (uintptr_t)arg;
	uintptr_t wrong = 0, compared = 0;

	cu.cuCtxSetCurrent(context);
	while (!atomic_load(&over) || !compared) {
		int r = ask(&slots[next(&seed) % SLOTS], next(&seed) % 2 * 64);

		wrong += r < 0;
		compared += r != 0;
	}
	return (void *)wrong;
}

static void hands(void)
{
	pthread_t threads[2 * THREADS];
	uintptr_t wrong = 0;
	gpu_ptr p;
	void *w;

	for (int i = 0; i < SLOTS; i++)		/* all at once: they must differ */
		slots[i].p = cu.cuMemAddressReserve(&p, grain, 0, 0, 0) ? NULL : (char *)(uintptr_t)p;
	for (int i = 0; i < SLOTS; i++) {
		if (!CHECK(slots[i].p != NULL, "an address that CUDA can have"))
			return;
		cu.cuMemAddressFree((uintptr_t)slots[i].p, grain);
	}
	for (uintptr_t i = 0; i < THREADS; i++) {
		pthread_create(&threads[i], NULL, changes, (void *)i);
		pthread_create(&threads[THREADS + i], NULL, asks, (void *)i);
	}
	for (int i = 0; i < 2 * THREADS; i++) {
		if (i == THREADS)
			atomic_store(&over, 1);
		pthread_join(threads[i], &w);
		wrong += (uintptr_t)w;
	}
	CHECK(!wrong, "%u times memory changed hands at %d addresses (%u not to be had), asked for by %d threads, seed %u: %zu wrong",
	      rounds * THREADS, SLOTS, atomic_load(&refused), 2 * THREADS, first_seed, (size_t)wrong);
	CHECK(!on_softgpu || atomic_load(&refused) < rounds, "CUDA mostly gives the address that is asked for");
}

/* ---- one after the other ---- */

static void *page(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void memory(const char *expected)
{
	char *p = page();

	query(p);
	query(p);
	munmap(p, 4096);
	remembers = query(p).kind == PEERDMA_KIND_HOST;
	CHECK(remembers == !strcmp(expected, "hooks"), "answers %s remembered", remembers ? "are" : "are not");
}

/* Allocations of CUDA's that may share a page: one's end says nothing of the other. */
static void neighbours(void)
{
	gpu_ptr p[3] = { 0 };

	for (int i = 0; i < 3; i++)
		if (cu.cuMemAllocManaged(&p[i], 100, 1))
			return;
	cu.cuMemFree_v2(p[1]);
	query((void *)(uintptr_t)p[1]);
	query((void *)(uintptr_t)p[1]);
	CHECK(query((void *)(uintptr_t)p[0]).kind == PEERDMA_KIND_MANAGED && query((void *)(uintptr_t)p[2]).kind == PEERDMA_KIND_MANAGED,
	      "managed memory is that beside some that was freed");
	cu.cuMemFree_v2(p[0]);
	cu.cuMemFree_v2(p[2]);
}

static void made_the_hosts(void)
{
	void *p, *q = page();
	struct peerdma_memory m;

	query(q);
	query(q);
	if (!cu.cuMemHostAlloc(&p, 4096, 0)) {
		m = query(p);
		CHECK(m.kind == PEERDMA_KIND_HOST && m.base == (uintptr_t)p, "cuMemHostAlloc's memory is known as CUDA's");
		cu.cuMemFreeHost(p);
	}
	if (!cu.cuMemHostRegister_v2(q, 4096, 0)) {
		m = query(q);
		CHECK(m.kind == PEERDMA_KIND_HOST && m.base == (uintptr_t)q, "and what was remembered as the host's, when it is registered");
		cu.cuMemHostUnregister(q);
	}
	munmap(q, 4096);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int device;

	if (argc > 2)
		rounds = atoi(argv[2]);
	if (argc > 3)
		first_seed = atoi(argv[3]);
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDeviceGet(&device, 0))
		check_skip("no CUDA here");
	on_softgpu = dlsym(RTLD_DEFAULT, "softgpu_watch") || dlsym(dlopen("libcuda.so.1", RTLD_NOW), "softgpu_watch");
	cu.cuDevicePrimaryCtxRetain(&context, device);
	cu.cuCtxSetCurrent(context);
	prop.location_id = device;
	if (!CHECK(!cu.cuMemGetAllocationGranularity(&grain, &prop, 0), "the grain of CUDA's memory"))
		return 1;
	memory(mode);
	neighbours();
	made_the_hosts();
	hands();
	return check_end(NULL);
}
