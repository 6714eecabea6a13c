// SPDX-License-Identifier: MIT
/* fetch.c - copies and words whose host memory has to be brought in first, which may take for ever. */
#include "../cases.h"
#include "util.h"

#include <sched.h>

#include "clients/clients.h"

#define STREAMS	6	/* more than there are engines */
#define LENGTH	((1 << 20) + 4096)	/* more than one piece */

static struct machine m;
static struct user slow, other;
static int slow_key, other_key;
static u8 memory[LENGTH] __attribute__((aligned(4096))), result[64];

/* ---- a process whose memory comes when the test says so ---- */

static struct {
	bool there;		/* atomic, as all here */
	int refusal;		/* of fetch */
	int fetches;
	struct sg_fetch *under_way;
} pages;

static int copy_if_there(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	if (!__atomic_load_n(&pages.there, __ATOMIC_SEQ_CST))
		return -EAGAIN;
	return user_host_ops.copy(cookie, local, addr, len, to_process);
}

static int fetch(void *cookie, struct sg_fetch *f)
{
	__atomic_add_fetch(&pages.fetches, 1, __ATOMIC_SEQ_CST);
	if (pages.refusal)
		return pages.refusal;
	MUST(!__atomic_exchange_n(&pages.under_way, f, __ATOMIC_SEQ_CST));
	return 0;
}

static const struct sg_host_ops slow_ops = { .copy = copy_if_there, .fetch = fetch };

static struct sg_fetch *until_fetched(void)
{
	struct sg_fetch *f;

	while (!(f = __atomic_exchange_n(&pages.under_way, NULL, __ATOMIC_SEQ_CST)))
		sched_yield();
	return f;
}

static void come(bool there)
{
	__atomic_store_n(&pages.there, there, __ATOMIC_SEQ_CST);
}

static int setup(void **state)
{
	memset(&pages, 0, sizeof(pages));
	machine_up(&m, 1, 256 * PAGE, 64 * PAGE, 0);
	user_up(&slow, &m, 0, &slow_key);
	user_up(&other, &m, 0, &other_key);
	slow.client->ops = &slow_ops;
	return 0;
}

static int teardown(void **state)
{
	user_down(&slow);
	user_down(&other);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

/* ---- tests ---- */

static u32 engines_inside(void)
{
	u32 n;

	sg_mutex_lock(&m.sg->lock);
	n = m.sg->gpus[0]->entered;
	sg_mutex_unlock(&m.sg->lock);
	return n;
}

/* Another process's copies end, and the VRAM of the copy that waits can be moved. */
static void others_go_on(void)
{
	u64 va = mem_new(&other, PAGE);

	assert_int_equal(copy(&other, 0, va, HOST(memory), 64, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(copy(&other, 0, HOST(result), va, 64, SOFTGPU_OP_SYNC), 0);
	assert_memory_equal(result, memory, 64);
	assert_int_equal(mem_free(&other, va), 0);
	/* An engine looks at the other jobs that wait, and leaves again. */
	while (engines_inside())
		sched_yield();
}

CASE(waits_alone)
{
	u32 streams[STREAMS];
	u64 va;
	int i;

	memset(memory, 0x5a, LENGTH);
	assert_int_equal(mem_alloc(&slow, STREAMS * LENGTH, &va), 0);
	for (i = 0; i < STREAMS; i++) {
		streams[i] = stream_new(&slow);
		assert_int_equal(copy(&slow, streams[i], va + (u64)i * LENGTH, HOST(memory), LENGTH, 0), 0);
	}
	for (i = 0; i < STREAMS; i++) {
		struct sg_fetch *f = until_fetched();

		assert_false(f->write);
		assert_int_equal(f->va, HOST(memory));
		others_go_on();
		come(i == STREAMS - 1);
		/* All but the last find that it is gone again, and queue up behind the others. */
		assert_true(sg_fetched(f, 0));
	}
	come(true);
	for (i = 0; i < STREAMS; i++) {
		while (stream_query(&slow, streams[i]) == -EAGAIN) {
			struct sg_fetch *f = __atomic_exchange_n(&pages.under_way, NULL, __ATOMIC_SEQ_CST);

			if (f)
				assert_true(sg_fetched(f, 0));
			sched_yield();
		}
		assert_int_equal(stream_sync(&slow, streams[i]), 0);
	}
	memset(memory, 0, LENGTH);
	assert_int_equal(copy(&slow, 0, HOST(memory), va + (STREAMS - 1) * (u64)LENGTH, LENGTH, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(memory[0], 0x5a);
	assert_int_equal(memory[LENGTH - 1], 0x5a);
}

/* What is behind it in the stream waits, and nothing else. */
CASE(keeps_the_order)
{
	struct sg_fetch *f;
	u32 first = stream_new(&slow), second = stream_new(&slow);
	u64 va = mem_new(&slow, PAGE);

	memset(memory, 1, 64);
	assert_int_equal(copy(&slow, first, va, HOST(memory), 64, 0), 0);
	f = until_fetched();
	assert_int_equal(fill(&slow, first, va, 32, 2, 0), 0);
	assert_int_equal(fill(&slow, second, va + 512, 64, 3, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(stream_query(&slow, first), -EAGAIN);
	come(true);
	assert_true(sg_fetched(f, 0));
	assert_int_equal(stream_sync(&slow, first), 0);
	assert_int_equal(copy(&slow, 0, HOST(result), va, 64, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(result[0], 2);
	assert_int_equal(result[63], 1);
}

CASE(into_the_process)
{
	struct sg_fetch *f;
	u64 va;

	memset(memory, 0, 64);
	assert_int_equal(mem_alloc(&slow, PAGE, &va), 0);
	assert_int_equal(fill(&slow, 0, va, 64, 7, 0), 0);
	assert_int_equal(copy(&slow, 0, HOST(memory), va, 64, 0), 0);
	f = until_fetched();
	assert_true(f->write);
	assert_int_equal(f->len, 64);
	come(true);
	assert_true(sg_fetched(f, 0));
	assert_int_equal(stream_sync(&slow, 0), 0);
	assert_int_equal(memory[63], 7);
}

/* A word that a stream waits for: the watcher serves all processes. */
CASE(words)
{
	struct softgpu_value v = { .ctx = slow.ctx, .op = SOFTGPU_VALUE_EQ, .value = 5, .width = 8, .va = HOST(memory) };
	struct softgpu_stream s = { .ctx = other.ctx };
	struct softgpu_value theirs = v;
	struct sg_fetch *f;

	*(u64 *)(void *)memory = 0;
	*(u64 *)(void *)result = 5;
	theirs.ctx = other.ctx;
	theirs.va = HOST(result);
	assert_int_equal(enlist(&slow, SOFTGPU_KIND_REGISTERED, HOST(memory), 64), 0);
	assert_int_equal(enlist(&other, SOFTGPU_KIND_REGISTERED, HOST(result), 64), 0);
	assert_int_equal(CALL(slow.client, SOFTGPU_VALUE, &v), 0);
	f = until_fetched();
	assert_int_equal(CALL(other.client, SOFTGPU_VALUE, &theirs), 0);
	assert_int_equal(CALL(other.client, SOFTGPU_STREAM_SYNC, &s), 0);
	come(true);
	assert_true(sg_fetched(f, 0));
	assert_int_equal(stream_query(&slow, 0), -EAGAIN);
	__atomic_store_n((u64 *)(void *)memory, 5, __ATOMIC_SEQ_CST);
	assert_int_equal(stream_sync(&slow, 0), 0);

	/* And one that a stream writes. */
	come(false);
	v.op = SOFTGPU_VALUE_WRITE;
	v.value = 9;
	assert_int_equal(CALL(slow.client, SOFTGPU_VALUE, &v), 0);
	f = until_fetched();
	assert_true(f->write);
	come(true);
	assert_true(sg_fetched(f, 0));
	assert_int_equal(stream_sync(&slow, 0), 0);
	assert_int_equal(*(u64 *)(void *)memory, 9);
	assert_int_equal(discharge(&slow, HOST(memory)), 0);
	assert_int_equal(discharge(&other, HOST(result)), 0);
}

CASE(cannot_be_fetched)
{
	u64 va = mem_new(&slow, PAGE);

	assert_int_equal(copy(&slow, 0, va, HOST(memory), 64, 0), 0);
	assert_true(sg_fetched(until_fetched(), -EFAULT));
	assert_int_equal(stream_sync(&slow, 0), -EIO);
}

CASE(fetches_are_refused)
{
	u32 streams[STREAMS];
	u64 va;
	int i;

	pages.refusal = -ENOMEM;
	assert_int_equal(mem_alloc(&slow, PAGE, &va), 0);
	for (i = 0; i < STREAMS; i++)
		streams[i] = stream_new(&slow);
	for (i = 0; i < STREAMS; i++)
		copy(&slow, streams[i], va, HOST(memory), 64, 0);
	assert_int_equal(stream_sync(&slow, streams[0]), -EIO);
}

/* It comes, and is gone when an engine looks, each time. */
CASE(is_never_there)
{
	struct sg_fetch *f;
	u64 va = mem_new(&slow, PAGE);

	assert_int_equal(copy(&slow, 0, va, HOST(memory), 64, 0), 0);
	while (CALL(slow.client, SOFTGPU_STREAM_QUERY, &(struct softgpu_stream){ .ctx = slow.ctx }) == -EAGAIN) {
		f = __atomic_exchange_n(&pages.under_way, NULL, __ATOMIC_SEQ_CST);
		if (f)
			assert_true(sg_fetched(f, 0));
		sched_yield();
	}
	assert_int_equal(stream_sync(&slow, 0), -EIO);
	assert_int_equal(pages.fetches, 100);
}

/* The context, the client and the GPU go at once. */
CASE(ends_meanwhile)
{
	struct sg_fetch *f, *second;
	struct softgpu_ctx_create c = { 0 };
	u64 va = mem_new(&slow, PAGE);

	assert_int_equal(copy(&slow, 0, va, HOST(memory), 64, 0), 0);
	f = until_fetched();
	assert_int_equal(CALL(slow.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = slow.ctx })), 0);
	/* The next context's work waits behind it. */
	assert_int_equal(CALL(slow.client, SOFTGPU_CTX_CREATE, &c), 0);
	slow.ctx = c.ctx;
	assert_int_equal(mem_alloc(&slow, PAGE, &va), 0);
	assert_int_equal(copy(&slow, 0, va, HOST(memory), 64, 0), 0);
	assert_true(sg_fetched(f, 0));
	second = until_fetched();
	assert_true(sg_client_close(slow.client));
	slow.client = NULL;
	assert_false(sg_fetched(second, 0));
}

CASE(the_gpu_goes)
{
	struct sg_fetch *f;
	u64 va = mem_new(&slow, PAGE);

	assert_int_equal(copy(&slow, 0, va, HOST(memory), 64, 0), 0);
	f = until_fetched();
	sg_gpu_remove(m.sg, 0);
	assert_true(sg_fetched(f, 0));
	assert_false(sg_client_close(slow.client));
	slow.client = NULL;
}

MAIN(NULL, NULL)
