// SPDX-License-Identifier: MIT
/* chaos.c - failures and revocations on demand, BAR1 as before CUDA 7, strict mode. */
#include "world.h"

#include <sched.h>

static int setup(void **state)
{
	machine_up(&m, 1, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	return 0;
}

FIXTURE(setup, teardown)

CASE(the_nth_fails)
{
	static struct tpin t[3];
	u64 va = mem_new(&u, 4 * PAGE), other;

	CHAOS(&m, .fail_pin = 2, .fail_alloc = 2, .fail_map = 1);
	assert_int_equal(tpin_get(&t[0], &u, va, PAGE, false), 0);
	assert_int_equal(tpin_get(&t[1], &u, va, PAGE, false), -ENOMEM);
	assert_int_equal(tpin_get(&t[1], &u, va, PAGE, false), 0);
	assert_int_equal(mem_alloc(&u, PAGE, &other), 0);
	assert_int_equal(mem_alloc(&u, PAGE, &other), -ENOSPC);
	assert_int_equal(mem_alloc(&u, PAGE, &other), 0);
	assert_int_equal(sg_chaos_map(m.sg), -ENOMEM);
	assert_int_equal(sg_chaos_map(m.sg), 0);
	/* Bad arguments are no try. */
	CHAOS(&m, .fail_pin = 1);
	assert_int_equal(tpin_get(&t[2], &u, va + 1, PAGE, false), -EINVAL);
	assert_int_equal(tpin_get(&t[2], &u, va, PAGE, false), -ENOMEM);
}

CASE(aperture_shrinks)
{
	static struct tpin t[2];
	u64 va = mem_new(&u, 16 * PAGE);

	assert_int_equal(tpin_get(&t[0], &u, va, 8 * PAGE, false), 0);
	CHAOS(&m, .bar1_limit = 4 * PAGE);
	assert_int_equal(tpin_get(&t[1], &u, va + 8 * PAGE, PAGE, false), -ENOSPC);
	/* What is pinned already costs nothing more. */
	assert_int_equal(tpin_get(&t[1], &u, va, PAGE, false), 0);
	CHAOS(&m, .bar1_limit = 9 * PAGE);
	assert_int_equal(sg_pin_put(m.sg, &t[1].pin, false), 0);
	assert_int_equal(tpin_get(&t[1], &u, va + 8 * PAGE, PAGE, false), 0);
}

CASE(chosen_pin)
{
	static struct tpin t[2] = { 0 }, persistent;
	u64 va = mem_new(&u, 4 * PAGE);

	assert_int_equal(tpin_get(&t[0], &u, va, PAGE, false), 0);
	assert_int_equal(tpin_get(&t[1], &u, va, PAGE, false), 0);
	assert_int_equal(tpin_get(&persistent, &u, va, PAGE, true), 0);
	assert_int_equal(sg_pin_revoke(m.sg, t[0].pin.serial), 0);
	assert_int_equal(t[0].callbacks, 1);
	assert_int_equal(t[0].frees, 1);
	assert_int_equal(t[1].callbacks, 0);
	assert_int_equal(sg_pin_revoke(m.sg, t[0].pin.serial), -ENOENT);
	assert_int_equal(sg_pin_revoke(m.sg, persistent.pin.serial), -ENOENT);
	/* The memory is still there, and can be pinned again. */
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_DEVICE);
	assert_int_equal(tpin_get(&t[0], &u, va, PAGE, false), 0);
	assert_int_equal(sg_pin_put(m.sg, &persistent.pin, true), 0);
}

/* The callback comes later; the freeing thread waits for it. */
CASE(late_callback)
{
	static struct tpin t;
	u64 va = mem_new(&u, PAGE), begun;

	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), 0);
	CHAOS(&m, .callback_delay_ms = 30);
	begun = sg_now_ns();
	assert_int_equal(mem_free(&u, va), 0);
	assert_true(sg_now_ns() - begun >= 30000000);
	assert_int_equal(t.callbacks, 1);
}

CASE(random_pins)
{
	static struct tpin t[64];
	struct sg_gpu_stats st = { 0 };
	int i, revoked = 0;
	u64 va = mem_new(&u, 4 * PAGE);

	CHAOS(&m, .revoke_every = 4, .seed = 42);
	for (i = 0; i < 64; i++)
		assert_int_equal(tpin_get(&t[i], &u, va, PAGE, false), 0);
	/* The engines' threads do it; eight to sixteen of them are due. */
	do {
		sched_yield();
		sg_gpu_stats(m.sg, 0, &st);
	} while (st.revocations < 1);
	CHAOS(&m, 0);
	for (i = 0; i < 64; i++) {
		int err = sg_pin_put(m.sg, &t[i].pin, false);

		assert_true(err == 0 || err == -ENOENT);
		assert_int_equal(tpin_count(&t[i].callbacks), err ? 1 : 0);
		revoked += err != 0;
	}
	assert_in_range(revoked, 1, 16);
}

CASE(before_cuda_7)
{
	struct sg_gpu_desc desc = { .name = "old", .vram_size = 16 * PAGE, .bar1_size = 4 * PAGE,
				    .bar1_per_pin = true, .engines = 1 };
	static struct tpin t[3];
	struct user w;
	u32 index;
	u64 va;

	desc.vram = m.vram[0];	/* not read */
	desc.phys = (u64 (*)(void *, u64))(void *)before_cuda_7;
	assert_int_equal(sg_gpu_add(m.sg, &desc, &index), 0);
	user_up(&w, &m, index, &key);
	assert_int_equal(mem_alloc(&w, 2 * PAGE, &va), 0);
	assert_int_equal(tpin_get(&t[0], &w, va, 2 * PAGE, false), 0);
	assert_int_equal(tpin_get(&t[1], &w, va, 2 * PAGE, false), 0);
	assert_int_equal(tpin_get(&t[2], &w, va, PAGE, false), -ENOSPC);
	assert_int_equal(stats_of(&m, index).bar1_used, 4 * PAGE);
	user_down(&w);
	assert_int_equal(stats_of(&m, index).bar1_used, 0);
	sg_gpu_remove(m.sg, index);
}

/* ---- strict mode ---- */

static u8 *bar1(struct tpin *t)
{
	return m.vram[0] + (sg_pin_page(&t->pin, 0) - VRAM_PHYS);
}

static void set_sync_memops(u64 va)
{
	struct softgpu_set_attr a = { .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .va = va, .value = 1 };

	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, &a), 0);
}

/* Wrong: a device reads BAR1 after an asynchronous copy, on every run stale data. */
CASE(strict_wrong)
{
	static struct tpin t;
	u64 a, b;
	int i;

	CHAOS(&m, .strict = true);
	assert_int_equal(mem_alloc(&u, PAGE, &a), 0);
	assert_int_equal(mem_alloc(&u, PAGE, &b), 0);
	assert_int_equal(fill(&u, 0, a, PAGE, 0x77, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(tpin_get(&t, &u, b, PAGE, false), 0);
	assert_int_equal(copy(&u, 0, b, a, PAGE, 0), 0);
	for (i = 0; i < 1000; i++) {
		sched_yield();
		assert_int_equal(bar1(&t)[0], 0);
	}
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_SYNC_MEMOPS), 1);
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_SYNC, (&(struct softgpu_stream){ .ctx = u.ctx })), 0);
	assert_int_equal(bar1(&t)[0], 0x77);
}

/* Right: with SYNC_MEMOPS the call returns when BAR1 shows its effect, strict or not. */
CASE(strict_right)
{
	static struct tpin t, other;
	u64 a = mem_new(&u, PAGE), b, c;
	u32 i;

	assert_int_equal(mem_alloc(&u, PAGE, &b), 0);
	set_sync_memops(b);
	assert_int_equal(tpin_get(&t, &u, b, PAGE, false), 0);
	assert_int_equal(mem_alloc(&u, PAGE, &c), 0);
	assert_int_equal(tpin_get(&other, &u, c, PAGE, false), 0);
	for (i = 1; i < 100; i++) {
		CHAOS(&m, .strict = i % 2);
		assert_int_equal(fill(&u, 0, a, PAGE, i, SOFTGPU_OP_SYNC), 0);
		assert_int_equal(copy(&u, 0, b, a, PAGE, 0), 0);
		assert_int_equal(bar1(&t)[PAGE - 1], i);
		assert_int_equal(fill(&u, 0, b, PAGE, i ^ 0xff, 0), 0);
		assert_int_equal(bar1(&t)[PAGE - 1], i ^ 0xff);
		/* It is enough that the source has it. */
		assert_int_equal(copy(&u, 0, c, b, PAGE, 0), 0);
		assert_int_equal(bar1(&other)[PAGE - 1], i ^ 0xff);
	}
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_SYNC_MEMOPS), 0);
}

/* Everything that synchronizes lets held work go, and nothing waits for ever. */
CASE(strict_ends)
{
	struct softgpu_event_create ec = { .ctx = u.ctx };
	struct softgpu_stream s = { .ctx = u.ctx };
	struct softgpu_handle h = { .handle = u.ctx };
	struct softgpu_event e = { .ctx = u.ctx };
	u8 out[16];
	u64 a;
	int err;

	CHAOS(&m, .strict = true);
	assert_int_equal(mem_alloc(&u, PAGE, &a), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &ec), 0);
	e.event = ec.event;
	assert_int_equal(fill(&u, 0, a, PAGE, 1, 0), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_SYNC, &h), 0);
	assert_int_equal(fill(&u, 0, a, PAGE, 2, 0), 0);
	assert_int_equal(copy(&u, 0, HOST(out), a, 16, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(out[0], 2);
	assert_int_equal(fill(&u, 0, a, PAGE, 3, 0), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_SYNC, &e), 0);
	assert_int_equal(fill(&u, 0, a, PAGE, 4, 0), 0);
	do {
		err = CALL(u.client, SOFTGPU_STREAM_QUERY, &s);
	} while (err == -EAGAIN);
	assert_int_equal(err, 0);
	assert_int_equal(fill(&u, 0, a, PAGE, 5, 0), 0);
	CHAOS(&m, 0);
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_SYNC, &s), 0);
	CHAOS(&m, .strict = true);
	assert_int_equal(fill(&u, 0, a, PAGE, 6, 0), 0);
	assert_int_equal(mem_free(&u, a), 0);
	/* And what is held when the context goes is dropped with it. */
	assert_int_equal(mem_alloc(&u, PAGE, &a), 0);
	assert_int_equal(fill(&u, 0, a, PAGE, 7, 0), 0);
}

/* Work that waits for another context's, held back as well: a wait for it lets both go. */
CASE(strict_across_contexts)
{
	struct softgpu_event_create ec = { .ctx = u.ctx };
	struct softgpu_event e = { .ctx = u.ctx };
	struct softgpu_handle h = { 0 };
	struct user second;
	u64 a, b;

	CHAOS(&m, .strict = true);
	user_up(&second, &m, 0, &key);
	assert_int_equal(mem_alloc(&u, PAGE, &a), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &ec), 0);
	e.event = ec.event;
	assert_int_equal(fill(&u, 0, a, PAGE, 1, 0), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	e.ctx = h.handle = second.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_WAIT, &e), 0);
	assert_int_equal(mem_alloc(&second, PAGE, &b), 0);
	alarm(60);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_SYNC, &h), 0);
	/* The same for a free, which waits for the context's work. */
	e.ctx = u.ctx;
	assert_int_equal(fill(&u, 0, a, PAGE, 2, 0), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	e.ctx = second.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_WAIT, &e), 0);
	assert_int_equal(mem_free(&second, b), 0);
	user_down(&second);
	alarm(0);
}

/* What a stream waits for goes with it, and nothing else does: not by chance either. */
CASE(strict_lets_go_what_must)
{
	struct softgpu_event_create ec = { .ctx = u.ctx };
	struct softgpu_event e = { .ctx = u.ctx };
	struct softgpu_handle h = { 0 };
	struct user second, third;
	static struct tpin t[3];
	u64 va[3];
	u32 i;

	user_up(&second, &m, 0, &key);
	user_up(&third, &m, 0, &key);
	for (i = 0; i < 3; i++) {
		assert_int_equal(mem_alloc(&u, PAGE, &va[i]), 0);
		assert_int_equal(tpin_get(&t[i], &u, va[i], PAGE, false), 0);
	}
	CHAOS(&m, .strict = true);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &ec), 0);
	e.event = ec.event;
	alarm(60);

	/* An event that was never recorded: no other context need do anything. */
	assert_int_equal(fill(&u, 0, va[0], PAGE, 1, 0), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_WAIT, &e), 0);
	assert_int_equal(fill(&second, 0, va[1], PAGE, 1, 0), 0);
	h.handle = u.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_SYNC, &h), 0);
	assert_int_equal(bar1(&t[0])[0], 1);
	assert_int_equal(bar1(&t[1])[0], 0);

	/* The second's record, behind its work: that work goes; what comes after it, and the third's, does not. */
	e.ctx = second.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	assert_int_equal(fill(&second, 0, va[1], PAGE, 2, 0), 0);
	assert_int_equal(fill(&third, 0, va[2], PAGE, 1, 0), 0);
	e.ctx = u.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_WAIT, &e), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_SYNC, &h), 0);
	assert_int_equal(bar1(&t[1])[0], 1);
	assert_int_equal(bar1(&t[2])[0], 0);

	/* From one to the next: the first waits for the second, which waits for the third. */
	e.ctx = third.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	e.ctx = second.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_WAIT, &e), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_RECORD, &e), 0);
	e.ctx = u.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_WAIT, &e), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_SYNC, &h), 0);
	assert_int_equal(bar1(&t[1])[0], 2);
	assert_int_equal(bar1(&t[2])[0], 1);
	alarm(0);
	for (i = 0; i < 3; i++)
		tpin_put(&t[i], &u, false);
	user_down(&third);
	user_down(&second);
}

MAIN(NULL, NULL)
