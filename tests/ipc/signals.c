// SPDX-License-Identifier: MIT
/*
 * signals.c - a signal between two processes, call by call: waits, their limits, and each way in which it ends.
 *
 * usage: signals TEST
 */
#include <pthread.h>
#include <sys/time.h>

#include "other.h"
#include "until_woken.h"
#include "util.h"

#define NEVER_SET 1000

static void *set_later(void *arg)
{
	usleep(100000);
	peerdma_ipc_signal_set(arg, 77);
	return NULL;
}

static void interrupted(int sig)
{
}

/* Sleeps until another process is killed, which the signal has to do with. */
static int wait_for_killed(struct peerdma_ipc_signal *s, pid_t pid)
{
	pid_t killer = fork();
	int ret;

	if (!killer) {
		usleep(100000);
		kill(pid, SIGKILL);
		_exit(0);
	}
	until_woken = true;
	ret = peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, NEVER_SET, UINT64_MAX, NULL);
	until_woken = false;
	waitpid(killer, NULL, 0);
	return ret;
}

static void signals(void)
{
	struct other o = other_make(getuid()), o2 = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_SIGNAL, .value = 5), b;
	struct peerdma_ipc_signal *s = NULL, *mine = NULL, *twice;
	struct peerdma_ipc_handle h = { { 0 } };
	struct peerdma_ipc_memory *m = NULL;
	struct itimerval soon = { .it_value.tv_usec = 50000 };
	uint64_t seen, start;
	pthread_t thread;
	void *unused;

	CHECK(!a.ret && !peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &s), "opened");
	CHECK(OPEN(&a.handle, &m) == -EINVAL, "it is no memory");
	CHECK(peerdma_ipc_signal_get(s) == 5, "its value");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 5, 0, &seen) && seen == 5, "eq");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_NE, 4, 0, NULL), "ne");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_GE, 5, 0, NULL), "ge");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_LT, 6, 0, NULL), "lt");
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_LT, (uint64_t)-1, 0, NULL) == -EAGAIN, "signed");
	CHECK(peerdma_ipc_signal_wait(s, 9, 5, 0, NULL) == -EINVAL, "no such condition");
	start = now_ns();
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 6, 50000000, &seen) == -EAGAIN && seen == 5, "a timeout");
	CHECK(now_ns() - start >= 50000000 && now_ns() - start < 5000000000ULL, "after that time");
	b = ASK(&o, OTHER_SET, .value = 6);
	CHECK(!b.ret && !peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 6, UINT64_MAX, NULL), "set by the other");
	CHECK(!peerdma_ipc_signal_add(s, 3) && peerdma_ipc_signal_get(s) == 9, "add");
	b = ASK(&o, OTHER_WAIT, .value = 9);
	CHECK(!b.ret, "seen by the other");
	CHECK(peerdma_ipc_signal_export(s, &h) == -EINVAL, "a process that opened it does not export it");
	CHECK(!peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &twice), "opened twice");
	CHECK(!peerdma_ipc_signal_close(twice), "closed once");
	pthread_create(&thread, NULL, set_later, s);
	start = now_ns();
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 77, UINT64_MAX, NULL), "woken in its sleep");
	CHECK(now_ns() - start >= 80000000, "it slept");
	pthread_join(thread, &unused);
	sigaction(SIGALRM, &(struct sigaction) { .sa_handler = interrupted }, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 78, UINT64_MAX, NULL) == -EINTR, "a handler ran");
	CHECK(peerdma_ipc_signal_stream_wait(s, NULL, PEERDMA_IPC_EQ, 1) == -ENODEV, "no CUDA");
	CHECK(peerdma_ipc_signal_stream_set(s, NULL, 1) == -ENODEV, "no CUDA");
	CHECK(peerdma_ipc_signal_stream_wait(s, NULL, PEERDMA_IPC_NE, 1) == -EOPNOTSUPP, "which CUDA cannot");
	CHECK(!peerdma_ipc_signal_hsa(s), "not HSA's");
	CHECK(peerdma_ipc_signal_create(1, PEERDMA_IPC_HSA, &mine) == -ENODEV, "no HSA");
	CHECK(peerdma_ipc_signal_create(1, 4, &mine) == -EINVAL, "unknown flags");

	/* The creator closes it. */
	ASK(&o, OTHER_CLOSE);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 78, UINT64_MAX, NULL) == -ESTALE, "closed by its creator");
	CHECK(peerdma_ipc_signal_set(s, 1) == -ESTALE && peerdma_ipc_signal_get(s) == 77, "nothing is written");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 77, 0, NULL), "its last value counts");
	b = ASK(&o, OTHER_SIGNAL, .value = 100);
	CHECK(peerdma_ipc_signal_get(s) == 77, "its place is not another's as long as it is open");
	CHECK(peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &twice) == -ESTALE, "the handle opens nothing");
	CHECK(!peerdma_ipc_signal_close(s), "closed");

	/* The creator dies while it is waited for. */
	CHECK(!peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &s), "another one");
	CHECK(wait_for_killed(s, o.pid) == -EOWNERDEAD, "its creator was killed");
	CHECK(peerdma_ipc_signal_set(s, 1) == -EOWNERDEAD, "nothing is set any more");
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, UINT64_MAX, NULL) == -EOWNERDEAD, "each time");
	peerdma_ipc_signal_close(s);

	/* A process that opened it dies. */
	CHECK(!peerdma_ipc_signal_create(1, 0, &mine) && !peerdma_ipc_signal_export(mine, &h), "created here");
	CHECK(peerdma_ipc_signal_open(&h, sizeof(h), &s) == -EEXIST, "not opened here");
	b = ASK(&o2, OTHER_OPEN_SIGNAL, .handle = h);
	CHECK(!b.ret, "opened there");
	CHECK(wait_for_killed(mine, o2.pid) == -EOWNERDEAD, "a process that had it open was killed");
	CHECK(peerdma_ipc_signal_wait(mine, PEERDMA_IPC_EQ, 9, 1000000, NULL) == -EAGAIN, "once");
	CHECK(!peerdma_ipc_signal_set(mine, 2) && !peerdma_ipc_signal_close(mine), "and the signal works on");
	other_end(&o, SIGKILL);
	other_end(&o2, SIGKILL);
}

/* A process that had a signal open several times, on several connections, ends once; and so does another. */
static void deaths(void)
{
	struct other often = other_make(getuid()), once = other_make(getuid()), last = other_make(getuid());
	struct peerdma_ipc_signal *s = NULL, *beside = NULL;
	struct peerdma_ipc_handle h, h2;
	unsigned int told = 0, bad = 0;
	int ret;

	CHECK(!peerdma_ipc_signal_create(1, 0, &s) && !peerdma_ipc_signal_export(s, &h) && !peerdma_ipc_signal_create(1, 0, &beside) &&
	      !peerdma_ipc_signal_export(beside, &h2), "created");
	for (int i = 0; i < 150; i++)		/* of which a connection has 64 */
		bad += !!ASK(&often, OTHER_OPEN_SIGNAL, .handle = i % 3 ? h : h2).ret;
	CHECK(!bad && !ASK(&once, OTHER_OPEN_SIGNAL, .handle = h).ret, "opened 100 times by one process, and once by another");
	other_end(&often, SIGKILL);
	other_end(&once, SIGKILL);
	/* What is asked later is answered later. */
	CHECK(!ASK(&last, OTHER_OPEN_SIGNAL, .handle = h).ret, "and by one that lives");
	while ((ret = peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 9, 0, NULL)) == -EOWNERDEAD)
		told++;
	CHECK(ret == -EAGAIN && told == 2, "two processes ended: said %u times", told);
	CHECK(peerdma_ipc_signal_wait(beside, PEERDMA_IPC_EQ, 9, 0, NULL) == -EOWNERDEAD &&
	      peerdma_ipc_signal_wait(beside, PEERDMA_IPC_EQ, 9, 0, NULL) == -EAGAIN, "of the other signal it is said once");
	/* One that closes one open of two, and then ends. */
	CHECK(!ASK(&last, OTHER_OPEN_SIGNAL, .handle = h).ret && !ASK(&last, OTHER_CLOSE).ret, "opened twice, closed once");
	other_end(&last, SIGKILL);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 9, 10000000000, NULL) == -EOWNERDEAD &&
	      peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 9, 0, NULL) == -EAGAIN, "it ended with the signal open");
	peerdma_ipc_signal_close(s);
	peerdma_ipc_signal_close(beside);
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "signals", signals }, { "deaths", deaths },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
