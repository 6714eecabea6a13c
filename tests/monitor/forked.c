// SPDX-License-Identifier: MIT
/* forked.c - a process forks while one of its threads begins to monitor host memory: in the child nothing is monitored. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peerdma.h"
#include "peerdma_monitor.h"

static atomic_bool inside, forked;

/* The library's, too: it asks for the C library when it begins. */
void *dlopen(const char *file, int mode)
{
	void *(*next)(const char *, int);
	void *symbol = dlsym(RTLD_NEXT, "dlopen");

	memcpy(&next, &symbol, sizeof(next));
	atomic_store(&inside, true);
	while (!atomic_load(&forked))
		usleep(100);
	return next(file, mode);
}

static void event(void *arg, const struct peerdma_hook_event *event)
{
}

static int start(void)
{
	int ret = peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, event, NULL);

	printf("%d: %s\n", ret, ret ? peerdma_last_error() : "");
	return ret;
}

static void *begins(void *arg)
{
	*(int *)arg = start();
	return NULL;
}

int main(void)
{
	int first, status;
	pthread_t thread;
	pid_t pid;

	alarm(20);
	setvbuf(stdout, NULL, _IONBF, 0);
	pthread_create(&thread, NULL, begins, &first);
	while (!atomic_load(&inside))
		usleep(100);
	pid = fork();
	if (!pid) {
		atomic_store(&forked, true);
		_exit(start() != -EOPNOTSUPP || !strstr(peerdma_last_error(), "was about to begin"));
	}
	waitpid(pid, &status, 0);
	atomic_store(&forked, true);
	pthread_join(thread, NULL);
	if (first == -EOPNOTSUPP) {
		printf("skipped: host memory cannot be monitored here\n");
		return 77;
	}
	return status || first;
}
