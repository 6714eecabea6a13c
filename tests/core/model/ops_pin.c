// SPDX-License-Identifier: MIT
/* ops_pin.c - pins by owner and by token, their ends, and what chaos does to them. */
#include <sched.h>

#include "model.h"
#include "clients/clients.h"

/* What a client may and may not do inside its callback. */
static void in_callback(struct tpin *t)
{
	struct sg_pin *pin = &t->pin;

	MUST(sg_pin_put(w.sg, pin, false) == -EDEADLK);
	MUST(sg_pin_hold(w.sg, pin) == pin);
	MUST(!sg_pin_live(pin));
	sg_pin_unhold(pin);
}

/* Strict mode: the GPU's copy of managed memory, made by the first pin. */
static int naive_copy(u32 proc, int ctx, u64 va, int *range)
{
	int i = buf_at(proc, va);
	struct n_buf *b = i < 0 ? NULL : &w.bufs[i];
	u64 pages;
	u32 gpu;

	if (!w.config.strict || !b || b->kind != SOFTGPU_KIND_MANAGED || b->va % PAGE ||
	    (ctx >= 0 && !same_ctx(ctx, b->ctx)))
		return -EINVAL;
	if (b->copy < 0) {
		pages = (b->len + PAGE - 1) / PAGE;
		gpu = w.ctxs[b->ctx].gpu;
		if (hits(&w.chaos.fail_alloc) || vram_used(gpu) + pages * PAGE > w.config.vram * PAGE)
			return -ENOSPC;
		b->copy = new_range(proc, b->ctx, (u32)new_mem(gpu, pages), b->va);
		w.ranges[b->copy].copy = true;
	}
	*range = b->copy;
	return 0;
}

static int naive_pin(u32 proc, int ctx, u64 va, u64 len, int *range)
{
	const struct n_range *r;
	int err = 0;

	*range = range_at(proc, va);
	if (*range < 0)
		err = naive_copy(proc, ctx, va, range);
	if (err)
		return err;
	r = &w.ranges[*range];
	if ((ctx >= 0 && !same_ctx(r->ctx, ctx)) || va + len > r->va + r->pages * PAGE)
		return -EINVAL;
	if (w.mems[r->mem].no_rdma)
		return -EACCES;
	if (hits(&w.chaos.fail_pin))
		return -ENOMEM;
	return bar1_short(r->mem, (va - r->va) / PAGE, len / PAGE) ? -ENOSPC : 0;
}

/* The published generator of the seed, written a second time. */
static u32 chaos_random(void)
{
	if (!w.random)
		w.random = 0x9e3779b97f4a7c15ULL;
	w.random ^= w.random >> 12;
	w.random ^= w.random << 25;
	w.random ^= w.random >> 27;
	return (u32)((w.random * 0x2545f4914f6cdd1dULL) >> 32);
}

/* The oldest pin that is younger than that serial; PINS: none is. */
static u32 oldest_after(u64 serial)
{
	u32 i, best = PINS;

	for (i = 0; i < PINS; i++) {
		if (w.pins[i].used && w.pins[i].serial > serial &&
		    (best == PINS || w.pins[i].serial < w.pins[best].serial))
			best = i;
	}
	return best;
}

/* Perhaps one is revoked now, by an engine: says which, and waits for it. */
static void chaos_pinned(u32 gpu)
{
	u32 i, seen = 0;
	int victim = -1;
	bool due = true;

	if (!hits(&w.pins_until_revoke))
		return;
	w.pins_until_revoke = w.chaos.revoke_every + chaos_random() % w.chaos.revoke_every;
	/* The candidates by age. */
	for (i = oldest_after(0); i < PINS; i = oldest_after(w.pins[i].serial)) {
		const struct n_pin *p = &w.pins[i];

		if (!p->persistent && w.mems[p->mem].gpu == gpu && chaos_random() % ++seen == 0)
			victim = (int)i;
	}
	while (due || (victim >= 0 && !tpin_count(&w.pins[victim].t.frees))) {
		sg_mutex_lock(&w.sg->lock);
		due = w.sg->gpus[gpu]->revoke_due;
		sg_mutex_unlock(&w.sg->lock);
		sched_yield();
	}
	if (victim >= 0) {
		/* The engine has let go of the lock to run the last callback; it is done with the pin. */
		sg_mutex_lock(&w.sg->lock);
		sg_mutex_unlock(&w.sg->lock);
		pin_ended((u32)victim, 1);
	}
}

static void do_pin(const struct sg_pin_who *who, u32 proc, int ctx, u64 va, u64 pages, bool persistent, int want)
{
	int slot = SPARE(w.pins), range = -1, err;
	struct n_pin *p;

	if (slot < 0 || SPARE(w.ranges) < 0 || SPARE(w.mems) < 0)
		return;
	p = &w.pins[slot];
	if (!want)
		want = naive_pin(proc, ctx, va, pages * PAGE, &range);
	memset(&p->t, 0, sizeof(p->t));
	p->t.on_callback = in_callback;
	err = sg_pin_get(w.sg, &p->t.pin, &tpin_ops, who, va, pages * PAGE, persistent);
	MUST(err == want);
	if (err)
		return;
	p->used = true;
	p->persistent = persistent;
	p->orphan = false;
	p->range = range;
	p->movable = -1;
	p->mem = w.ranges[range].mem;
	p->va = va;
	p->first = (va - w.ranges[range].va) / PAGE;
	p->pages = pages;
	p->serial = ++w.last_serial;
	MUST(p->t.pin.npages == pages && p->t.pin.serial == p->serial);
	MUST(sg_pin_gpu_index(&p->t.pin) == w.mems[p->mem].gpu);
	w.managed += w.ranges[range].copy;
	if (w.config.strict)
		w.broken += held_work_on(proc, va, pages * PAGE);
	chaos_pinned(w.mems[p->mem].gpu);
}

u64 some_pages(const struct n_range *r, const u32 *arg, u64 *va)
{
	u64 first = arg[1] % r->pages;

	*va = r->va + first * PAGE;
	return 1 + arg[2] % (r->pages - first + (arg[3] % 4 == 0));
}

void op_pin(const u32 *arg)
{
	int r = PICK(w.ranges, arg[0]), b;
	struct sg_pin_who who = { .managed = true };
	u64 va = 0, pages;
	u32 proc;

	if (r < 0)
		return;
	/* Sometimes by another process, which may have something of its own there. */
	proc = arg[3] % 16 ? w.ranges[r].proc : arg[3] / 16 % w.config.procs;
	pages = some_pages(&w.ranges[r], arg, &va);
	b = PICK(w.bufs, arg[0]);
	if (arg[3] / 1024 % 8 == 0 && b >= 0 && w.bufs[b].range < 0) {
		proc = w.bufs[b].proc;
		va = (w.bufs[b].va & ~(PAGE - 1)) + arg[1] % 2 * PAGE;
	}
	who.proc_key = &w.procs[proc].key;
	do_pin(&who, proc, -1, va, pages, arg[3] / 4 % 4 == 0,
	       client_of(proc, 0) < 0 ? -EINVAL : 0);
}

/* Tokens that clients share mean whose addresses these are: the process, or -1. */
static int meant_by(u32 ctx, u64 va)
{
	u32 i;

	if (!w.ctxs[ctx].shared)
		return (int)w.ctxs[ctx].proc;
	for (i = 0; i < CTXS; i++) {
		u64 base = window_base(w.ctxs[i].proc);

		if (w.ctxs[i].used && same_ctx((int)i, (int)ctx) && va >= base && va < base + w.config.window * PAGE)
			return (int)w.ctxs[i].proc;
	}
	return -1;
}

void op_pin_token(const u32 *arg)
{
	int r = PICK(w.ranges, arg[0]), ctx, proc, want = 0;
	struct sg_pin_who who = { .managed = true };
	u64 va = 0, pages;

	if (r < 0)
		return;
	ctx = w.ranges[r].ctx;
	if (ctx < 0 || arg[3] % 8 == 0)
		ctx = PICK(w.ctxs, arg[3] / 8);
	if (ctx < 0)
		return;
	who.p2p_token = w.ctxs[ctx].p2p_token;
	who.va_space_token = w.ctxs[ctx].va_space_token;
	pages = some_pages(&w.ranges[r], arg, &va);
	switch (arg[3] / 64 % 16) {
	case 0:
		who.va_space_token = 0;
		want = -EIO;
		break;
	case 1:
		who.va_space_token ^= 1u << arg[3] / 1024 % 31;
		want = who.va_space_token ? -EINVAL : -EIO;
		break;
	case 2:
		who.p2p_token ^= 1ULL << arg[3] / 1024 % 64;
		want = -EINVAL;
		break;
	}
	proc = meant_by((u32)ctx, va);
	if (!want && proc < 0)
		want = -EINVAL;
	do_pin(&who, (u32)proc, ctx, va, pages, arg[3] / 4 % 4 == 0, want);
}

void op_put(const u32 *arg)
{
	int i = PICK(w.pins, arg[0]);

	if (i < 0)
		return;
	MUST(!sg_pin_put(w.sg, &w.pins[i].t.pin, w.pins[i].persistent));
	pin_ended((u32)i, 0);
	MUST(sg_pin_put(w.sg, &w.pins[i].t.pin, w.pins[i].persistent) == -ENOENT);
}

void op_put_wrong(const u32 *arg)
{
	struct n_pin *p = &w.pins[arg[0] % PINS];

	MUST(sg_pin_put(w.sg, &p->t.pin, p->used ? !p->persistent : arg[1] % 2) ==
	     (p->used ? -EINVAL : -ENOENT));
	MUST(sg_pin_put(w.sg, NULL, false) == -ENOENT);
}

void op_hold(const u32 *arg)
{
	struct n_pin *p = &w.pins[arg[0] % PINS];
	struct sg_pin *held = sg_pin_hold(w.sg, &p->t.pin);

	MUST(held == (p->used && !p->orphan ? &p->t.pin : NULL));
	if (held) {
		MUST(sg_pin_live(held));
		sg_pin_unhold(held);
	}
}

/* No two pages of VRAM are the same one, and each stays where it is. */
static void check_page(u32 mem, u64 page, u64 phys)
{
	u32 i;
	u64 k;

	if (w.mems[mem].phys[page]) {
		MUST(w.mems[mem].phys[page] == phys);
		return;
	}
	for (i = 0; i < MEMS; i++) {
		for (k = 0; w.mems[i].used && k < w.mems[i].pages; k++)
			MUST(w.mems[i].phys[k] != phys);
	}
	w.mems[mem].phys[page] = phys;
}

static bool work_on(u32 mem)
{
	u32 i;

	for (i = 0; i < JOBS; i++) {
		if (w.works[i].used && (w.works[i].mem[0] == (int)mem || w.works[i].mem[1] == (int)mem))
			return true;
	}
	return false;
}

/* A device's eye: what a pin's addresses lead to. */
void op_pages(const u32 *arg)
{
	struct { u64 phys, other; } all[MEM_PAGES];
	int i = PICK(w.pins, arg[0]);
	const struct n_pin *p;
	const u8 *at;
	u32 gpu, cell;
	u64 k;

	if (i < 0 || w.pins[i].orphan)
		return;
	p = &w.pins[i];
	gpu = w.mems[p->mem].gpu;
	sg_pin_pages(&p->t.pin, &all[0].phys, sizeof(all[0]));
	for (k = 0; k < p->pages; k++) {
		MUST(all[k].phys == sg_pin_page(&p->t.pin, (u32)k));
		check_page(p->mem, p->first + k, all[k].phys);
	}
	k = arg[1] % p->pages;
	cell = arg[2] % SLOTS;
	MUST(sg_pin_in_system(&p->t.pin) == w.mems[p->mem].system);
	at = w.mems[p->mem].system ? (u8 *)(uintptr_t)all[k].phys :
		w.gpus[gpu].vram + (all[k].phys - VRAM_PHYS - gpu * 0x10000000ULL);
	if (!work_on(p->mem))
		MUST(at[cell * SLOT] == w.mems[p->mem].cells[(p->first + k) * SLOTS + cell]);
}

void op_revoke(const u32 *arg)
{
	struct n_pin *p = &w.pins[arg[0] % PINS];
	bool there = p->used && !p->persistent && !p->orphan;

	MUST(sg_pin_revoke(w.sg, p->serial) == (there ? 0 : -ENOENT));
	if (there)
		pin_ended(arg[0] % PINS, 1);
}

void op_chaos(const u32 *arg)
{
	struct sg_chaos *c = &w.chaos, now;
	u32 n = arg[1] % 8;

	switch (arg[0] % 8) {
	case 0:
		c->fail_pin = n;
		break;
	case 1:
		c->fail_alloc = n;
		break;
	case 2:
		c->fail_map = n;
		break;
	case 3:
		c->bar1_limit = (arg[1] % 40) * PAGE;
		break;
	case 4:
		if (c->revoke_every != n || c->seed != arg[2]) {
			w.random = arg[2];
			w.pins_until_revoke = n;
		}
		c->revoke_every = n;
		c->seed = arg[2];
		break;
	case 5:
		/* Off again. */
		c->bar1_limit = 0;
		if (c->revoke_every)
			w.random = c->seed;
		c->revoke_every = 0;
		w.pins_until_revoke = 0;
		break;
	default:
		MUST(sg_chaos_map(w.sg) == (hits(&c->fail_map) ? -ENOMEM : 0));
		break;
	}
	sg_chaos_get(w.sg, &now);
	MUST(now.fail_map == c->fail_map || arg[0] % 8 == 2);
	sg_chaos_set(w.sg, c);
}
