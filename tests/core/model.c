// SPDX-License-Identifier: MIT
/*
 * model.c - random allocations, pins and their ends, on the core and on a naive
 * second version of its rules, which must agree after every step.
 *
 * The naive version knows ranges (what is pinned), bufs (what was allocated) and
 * pins as three flat arrays, and counts BAR1 and VRAM by walking them.
 */
#include "util.h"

#include <stdio.h>
#include <stdlib.h>

#define GPUS	2
#define USERS	4		/* users 0, 1 and 2, 3 are two processes on the two GPUs */
#define BUFS	48
#define PINS	64
#define RANGES	(BUFS + PINS)
#define VRAM	(64 * PAGE)
#define BAR1	(24 * PAGE)	/* short, so that it runs out */
#define RESERVED (2 * PAGE)

struct mrange {
	bool used, dead;	/* dead: unmapped, kept by persistent pins */
	u32 user;
	u64 va, pages;
	u32 bufs;
	bool slab;
};

struct mbuf {
	u32 range;		/* index + 1; 0: unused */
	u64 va, len, id;
};

struct mpin {
	struct tpin t;
	u32 range;		/* index + 1; 0: unused */
	u64 first, pages;
	bool persistent;
};

static struct machine m;
static struct user users[USERS];
static struct mrange ranges[RANGES];
static struct mbuf bufs[BUFS];
static struct mpin pins[PINS];
static u64 last_id, callbacks_expected, state;
static int keys[2];

static const void *key_of(u32 user)
{
	return &keys[user / 2];
}

static u32 gpu_of(u32 user)
{
	return user % 2;
}

static bool same_space(const struct mrange *r, u32 user)
{
	return r->used && !r->dead && r->user / 2 == user / 2;
}

/* ---- the naive counts ---- */

static u64 naive_bar1(u32 gpu, u32 with_range, u64 first, u64 pages)
{
	u64 used = 0, page;
	u32 r, p;

	for (r = 0; r < RANGES; r++) {
		if (!ranges[r].used || gpu_of(ranges[r].user) != gpu)
			continue;
		for (page = 0; page < ranges[r].pages; page++) {
			bool held = with_range == r + 1 && page >= first && page < first + pages;

			for (p = 0; p < PINS && !held; p++)
				held = pins[p].range == r + 1 && page >= pins[p].first &&
				       page < pins[p].first + pins[p].pages;
			used += held;
		}
	}
	return used * PAGE;
}

static u64 naive_vram(u32 gpu)
{
	u64 pages = 0;
	u32 r;

	for (r = 0; r < RANGES; r++) {
		if (ranges[r].used && gpu_of(ranges[r].user) == gpu)
			pages += ranges[r].pages;
	}
	return pages * PAGE;
}

static void check_counts(void)
{
	struct sg_gpu_stats st;
	u64 callbacks = 0;
	u32 g, p, live;

	for (g = 0; g < GPUS; g++) {
		MUST(!sg_gpu_stats(m.sg, g, &st));
		MUST(st.bar1_used == RESERVED + naive_bar1(g, 0, 0, 0));
		MUST(st.vram_total - st.vram_free == naive_vram(g));
		live = 0;
		for (p = 0; p < PINS; p++)
			live += pins[p].range && gpu_of(ranges[pins[p].range - 1].user) == g;
		MUST(st.pins == live);
		callbacks += st.revocations;
	}
	MUST(callbacks == callbacks_expected);
}

/* ---- steps ---- */

static void range_unused_if_idle(u32 r)
{
	u32 p;

	if (!ranges[r].dead)
		return;
	for (p = 0; p < PINS; p++) {
		if (pins[p].range == r + 1)
			return;
	}
	ranges[r].used = false;
}

static void pin_ended(struct mpin *p, int callbacks)
{
	u32 r = p->range - 1;

	MUST(p->t.callbacks == callbacks && p->t.unmaps == 1 && p->t.frees == 1);
	callbacks_expected += (u64)callbacks;
	p->range = 0;
	range_unused_if_idle(r);
}

/* A range went away under its pins: all but the persistent ones must have been called back. */
static void range_died(u32 r)
{
	u32 p;

	ranges[r].dead = true;
	for (p = 0; p < PINS; p++) {
		if (pins[p].range == r + 1 && !pins[p].persistent)
			pin_ended(&pins[p], 1);
	}
	range_unused_if_idle(r);
}

static u32 range_at(u32 user, u64 va)
{
	u32 r;

	for (r = 0; r < RANGES; r++) {
		if (same_space(&ranges[r], user) && va >= ranges[r].va &&
		    va < ranges[r].va + ranges[r].pages * PAGE)
			return r;
	}
	return RANGES;
}

static u32 new_range(u32 user, u64 va, u64 pages, bool slab)
{
	u32 r;

	for (r = 0; r < RANGES && ranges[r].used; r++)
		;
	MUST(r < RANGES);
	ranges[r] = (struct mrange){ true, false, user, va, pages, 0, slab };
	return r;
}

static void do_alloc(void)
{
	u32 user = (u32)(rnd(&state) % USERS), b, i, r;
	u64 len = rnd(&state) % 2 ? 1 + rnd(&state) % (PAGE / 2) : 1 + rnd(&state) % (6 * PAGE), va;
	u64 pages = (len + PAGE - 1) / PAGE;
	bool small = len <= PAGE / 2;
	struct softgpu_query q;
	int err;

	for (b = 0; b < BUFS && bufs[b].range; b++)
		;
	if (b == BUFS)
		return;
	err = mem_alloc(&users[user], len, &va);
	if (err) {
		MUST(err == -ENOSPC && naive_vram(gpu_of(user)) + pages * PAGE > VRAM);
		return;
	}
	/* The address is nobody's but this buf's. */
	for (i = 0; i < BUFS; i++) {
		if (bufs[i].range && same_space(&ranges[bufs[i].range - 1], user))
			MUST(va + len <= bufs[i].va || bufs[i].va + bufs[i].len <= va);
	}
	r = range_at(user, va);
	MUST(small || r == RANGES);
	if (r == RANGES)
		r = new_range(user, va & ~(PAGE - 1), pages, small);
	MUST(!small || (ranges[r].slab && va + len <= ranges[r].va + PAGE));
	MUST(ranges[r].user == user);
	ranges[r].bufs++;
	q = query(&users[user], va + len - 1);
	MUST(q.kind == SOFTGPU_KIND_DEVICE && q.base == va && q.length == len);
	MUST(q.buffer_id > last_id && q.gpu == gpu_of(user));
	last_id = q.buffer_id;
	bufs[b] = (struct mbuf){ r + 1, va, len, q.buffer_id };
}

static void buf_gone(u32 b)
{
	u32 r = bufs[b].range - 1;

	bufs[b].range = 0;
	if (!--ranges[r].bufs)
		range_died(r);
}

static void do_free(void)
{
	u32 b = (u32)(rnd(&state) % BUFS), user;

	if (!bufs[b].range)
		return;
	/* Any client of the process may free it, and no other process. */
	user = ranges[bufs[b].range - 1].user;
	if (rnd(&state) % 8 == 0) {
		struct softgpu_query q = query(&users[user ^ 2], bufs[b].va);

		if (q.base != bufs[b].va)
			MUST(mem_free(&users[user ^ 2], bufs[b].va) == -ENOENT);
		return;
	}
	MUST(mem_free(&users[user ^ (rnd(&state) & 1)], bufs[b].va) == 0);
	MUST(query(&users[user], bufs[b].va).buffer_id != bufs[b].id);
	buf_gone(b);
}

static void do_pin(void)
{
	u32 p, r = (u32)(rnd(&state) % RANGES), i;
	u64 first, pages, va;
	u32 user;
	int err, want = 0;

	for (p = 0; p < PINS && pins[p].range; p++)
		;
	if (p == PINS || !ranges[r].used)
		return;
	user = ranges[r].user ^ (u32)(rnd(&state) & 1);
	if (rnd(&state) % 8 == 0)
		user ^= 2;
	first = rnd(&state) % ranges[r].pages;
	pages = 1 + rnd(&state) % (ranges[r].pages - first + (rnd(&state) % 4 == 0));
	va = ranges[r].va + first * PAGE;
	/* A stale or foreign address may well be somebody's: ask the naive version whose. */
	i = range_at(user, va);
	if (i == RANGES || va + pages * PAGE > ranges[i].va + ranges[i].pages * PAGE)
		want = -EINVAL;
	else if (RESERVED + naive_bar1(gpu_of(ranges[i].user), i + 1, (va - ranges[i].va) / PAGE,
				       pages) > BAR1)
		want = -ENOSPC;
	pins[p].persistent = rnd(&state) % 4 == 0;
	err = tpin_get(&pins[p].t, &users[user], va, pages * PAGE, pins[p].persistent);
	MUST(err == want);
	if (err)
		return;
	pins[p].range = i + 1;
	pins[p].first = (va - ranges[i].va) / PAGE;
	pins[p].pages = pages;
	MUST(pins[p].t.pin.npages == pages);
}

static void do_put(void)
{
	struct mpin *p = &pins[rnd(&state) % PINS];

	if (!p->range) {
		MUST(sg_pin_put(m.sg, &p->t.pin, p->persistent) == -ENOENT);
		return;
	}
	if (rnd(&state) % 8 == 0)
		MUST(sg_pin_put(m.sg, &p->t.pin, !p->persistent) == -EINVAL);
	MUST(sg_pin_put(m.sg, &p->t.pin, p->persistent) == 0);
	pin_ended(p, 0);
}

/* Every page of two live pins is the same physical page exactly when it is the same page of a range. */
static void check_pages(void)
{
	struct { u64 phys, other; } all[8];
	u32 a, b;
	u64 i, j;

	a = (u32)(rnd(&state) % PINS);
	b = (u32)(rnd(&state) % PINS);
	if (!pins[a].range || !pins[b].range)
		return;
	sg_pin_pages(&pins[a].t.pin, &all[0].phys, sizeof(all[0]));
	for (i = 0; i < pins[a].pages; i++) {
		MUST(all[i].phys == sg_pin_page(&pins[a].t.pin, (u32)i));
		for (j = 0; j < pins[b].pages; j++) {
			bool same = pins[a].range == pins[b].range &&
				    pins[a].first + i == pins[b].first + j;

			MUST((sg_pin_page(&pins[a].t.pin, (u32)i) ==
			      sg_pin_page(&pins[b].t.pin, (u32)j)) == same);
		}
	}
}

/* A process closes one of its files, or the context alone, and opens it again. */
static void do_close(void)
{
	u32 user = (u32)(rnd(&state) % USERS), b, i, victim[BUFS], n = 0;

	for (b = 0; b < BUFS; b++) {
		if (bufs[b].range && ranges[bufs[b].range - 1].user == user)
			victim[n++] = b;
	}
	if (rnd(&state) % 2) {
		user_down(&users[user]);
		user_up(&users[user], &m, gpu_of(user), key_of(user));
	} else {
		struct softgpu_handle h = { .handle = users[user].ctx };
		struct softgpu_ctx_create c = { 0 };

		MUST(!CALL(users[user].client, SOFTGPU_CTX_DESTROY, &h));
		MUST(CALL(users[user].client, SOFTGPU_CTX_DESTROY, &h) == -ENOENT);
		MUST(!CALL(users[user].client, SOFTGPU_CTX_CREATE, &c));
		users[user].ctx = c.ctx;
	}
	for (i = 0; i < n; i++)
		buf_gone(victim[i]);
}

int main(int argc, char **argv)
{
	u64 steps = argc > 1 ? strtoull(argv[1], NULL, 0) : 100000;
	u32 u, p;

	test_seed = argc > 2 ? strtoull(argv[2], NULL, 0) : sg_now_ns();
	state = test_seed;
	machine_up(&m, GPUS, VRAM, BAR1, RESERVED);
	for (u = 0; u < USERS; u++)
		user_up(&users[u], &m, gpu_of(u), key_of(u));
	for (test_step = 0; test_step < steps; test_step++) {
		switch (rnd(&state) % 64) {
		case 0 ... 15: do_alloc(); break;
		case 16 ... 27: do_free(); break;
		case 28 ... 45: do_pin(); break;
		case 46 ... 58: do_put(); break;
		case 59 ... 62: check_pages(); break;
		default:
			if (rnd(&state) % 8 == 0)
				do_close();
			break;
		}
		check_counts();
	}
	for (u = 0; u < USERS; u++)
		user_down(&users[u]);
	for (p = 0; p < PINS; p++) {
		if (pins[p].range && pins[p].persistent)
			MUST(!sg_pin_put(m.sg, &pins[p].t.pin, true));
		else if (pins[p].range)
			MUST(pins[p].t.callbacks == 1 && pins[p].t.frees == 1);
	}
	machine_down(&m);
	printf("model: %llu steps, seed %llu, %llu revocations\n", steps, test_seed,
	       callbacks_expected);
	return 0;
}
