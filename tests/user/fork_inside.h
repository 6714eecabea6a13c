/* SPDX-License-Identifier: MIT */
/* fork_inside.h - a child that is made while a thread is in the middle of a call, with a lock that the child's own call needs. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t inside, go_on;

/* What the library calls in the middle calls this, once, in the thread. */
static void wait_inside(void)
{
	sem_post(&inside);
	sem_wait(&go_on);
}

/* Runs `thread' as far as wait_inside(), then makes `call' in a child: 0 if that comes to an end, whatever it says. */
static int child_comes_back(void *(*thread)(void *), void (*call)(void))
{
	pthread_t id;
	int status;
	pid_t pid;

	if (sem_init(&inside, 0, 0) || sem_init(&go_on, 0, 0) || pthread_create(&id, NULL, thread, NULL))
		return 1;
	sem_wait(&inside);
	pid = fork();
	if (!pid) {
		alarm(10);
		call();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		printf("the child ended with wait status %#x\n", pid < 0 ? -1U : (unsigned int)status);
		return 1;
	}
	sem_post(&go_on);
	return !!pthread_join(id, NULL);
}
