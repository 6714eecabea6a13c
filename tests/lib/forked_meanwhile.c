// SPDX-License-Identifier: MIT
/*
 * forked_meanwhile.c - a child that is forked while another thread is in the middle of what the library does once.
 *
 * Each run is a process of its own.  Its second thread stops where it calls a function of the C library, which is
 * this program's, or, by a tracer, some instructions after that.  Then the first thread forks, and the child makes
 * the same call.  A child that has not come back after some seconds waits for a thread that it does not have.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "checks.h"
#include "peerdma_monitor.h"

#define PATIENCE_S	20
#define WINDOW		300	/* instructions from pthread_key_create() on, until there is nothing more to do once */
#define STRIDE		4

static struct shared {
	_Atomic pid_t thread;
	atomic_bool fork_now;
	_Atomic int status;		/* the child's, and 1 << 16 */
} *shared;

static atomic_int calls_left;		/* of mprotect(), until one that waits */
static atomic_bool stopped, go_on;
static bool stops;			/* at pthread_key_create() */

static void wait_ms(unsigned int ms)
{
	usleep(ms * 1000);
}

/* ---- what the library calls: the first of their names that the loader finds ---- */

int mprotect(void *addr, size_t length, int prot)
{
	if (atomic_load(&calls_left) && atomic_fetch_sub(&calls_left, 1) == 1) {
		atomic_store(&stopped, true);
		while (!atomic_load(&go_on))
			wait_ms(1);
	}
	return (int)syscall(SYS_mprotect, addr, length, prot);
}

int pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
	extern int __pthread_key_create(pthread_key_t *key, void (*end)(void *));
	int ret = __pthread_key_create(key, end);

	if (stops && (pid_t)syscall(SYS_gettid) == atomic_load(&shared->thread)) {
		stops = false;
		raise(SIGSTOP);
	}
	return ret;
}

/* ---- the monitor of host memory ---- */

static void see(void *arg, const struct peerdma_hook_event *event)
{
}

static void *subscribe(void *unused)
{
	return (void *)(intptr_t)peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, see, NULL);
}

/* What the monitor changed, or not yet, is used. */
static void use_memory(void)
{
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || madvise(p, 1 << 20, MADV_DONTNEED) || munmap(p, 1 << 20))
		_exit(3);
	free(malloc(1 << 22));
}

/* 0, 1: the monitor cannot be begun; 2: the child did not come back; 4: there are fewer calls. */
static int forked_at(int call)
{
	int status, ended = 0;
	pthread_t thread;
	void *result;
	pid_t child;

	atomic_store(&calls_left, call);
	if (pthread_create(&thread, NULL, subscribe, NULL))
		return 3;
	for (int i = 0; i < 2000 && !atomic_load(&stopped); i++) {
		wait_ms(1);
		ended = !pthread_tryjoin_np(thread, &result);
		if (ended)
			return result ? 1 : 4;
	}
	atomic_store(&calls_left, 0);
	child = fork();
	if (!child) {
		alarm(PATIENCE_S);
		use_memory();
		subscribe(NULL);
		use_memory();
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child)
		return 3;
	atomic_store(&go_on, true);
	pthread_join(thread, &result);
	use_memory();
	return status ? 2 : result ? 1 : 0;
}

static void test_monitor(void)
{
	unsigned int hung = 0, failed = 0;
	int call, status = 0;

	for (call = 1; call < 100; call++) {
		pid_t pid = fork();

		if (!pid)
			_exit(forked_at(call));
		MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "a run");
		if (WEXITSTATUS(status) == 4)
			break;
		hung += WEXITSTATUS(status) == 2;
		failed += WEXITSTATUS(status) == 3;
		if (WEXITSTATUS(status) == 1 || hung)
			break;
	}
	if (call == 1 && !hung) {
		check_skip("this machine has no monitor of host memory");
	}
	CHECK(!failed, "each run went as planned");
	CHECK(!hung, "forked at each of %d calls of mprotect(), a child comes back: %u do not", call - 1, hung);
}

/* ---- the first error ---- */

static void *fail_once(void *unused)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	/* The tracer waits for it once it is known. */
	atomic_store(&shared->thread, (pid_t)syscall(SYS_gettid));
	peerdma_monitor_start(0, NULL);
	raise(SIGSTOP);
	return NULL;
}

static void forker(void)
{
	pthread_t thread;
	int status = 0;
	pid_t child;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stops = true;
	if (pthread_create(&thread, NULL, fail_once, NULL))
		_exit(2);
	while (!atomic_load(&shared->fork_now))
		wait_ms(1);
	child = fork();
	if (!child) {
		alarm(PATIENCE_S);
		_exit(peerdma_monitor_start(0, NULL) != -EINVAL);
	}
	waitpid(child, &status, 0);
	atomic_store(&shared->status, status | 1 << 16);
	for (;;)
		pause();
}

static bool at_its_end(pid_t thread)
{
	int status;

	MUST(waitpid(thread, &status, __WALL) >= 0 && WIFSTOPPED(status), "the traced process ended");
	return WSTOPSIG(status) == SIGSTOP;
}

/* The child's status. */
static int forked_after(unsigned int steps)
{
	pid_t pid, thread;
	int status;

	memset(shared, 0, sizeof(*shared));
	pid = fork();
	if (!pid)
		forker();
	while (!(thread = atomic_load(&shared->thread)))
		wait_ms(1);
	MUST(at_its_end(thread), "it is not traced");
	while (steps--) {
		ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL);
		if (at_its_end(thread))
			break;
	}
	atomic_store(&shared->fork_now, true);
	/* fork() may wait for the thread. */
	for (int i = 0; i < 5 && !atomic_load(&shared->status); i++)
		wait_ms(1);
	ptrace(PTRACE_CONT, thread, NULL, NULL);
	while (!(status = atomic_load(&shared->status)))
		wait_ms(1);
	kill(pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	return status & 0xffff;
}

static void test_error(void)
{
	unsigned int hung = 0, runs = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned int n = 0; n < WINDOW && !hung; n += STRIDE, runs++)
		hung += !!forked_after(n);
	CHECK(!hung, "forked after each of %u numbers of instructions of the first error, a child has its own: %u have not", runs, hung);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "monitor"))
		test_monitor();
	else
		test_error();
	return check_end(NULL);
}
