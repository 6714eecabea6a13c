// SPDX-License-Identifier: MIT
/* hip_fork.c - a child that is made while a thread makes HIP's first call: its own first call comes to an end. */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hip/hip_runtime_api.h"
#include "hsa/hsa.h"

static atomic_bool holds = true;
static sem_t inside, go_on;

/* In place of the library's, which HIP calls while it starts. */
hsa_status_t hsa_init(void)
{
	hsa_status_t (*original)(void) = (hsa_status_t (*)(void))dlsym(RTLD_NEXT, "hsa_init");

	if (atomic_exchange(&holds, false)) {
		sem_post(&inside);
		sem_wait(&go_on);
	}
	return original();
}

static void *first_call(void *unused)
{
	int count;

	(void)unused;
	hipGetDeviceCount(&count);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	int status, count;
	pid_t pid;

	if (sem_init(&inside, 0, 0) || sem_init(&go_on, 0, 0) || pthread_create(&thread, NULL, first_call, NULL))
		return 1;
	sem_wait(&inside);
	pid = fork();
	if (!pid) {
		alarm(10);
		hipGetDeviceCount(&count);	/* whatever it says */
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		printf("the child ended with wait status %#x\n", pid < 0 ? -1U : (unsigned int)status);
		return 1;
	}
	sem_post(&go_on);
	return !!pthread_join(thread, NULL);
}
