// SPDX-License-Identifier: MIT
/*
 * truth.c - threads map, unmap, discard and allocate host memory, and register it, while
 * others get the same addresses.  Every use is held against the kernel's own word.
 *
 * The memory is real: a row of places, each with one page or none.  To register a place
 * reads a number from the page; every new page gets another.  A get of a page must find
 * a registration of that page's number, whichever thread had the address before.
 * Other threads come and go, allocate and free large blocks; children are forked.
 *
 * usage: monitor_truth [OPERATIONS [SEED [THREADS]]]
 */
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../check.h"
#include "peerdma_cache.h"

#define PAGE		4096UL
#define PLACES		16
#define SLOTS		(1U << 14)
#define BLOCK		(512UL << 10)

struct registration {
	uint64_t number;
	uint64_t addr;
	int there;
};

/* A place has an owner while it is used: the lock is no part of the library's business. */
static struct {
	pthread_mutex_t lock;
	uint64_t *page;
} places[PLACES];

static struct peerdma_cache *cache;
static uint64_t numbers, operations, forks, found, made;
static int64_t registered;
static int thread_count = 3;

/* Frees when it ends, as ibv_dereg_mr() does. */
static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct registration *r = malloc(sizeof(*r));

	MUST(r);
	*r = (struct registration){ *(volatile uint64_t *)(uintptr_t)addr, addr, 1 };
	out->handle = r;
	__atomic_add_fetch(&registered, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	struct registration *r = handle;

	MUST(r->addr == addr && __atomic_exchange_n(&r->there, 0, __ATOMIC_RELAXED));
	__atomic_sub_fetch(&registered, 1, __ATOMIC_RELAXED);
	free(r);
}

static uint64_t fresh(void)
{
	return __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
}

/* The kernel gives back what was freed last, so threads get each other's addresses. */
static uint64_t *map(void)
{
	uint64_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	*p = fresh();
	return p;
}

static void replace(uint64_t **page, uint64_t how)
{
	uint64_t *p;

	switch (how) {
	case 0:
		munmap(*page, PAGE);
		*page = map();
		return;
	case 1:
		MUST(!madvise(*page, PAGE, MADV_DONTNEED));
		break;
	case 2:
		MUST(mmap(*page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == *page);
		break;
	case 3:
		p = map();
		MUST(mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, *page) == *page);
		return;
	case 4:
		MUST(!syscall(SYS_munmap, *page, PAGE));
		*page = map();
		return;
	}
	**page = fresh();
}

static void use(const uint64_t *page)
{
	const struct registration *r;
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, page, PAGE, &hold);

	/* The page beside may go meanwhile, but not this one. */
	MUST(!ret);
	r = hold->registration;
	MUST(__atomic_load_n(&r->there, __ATOMIC_RELAXED));
	MUST(r->number == *page);
	__atomic_add_fetch(&found, 1, __ATOMIC_RELAXED);
	peerdma_cache_put(cache, hold);
}

/* From the allocator: a large block is unmapped by free(), and its address comes back. */
static void allocate(void)
{
	uint64_t *block = malloc(BLOCK);

	MUST(block);
#ifndef KEEPING_MALLOC
	uint64_t *page = (uint64_t *)(((uintptr_t)block + PAGE) & ~(PAGE - 1));

	*page = fresh();
	use(page);
#endif
	free(block);
}

static void *short_thread(void *arg)
{
	use(arg);
	return NULL;
}

/* A child has the parent's code and memory, and must reach nothing of the parent's caches. */
static void child(void)
{
	pid_t pid = fork();
	int status = -1;

	MUST(pid >= 0);
	if (!pid) {
		void *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		munmap(p, PAGE);
		for (int i = 0; i < PLACES; i++) {
			if (places[i].page)
				munmap(places[i].page, PAGE);
		}
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid && !status);
	__atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
}

static void *thread(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	pthread_t other;

	for (uint64_t n = 0; n < operations; n++) {
		uint64_t what = below(&seed, 1000), place = below(&seed, PLACES);

		if (what == 0 && !below(&seed, 10)) {
			child();
		} else if (what < 4) {
			allocate();
		} else {
			if (pthread_mutex_trylock(&places[place].lock))
				continue;
			if (!places[place].page)
				places[place].page = map();
			if (what < 100)
				replace(&places[place].page, below(&seed, 5));
			use(places[place].page);
			if (what > 997) {
				MUST(!pthread_create(&other, NULL, short_thread, places[place].page));
				pthread_join(other, NULL);
			}
			pthread_mutex_unlock(&places[place].lock);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .monitors = PEERDMA_MONITOR_HOST, .add = add, .remove = end };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	uint64_t seed = check_seed(argc, argv, 2);
	pthread_t threads[16];

	if (argc > 3)
		thread_count = atoi(argv[3]);
	MUST(thread_count > 0 && thread_count <= 16);
	operations = (argc > 1 ? strtoull(argv[1], NULL, 0) : 100000) / (uint64_t)thread_count;
	mallopt(M_MMAP_THRESHOLD, BLOCK / 2);
	for (int i = 0; i < PLACES; i++)
		pthread_mutex_init(&places[i].lock, NULL);
	if (peerdma_cache_create(&ops, NULL, NULL, &cache)) {
		fprintf(stderr, "%s\n", peerdma_last_error());
		return 1;
	}
	for (int i = 0; i < thread_count; i++)
		MUST(!pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)(seed * 1000 + (uint64_t)i)));
	for (int i = 0; i < thread_count; i++)
		MUST(!pthread_join(threads[i], NULL));
	peerdma_cache_drain(cache);
	MUST(!peerdma_cache_counters(cache, &c));
	printf("%llu uses, %llu registrations, %llu invalidated, %llu children\n", (unsigned long long)found, (unsigned long long)made,
	       (unsigned long long)c.invalidations, (unsigned long long)forks);
	MUST(!c.dead && c.regions == (uint64_t)registered && c.regions <= PLACES);
	MUST(c.invalidations > found / 1000);
	peerdma_cache_close(cache);
	MUST(!registered);
	return 0;
}
