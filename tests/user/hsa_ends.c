// SPDX-License-Identifier: MIT
/*
 * hsa_ends.c - what ends while a call of HSA's uses it: a signal that is destroyed, memory that is freed.
 *
 * The runtime makes some calls of the C library while it uses them. Here they come through this program, which lets the
 * other thread in at that point. So no test depends on which thread is faster.
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "../ipc/syscalls.h"
#include "hsa_test.h"

FIXTURE(up, down)

#define TOO_LONG_S 25

/* ---- the C library's calls ---- */

/* Instead of the call, or around it; NULL: the call alone. */
static long (*_Atomic on_sleep)(long *args);
static long (*_Atomic on_wake)(long *args);
static void (*_Atomic on_copy)(void);

static long own_syscall(long number, long a[6])
{
	long (*instead)(long *args) = NULL;

	if (is_sleep(number, a))
		instead = on_sleep;
	if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE_BITSET)
		instead = on_wake;
	return instead ? instead(a) : pass_on(number, a);
}

static long futex(long *a)
{
	return pass_on(SYS_futex, a);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long n, const struct iovec *to, unsigned long m,
			  unsigned long flags)
{
	if (on_copy)
		on_copy();
	return pass_on(SYS_process_vm_writev, (long[]){ pid, (long)from, (long)n, (long)to, (long)m, (long)flags });
}

static void *_Atomic watched;
static atomic_bool gone;	/* what is watched was freed */

/* Sanitizers have an allocator of their own, and tell it when what is freed is used. */
#ifdef OWN_FREE
void __libc_free(void *p);

void free(void *p)
{
	if (p && p == watched)
		gone = true;
	__libc_free(p);
}
#endif

static void watch(hsa_signal_t s)
{
	gone = false;
	watched = (void *)(uintptr_t)s.handle;
}

static void is_gone(void)
{
#ifdef OWN_FREE
	assert_true(gone);
#endif
	watched = NULL;
}

static hsa_signal_t signal_1(bool ipc)
{
	hsa_signal_t s;

	FINE(hsa_amd_signal_create(1, 0, NULL, ipc ? HSA_AMD_SIGNAL_IPC : 0, &s));
	watch(s);
	return s;
}

/* ---- signals ---- */

static sem_t asleep;
static pthread_t waiter;
static bool gone_inside;

/* The runtime counts the waiter already. A process's signal is looked at every second; here only a wake ends the sleep. */
static long sleeps(long *a)
{
	sem_post(&asleep);
	a[3] = 0;
	return futex(a);
}

static void *wait_and_destroy(void *arg)
{
	hsa_signal_t s = *(hsa_signal_t *)arg;

	if (hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_NE, 1, UINT64_MAX, BLOCKED) == 1)
		return arg;
	return hsa_signal_destroy(s) ? arg : NULL;
}

/* The waiter sees the value and destroys the signal, before the one who changed it is out of its call. */
static long destroyed_in_wake(long *a)
{
	long woken = futex(a);
	void *failed;

	if (pthread_join(waiter, &failed) || failed)
		_exit(90);
	gone_inside = gone;
	if (!gone)
		(void)atomic_load((_Atomic(uint32_t) *)a[0]);
	return woken;
}

#define BY(name, call)					\
	static void name(hsa_signal_t s) { call; }
#define BY_ORDER(order)					\
	BY(add_##order, hsa_signal_add_##order(s, 1))	\
	BY(subtract_##order, hsa_signal_subtract_##order(s, 1))	\
	BY(and_##order, hsa_signal_and_##order(s, 2))	\
	BY(or_##order, hsa_signal_or_##order(s, 2))	\
	BY(xor_##order, hsa_signal_xor_##order(s, 1))	\
	BY(exchange_##order, hsa_signal_exchange_##order(s, 3))	\
	BY(cas_##order, hsa_signal_cas_##order(s, 1, 4))
BY(store_relaxed, hsa_signal_store_relaxed(s, 0))
BY(store_screlease, hsa_signal_store_screlease(s, 0))
BY(store_release, hsa_signal_store_release(s, 0))
HSA_SIGNAL_ORDERS(BY_ORDER)

#define OF_ORDER(order) \
	add_##order, subtract_##order, and_##order, or_##order, xor_##order, exchange_##order, cas_##order,
static void (*const changes[])(hsa_signal_t s) = {
	store_relaxed, store_screlease, store_release, HSA_SIGNAL_ORDERS(OF_ORDER)
};

CASE(destroyed_by_the_waiter)
{
	for (size_t i = 0; i < 2 * sizeof(changes) / sizeof(changes[0]); i++) {
		hsa_signal_t s = signal_1(i % 2);

		on_sleep = sleeps;
		on_wake = destroyed_in_wake;
		assert_int_equal(pthread_create(&waiter, NULL, wait_and_destroy, &s), 0);
		sem_wait(&asleep);
		changes[i / 2](s);
		on_sleep = on_wake = NULL;
		assert_false(gone_inside);
		is_gone();
	}
}

/* One that changes nothing leaves nothing behind, either. */
CASE(no_change)
{
	hsa_signal_t s;

	for (int ipc = 0; ipc < 2; ipc++) {
		s = signal_1(ipc);
		assert_int_equal(hsa_signal_cas_relaxed(s, 5, 6), 1);
		assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 2, 0, BLOCKED), 1);
		assert_int_equal(hsa_signal_load_relaxed(s), 1);
		FINE(hsa_signal_destroy(s));
		is_gone();
	}
}

static hsa_signal_t awaited;
static hsa_status_t destroyed;

/* As another thread does that waited for the same value, and was faster. */
static long destroyed_asleep(long *a)
{
	hsa_signal_silent_store_relaxed(awaited, 0);
	destroyed = hsa_signal_destroy(awaited);
	gone_inside = gone;
	errno = EAGAIN;
	return -1;
}

CASE(destroyed_under_a_waiter)
{
	for (int ipc = 0; ipc < 2; ipc++) {
		awaited = signal_1(ipc);
		on_sleep = destroyed_asleep;
		assert_int_equal(hsa_signal_wait_scacquire(awaited, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, BLOCKED), 0);
		on_sleep = NULL;
		FINE(destroyed);
		assert_false(gone_inside);
		is_gone();
	}
}

/* ---- memory ---- */

static struct {
	sem_t go;
	pthread_t thread;
	atomic_int tid;
	atomic_bool returned, early;
	hsa_status_t (*call)(void *p);
	char *memory;
	hsa_status_t status;
} freer;

static void *frees(void *arg)
{
	freer.tid = (int)gettid();
	sem_wait(&freer.go);
	freer.status = freer.call(freer.memory);
	freer.returned = true;
	return arg;
}

/* The letter of /proc/PID/task/TID/stat. */
static char state_of(int tid)
{
	char path[64], text[256], *end;
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 0;
}

/* In the middle of a copy: the other thread frees, until it is done or waits. */
static void freed_in_copy(void)
{
	on_copy = NULL;
	sem_post(&freer.go);
	while (!freer.returned && state_of(freer.tid) != 'S')
		sched_yield();
	freer.early = freer.returned;
}

static void freer_start(hsa_status_t (*call)(void *p), char *p)
{
	freer.returned = freer.early = false;
	freer.call = call;
	freer.memory = p;
	freer.tid = 0;
	assert_int_equal(pthread_create(&freer.thread, NULL, frees, NULL), 0);
	while (!freer.tid)
		sched_yield();
}

static void freer_end(void)
{
	pthread_join(freer.thread, NULL);
	assert_false(freer.early);
	FINE(freer.status);
	assert_int_equal(info_of(freer.memory).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

enum { TO, FROM, WITHIN };

static void free_in_copy(hsa_status_t (*call)(void *p), char *p, int side, bool later)
{
	hsa_signal_t done = signal_of(1);
	char bytes[64], *to = side == FROM ? bytes : p, *from = side == TO ? bytes : p + 16 * (side == WITHIN);

	memset(bytes, 1, sizeof(bytes));
	memset(p, 2, 128);
	freer_start(call, p);
	on_copy = freed_in_copy;
	if (later) {
		FINE(hsa_amd_memory_async_copy(to, cpu, from, cpu, 64, 0, NULL, done));
		assert_int_equal(hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_NE, 1, UINT64_MAX, BLOCKED), 0);
	} else {
		FINE(hsa_memory_copy(to, from, 64));
	}
	freer_end();
	if (side == FROM)
		assert_int_equal(bytes[63], 2);
	FINE(hsa_signal_destroy(done));
}

CASE(freed_while_copied)
{
	for (int side = TO; side <= WITHIN; side++) {
		for (int later = 0; later < 2; later++)
			free_in_copy(hsa_amd_memory_pool_free, memory(false, 4096), side, later);
	}
}

CASE(detached_while_copied)
{
	struct child c = child_start("exporter");
	struct message m;
	void *p;

	hear(c.fd, &m, sizeof(m));
	for (int side = TO; side <= WITHIN; side++) {
		FINE(hsa_amd_ipc_memory_attach(&m.memory, m.length, 0, NULL, &p));
		free_in_copy(hsa_amd_ipc_memory_detach, p, side, side % 2);
	}
	child_kill(&c);
}

/* Another call made the copy wait; then all of HSA ends. */
static hsa_status_t ends(void *p)
{
	return hsa_shut_down();
}

CASE(shut_down_while_copied)
{
	char *p = memory(false, 4096), byte = 1;

	freer_start(ends, p);
	on_copy = freed_in_copy;
	FINE(hsa_memory_copy(p, &byte, 1));
	pthread_join(freer.thread, NULL);
	assert_false(freer.early);
	FINE(freer.status);
	FINE(hsa_init());
	assert_int_equal(info_of(p).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

static char *filled;

/* In the middle of a fill, which makes no call: at a page that it may not write. */
static void freed_in_fill(int sig)
{
	freed_in_copy();
	if (freer.early)
		_exit(91);
	mprotect(filled, 4096, PROT_READ | PROT_WRITE);
}

CASE(freed_while_filled)
{
	struct sigaction action = { .sa_handler = freed_in_fill }, before;

	filled = memory(false, 4096);
	freer_start(hsa_amd_memory_pool_free, filled);
	sigaction(SIGSEGV, &action, &before);
	mprotect(filled, 4096, PROT_READ);
	FINE(hsa_amd_memory_fill(filled, 7, 1024));
	sigaction(SIGSEGV, &before, NULL);
	freer_end();
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "--role"))
		return role(argv[2]);
	sem_init(&asleep, 0, 0);
	sem_init(&freer.go, 0, 0);
	/* One that waits for what never comes. */
	alarm(TOO_LONG_S);
	return cases_run(NULL, NULL);
}
