// SPDX-License-Identifier: MIT
/*
 * signal.c - signals: 64-bit values that threads and processes wait for.
 *
 * A handle is the address of a struct hsa_signal. Calls that return a status look it up in a tree.
 * A thread that changes a value checks whether there are waiters, increments their futex, and wakes
 * them. Both sides use sequentially consistent operations, so no waiter sleeps through a change. If
 * a process is killed between its change and the wake, it wakes no waiter. So a waiter checks a
 * shared signal every second.
 *
 * A thread that sees a value may destroy the signal at once, while the call that changed it, and
 * other waiters, still use it. So each of these calls holds a reference.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "hsa_int.h"

/* Polls before a wait sleeps: SPIN_BLOCKED take a few microseconds, SPIN_ACTIVE about 50. */
#define SPIN_BLOCKED	64
#define SPIN_ACTIVE	1024

static void *signals;	/* a tree (tsearch) */

static struct hsa_signal *of(hsa_signal_t signal)
{
	return (struct hsa_signal *)(uintptr_t)signal.handle;
}

/* Takes a reference. Call before changing the value or waiting for it. */
static struct hsa_signal *hold(hsa_signal_t signal)
{
	hsa_signal_get(of(signal));
	return of(signal);
}

static int compare(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : a != b;
}

/* ---- sleeping and waking ---- */

static long futex(const struct hsa_signal *s, int op, uint32_t value, const struct timespec *until)
{
	return syscall(SYS_futex, &s->at->changes, s->shared ? op : op | FUTEX_PRIVATE_FLAG, value,
		       until, NULL, FUTEX_BITSET_MATCH_ANY);
}

void hsa_signal_poke(struct hsa_signal *s)
{
	atomic_fetch_add(&s->at->changes, 1);
	futex(s, FUTEX_WAKE_BITSET, INT_MAX, NULL);
}

static void changed(struct hsa_signal *s)
{
	if (atomic_load(&s->at->waiters))
		hsa_signal_poke(s);
}

static void changed_and_put(struct hsa_signal *s)
{
	changed(s);
	hsa_signal_put(s);
}

static bool holds(int64_t value, hsa_signal_condition_t condition, int64_t against)
{
	switch (condition) {
	case HSA_SIGNAL_CONDITION_EQ:
		return value == against;
	case HSA_SIGNAL_CONDITION_NE:
		return value != against;
	case HSA_SIGNAL_CONDITION_LT:
		return value < against;
	case HSA_SIGNAL_CONDITION_GTE:
		return value >= against;
	}
	return true;
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Computes the end of the wait by the clock of the timestamps. False: no limit. */
static bool deadline(uint64_t ns, struct timespec *until)
{
	if (ns == UINT64_MAX)
		return false;
	clock_gettime(CLOCK_MONOTONIC, until);
	until->tv_sec += (time_t)(ns / 1000000000);
	until->tv_nsec += (long)(ns % 1000000000);
	if (until->tv_nsec >= 1000000000) {
		until->tv_sec++;
		until->tv_nsec -= 1000000000;
	}
	return true;
}

static bool before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* ETIMEDOUT at the end of the wait. 0: the caller checks the value again. */
static int sleep_once(struct hsa_signal *s, hsa_signal_condition_t condition, int64_t against,
		      const struct timespec *until, const atomic_bool *stop)
{
	struct timespec second;
	bool again = false;
	uint32_t seen;
	int err = 0;

	/* A process may be killed between its change of the value and the wake. */
	if (s->shared) {
		deadline(1000000000, &second);
		again = !until || before(&second, until);
		if (again)
			until = &second;
	}

	atomic_fetch_add(&s->at->waiters, 1);
	seen = atomic_load(&s->at->changes);
	if (!holds(atomic_load(&s->at->value), condition, against) &&
	    !(stop && atomic_load(stop)) && futex(s, FUTEX_WAIT_BITSET, seen, until) < 0)
		err = errno;
	atomic_fetch_sub(&s->at->waiters, 1);
	return err == ETIMEDOUT && !again ? err : 0;
}

static int64_t wait_for(struct hsa_signal *s, hsa_signal_condition_t condition, int64_t against,
			uint64_t timeout, hsa_wait_state_t hint, const atomic_bool *stop)
{
	int spin = hint == HSA_WAIT_STATE_ACTIVE ? SPIN_ACTIVE : SPIN_BLOCKED, err = 0;
	struct timespec until;
	bool ends;
	int64_t value;

	for (value = atomic_load(&s->at->value); spin && !holds(value, condition, against);
	     spin--) {
		relax();
		value = atomic_load(&s->at->value);
	}
	if (holds(value, condition, against))
		return value;
	ends = deadline(timeout, &until);
	while (!holds(value, condition, against) && !err && !(stop && atomic_load(stop))) {
		err = sleep_once(s, condition, against, ends ? &until : NULL, stop);
		value = atomic_load(&s->at->value);
	}
	return value;
}

bool hsa_signal_wait_zero(struct hsa_signal *s, const atomic_bool *stop)
{
	return !wait_for(s, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, HSA_WAIT_STATE_BLOCKED, stop);
}

void hsa_signal_complete(struct hsa_signal *s, bool failed)
{
	if (failed)
		atomic_store(&s->at->value, -1);
	else
		atomic_fetch_sub(&s->at->value, 1);
	changed(s);
}

/* ---- values ---- */

#define LOAD(order)								\
	SGU_EXPORT hsa_signal_value_t hsa_signal_load_##order(hsa_signal_t signal)	\
	{									\
		return atomic_load(&of(signal)->at->value);			\
	}
#define SILENT_STORE(order)							\
	SGU_EXPORT void hsa_signal_silent_store_##order(hsa_signal_t signal,	\
							hsa_signal_value_t value) \
	{									\
		atomic_store(&of(signal)->at->value, value);			\
	}
#define STORE(order)								\
	SGU_EXPORT void hsa_signal_store_##order(hsa_signal_t signal, hsa_signal_value_t value)	\
	{									\
		struct hsa_signal *s = hold(signal);				\
										\
		atomic_store(&s->at->value, value);				\
		changed_and_put(s);						\
	}
#define WAIT(order)								\
	SGU_EXPORT hsa_signal_value_t hsa_signal_wait_##order(hsa_signal_t signal,	\
			hsa_signal_condition_t condition, hsa_signal_value_t compare_value,	\
			uint64_t timeout_hint, hsa_wait_state_t wait_state_hint)	\
	{									\
		struct hsa_signal *s = hold(signal);				\
		hsa_signal_value_t value = wait_for(s, condition, compare_value, \
						    timeout_hint, wait_state_hint, NULL); \
										\
		hsa_signal_put(s);						\
		return value;							\
	}
#define CHANGE(name, order, function)						\
	SGU_EXPORT void hsa_signal_##name##_##order(hsa_signal_t signal, hsa_signal_value_t value) \
	{									\
		struct hsa_signal *s = hold(signal);				\
										\
		function(&s->at->value, value);					\
		changed_and_put(s);						\
	}
#define CHANGES(order)								\
	CHANGE(add, order, atomic_fetch_add)					\
	CHANGE(subtract, order, atomic_fetch_sub)				\
	CHANGE(and, order, atomic_fetch_and)					\
	CHANGE(or, order, atomic_fetch_or)					\
	CHANGE(xor, order, atomic_fetch_xor)					\
	SGU_EXPORT hsa_signal_value_t hsa_signal_exchange_##order(hsa_signal_t signal, \
								  hsa_signal_value_t value) \
	{									\
		struct hsa_signal *s = hold(signal);				\
		hsa_signal_value_t before = atomic_exchange(&s->at->value, value);	\
										\
		changed_and_put(s);						\
		return before;							\
	}									\
	SGU_EXPORT hsa_signal_value_t hsa_signal_cas_##order(hsa_signal_t signal, \
							     hsa_signal_value_t expected, \
							     hsa_signal_value_t value)	\
	{									\
		struct hsa_signal *s = hold(signal);				\
										\
		if (atomic_compare_exchange_strong(&s->at->value, &expected, value))	\
			changed(s);						\
		hsa_signal_put(s);						\
		return expected;						\
	}

LOAD(scacquire) LOAD(relaxed) LOAD(acquire)
SILENT_STORE(relaxed) SILENT_STORE(screlease)
STORE(relaxed) STORE(screlease) STORE(release)
WAIT(scacquire) WAIT(relaxed) WAIT(acquire)
HSA_SIGNAL_ORDERS(CHANGES)

/* ---- creation and destruction ---- */

struct hsa_signal *hsa_signal_at(hsa_signal_t signal)
{
	return signal.handle && tfind(of(signal), &signals, compare) ? of(signal) : NULL;
}

void hsa_signal_get(struct hsa_signal *s)
{
	atomic_fetch_add(&s->refs, 1);
}

void hsa_signal_put(struct hsa_signal *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	if (s->shared)
		munmap(s->at, HSA_PAGE);
	free(s);
}

/*
 * Called for the last handle. Copies and calls may still use the signal, but no new call finds it.
 */
static void unpublish(struct hsa_signal *s)
{
	tdelete(s, &signals, compare);
	if (s->fd >= 0)
		hsa_file_close(s->fd);
	s->fd = -1;
	hsa_signal_put(s);
}

/* Makes the signal known. False: out of memory, and the signal is freed. */
static bool publish(struct hsa_signal *s, hsa_signal_t *signal)
{
	atomic_init(&s->refs, 1);
	s->handles = 1;
	signal->handle = (uintptr_t)s;
	if (tsearch(s, &signals, compare))
		return true;
	if (s->fd >= 0)
		hsa_file_close(s->fd);
	hsa_signal_put(s);
	return false;
}

static int place_in_file(struct hsa_signal *s)
{
	char name[HSA_FILE_NAME];
	int err = hsa_file_key(s->key);

	if (err)
		return err;
	hsa_file_name(name, "hsa-signal", s->key, (uint32_t)getpid());
	s->fd = hsa_file_make(name, HSA_PAGE);
	if (s->fd < 0)
		return s->fd;
	s->at = hsa_file_map(s->fd, HSA_PAGE);
	s->shared = s->at;
	if (s->at)
		return 0;
	hsa_file_close(s->fd);
	return -ENOMEM;
}

static hsa_status_t create(int64_t initial, bool ipc, hsa_signal_t *signal)
{
	struct hsa_signal *s = calloc(1, sizeof(*s));

	if (!s)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	s->fd = -1;
	s->at = &s->own;
	if (ipc && place_in_file(s)) {
		free(s);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	atomic_store(&s->at->value, initial);
	return publish(s, signal) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static hsa_status_t check_consumers(uint32_t n, const hsa_agent_t *consumers)
{
	int number;

	if (n && !consumers)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	for (uint32_t i = 0; i < n; i++) {
		if (!hsa_agent_number(consumers[i], &number))
			return HSA_STATUS_ERROR_INVALID_AGENT;
		for (uint32_t j = 0; j < i; j++) {
			if (consumers[j].handle == consumers[i].handle)
				return HSA_STATUS_ERROR_INVALID_ARGUMENT;
		}
	}
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value,
					      uint32_t num_consumers, const hsa_agent_t *consumers,
					      uint64_t attributes, hsa_signal_t *signal)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!signal || attributes & ~(uint64_t)(HSA_AMD_SIGNAL_AMD_GPU_ONLY | HSA_AMD_SIGNAL_IPC))
		goto out;
	status = check_consumers(num_consumers, consumers);
	if (!status)
		status = create(initial_value, attributes & HSA_AMD_SIGNAL_IPC, signal);
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

SGU_EXPORT hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
					  const hsa_agent_t *consumers, hsa_signal_t *signal)
{
	return hsa_amd_signal_create(initial_value, num_consumers, consumers, 0, signal);
}

SGU_EXPORT hsa_status_t hsa_signal_destroy(hsa_signal_t signal)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct hsa_signal *s = NULL;

	pthread_mutex_lock(&hsa_lock);
	if (hsa_ready()) {
		s = hsa_signal_at(signal);
		status = s ? HSA_STATUS_SUCCESS : signal.handle ? HSA_STATUS_ERROR_INVALID_SIGNAL :
			HSA_STATUS_ERROR_INVALID_ARGUMENT;
	}
	if (s && !--s->handles)
		unpublish(s);
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

struct search {
	const uint64_t *key;
	struct hsa_signal *found;
};

static void match(const void *node, VISIT visit, void *arg)
{
	struct hsa_signal *s = *(struct hsa_signal *const *)node;
	struct search *search = arg;

	if ((visit == preorder || visit == leaf) && s->fd >= 0 &&
	    !memcmp(s->key, search->key, sizeof(s->key)))
		search->found = s;
}

hsa_status_t hsa_signal_adopt(int fd, const uint64_t key[2], hsa_signal_t *signal)
{
	struct search search = { .key = key };
	struct hsa_signal *s;

	twalk_r(signals, match, &search);
	if (search.found) {
		hsa_file_close(fd);
		search.found->handles++;
		signal->handle = (uintptr_t)search.found;
		return HSA_STATUS_SUCCESS;
	}
	s = calloc(1, sizeof(*s));
	if (s)
		s->at = hsa_file_map(fd, HSA_PAGE);
	if (!s || !s->at) {
		free(s);
		hsa_file_close(fd);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	s->shared = true;
	s->fd = fd;
	memcpy(s->key, key, sizeof(s->key));
	return publish(s, signal) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

void hsa_signal_end(void)
{
	while (signals)
		unpublish(*(struct hsa_signal **)signals);
}
