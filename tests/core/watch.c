// SPDX-License-Identifier: MIT
/* watch.c - a kernel's stand-in: what it sees of other writers, in strict mode and without. */
#include "world.h"

#include <sched.h>

static u64 flag, result;

static int setup(void **state)
{
	machine_up(&m, 2, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	MUST(!mem_alloc(&u, PAGE, &flag));
	MUST(!mem_alloc(&u, PAGE, &result));
	return 0;
}

FIXTURE(setup, teardown)

static int watch_of(u32 stream, u64 va, u64 to, u32 ms)
{
	struct softgpu_watch w = { .ctx = u.ctx, .stream = stream, .va = va, .result = to, .expected = 7,
				   .timeout_ms = ms };

	return CALL(u.client, SOFTGPU_WATCH, &w);
}

static void launch(u32 stream, u32 ms)
{
	assert_int_equal(watch_of(stream, flag, result, ms), 0);
}

static u32 seen(u32 stream)
{
	u32 word = 0xdead;

	assert_int_equal(stream_sync(&u, stream), 0);
	assert_int_equal(copy(&u, 0, HOST(&word), result, 4, SOFTGPU_OP_SYNC), 0);
	return word;
}

CASE(plain)
{
	launch(0, 20);
	assert_int_equal(seen(0), 0);
	launch(0, 10000);
	dma_write(&m, &u, flag, 7);
	assert_int_equal(seen(0), 7);
	/* It is there already. */
	launch(0, 10000);
	assert_int_equal(seen(0), 7);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 0);
}

CASE(strict_snapshot)
{
	CHAOS(&m, .strict = true);
	launch(0, 2000);	/* long enough for the write to come meanwhile */
	dma_write(&m, &u, flag, 7);
	assert_int_equal(seen(0), 0);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 1);
	/* Launched after: seen. */
	launch(0, 10000);
	assert_int_equal(seen(0), 7);
	/* Nothing came: no rule is broken by waiting in vain. */
	dma_write(&m, &u, flag, 6);
	launch(0, 20);
	assert_int_equal(seen(0), 6);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 1);
}

CASE(strict_flush)
{
	struct softgpu_handle h = { .handle = u.ctx }, wrong = { .handle = 12345 };

	CHAOS(&m, .strict = true);
	launch(0, 10000);
	dma_write(&m, &u, flag, 7);
	assert_int_equal(CALL(u.client, SOFTGPU_FLUSH, &h), 0);
	assert_int_equal(seen(0), 7);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_FLUSH, &wrong), -ENOENT);
}

/* What the GPU's own engines write is seen at once, and a watch leaves them free. */
CASE(strict_engines)
{
	u32 word = 7, streams[4];
	int i;

	CHAOS(&m, .strict = true);
	for (i = 0; i < 4; i++) {
		streams[i] = stream_new(&u);
		launch(streams[i], 10000);
	}
	streams[0] = streams[3];
	assert_int_equal(copy(&u, stream_new(&u), flag, HOST(&word), 4, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(seen(streams[3]), 7);
	/* Earlier work of the stream is seen, whether or not the stream was idle. */
	assert_int_equal(fill(&u, streams[3], flag, 4, 0, 0), 0);
	assert_int_equal(fill(&u, streams[3], flag, 1, 7, 0), 0);
	launch(streams[3], 10000);
	assert_int_equal(seen(streams[3]), 7);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 0);
}

CASE(bad_arguments)
{
	struct softgpu_watch w = { .ctx = u.ctx, .va = flag, .result = result, .timeout_ms = 1 };
	int other_key;
	struct user v;
	u64 there;

	assert_int_equal(watch_of(0, flag + 1, result, 1), -EINVAL);
	assert_int_equal(watch_of(0, flag, result + 2, 1), -EINVAL);
	assert_int_equal(watch_of(0, flag, result, 0), -EINVAL);
	assert_int_equal(watch_of(0, flag, result, 60001), -EINVAL);
	assert_int_equal(watch_of(0, WINDOW_BASE + WINDOW_LEN - PAGE, result, 1), -EFAULT);
	assert_int_equal(watch_of(0, flag, 4096, 1), -EFAULT);
	assert_int_equal(watch_of(777, flag, result, 1), -ENOENT);
	w.flags = 1;
	assert_int_equal(CALL(u.client, SOFTGPU_WATCH, &w), -EINVAL);
	/* Memory of another GPU, and of another process. */
	user_up(&v, &m, 1, &key);
	assert_int_equal(mem_alloc(&v, PAGE, &there), 0);
	assert_int_equal(watch_of(0, there, result, 1), -EFAULT);
	user_down(&v);
	user_up(&v, &m, 0, &other_key);
	for (int i = 0; i < 3; i++)
		assert_int_equal(mem_alloc(&v, PAGE, &there), 0);
	assert_int_equal(watch_of(0, there, result, 1), -EFAULT);
	user_down(&v);
}

/* A watch ends with its context, with its GPU, and when the memory goes from under it. */
CASE(ends)
{
	struct softgpu_handle h = { .handle = u.ctx };
	struct softgpu_phys_create p = { .length = PAGE };
	struct softgpu_va_reserve r = { .length = PAGE };
	struct softgpu_map map = { 0 };
	struct softgpu_va_range range = { 0 };
	u64 a;

	/* Freeing waits for the stream's work, so it lasts as long as the watch. */
	assert_int_equal(mem_alloc(&u, PAGE, &a), 0);
	assert_int_equal(watch_of(0, a, result, 50), 0);
	assert_int_equal(mem_free(&u, a), 0);
	assert_int_equal(seen(0), 0);
	/* Without read access it faults, as a kernel would. */
	assert_int_equal(CALL(u.client, SOFTGPU_PHYS_CREATE, &p), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &r), 0);
	map.handle = p.handle;
	map.va = range.va = r.va;
	map.length = range.length = PAGE;
	assert_int_equal(CALL(u.client, SOFTGPU_MAP, &map), 0);
	range.access = 3;
	assert_int_equal(CALL(u.client, SOFTGPU_ACCESS, &range), 0);
	assert_int_equal(watch_of(0, r.va, result, 60000), 0);
	range.access = 0;
	assert_int_equal(CALL(u.client, SOFTGPU_ACCESS, &range), 0);
	assert_int_equal(stream_sync(&u, 0), -EIO);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, &h), 0);

	user_down(&u);
	user_up(&u, &m, 0, &key);
	assert_int_equal(mem_alloc(&u, PAGE, &flag), 0);
	assert_int_equal(watch_of(0, flag, flag + 4, 60000), 0);
	h.handle = u.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, &h), 0);
	user_down(&u);
	user_up(&u, &m, 0, &key);
	assert_int_equal(mem_alloc(&u, PAGE, &flag), 0);
	assert_int_equal(watch_of(0, flag, flag + 4, 60000), 0);
	assert_int_equal(watch_of(stream_new(&u), flag, flag + 4, 60000), 0);
	sg_gpu_remove(m.sg, 0);
}

/* ---- copies that are held ---- */

/* A copy that was queued before its source was written gets neither the old data nor the new. */
CASE(strict_copy)
{
	u32 words[4], i, torn;
	u64 to;

	CHAOS(&m, .strict = true);
	assert_int_equal(mem_alloc(&u, PAGE, &to), 0);
	assert_int_equal(copy(&u, 0, to, flag, 16, 0), 0);
	dma_write(&m, &u, flag, 0x01020304);
	assert_int_equal(copy(&u, 0, HOST(words), to, 16, SOFTGPU_OP_SYNC), 0);
	torn = words[0];
	assert_true(torn != 0 && torn != 0x01020304);
	for (i = 1; i < 4; i++)
		assert_int_equal(words[i], 0);
	/* The pin found the copy that was held, and then what it read had changed. */
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_SYNC_MEMOPS), 1);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 1);
	/* Queued after: whole. */
	assert_int_equal(copy(&u, 0, to, flag, 16, 0), 0);
	assert_int_equal(copy(&u, 0, HOST(words), to, 16, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(words[0], 0x01020304);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 1);
}

/* What the program itself has queued before it is no device's doing. */
CASE(strict_chain)
{
	u32 words[4] = { 1, 2, 3, 4 };
	u64 a, b;

	CHAOS(&m, .strict = true);
	assert_int_equal(mem_alloc(&u, PAGE, &a), 0);
	assert_int_equal(mem_alloc(&u, 4 * PAGE, &b), 0);
	assert_int_equal(fill(&u, 0, a, PAGE, 0x55, 0), 0);
	assert_int_equal(copy(&u, 0, b, a, PAGE, 0), 0);
	assert_int_equal(copy(&u, 0, b + PAGE, b, PAGE, 0), 0);
	assert_int_equal(copy(&u, 0, HOST(words), b + 2 * PAGE - 16, 16, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(words[0], 0x55555555);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_SYNC_MEMOPS), 0);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_LAUNCH_AFTER_DMA), 0);
}

/* Only what a call synchronizes with is let go: another stream's work is still held. */
CASE(strict_streams)
{
	u32 one = stream_new(&u), two = stream_new(&u), i;
	struct softgpu_event_create ec = { .ctx = u.ctx };
	struct softgpu_event e = { .ctx = u.ctx };
	const u8 *byte;
	static struct tpin t;

	assert_int_equal(tpin_get(&t, &u, flag, PAGE, false), 0);
	byte = m.vram[0] + (sg_pin_page(&t.pin, 0) - VRAM_PHYS);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &ec), 0);
	CHAOS(&m, .strict = true);
	assert_int_equal(fill(&u, one, flag, PAGE, 1, 0), 0);
	assert_int_equal(fill(&u, two, result, PAGE, 1, 0), 0);
	assert_int_equal(fill(&u, 0, result, PAGE, 1, 0), 0);
	e.event = ec.event;
	e.stream = two;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_SYNC, &e), 0);
	assert_int_equal(stream_sync(&u, two), 0);
	assert_int_equal(stream_sync(&u, 0), 0);
	assert_int_equal(seen(two), 0x01010101);
	for (i = 0; i < 100; i++) {
		sched_yield();
		assert_int_equal(*byte, 0);
	}
	assert_int_equal(stream_sync(&u, one), 0);
	assert_int_equal(*byte, 1);
	/* What the synchronized stream waits for goes too, wherever it is. */
	assert_int_equal(fill(&u, one, flag, PAGE, 2, 0), 0);
	e.stream = one;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	e.stream = two;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_WAIT, &e), 0);
	assert_int_equal(fill(&u, two, result, PAGE, 2, 0), 0);
	assert_int_equal(stream_sync(&u, two), 0);
	assert_int_equal(*byte, 2);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
}

MAIN(NULL, NULL)
