// SPDX-License-Identifier: MIT
/*
 * races.c - threads that get, put, hold, free, copy, destroy contexts and close
 * files at once.  Made for the thread sanitizer; and whatever the schedule, every
 * pin ends once, put waits for a callback in flight, no callback starts after
 * put has returned, and nothing is left over.
 */
#include "util.h"

#include <pthread.h>
#include <sched.h>

#define THREADS	4
#define SLOTS	8

static struct machine m;
static struct user shared;
static int key;
static u64 rounds;

/*
 * Addresses that the threads pin, with no lock between them.  Those in the
 * first half are freed by the thread that takes them out; the others belong to short
 * contexts and go stale with them.
 */
static u64 slots[2 * SLOTS];

struct apin {
	struct tpin t;
	int put_returned, in_callback;
	pthread_mutex_t client_lock;	/* a driver's own, taken in its callback too */
};

static void callback(struct tpin *t)
{
	struct apin *a = container_of(t, struct apin, t);

	MUST(!__atomic_load_n(&a->put_returned, __ATOMIC_SEQ_CST));
	__atomic_store_n(&a->in_callback, 1, __ATOMIC_SEQ_CST);
	MUST(sg_pin_put(m.sg, &t->pin, false) == -EDEADLK);
	pthread_mutex_lock(&a->client_lock);
	MUST(t->unmaps == 0);
	pthread_mutex_unlock(&a->client_lock);
	sched_yield();
	__atomic_store_n(&a->in_callback, 0, __ATOMIC_SEQ_CST);
}

static void pin_once(struct apin *a, u64 *state)
{
	u64 va = __atomic_load_n(&slots[rnd_u64(state) % (2 * SLOTS)], __ATOMIC_SEQ_CST) & ~(PAGE - 1);
	bool persistent = rnd_u64(state) % 4 == 0;
	struct sg_pin *held;
	int err;

	if (!va)
		return;
	a->put_returned = 0;
	a->t.on_callback = callback;
	/* The driver's own lock, held across our calls: allowed. */
	pthread_mutex_lock(&a->client_lock);
	err = tpin_get(&a->t, &shared, va, PAGE, persistent);
	if (!err) {
		held = sg_pin_hold(m.sg, &a->t.pin);
		if (held) {
			MUST(tpin_count(&a->t.unmaps) == 0);
			MUST(sg_pin_page(held, 0) >= VRAM_PHYS);
			sg_pin_unhold(held);
		}
	}
	pthread_mutex_unlock(&a->client_lock);
	if (err) {
		MUST(err == -EINVAL || err == -ENOSPC);
		return;
	}
	if (rnd_u64(state) % 2)
		sched_yield();
	err = sg_pin_put(m.sg, &a->t.pin, persistent);
	__atomic_store_n(&a->put_returned, 1, __ATOMIC_SEQ_CST);
	MUST(!__atomic_load_n(&a->in_callback, __ATOMIC_SEQ_CST));
	MUST(err == 0 || (err == -ENOENT && !persistent));
	MUST(tpin_count(&a->t.callbacks) == (err ? 1 : 0));
	MUST(tpin_count(&a->t.unmaps) == 1);
	/* free() is the last touch and may still be under way after a lost race, so wait for it. */
	while (tpin_count(&a->t.frees) == 0)
		sched_yield();
	MUST(tpin_count(&a->t.frees) == 1);
}

static void use_memory(struct user *u, u64 *state)
{
	u64 i = rnd_u64(state) % SLOTS, va, old;
	char buf[512] = { 0 };

	int err = mem_alloc(u, rnd_u64(state) % 2 ? 3 * PAGE : 700, &va);

	if (err) {
		MUST(err == -ENOSPC);
		return;
	}
	/* Not after it is known to others: a copy into freed memory kills the context. */
	MUST(!copy(u, 0, va, HOST(buf), sizeof(buf), SOFTGPU_OP_SYNC));
	MUST(!copy(u, 0, va, va + 512, 128, 0));
	old = __atomic_exchange_n(&slots[i], va, __ATOMIC_SEQ_CST);
	if (old)
		mem_free(u, old);
}

/* A context of its own, made, used and destroyed while others pin in the same process. */
static void short_context(u64 *state)
{
	u64 va, other = __atomic_load_n(&slots[rnd_u64(state) % SLOTS], __ATOMIC_SEQ_CST);
	struct user u;

	user_up(&u, &m, 0, &key);
	if (!mem_alloc(&u, 2 * PAGE, &va)) {
		__atomic_store_n(&slots[SLOTS + rnd_u64(state) % SLOTS], va, __ATOMIC_SEQ_CST);
		/*
		 * From memory that may go away under the copy: then it faults, and nothing else
		 * happens.  Or another thread has the address anew and writes to it: not to these bytes.
		 */
		copy(&u, 0, va, other + 640, 32, 0);
	}
	user_down(&u);
}

static void *thread(void *arg)
{
	u64 state = test_seed + (u64)(uintptr_t)arg, i;
	struct apin *a = calloc(1, sizeof(*a));

	MUST(a);
	pthread_mutex_init(&a->client_lock, NULL);
	for (i = 0; i < rounds; i++) {
		switch (rnd_u64(&state) % 16) {
		case 0 ... 9: pin_once(a, &state); break;
		case 10 ... 14: use_memory(&shared, &state); break;
		default: short_context(&state); break;
		}
	}
	pthread_mutex_destroy(&a->client_lock);
	free(a);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	u64 i;

	rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 3000;
	test_seed = argc > 2 ? strtoull(argv[2], NULL, 0) : sg_now_ns();
	machine_up(&m, 1, 64 * PAGE, 16 * PAGE, 0);
	user_up(&shared, &m, 0, &key);
	for (i = 0; i < THREADS; i++)
		MUST(!pthread_create(&t[i], NULL, thread, (void *)(uintptr_t)i));
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	user_down(&shared);
	machine_down(&m);
	printf("races: %d threads, %llu rounds each, seed %llu\n", THREADS, rounds, test_seed);
	return 0;
}
