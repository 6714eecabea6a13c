// SPDX-License-Identifier: MIT
/* nvml_fork.c - a child that is made while a thread is in one of NVML's calls: its own call comes to an end. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvml.h"

static _Thread_local int waits_here;
static sem_t inside, go_on;

/* In place of the C library's, which NVML calls with its lock. */
pid_t getpid(void)
{
	if (waits_here) {
		waits_here = 0;
		sem_post(&inside);
		sem_wait(&go_on);
	}
	return (pid_t)syscall(SYS_getpid);
}

static void *call(void *unused)
{
	unsigned int count;

	(void)unused;
	waits_here = 1;
	nvmlDeviceGetCount(&count);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	unsigned int count;
	int status;
	pid_t pid;

	if (sem_init(&inside, 0, 0) || sem_init(&go_on, 0, 0) || nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS) ||
	    pthread_create(&thread, NULL, call, NULL))
		return 1;
	sem_wait(&inside);
	pid = fork();
	if (!pid) {
		alarm(10);
		nvmlDeviceGetCount(&count);	/* whatever it says */
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		printf("the child ended with wait status %#x\n", pid < 0 ? -1U : (unsigned int)status);
		return 1;
	}
	sem_post(&go_on);
	return !!pthread_join(thread, NULL);
}
