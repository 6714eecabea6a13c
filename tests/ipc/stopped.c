// SPDX-License-Identifier: MIT
/*
 * stopped.c - a thread that is stopped anywhere in the middle of a call, while others go on.
 *
 * The exporter is a child. One of its threads is traced, and stops where it calls a function of the C library, or after
 * a number of instructions from there. Meanwhile the child's first thread carries out commands. In the last tests a
 * system call waits instead.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "peerdma.h"
#include "peerdma_monitor.h"
#include "syscalls.h"
#include "util.h"

#define LENGTH		65536
#define WINDOW		800	/* instructions from getrandom() on: what is done with the lock, and some more */
#define PATIENCE_S	10	/* of an exporter, for a connection that asks nothing */
#define MOST_STEPS	20000
#define STRIDE		3	/* of a long call: a step takes as long as two switches between processes */

enum command { NONE, EXPORT, FREE, UNEXPORT, REPLACE, CLOSE };
enum place { NOWHERE, RANDOM, PID };

static struct shared {
	_Atomic int command;		/* the first thread's; NONE: it is done */
	int result;
	_Atomic int job;		/* the stopped thread's: EXPORT, FREE */
	int job_result;
	_Atomic int place;		/* where that thread stops */
	_Atomic pid_t thread;
	struct peerdma_ipc_handle handle;
} *shared;

static char *memory;
static atomic_bool fails, failing, second_returned;	/* set_robust_list(), once */

static bool forbidden;			/* futex_waitv() is, as by filters of system calls that do not know it */
static unsigned int waits;

/* The library's first thread begins with it.  It fails, when another call has had its time. */
static bool robust_list_fails(void)
{
	if (!atomic_exchange(&fails, false))
		return false;
	atomic_store(&failing, true);
	for (int i = 0; i < 300 && !atomic_load(&second_returned); i++)
		usleep(1000);
	return true;
}

static void stop_here(enum place place)
{
	int is = place;

	/* Once. */
	if (shared && (pid_t)syscall(SYS_gettid) == atomic_load(&shared->thread) &&
	    atomic_compare_exchange_strong(&shared->place, &is, NOWHERE))
		raise(SIGSTOP);
}

static long own_syscall(long number, long a[6])
{
	if (number == SYS_futex_waitv) {
		waits++;
		if (forbidden) {
			errno = EPERM;
			return -1;
		}
	}
	if (number == SYS_set_robust_list && robust_list_fails()) {
		errno = ENOSYS;
		return -1;
	}
	return pass_on(number, a);
}

/* The library calls these, too: they are the first of their names that the loader finds. */
ssize_t getrandom(void *bytes, size_t size, unsigned int flags)
{
	stop_here(RANDOM);
	return syscall(SYS_getrandom, bytes, size, flags);
}

static bool late;	/* the next message is sent when its receiver has lost patience */
static int send_error;	/* what messages fail with; 0: none does */

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (late) {
		late = false;
		sleep(PATIENCE_S + 1);
	}
	if (send_error) {
		errno = send_error;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

pid_t getpid(void)
{
	stop_here(PID);
	return (pid_t)syscall(SYS_getpid);
}

/* ---- the exporter ---- */

static int export(void)
{
	return peerdma_ipc_export(memory, LENGTH, 0, &shared->handle);
}

static void notify(int after)
{
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, memory, LENGTH, after);
}

static void *stopped(void *unused)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	/* The tracer waits for it once it is known. */
	atomic_store(&shared->thread, (pid_t)syscall(SYS_gettid));
	for (;;) {
		raise(SIGSTOP);
		if (atomic_load(&shared->job) == EXPORT)
			shared->job_result = export();
		else
			notify(1);
	}
	return NULL;
}

static void carry_out(enum command command)
{
	static struct peerdma_ipc_signal *signal;

	shared->result = 0;
	switch (command) {
	case EXPORT:
		shared->result = export();
		break;
	case FREE:
		notify(0);
		break;
	case UNEXPORT:
		shared->result = peerdma_ipc_unexport(&shared->handle);
		break;
	case REPLACE:		/* what is made next has the record that was ended last */
		shared->result = peerdma_ipc_unexport(&shared->handle);
		if (!shared->result)
			shared->result = peerdma_ipc_signal_create(0, 0, &signal);
		if (!shared->result)
			shared->result = peerdma_ipc_signal_export(signal, &shared->handle);
		break;
	case CLOSE:
		peerdma_ipc_signal_close(signal);
		break;
	default:
		break;
	}
}

static void exporter(void)
{
	int fd = memfd_create("stopped", MFD_CLOEXEC);
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || ftruncate(fd, LENGTH))
		_exit(1);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* The library's thread and its subscription are there from here on. */
	if (memory == MAP_FAILED || export() || peerdma_ipc_unexport(&shared->handle))
		_exit(1);
	if (pthread_create(&thread, NULL, stopped, NULL))
		_exit(1);
	for (;;) {
		int command = atomic_load(&shared->command);

		if (command == NONE) {
			usleep(20);
			continue;
		}
		carry_out((enum command)command);
		atomic_store(&shared->command, NONE);
	}
}

/* ---- the tracer ---- */

static int command(enum command c)
{
	atomic_store(&shared->command, c);
	while (atomic_load(&shared->command) != NONE)
		usleep(20);
	return shared->result;
}

/* Whether it stopped by itself: at the end of its call, or at its place. */
static bool by_itself(void)
{
	int status;

	MUST(waitpid(atomic_load(&shared->thread), &status, __WALL) >= 0 && WIFSTOPPED(status), "the exporter ended");
	return WSTOPSIG(status) == SIGSTOP;
}

static void go_on(void)
{
	ptrace(PTRACE_CONT, atomic_load(&shared->thread), NULL, NULL);
	MUST(by_itself(), "a signal");
}

/* A job, as far as the place and so many instructions.  False: it was done before. */
static bool begin(enum command job, enum place place, unsigned int steps)
{
	atomic_store(&shared->job, job);
	atomic_store(&shared->place, place);
	go_on();
	MUST(atomic_exchange(&shared->place, NOWHERE) == NOWHERE, "the thread did not come to its place");
	for (unsigned int i = 0; i < steps; i++) {
		ptrace(PTRACE_SINGLESTEP, atomic_load(&shared->thread), NULL, NULL);
		if (by_itself())
			return false;
	}
	return true;
}

/* An export, as far as it calls getpid() for the nth time after it has a record.  False: it does not, and is done. */
static bool begin_at_pid(unsigned int n)
{
	begin(EXPORT, RANDOM, 0);
	while (n--) {
		atomic_store(&shared->place, PID);
		go_on();
		if (atomic_exchange(&shared->place, NOWHERE) != NOWHERE) {
			command(UNEXPORT);
			return false;
		}
	}
	return true;
}

static void start(void)
{
	pid_t child;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	child = fork();
	if (!child)
		exporter();
	while (!atomic_load(&shared->thread)) {
		MUST(!waitpid(child, NULL, WNOHANG), "the exporter ended");
		usleep(1000);
	}
	MUST(by_itself(), "it is not traced");
}

/* What a free ended is an error of the export, or of all that is done with its handle: 0, or 1 with a line. */
static unsigned int ended_wrongly(unsigned int n)
{
	struct peerdma_ipc_memory *m;
	int opened, unexported;

	if (shared->job_result == -ENXIO)
		return 0;
	opened = shared->job_result ? 0 : OPEN(&shared->handle, &m);
	unexported = shared->job_result ? 0 : command(UNEXPORT);
	if (opened == -ESTALE && !unexported)
		return 0;
	printf("# after %u instructions: export: %d, open: %d, unexport: %d\n", n, shared->job_result, opened, unexported);
	return 1;
}

/* A free that begins while the thread makes an export. */
static void test_export_freed(void)
{
	struct peerdma_ipc_memory *m;
	unsigned int wrong = 0, before = 0, n, places;

	start();
	for (n = 0; n < WINDOW; n++) {
		MUST(begin(EXPORT, RANDOM, n), "the export ended in the window");
		command(FREE);
		go_on();
		/* Before it was published there was nothing to end. */
		if (!shared->job_result && n == before && !OPEN(&shared->handle, &m)) {
			peerdma_ipc_close(m);
			command(UNEXPORT);
			before++;
		} else {
			wrong += ended_wrongly(n);
		}
	}
	CHECK(before && before < WINDOW, "a free before the export is published, %u times, changes nothing", before);
	CHECK(!wrong, "a free right after that ends the export, and is an error of the call: %u of %u not", wrong,
	      WINDOW - before);
	/* The last place is where the handle is written. */
	for (wrong = places = 0; begin_at_pid(places + 1); places++) {
		command(FREE);
		go_on();
		wrong += ended_wrongly(0);
	}
	CHECK(places && !wrong, "a free while the handle is written ends the export: %u of %u not", wrong, places);
}

/* A free that has passed, of what the record had before. */
static void test_late_free(void)
{
	struct peerdma_ipc_signal *s;
	unsigned int n = 0, wrong = 0, failed = 0;
	bool more = true;

	for (start(); more && n < MOST_STEPS; n += STRIDE) {
		failed += !!command(EXPORT);
		more = begin(FREE, PID, n);
		failed += !!command(REPLACE);
		if (more)
			go_on();
		/* The library's thread looks at what is in doubt first, and then answers. */
		for (int i = 0; i < 2; i++) {
			int ret = peerdma_ipc_signal_open(&shared->handle, sizeof(shared->handle), &s);

			if (ret) {
				printf("# after %u instructions: %s\n", n, peerdma_last_error());
				wrong++;
				break;
			}
			peerdma_ipc_signal_close(s);
		}
		command(CLOSE);
	}
	CHECK(n > 10 && !more && !failed, "a free was stopped after up to %u instructions", n);
	CHECK(!wrong, "a signal that has the record of what was freed stays: %u times not", wrong);
}

/* This process is stopped between connecting and asking. */
static void test_late_question(void)
{
	struct peerdma_ipc_signal *s = NULL;
	struct peerdma_ipc_memory *m = NULL;
	int ret;

	start();
	CHECK(!command(EXPORT), "an export");
	late = true;
	ret = OPEN(&shared->handle, &m);
	CHECK(!ret && !late, "opened after %d s: %d", PATIENCE_S + 1, ret);
	peerdma_ipc_close(m);
	CHECK(!command(REPLACE), "a signal");
	late = true;
	ret = peerdma_ipc_signal_open(&shared->handle, sizeof(shared->handle), &s);
	CHECK(!ret && !late, "opened after %d s: %d", PATIENCE_S + 1, ret);
	peerdma_ipc_signal_close(s);
}

/* A question that cannot be sent. */
static void test_unasked(void)
{
	static const int errors[][2] = { { ENOBUFS, -ENOBUFS }, { EPERM, -EPERM }, { EAGAIN, -ETIMEDOUT } };

	start();
	CHECK(!command(EXPORT), "an export");
	for (int i = 0; i < 3; i++) {
		struct peerdma_ipc_memory *m = NULL;
		int ret;

		send_error = errors[i][0];
		ret = OPEN(&shared->handle, &m);
		send_error = 0;
		CHECK(ret == errors[i][1] && !m && strstr(peerdma_last_error(), "the connection to the exporter failed: ") &&
		      strstr(peerdma_last_error(), strerror(errors[i][0])), "%s: %d, %s", strerror(errors[i][0]), ret,
		      peerdma_last_error());
	}
}

static void test_waitv_forbidden(void)
{
	struct peerdma_ipc_signal *s = NULL;
	int ret;

	start();
	CHECK(!command(EXPORT) && !command(REPLACE) && !peerdma_ipc_signal_open(&shared->handle, sizeof(shared->handle), &s), "a signal");
	forbidden = true;
	ret = peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 200000000, NULL);
	CHECK(ret == -EAGAIN && waits < 3, "a wait of 200 ms tries %u times what is forbidden", waits);
	peerdma_ipc_signal_close(s);
}

static int first_result;

static void *first(void *unused)
{
	struct peerdma_ipc_signal *s;

	first_result = peerdma_ipc_signal_create(0, 0, &s);
	return NULL;
}

/* The process's first two calls, of which the first fails after it has begun. */
static void test_first_fails(void)
{
	struct peerdma_ipc_signal *s = NULL;
	struct peerdma_ipc_handle handle;
	pthread_t thread;
	int ret;

	memory = peerdma_ipc_alloc(LENGTH, 0, (void **)&memory) ? NULL : memory;
	atomic_store(&fails, true);
	MUST(memory && !pthread_create(&thread, NULL, first, NULL), "memory, or a thread");
	while (!atomic_load(&failing))
		usleep(1000);
	ret = peerdma_ipc_export(memory, LENGTH, 0, &handle);
	atomic_store(&second_returned, true);
	pthread_join(thread, NULL);
	CHECK(first_result == -ENOSYS, "the first call fails");
	CHECK(!ret, "the second does not");
	CHECK(!peerdma_ipc_unexport(&handle), "what it exported is there");
	CHECK(!peerdma_ipc_signal_create(0, 0, &s), "and so is what is made later");
	peerdma_ipc_signal_close(s);
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "export-freed", test_export_freed },
		{ "late-free", test_late_free },
		{ "first-fails", test_first_fails },
		{ "late-question", test_late_question },
		{ "unasked", test_unasked },
		{ "waitv-forbidden", test_waitv_forbidden },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
