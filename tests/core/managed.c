// SPDX-License-Identifier: MIT
/* managed.c - pins of managed memory: refused, and in strict mode of a copy that misleads. */
#include "world.h"

#include <pthread.h>

#define LENGTH	(2 * PAGE - 100)
#define WINDOW	(32 * PAGE)

static u8 storage[WINDOW + PAGE];	/* the window */
static u8 *managed;			/* in it: where the process has it */

static int set_up(void **state)
{
	machine_up(&m, 1, 16 * PAGE, 16 * PAGE, 0);
	managed = user_up_in(&u, &m, &key, storage, WINDOW, 4 * PAGE);
	return 0;
}

FIXTURE(set_up, teardown)

static u8 *bar1(struct tpin *t, u32 page)
{
	return m.vram[0] + (sg_pin_page(&t->pin, page) - VRAM_PHYS);
}

CASE(refused)
{
	u64 va = HOST(managed), before = stats_of(&m, 0).vram_free;
	static struct tpin t;

	assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, va, LENGTH), 0);
	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, va, PAGE, true), -EINVAL);
	assert_int_equal(stats_of(&m, 0).vram_free, before);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_MANAGED), 0);
	/* Other host memory cannot be pinned in any mode. */
	assert_int_equal(discharge(&u, va), 0);
	CHAOS(&m, .strict = true);
	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), -EINVAL);
}

/* What the program writes does not get there, what a device writes does not get back. */
CASE(stale_and_lost)
{
	u64 va = HOST(managed), vram;
	static struct tpin t;
	u8 out[16];

	CHAOS(&m, .strict = true);
	assert_int_equal(mem_alloc(&u, PAGE, &vram), 0);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, va, LENGTH), 0);
	memset(managed, 0x11, LENGTH);
	assert_int_equal(tpin_get(&t, &u, va, 2 * PAGE, false), 0);
	assert_int_equal(sg_rule_broken(m.sg, SG_RULE_MANAGED), 1);
	assert_int_equal(bar1(&t, 0)[0], 0);
	memset(bar1(&t, 0), 0x22, PAGE);
	memset(bar1(&t, 1), 0x22, PAGE);
	assert_int_equal(managed[0], 0x11);
	/* CUDA has the host's data too, and what it reads is overwritten in the copy, no more. */
	assert_int_equal(copy(&u, 0, HOST(out), va + PAGE - 8, 16, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(out[0], 0x11);
	assert_int_equal(bar1(&t, 0)[PAGE - 8], 0x11);
	assert_int_equal(bar1(&t, 0)[PAGE - 9], 0x22);
	assert_int_equal(bar1(&t, 1)[7], 0x11);
	assert_int_equal(bar1(&t, 1)[8], 0x22);
	/* So is what it writes: a fill, and copies from and to the GPU's memory. */
	assert_int_equal(fill(&u, 0, va + 100, 10, 0x33, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(managed[100], 0x33);
	assert_int_equal(bar1(&t, 0)[100], 0x33);
	assert_int_equal(fill(&u, 0, vram, PAGE, 0x44, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(copy(&u, 0, va + PAGE, vram, 100, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(bar1(&t, 1)[99], 0x44);
	assert_int_equal(copy(&u, 0, vram, va, 100, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(bar1(&t, 0)[99], 0x11);
}

/* It is a pin as any other: once, shared pages, revoked with the memory, which is all given back. */
CASE(a_pin_like_others)
{
	u64 va = HOST(managed), before = stats_of(&m, 0).vram_free;
	static struct tpin t[2], persistent, others;
	struct sg_gpu_stats st = { 0 };
	struct user stranger;
	static int other_key;

	CHAOS(&m, .strict = true);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, va, LENGTH), 0);
	assert_int_equal(tpin_get(&t[0], &u, va + PAGE, 2 * PAGE, false), -EINVAL);
	assert_int_equal(tpin_get(&t[0], &u, va, 2 * PAGE, false), 0);
	assert_int_equal(tpin_get(&t[1], &u, va + PAGE, PAGE, false), 0);
	assert_int_equal(tpin_get(&persistent, &u, va, PAGE, true), 0);
	assert_int_equal(sg_pin_page(&t[0].pin, 1), sg_pin_page(&t[1].pin, 0));
	sg_gpu_stats(m.sg, 0, &st);
	assert_int_equal(st.bar1_used, 2 * PAGE);
	assert_int_equal(st.vram_free, before - 2 * PAGE);
	user_up(&stranger, &m, 0, &other_key);
	assert_int_equal(tpin_get(&others, &stranger, va, PAGE, false), -EINVAL);
	user_down(&stranger);
	assert_int_equal(discharge(&u, va), 0);
	assert_int_equal(t[0].callbacks, 1);
	assert_int_equal(t[1].callbacks, 1);
	assert_int_equal(sg_pin_put(m.sg, &persistent.pin, true), 0);
	assert_int_equal(stats_of(&m, 0).vram_free, before);
	assert_int_equal(tpin_get(&t[0], &u, va, PAGE, false), -EINVAL);
}

/* The tokens of its own context open it, those of another do not. */
CASE(tokens)
{
	u64 va = HOST(managed), elsewhere;
	struct softgpu_query q;
	struct sg_pin_who who;
	static struct tpin t;
	struct user second;

	CHAOS(&m, .strict = true);
	user_up(&second, &m, 0, &key);
	assert_int_equal(mem_alloc(&second, PAGE, &elsewhere), 0);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, va, LENGTH), 0);
	q = query(&u, elsewhere);
	who = (struct sg_pin_who){ .p2p_token = q.p2p_token, .va_space_token = q.va_space_token, .managed = true };
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), -EINVAL);
	q = query(&u, va);
	who = (struct sg_pin_who){ .p2p_token = q.p2p_token, .va_space_token = q.va_space_token, .managed = true };
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	/* Interfaces that refuse managed memory, such as dma-bufs, do so here too. */
	who.managed = false;
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), -EINVAL);
	user_down(&second);
}

CASE(no_room)
{
	u64 va = HOST(managed), all;
	static struct tpin t;

	CHAOS(&m, .strict = true);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, va, LENGTH), 0);
	assert_int_equal(mem_alloc(&u, stats_of(&m, 0).vram_free - PAGE, &all), 0);
	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), -ENOSPC);
	assert_int_equal(mem_free(&u, all), 0);
	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), 0);
	/* No page can stand for memory that begins in the middle of one. */
	assert_int_equal(discharge(&u, va), 0);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, va + 4096, PAGE), 0);
	assert_int_equal(tpin_get(&t, &u, va + 4096, PAGE, false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), -EINVAL);
}

#define ROUNDS	300

static void *pins(void *arg)
{
	static struct tpin threads_pins[2];
	struct tpin *t = &threads_pins[arg != NULL];
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if (!tpin_get(t, &u, HOST(managed), PAGE, false))
			tpin_put(t, &u, false);
	}
	return NULL;
}

/* Two make the copy at once, while a third takes the memory away. */
CASE(races)
{
	u64 va = HOST(managed), before = stats_of(&m, 0).vram_free;
	pthread_t threads[2];
	int i;

	CHAOS(&m, .strict = true);
	pthread_create(&threads[0], NULL, pins, NULL);
	pthread_create(&threads[1], NULL, pins, &key);
	for (i = 0; i < ROUNDS; i++) {
		assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, va, LENGTH), 0);
		fill(&u, 0, va, 16, i, SOFTGPU_OP_SYNC);
		assert_int_equal(discharge(&u, va), 0);
	}
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	assert_int_equal(stats_of(&m, 0).vram_free, before);
}

MAIN(NULL, NULL)
