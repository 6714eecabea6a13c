// SPDX-License-Identifier: MIT
/* values.c - words that streams write and wait for: what is refused, what ends a wait, strict mode. */
#include "../cases.h"
#include "util.h"

#include <pthread.h>
#include <sched.h>
#include "clients/clients.h"

static struct machine m;
static struct user u, other;
static int key;
static u64 flag;
static u64 host[64];

static int setup(void **state)
{
	machine_up(&m, 2, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	user_up(&other, &m, 1, &key);
	memset(host, 0, sizeof(host));
	MUST(!mem_alloc(&u, PAGE, &flag));
	MUST(!fill(&u, 0, flag, PAGE, 0, SOFTGPU_OP_SYNC));
	MUST(!enlist(&u, SOFTGPU_KIND_REGISTERED, HOST(host), sizeof(host)));
	return 0;
}

static int teardown(void **state)
{
	user_down(&u);
	user_down(&other);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

static int value_on(struct user *who, u32 stream, u32 op, u64 va, u64 value, u32 width)
{
	struct softgpu_value v = { .ctx = who->ctx, .stream = stream, .op = op, .va = va, .value = value, .width = width };

	return CALL(who->client, SOFTGPU_VALUE, &v);
}

static int value(u32 op, u64 va, u64 word, u32 width)
{
	return value_on(&u, 0, op, va, word, width);
}

static u64 u64_at(u64 va)
{
	u64 word = ~0ull;

	MUST(!copy(&u, stream_new(&u), HOST(&word), va, 8, SOFTGPU_OP_SYNC));
	return word;
}

CASE(refused)
{
	u64 far, managed = HOST(&host[32]);

	assert_int_equal(value(SOFTGPU_VALUE_NOR + 1, flag, 0, 8), -EINVAL);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, flag, 0, 2), -EINVAL);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, flag, 0, 0), -EINVAL);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, flag + 4, 0, 8), -EINVAL);
	assert_int_equal(value(SOFTGPU_VALUE_EQ, flag + 2, 0, 4), -EINVAL);
	/* another GPU's; nothing; what no GPU knows; beyond the end; what is no host memory of theirs */
	assert_int_equal(mem_alloc(&other, PAGE, &far), 0);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, far, 1, 8), -EFAULT);
	assert_int_equal(value(SOFTGPU_VALUE_EQ, far, 1, 8), -EFAULT);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, WINDOW_BASE + WINDOW_LEN - PAGE, 1, 8), -EFAULT);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, HOST(&m) & ~7ull, 1, 8), -EFAULT);
	assert_int_equal(discharge(&u, HOST(host)), 0);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, managed, 1, 8), -EFAULT);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_REGISTERED, HOST(host), 12), 0);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, HOST(&host[1]), 1, 8), -EFAULT);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, HOST(&host[1]), 1, 4), 0);
	assert_int_equal(stream_sync(&u, 0), 0);
	assert_true(host[1] == 1);
}

/* Two contexts on two GPUs by turns, on one word of the host. */
CASE(turns)
{
	u32 a = stream_new(&u), b = stream_new(&other);
	u64 i;

	for (i = 1; i < 100; i += 2) {
		MUST(!value_on(&u, a, SOFTGPU_VALUE_WRITE, HOST(host), i, 8));
		MUST(!value_on(&u, a, SOFTGPU_VALUE_GEQ, HOST(host), i + 1, 8));
		MUST(!value_on(&other, b, SOFTGPU_VALUE_EQ, HOST(host), i, 8));
		MUST(!value_on(&other, b, SOFTGPU_VALUE_WRITE, HOST(host), i + 1, 8));
	}
	assert_int_equal(stream_sync(&u, a), 0);
	assert_int_equal(stream_sync(&other, b), 0);
	assert_true(host[0] == 100);
}

static void until_it_waits(u32 stream)
{
	int i;

	for (i = 0; i < 100; i++) {
		assert_int_equal(stream_query(&u, stream), -EAGAIN);
		sched_yield();
	}
}

/* A context goes while its streams wait, at the front and behind: no thread hangs, and nothing of it is done. */
CASE(context_goes)
{
	u32 s = stream_new(&u);

	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_EQ, HOST(host), 1, 8), 0);
	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_WRITE, HOST(&host[1]), 7, 8), 0);
	assert_int_equal(value(SOFTGPU_VALUE_AND, flag, 1, 4), 0);
	until_it_waits(s);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = u.ctx })), 0);
	assert_true(!host[1]);
}

CASE(client_goes)
{
	u32 s = stream_new(&u);

	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_EQ, flag, 1, 8), 0);
	assert_int_equal(value(SOFTGPU_VALUE_NOR, HOST(host), ~0ull, 8), 0);
	until_it_waits(s);
	user_down(&u);
	user_up(&u, &m, 0, &key);
}

CASE(gpu_goes)
{
	assert_int_equal(value(SOFTGPU_VALUE_EQ, HOST(host), 1, 8), 0);
	until_it_waits(0);
	sg_gpu_remove(m.sg, 0);
	assert_int_equal(stream_sync(&u, 0), -ENODEV);
}

static int watch(u32 stream, u64 va, u64 result)
{
	struct softgpu_watch w = { .ctx = u.ctx, .stream = stream, .va = va, .result = result, .timeout_ms = 1 };

	return CALL(u.client, SOFTGPU_WATCH, &w);
}

static void *discharge_it(void *arg)
{
	return (void *)(intptr_t)discharge(&u, HOST(host));
}

/* Until a call waits to free it. */
static void until_leaving(u64 va)
{
	const struct sg_buf *buf;
	bool leaving = false;

	while (!leaving) {
		sched_yield();
		sg_mutex_lock(&m.sg->lock);
		buf = sg_buf_at(u.client->proc, va);
		leaving = buf && buf->freeing;
		sg_mutex_unlock(&m.sg->lock);
	}
}

static u64 freed;

static void *free_it(void *arg)
{
	return (void *)(intptr_t)mem_free(&u, freed);
}

/*
 * A free waits for what is queued.  What comes meanwhile is refused, as after the free: it would find the memory gone, and
 * the context would be dead.
 */
CASE(memory_goes)
{
	u32 waiting = stream_new(&u), s = stream_new(&u);
	pthread_t thread;
	void *ret;

	assert_int_equal(mem_alloc(&u, PAGE, &freed), 0);
	assert_int_equal(value_on(&u, waiting, SOFTGPU_VALUE_EQ, HOST(host), 1, 8), 0);
	assert_int_equal(pthread_create(&thread, NULL, free_it, NULL), 0);
	until_leaving(freed);
	assert_int_equal(copy(&u, s, freed, flag, 8, 0), -EFAULT);
	assert_int_equal(copy(&u, s, flag, freed, 8, 0), -EFAULT);
	assert_int_equal(fill(&u, s, freed, 8, 0, 0), -EFAULT);
	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_EQ, freed, 1, 8), -EFAULT);
	assert_int_equal(watch(s, freed, flag), -EFAULT);
	assert_int_equal(watch(s, flag, freed), -EFAULT);
	assert_int_equal(copy(&u, s, flag, HOST(&host[1]), 8, 0), 0);
	__atomic_store_n(&host[0], 1, __ATOMIC_RELEASE);
	pthread_join(thread, &ret);
	assert_null(ret);
	assert_int_equal(stream_sync(&u, s), 0);
	assert_int_equal(stream_sync(&u, waiting), 0);
}

/* A write to it may be what the free waits for; and one that has its turn later finds the memory there. */
CASE(memory_goes_with_its_word)
{
	u32 waiting = stream_new(&u), s = stream_new(&u);
	pthread_t thread;
	void *ret;

	host[0] = 0;
	assert_int_equal(mem_alloc(&u, PAGE, &freed), 0);
	assert_int_equal(fill(&u, 0, freed, PAGE, 0, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(value_on(&u, waiting, SOFTGPU_VALUE_EQ, freed, 1, 8), 0);
	assert_int_equal(pthread_create(&thread, NULL, free_it, NULL), 0);
	until_leaving(freed);
	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_EQ, HOST(host), 1, 8), 0);
	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_WRITE, freed + 8, 1, 8), 0);
	assert_int_equal(value_on(&u, stream_new(&u), SOFTGPU_VALUE_WRITE, freed, 1, 8), 0);
	assert_int_equal(stream_sync(&u, waiting), 0);
	__atomic_store_n(&host[0], 1, __ATOMIC_RELEASE);
	pthread_join(thread, &ret);
	assert_null(ret);
	assert_int_equal(stream_sync(&u, s), 0);
}

/* While a free waits, its memory goes with the context, and another's comes to its address: that is not freed. */
CASE(anothers_memory_comes)
{
	unsigned int i;

	host[0] = 0;
	for (i = 0; i < 100; i++) {
		struct softgpu_ctx_create second = { 0 };
		struct user owner = { .client = u.client };
		pthread_t thread;
		u64 came;
		void *ret;

		assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &second), 0);
		owner.ctx = second.ctx;
		assert_int_equal(mem_alloc(&owner, PAGE, &freed), 0);
		assert_int_equal(value_on(&owner, 0, SOFTGPU_VALUE_EQ, HOST(host), 1, 8), 0);
		assert_int_equal(pthread_create(&thread, NULL, free_it, NULL), 0);
		until_leaving(freed);
		assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, &(struct softgpu_handle){ .handle = second.ctx }), 0);
		assert_int_equal(mem_alloc(&u, PAGE, &came), 0);
		pthread_join(thread, &ret);
		assert_true(!ret || (intptr_t)ret == -ENOENT);
		assert_int_equal(mem_free(&u, came), 0);
	}
}

/* What a program registered stays its memory: copies to it go on while that ends. */
CASE(registration_goes)
{
	u32 waiting = stream_new(&u), s = stream_new(&u);
	pthread_t thread;
	void *ret;

	assert_int_equal(value_on(&u, waiting, SOFTGPU_VALUE_EQ, flag, 1, 8), 0);
	assert_int_equal(pthread_create(&thread, NULL, discharge_it, NULL), 0);
	until_leaving(HOST(host));
	assert_int_equal(copy(&u, s, HOST(host), flag, 8, 0), 0);
	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_WRITE, flag, 1, 8), 0);
	pthread_join(thread, &ret);
	assert_null(ret);
	assert_int_equal(stream_sync(&u, s), 0);
}

/* The word goes: the context is dead, as after a copy that faults. */
CASE(word_goes)
{
	struct softgpu_mem_alloc pool = { .length = PAGE };
	struct softgpu_ctx_create second = { 0 };
	struct softgpu_event_create made = { 0 };
	struct softgpu_event e = { 0 };

	assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &second), 0);
	made.ctx = second.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &made), 0);
	e.ctx = second.ctx;
	e.event = made.event;
	/* the word belongs to no context: what frees it does not wait for this one */
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_ALLOC, &pool), 0);
	assert_int_equal(value_on(&(struct user){ .client = u.client, .ctx = second.ctx }, 0, SOFTGPU_VALUE_EQ, pool.va, 1, 8), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	assert_int_equal(mem_free(&u, pool.va), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_SYNC, &(struct softgpu_handle){ .handle = second.ctx }), -EIO);
	/* what was to come before the event did not */
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_SYNC, &e), -EIO);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_QUERY, &e), -EIO);
	/* an address in the zero page faults in this process, whatever is said of it */
	assert_int_equal(enlist(&u, SOFTGPU_KIND_REGISTERED, 64, 64), 0);
	assert_int_equal(value(SOFTGPU_VALUE_EQ, 64, 1, 8), 0);
	assert_int_equal(stream_sync(&u, 0), -EIO);
	assert_int_equal(value_on(&other, 0, SOFTGPU_VALUE_WRITE, 64, 1, 4), 0);
	assert_int_equal(stream_sync(&other, 0), -EIO);
}

/* A device's write through the aperture is what a stream waits for. */
CASE(device_writes)
{
	u32 s = stream_new(&u);

	assert_int_equal(value_on(&u, s, SOFTGPU_VALUE_GEQ, flag, 7, 4), 0);
	until_it_waits(s);
	dma_write(&m, &u, flag, 7);
	assert_int_equal(stream_sync(&u, s), 0);
}

/* What was held back goes before a write, which others look for without a call; not before a wait. */
CASE(strict)
{
	u64 second = mem_new(&u, PAGE);

	CHAOS(&m, .strict = true);
	assert_int_equal(fill(&u, 0, second, PAGE, 0x11, 0), 0);
	assert_int_equal(value(SOFTGPU_VALUE_EQ, HOST(host), 1, 8), 0);
	__atomic_store_n(&host[0], 1, __ATOMIC_RELEASE);
	assert_true(u64_at(second) == 0);
	assert_int_equal(value(SOFTGPU_VALUE_WRITE, HOST(&host[1]), 1, 8), 0);
	while (!__atomic_load_n(&host[1], __ATOMIC_ACQUIRE))
		sched_yield();
	assert_true(u64_at(second) == 0x1111111111111111);
}

/* A stream that waits: what writes its word is not held back, nor what is before that; the rest is. */
CASE(strict_awaited)
{
	u32 a = stream_new(&u), b = stream_new(&u), i;
	u64 second = mem_new(&u, PAGE), third, to = flag + 8, ms;

	assert_int_equal(mem_alloc(&u, PAGE, &third), 0);
	CHAOS(&m, .strict = true);
	for (i = 0; i < 4; i++) {
		/* the wait first, or what writes its word; by a fill, which may be held, or from the host */
		bool wait_first = i & 1;
		u64 word = 0x0101010101010101ull * (i + 1);

		assert_int_equal(fill(&u, a, second, PAGE, (u32)i + 1, 0), 0);
		if (wait_first)
			assert_int_equal(value_on(&u, b, SOFTGPU_VALUE_EQ, to, word, 8), 0);
		if (i & 2)
			assert_int_equal(fill(&u, a, flag, PAGE, (u32)i + 1, 0), 0);
		else
			assert_int_equal(copy(&u, a, to, HOST(&word), 8, 0), 0);
		assert_int_equal(fill(&u, a, third, PAGE, (u32)i + 1, 0), 0);
		if (!wait_first)
			assert_int_equal(value_on(&u, b, SOFTGPU_VALUE_EQ, to, word, 8), 0);
		for (ms = 0; ms < 5000 && stream_query(&u, b); ms++)
			sg_sleep_ms(1);
		assert_true(ms < 5000 && u64_at(second) == word && u64_at(third) != word);
		assert_int_equal(stream_sync(&u, a), 0);
		assert_true(u64_at(third) == word);
	}
}

MAIN(NULL, NULL)
