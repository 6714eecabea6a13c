// SPDX-License-Identifier: MIT
/*
 * hsa_ends.c - HSA's signals whose creator ends them while another process opens them, HSA without resources, and Unix signals
 * while one is waited for.  On a stand-in for HSA, which says when.
 *
 * usage: hsa_ends TEST
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "fake_hsa.h"
#include "other.h"
#include "util.h"

/* ---- Unix signals ---- */

static _Atomic unsigned int naps, handled;

/* The library sleeps by it between looks: it is the first of its name that the loader finds. */
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec t = timeout ? *timeout : (struct timespec){ 0 };

	atomic_fetch_add(&naps, 1);
	return (int)syscall(SYS_ppoll, fds, n, timeout ? &t : NULL, mask, 8);
}

/* In the middle of a look, which is not a sleep: once. */
static void raise_in_a_look(void)
{
	static atomic_bool raised;

	if (atomic_load(&naps) >= 2 && !atomic_exchange(&raised, true))
		raise(SIGUSR1);
}

static void handler(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
}

static void *wait_for_ever(void *s)
{
	peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, UINT64_MAX, NULL);
	return NULL;
}

static void handlers(void)
{
	struct sigaction action = { .sa_handler = handler };
	struct peerdma_ipc_signal *s = NULL;
	sigset_t before, after;
	int other_mask = 0;
	uint64_t seen = 0;
	pthread_t thread;
	void *result = NULL;
	int ret;

	fake_hsa_share();
	sigaction(SIGUSR1, &action, NULL);
	CHECK(!peerdma_ipc_signal_create(5, PEERDMA_IPC_HSA, &s), "created");
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	fake_hsa.looking = raise_in_a_look;
	ret = peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 1000000000, &seen);
	fake_hsa.looking = NULL;
	CHECK(ret == -EINTR && handled == 1 && seen == 5, "a handler ran in a look: %d", ret);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < SIGRTMAX; sig++)
		other_mask += sigismember(&before, sig) != sigismember(&after, sig);
	CHECK(!other_mask, "signals are unblocked again");
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 1000000, NULL) == -EAGAIN, "none: a timeout");
	naps = 0;
	pthread_create(&thread, NULL, wait_for_ever, s);
	while (!atomic_load(&naps))
		usleep(100);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	CHECK(result == PTHREAD_CANCELED, "a cancellation point");
	CHECK(!peerdma_ipc_signal_set(s, 1) && !peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 0, NULL) && !peerdma_ipc_signal_close(s), "it works on");
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "handlers", handlers },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
