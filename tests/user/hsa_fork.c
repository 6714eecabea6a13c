// SPDX-License-Identifier: MIT
/* hsa_fork.c - a child of a program that uses HSA. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "hsa_test.h"

static atomic_bool enough;

static void *use(void *arg)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	int count;

	while (!atomic_load(&enough)) {
		hsa_amd_pointer_info(&info, &info, NULL, NULL, NULL);
		hipGetDeviceCount(&count);
	}
	return arg;
}

/* Every call of a child is refused, whatever its parent's threads were doing. */
void forked(void **state)
{
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	pthread_t users[2];
	hsa_signal_t s;
	int status, count;

	atomic_store(&enough, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&users[i], NULL, use, NULL), 0);
	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid) {
			alarm(20);
			if (hsa_amd_pointer_info(&info, &info, NULL, NULL, NULL) != HSA_STATUS_ERROR_NOT_INITIALIZED ||
			    hsa_signal_create(0, 0, NULL, &s) != HSA_STATUS_ERROR_NOT_INITIALIZED)
				_exit(1);
			hipGetDeviceCount(&count);	/* either way */
			_exit(hsa_init() == HSA_STATUS_SUCCESS ? 2 : 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	atomic_store(&enough, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(users[i], NULL), 0);
}

/*
 * It lives until there are no more forks.  ThreadSanitizer takes a fork for no synchronization: a child is reported for what
 * a thread wrote that had ended, but was not joined yet.
 */
struct first {
	atomic_bool begins;
	sem_t may_end;
};

static void *first(void *arg)
{
	struct first *f = arg;
	int count;

	atomic_store(&f->begins, true);
	hipGetDeviceCount(&count);
	sem_wait(&f->may_end);
	return NULL;
}

/* While a thread makes HIP's first call: what its children's first calls say does not matter, but each comes to an end. */
static int forks_while_it_starts(void)
{
	pthread_t thread;
	int failed = 0, status, count;
	struct first f = { .begins = false };

	if (sem_init(&f.may_end, 0, 0) || pthread_create(&thread, NULL, first, &f))
		return 1;
	while (!atomic_load(&f.begins))
		sched_yield();	/* a sleeper would wake too late */
	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (!pid) {
			alarm(10);
			hipGetDeviceCount(&count);
			_exit(0);
		}
		failed |= pid < 0 || waitpid(pid, &status, 0) != pid || status;
	}
	sem_post(&f.may_end);
	return pthread_join(thread, NULL) || failed;
}

/* Before this process has used HSA. */
void forked_early(void **state)
{
	int status;

	for (int i = 0; i < 100; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			_exit(forks_while_it_starts());
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}
