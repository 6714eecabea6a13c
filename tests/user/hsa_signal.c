// SPDX-License-Identifier: MIT
/* hsa_signal.c - signals within a process. */
#include <fcntl.h>
#include <pthread.h>

#include "../ipc/until_woken.h"
#include "hsa_test.h"

void signal_life(void **state)
{
	const hsa_agent_t two[] = { cpu, cpu }, none = { .handle = 77 };
	hsa_signal_t s = signal_of(-5);

	assert_int_equal(hsa_signal_load_scacquire(s), -5);
	FINE(hsa_signal_destroy(s));
	IS(INVALID_SIGNAL, hsa_signal_destroy(s));
	IS(INVALID_SIGNAL, hsa_signal_destroy((hsa_signal_t){ .handle = 1 }));
	IS(INVALID_ARGUMENT, hsa_signal_destroy((hsa_signal_t){ .handle = 0 }));
	IS(INVALID_ARGUMENT, hsa_signal_create(0, 0, NULL, NULL));
	IS(INVALID_ARGUMENT, hsa_signal_create(0, 1, NULL, &s));
	IS(INVALID_ARGUMENT, hsa_signal_create(0, 2, two, &s));
	IS(INVALID_AGENT, hsa_signal_create(0, 1, &none, &s));
	IS(INVALID_ARGUMENT, hsa_amd_signal_create(0, 0, NULL, 4, &s));
	FINE(hsa_signal_create(1, 1, &cpu, &s));
	FINE(hsa_signal_destroy(s));
	FINE(hsa_amd_signal_create(INT64_MIN, 0, NULL, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &s));
	assert_true(hsa_signal_load_relaxed(s) == INT64_MIN);
	FINE(hsa_signal_destroy(s));
}

/* The signal's file has descriptor 0 where that is free. */
void descriptor_zero(void **state)
{
	int standard = dup(0), there, gone;
	hsa_signal_t s = { 0 };
	hsa_status_t status;

	close(0);
	errno = EIO;	/* of an earlier call */
	status = hsa_amd_signal_create(8, 0, NULL, HSA_AMD_SIGNAL_IPC, &s);
	there = fcntl(0, F_GETFD);
	if (!status)
		hsa_signal_destroy(s);
	gone = fcntl(0, F_GETFD);
	dup2(standard, 0);
	close(standard);
	FINE(status);
	assert_true(there >= 0);
	assert_true(gone < 0);
}

#define CHANGES(order)									\
	hsa_signal_store_relaxed(s, 6);							\
	hsa_signal_add_##order(s, INT64_C(1) << 40);					\
	assert_true(hsa_signal_load_relaxed(s) == (INT64_C(1) << 40) + 6);		\
	hsa_signal_subtract_##order(s, (INT64_C(1) << 40) + 7);				\
	assert_int_equal(hsa_signal_load_scacquire(s), -1);				\
	hsa_signal_and_##order(s, 0xff0);						\
	assert_int_equal(hsa_signal_load_acquire(s), 0xff0);				\
	hsa_signal_or_##order(s, 0xf);							\
	assert_int_equal(hsa_signal_load_acquire(s), 0xfff);				\
	hsa_signal_xor_##order(s, 0xf0f);						\
	assert_int_equal(hsa_signal_exchange_##order(s, 11), 0x0f0);			\
	assert_int_equal(hsa_signal_cas_##order(s, 12, 13), 11);			\
	assert_int_equal(hsa_signal_cas_##order(s, 11, 14), 11);			\
	assert_int_equal(hsa_signal_load_relaxed(s), 14);

void values(void **state)
{
	hsa_signal_t kinds[2] = { signal_of(0) };

	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &kinds[1]));
	for (int i = 0; i < 2; i++) {
		hsa_signal_t s = kinds[i];

		HSA_SIGNAL_ORDERS(CHANGES)
		hsa_signal_store_release(s, 1);
		assert_int_equal(hsa_signal_load_relaxed(s), 1);
		hsa_signal_store_screlease(s, 2);
		assert_int_equal(hsa_signal_load_relaxed(s), 2);
		hsa_signal_silent_store_relaxed(s, 3);
		assert_int_equal(hsa_signal_load_relaxed(s), 3);
		hsa_signal_silent_store_screlease(s, 4);
		assert_int_equal(hsa_signal_load_relaxed(s), 4);
		FINE(hsa_signal_destroy(s));
	}
}

void conditions(void **state)
{
	hsa_signal_t s = signal_of(-3);
	uint64_t before, frequency, stamps[2];

	/* What holds is seen at once, whatever the timeout. */
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, -3, 0, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_relaxed(s, HSA_SIGNAL_CONDITION_NE, 3, UINT64_MAX, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_acquire(s, HSA_SIGNAL_CONDITION_LT, -2, UINT64_MAX, HSA_WAIT_STATE_ACTIVE), -3);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_GTE, -3, UINT64_MAX, BLOCKED), -3);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency));
	for (int active = 0; active < 2; active++) {
		FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &stamps[0]));
		before = now_ns(CLOCK_THREAD_CPUTIME_ID);
		assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, -3, frequency / 5,
							   active ? HSA_WAIT_STATE_ACTIVE : BLOCKED), -3);
		FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &stamps[1]));
		assert_true(stamps[1] - stamps[0] >= frequency / 5);
		/* It slept. */
		assert_true(now_ns(CLOCK_THREAD_CPUTIME_ID) - before < 50 * MS);
	}
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_GTE, -2, 0, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_NE, -3, 1, BLOCKED), -3);
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 0, 1, BLOCKED), -3);
	FINE(hsa_signal_destroy(s));
}

struct pingpong {
	hsa_signal_t s;
	int rounds;
};

/* Turns odd values into the next even one. */
static void *answer(void *arg)
{
	struct pingpong *p = arg;

	for (int i = 0; i < p->rounds; i++) {
		hsa_signal_wait_scacquire(p->s, HSA_SIGNAL_CONDITION_EQ, 2 * i + 1, UINT64_MAX, BLOCKED);
		hsa_signal_add_relaxed(p->s, 1);
	}
	return NULL;
}

/* No wake is lost, whichever side sleeps; also where a sleep would end by itself. */
void wakes(void **state)
{
	hsa_signal_t kinds[2] = { signal_of(0) };
	pthread_t id;

	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &kinds[1]));
	for (int k = 0; k < 2; k++) {
		struct pingpong p = { .s = kinds[k], .rounds = 3000 };

		until_woken = true;
		assert_int_equal(pthread_create(&id, NULL, answer, &p), 0);
		for (int i = 0; i < p.rounds; i++) {
			if (i % 100 == 0)
				usleep(1000);
			hsa_signal_store_relaxed(p.s, 2 * i + 1);
			assert_int_equal(hsa_signal_wait_scacquire(p.s, HSA_SIGNAL_CONDITION_EQ, 2 * i + 2, 60000 * MS,
								   i % 2 ? BLOCKED : HSA_WAIT_STATE_ACTIVE), 2 * i + 2);
		}
		pthread_join(id, NULL);
		until_woken = false;
		FINE(hsa_signal_destroy(p.s));
	}
}

static void *wait_for_7(void *s)
{
	return (void *)(intptr_t)hsa_signal_wait_scacquire(*(hsa_signal_t *)s, HSA_SIGNAL_CONDITION_EQ, 7, UINT64_MAX, BLOCKED);
}

/* A process may be killed after it has changed the value and before it wakes waiters.  A silent store does the same: it wakes no waiter. */
void not_woken(void **state)
{
	hsa_signal_t s;
	pthread_t id;
	void *seen;

	FINE(hsa_amd_signal_create(0, 0, NULL, HSA_AMD_SIGNAL_IPC, &s));
	assert_int_equal(pthread_create(&id, NULL, wait_for_7, &s), 0);
	usleep(100000);
	hsa_signal_silent_store_relaxed(s, 7);
	signal(SIGALRM, wake_is_lost);
	alarm(LOST_AFTER_S);
	assert_int_equal(pthread_join(id, &seen), 0);
	alarm(0);
	assert_int_equal((intptr_t)seen, 7);
	/* A timeout of less than a second still ends the wait. */
	assert_int_equal(hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 8, 1, BLOCKED), 7);
	FINE(hsa_signal_destroy(s));
}
