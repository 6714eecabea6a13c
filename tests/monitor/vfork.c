// SPDX-License-Identifier: MIT
/* vfork.c - a child of vfork(), which shares the parent's memory, is killed while it is in a subscriber's function. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../peerdma/lib/monitor/subscribers.h"

static struct subscribers list;
static pid_t parent;

static void subscriber(void *arg, const struct peerdma_hook_event *event)
{
	if (getpid() != parent)
		kill(getpid(), SIGKILL);
}

static void killed_inside(int reaped)
{
	const struct peerdma_hook_event event = { .kind = PEERDMA_HOOK_FREE };
	int status;
	pid_t pid;

	if (subscribers_add(&list, subscriber, NULL))
		abort();
	pid = vfork();
	if (!pid) {
		subscribers_call(&list, &event);
		_exit(1);
	}
	if (reaped && waitpid(pid, &status, 0) != pid)
		abort();
	subscribers_call(&list, &event);
	subscribers_remove(&list, subscriber, NULL);
	if (!reaped && (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)))
		abort();
	printf("child %s: unsubscribed\n", reaped ? "reaped" : "not reaped");
}

int main(void)
{
	alarm(10);
	parent = getpid();
	for (int i = 0; i < 3; i++)
		killed_inside(i & 1);
	return 0;
}
