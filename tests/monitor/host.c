// SPDX-License-Identifier: MIT
/*
 * host.c - a cache of host memory: every way by which the C library takes memory away
 * must end the registration before the call returns, and no other registration.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "../lib/checks.h"
#include "../lib/counted.h"

#define LENGTH	(1UL << 20)
#define PAGE	4096UL
#define HUGEST	(1UL << 30)	/* the largest page */

static struct peerdma_cache *cache;
static void *bystander;

/* How many have ended by now: they are deregistered outside the allocator. */
static int ended(void)
{
	peerdma_cache_drain(cache);
	return removed;
}

/* Whether it had to be registered. */
static int use(void *p, size_t length)
{
	struct peerdma_cached *hold;
	int before = added;

	if (peerdma_cache_get(cache, p, length, &hold)) {
		printf("not ok - %s\n", peerdma_last_error());
		exit(1);
	}
	peerdma_cache_put(cache, hold);
	return added - before;
}

static char *map(size_t length)
{
	char *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(2);
	/* There the calls may be those for a huge page, and then end all that is in it. */
	if ((uintptr_t)p % HUGEST == 0)
		return map(length);
	memset(p, 1, length);
	return p;
}

/* The call that is the rest of the line must end exactly one registration, and leave the bystander's. */
#define ENDS(what, p, length, ...) do {						\
	int before;								\
	use(p, length);								\
	use(bystander, PAGE);							\
	before = ended();							\
	__VA_ARGS__;								\
	CHECK(ended() == before + 1, what);					\
	CHECK(!use(bystander, PAGE), "and no other registration");		\
} while (0)

#define KEEPS(what, p, length, ...) do {					\
	use(p, length);								\
	__VA_ARGS__;								\
	CHECK(!use(p, length), what);						\
} while (0)

static void calls(void)
{
	char *p = map(LENGTH), *q;
	int id;

	ENDS("munmap", p, LENGTH, munmap(p, LENGTH));
	p = map(LENGTH);
	ENDS("munmap of a part", p, LENGTH, munmap(p + LENGTH / 2, PAGE));
	p = map(LENGTH);
	ENDS("mmap over it", p, LENGTH, mmap(p + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	munmap(p, LENGTH);
	p = map(LENGTH);
	q = map(2 * LENGTH);
	ENDS("mremap to another place", p, LENGTH, mremap(p, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, q));
	p = q;
	q = map(LENGTH);
	ENDS("mremap from another place", p, LENGTH, mremap(q, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, p));
	ENDS("mremap that shrinks", p, LENGTH, p = mremap(p, LENGTH, LENGTH / 2, 0));
	KEEPS("mremap to the same length", p, LENGTH / 2, p = mremap(p, LENGTH / 2, LENGTH / 2, 0));
	ENDS("madvise DONTNEED", p, LENGTH / 2, madvise(p, PAGE, MADV_DONTNEED));
	ENDS("madvise FREE", p, LENGTH / 2, madvise(p, PAGE, MADV_FREE));
	KEEPS("madvise WILLNEED", p, LENGTH / 2, madvise(p, PAGE, MADV_WILLNEED));
	KEEPS("mprotect", p, LENGTH / 2, mprotect(p, PAGE, PROT_READ));
	KEEPS("a hint that is not taken", p, LENGTH / 2, mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	KEEPS("a place that is not free", p, LENGTH / 2,
	      mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	ENDS("syscall(SYS_munmap)", p, LENGTH / 2, syscall(SYS_munmap, p, LENGTH / 2));
	p = sbrk(2 * LENGTH);
	ENDS("sbrk", p, 2 * LENGTH, sbrk(-(intptr_t)LENGTH));
	ENDS("brk", p, LENGTH, brk(p));
	/* Where it is allowed, among no other segments: the first one's id is 0. */
	unshare(CLONE_NEWIPC);
	id = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600);
	if (id >= 0) {
		p = shmat(id, NULL, 0);
		memset(p, 1, LENGTH);
		ENDS("shmdt", p, LENGTH, shmdt(p));
		p = shmat(id, NULL, 0);
		memset(p, 1, LENGTH);
		ENDS("shmdt, with the last page registered", p + LENGTH - PAGE, PAGE, shmdt(p));
		p = map(LENGTH);
		ENDS("shmat over it", p, LENGTH, shmat(id, p, SHM_REMAP));
		shmdt(p);
		shmctl(id, IPC_RMID, NULL);
	}
}

#ifndef KEEPING_MALLOC
static void allocator(void)
{
	char *p = malloc(8 * LENGTH), *q[64];

	mallopt(M_MMAP_THRESHOLD, LENGTH);	/* and it stays so */
	memset(p, 1, 8 * LENGTH);
	ENDS("free of a large block", p, 8 * LENGTH, free(p));
	p = malloc(8 * LENGTH);
	memset(p, 1, 8 * LENGTH);
	ENDS("realloc of a large block", p, 8 * LENGTH, p = realloc(p, 256 * LENGTH); *(volatile char *)p = 2);
	free(p);
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	for (int i = 0; i < 64; i++)
		q[i] = memset(malloc(LENGTH / 4), 1, LENGTH / 4);
	p = (char *)(((uintptr_t)q[20] + PAGE) & ~(PAGE - 1));
	ENDS("malloc_trim", p, PAGE, for (int i = 0; i < 63; i++) free(q[i]); malloc_trim(0));
	free(q[63]);
}
#endif

static void *allocate(void *arg)
{
	char *p = malloc(LENGTH);

	memset(p, 1, LENGTH);
	return p;
}

static void *empty(void *arg)
{
	return arg;
}

static void threads(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *block, *stack;
	size_t size;

	pthread_create(&thread, NULL, allocate, NULL);
	pthread_join(thread, &block);
	use((void *)(((uintptr_t)block + PAGE) & ~(PAGE - 1)), LENGTH / 2);
	ended();
	removed = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 20);	/* more than the C library keeps for others */
	pthread_create(&thread, &attr, empty, NULL);
	pthread_attr_destroy(&attr);
	pthread_getattr_np(thread, &attr);
	pthread_attr_getstack(&attr, &stack, &size);
	pthread_attr_destroy(&attr);
	use((char *)stack + size / 2, PAGE);
	pthread_join(thread, NULL);
	CHECK(ended() >= 1, "the stack of a thread that ended");
	free(block);
}

static void library(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW), *p;
	int before;

	if (!handle)
		return;
	p = dlsym(handle, "plug_memory");
	use(p, PAGE);
	before = ended();
	dlclose(handle);
	CHECK(ended() == before + 1, "dlclose ends registrations of the library's variables");
}

/* A child's calls reach no cache: it is the parent's. */
static void fork_child(void)
{
	char *p = map(LENGTH);
	int status = -1;
	pid_t pid;

	use(p, LENGTH);
	pid = fork();
	if (!pid) {
		free(malloc(64 << 20));
		munmap(p, LENGTH);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "a child may unmap");
	CHECK(!use(p, LENGTH), "and the parent's registration stays");
	munmap(p, LENGTH);
}

/* Code that is changed is writable only meanwhile: an attacker who can write should find none. */
static void code_is_closed(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4352], may[5];
	int lines = 0, open = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%*x-%*x %4s", may) != 1)
			continue;
		lines++;
		if (may[1] == 'w' && may[2] == 'x') {
			printf("%s", line);
			open++;
		}
	}
	if (maps)
		fclose(maps);
	CHECK(lines && !open, "no code is writable");
}

int main(int argc, char **argv)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .monitors = PEERDMA_MONITOR_HOST, .add = counted_add, .remove = counted_remove };
	struct peerdma_cache_options options = { .size = sizeof(options) };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	int before;
	char *p;

	setvbuf(stdout, NULL, _IOLBF, 0);
	bystander = map(PAGE);
	options.granularity = 65536;
	CHECK(peerdma_cache_create(&ops, NULL, &options, &cache) == -EINVAL, "nothing is registered that was not asked for");
	if (peerdma_cache_create(&ops, NULL, NULL, &cache)) {
		printf("not ok - %s\n", peerdma_last_error());
		return 1;
	}
	peerdma_cache_counters(cache, &c);
	CHECK(c.monitors & PEERDMA_MONITOR_HOST, "host memory is monitored");
	code_is_closed();
	calls();
#ifndef KEEPING_MALLOC
	allocator();
#endif
	threads();
	fork_child();
	if (argc > 1)
		library(argv[1]);
	p = map(PAGE);
	use(p, PAGE);
	peerdma_cache_close(cache);
	before = removed;
	munmap(p, PAGE);
	CHECK(removed == before, "a cache that is closed is not notified");
	return check_end(NULL);
}
