// SPDX-License-Identifier: MIT
/*
 * inside_malloc.c - peerdma_cache_invalidate() where memory is freed, with the allocator's
 * lock held: it must not allocate, free, unmap or call remove().
 *
 * The allocator is the C library's, behind functions of this program that watch the
 * calls.  A seccomp filter turns madvise() into a signal, whose handler thus runs inside
 * malloc_trim(), as the memory hooks of communication libraries do.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "../check.h"
#include "peerdma_cache.h"

#define PAGE	4096ULL
#define BASE	(1ULL << 40)
#define AT(n)	((void *)(BASE + (n) * PAGE))
#define BIG	8192		/* not in a thread's own cache of free blocks: freeing it takes the allocator's lock */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

static _Thread_local bool in_invalidate, tell_frees, in_free;
static struct peerdma_cache *cache;
static int adds, removes;

/* ---- the allocator, watched ---- */

static void watch(void)
{
	static const char text[] = "peerdma_cache_invalidate() allocates, frees or unmaps\n";

	if (in_invalidate) {
		if (write(2, text, sizeof(text) - 1) < 0)
			_exit(3);
		abort();
	}
}

static int invalidate(const void *p, size_t length)
{
	int ret, before = removes;

	in_invalidate = true;
	ret = peerdma_cache_invalidate(cache, p, length);
	in_invalidate = false;
	MUST(removes == before);
	return ret;
}

/* Every allocation and free is reported to the cache, those of the library and of remove() too. */
static void tell(const void *p)
{
	if (!tell_frees || in_free)
		return;
	in_free = true;
	MUST(invalidate(p, 1) >= 0);
	in_free = false;
}

void *malloc(size_t size)
{
	watch();
	tell(AT(size % 100));
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	watch();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	watch();
	return __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	watch();
	return __libc_memalign(align, size);
}

void free(void *p)
{
	watch();
	if (p)
		tell(p);
	__libc_free(p);
}

int munmap(void *p, size_t length)
{
	watch();
	tell(p);
	return (int)syscall(SYS_munmap, p, length);
}

/* ---- what is registered ---- */

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	out->handle = malloc(BIG);
	MUST(out->handle);
	adds++;
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	free(handle);
	removes++;
}

static void begin(void)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end };

	adds = removes = 0;
	MUST(!peerdma_cache_create(&ops, NULL, NULL, &cache));
}

static void finish(void)
{
	struct peerdma_cache *c = cache;

	tell_frees = false;
	peerdma_cache_close(c);
	MUST(adds == removes);
}

static void touch(const void *p)
{
	struct peerdma_cached *hold;

	MUST(!peerdma_cache_get(cache, p, 1, &hold));
	peerdma_cache_put(cache, hold);
}

static uint64_t deferred(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	MUST(!peerdma_cache_counters(cache, &c));
	return c.deferred;
}

/* ---- tests ---- */

/* What is deregistered later, and by which calls. */
static void drains(void)
{
	struct peerdma_cached *hold;

	begin();
	/* By the call that is for it. */
	touch(AT(0));
	MUST(invalidate(AT(0), PAGE) == 1 && deferred() == 1);
	MUST(peerdma_cache_drain(cache) == 1 && removes == 1 && !deferred());
	MUST(peerdma_cache_drain(cache) == 0);
	/* By a hit, and by a put of a hit. */
	touch(AT(2));
	touch(AT(4));
	touch(AT(4));
	MUST(invalidate(AT(2), PAGE) == 1);
	touch(AT(4));
	MUST(removes == 2 && !deferred());
	touch(AT(2));
	MUST(!peerdma_cache_get(cache, AT(4), 1, &hold));
	MUST(invalidate(AT(2), PAGE) == 1 && removes == 2);
	peerdma_cache_put(cache, hold);
	MUST(removes == 3);
	/* By a miss, before it registers: what has ended has room for it. */
	MUST(invalidate(AT(4), PAGE) == 1);
	touch(AT(6));
	MUST(removes == 4 && adds == 5);
	/* By trim. */
	MUST(invalidate(AT(6), PAGE) == 1);
	MUST(peerdma_cache_trim(cache, 1) == 0 && removes == 5);
	/* What is held is none of this: its last put ends it. */
	MUST(!peerdma_cache_get(cache, AT(8), 1, &hold));
	MUST(invalidate(AT(8), PAGE) == 1 && !deferred() && !peerdma_cache_drain(cache));
	peerdma_cache_put(cache, hold);
	MUST(removes == 6);
	/* By close. */
	touch(AT(10));
	MUST(invalidate(AT(10), PAGE) == 1);
	finish();
}

static void *hit(void *unused)
{
	touch(AT(4));
	return NULL;
}

/* Another thread's call is as good. */
static void drains_elsewhere(void)
{
	pthread_t t;

	begin();
	touch(AT(0));
	touch(AT(4));
	MUST(!pthread_create(&t, NULL, hit, NULL) && !pthread_join(t, NULL));
	MUST(invalidate(AT(0), PAGE) == 1);
	MUST(!pthread_create(&t, NULL, hit, NULL) && !pthread_join(t, NULL));
	MUST(removes == 1);
	finish();
}

/* The frees of remove() and of the library itself are reported, from inside their own calls. */
static void own_frees(void)
{
	struct peerdma_cached *hold;

	begin();
	tell_frees = true;
	for (int round = 0; round < 50; round++) {
		void *p[20];

		for (int i = 0; i < 20; i++) {
			p[i] = malloc(BIG);
			MUST(p[i] && !peerdma_cache_get(cache, p[i], 64, &hold));
			peerdma_cache_put(cache, hold);
			touch(AT(round * 100 + i));
		}
		for (int i = 0; i < 20; i++)
			free(p[i]);
		MUST(peerdma_cache_drain(cache) >= 0);
		MUST(peerdma_cache_trim(cache, 1000) >= 0);
	}
	peerdma_cache_drain(cache);
	/* A child may not use it; that is no reason to allocate. */
	if (!fork()) {
		in_invalidate = true;
		_exit(peerdma_cache_invalidate(cache, AT(0), PAGE) == -EPERM ? 0 : 1);
	}
	{
		int status;

		MUST(wait(&status) > 0 && WIFEXITED(status) && !WEXITSTATUS(status));
	}
	tell_frees = true;
	peerdma_cache_close(cache);
	tell_frees = false;
	MUST(adds == removes);
}

/* ---- malloc_trim() ---- */

static volatile int trimmed, ended;

static void on_madvise(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	uint64_t addr, length;

	MUST(info->si_syscall == SYS_madvise);
#if defined(__x86_64__)
	addr = (uint64_t)uc->uc_mcontext.gregs[REG_RDI];
	length = (uint64_t)uc->uc_mcontext.gregs[REG_RSI];
	uc->uc_mcontext.gregs[REG_RAX] = 0;
#else
	addr = uc->uc_mcontext.regs[0];
	length = uc->uc_mcontext.regs[1];
	uc->uc_mcontext.regs[0] = 0;
#endif
	trimmed++;
	ended += invalidate((void *)(uintptr_t)addr, length);
}

/* madvise(MADV_DONTNEED) is a signal from here on, and does nothing else. */
static void trap_madvise(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
	struct sigaction act = { .sa_sigaction = on_madvise, .sa_flags = SA_SIGINFO };

	MUST(!sigaction(SIGSYS, &act, NULL));
	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

#define BLOCKS 20

static void *nothing(void *unused)
{
	return NULL;
}

static void trim(void)
{
	pthread_t t;

	char *blocks[BLOCKS];
	int status;
	pid_t pid = fork();

	if (pid) {
		MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
		return;
	}
	alarm(10);
	/* With one thread only the allocator does without its lock. */
	MUST(!pthread_create(&t, NULL, nothing, NULL));
	begin();
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(64 << 10);
		MUST(blocks[i]);
		touch(blocks[i] + (32 << 10));
	}
	trap_madvise();
	/* Every other one, so that none of them is the heap's end. */
	for (int i = 0; i < BLOCKS; i += 2)
		free(blocks[i]);
	malloc_trim(0);
	MUST(trimmed >= BLOCKS / 2 && ended == BLOCKS / 2 && deferred() == BLOCKS / 2);
	MUST(peerdma_cache_drain(cache) == BLOCKS / 2 && removes == BLOCKS / 2);
	MUST(!pthread_join(t, NULL));
	finish();
	_exit(0);
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(trim), TEST(drains), TEST(drains_elsewhere), TEST(own_frees),
	};
	/* A check that fails where malloc() is locked prints without it. */
	static char buffer[BUFSIZ];

	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
	alarm(60);
	return check_run(tests, CHECK_COUNT(tests), 0, NULL);
}
