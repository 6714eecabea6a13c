// SPDX-License-Identifier: MIT
/*
 * async_close.c - closes descriptors that a process of another user sent. That user can make
 * close() block for any time, for example with a lingering socket or a file system in user space.
 * So a separate thread closes them.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "ipc.h"

struct fds {
	unsigned int n;
	int fd[];
};

static unsigned int threads;	/* atomic: running threads */

unsigned int ipc_closes_pending(void)
{
	return __atomic_load_n(&threads, __ATOMIC_RELAXED);
}

static void *thread(void *arg)
{
	struct fds *f = arg;

	for (unsigned int i = 0; i < f->n; i++)
		close(f->fd[i]);
	free(f);
	__atomic_fetch_sub(&threads, 1, __ATOMIC_RELAXED);
	return NULL;
}

static bool start(struct fds *f)
{
	sigset_t all, was;
	pthread_attr_t attr;
	pthread_t id;
	bool started;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	started = !pthread_create(&id, &attr, thread, f);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	if (!started)
		__atomic_fetch_sub(&threads, 1, __ATOMIC_RELAXED);
	return started;
}

void ipc_close_async(const int *fds, unsigned int n)
{
	struct fds *f = malloc(sizeof(*f) + n * sizeof(f->fd[0]));
	unsigned int slow = 0;

	for (unsigned int i = 0; i < n; i++) {
		/* Only memfds have seals, and closing a memfd does not block. */
		if (f && fcntl(fds[i], F_GET_SEALS) < 0)
			f->fd[slow++] = fds[i];
		else
			close(fds[i]);
	}
	if (f)
		f->n = slow;
	if (f && slow && start(f))
		return;
	for (unsigned int i = 0; i < slow; i++)
		close(f->fd[i]);
	free(f);
}
