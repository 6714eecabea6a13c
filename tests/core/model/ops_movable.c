// SPDX-License-Identifier: MIT
/* ops_movable.c - memory that is kept without a place of its own, and moved: elsewhere in VRAM, or out of it. */
#include "model.h"

void op_movable(const u32 *arg)
{
	int r = PICK(w.ranges, arg[0]), slot = SPARE(w.movables), at, want;
	struct sg_pin_who who = { 0 };
	struct n_movable *k;
	u64 va, pages;
	u32 proc;

	if (r < 0 || slot < 0)
		return;
	k = &w.movables[slot];
	proc = arg[3] / 4 % 16 ? w.ranges[r].proc : arg[3] / 64 % w.config.procs;
	pages = some_pages(&w.ranges[r], arg, &va);
	at = range_at(proc, va);
	want = at < 0 || va + pages * PAGE > w.ranges[at].va + w.ranges[at].pages * PAGE ? -EINVAL : 0;
	who.proc_key = &w.procs[proc].key;
	MUST(sg_movable_get(w.sg, &k->k, &who, va, pages * PAGE) == want);
	if (want)
		return;
	k->used = true;
	k->proc = proc;
	k->mem = w.ranges[at].mem;
	k->va = va;
	k->first = (va - w.ranges[at].va) / PAGE;
	k->pages = pages;
}

static bool has_pins(int movable)
{
	u32 i;

	for (i = 0; i < PINS; i++) {
		if (w.pins[i].used && w.pins[i].movable == movable)
			return true;
	}
	return false;
}

void op_movable_put(const u32 *arg)
{
	int i = PICK(w.movables, arg[0]);

	if (i < 0 || has_pins(i))
		return;
	sg_movable_put(&w.movables[i].k);
	w.movables[i].used = false;
}

void op_movable_pin(const u32 *arg)
{
	int i = PICK(w.movables, arg[0]), slot = SPARE(w.pins), want = 0, range;
	struct n_movable *k;
	struct n_pin *p;

	if (i < 0 || slot < 0)
		return;
	k = &w.movables[i];
	p = &w.pins[slot];
	if (w.gpus[w.mems[k->mem].gpu].removed)
		want = -ENODEV;
	else if (hits(&w.chaos.fail_pin))
		want = -ENOMEM;
	else if (bar1_short(k->mem, k->first, k->pages))
		want = -ENOSPC;
	memset(&p->t, 0, sizeof(p->t));
	MUST(sg_movable_pin(&k->k, &p->t.pin, &tpin_ops) == want);
	if (want)
		return;
	p->used = true;
	p->persistent = true;
	p->orphan = false;
	/* The mapping, where it is still the keep's. */
	range = range_at(k->proc, k->va);
	p->range = range >= 0 && w.ranges[range].mem == k->mem ? range : -1;
	p->movable = i;
	p->mem = k->mem;
	p->va = k->va;
	p->first = k->first;
	p->pages = k->pages;
	p->serial = ++w.last_serial;
	if (w.config.strict && p->range >= 0)
		w.broken += held_work_on(k->proc, k->va, k->pages * PAGE);
	MUST(p->t.pin.npages == k->pages && p->t.pin.serial == p->serial);
}

/* Who knows of it; the keep's own range does not matter, for it looks anew. */
static u32 others(const struct n_movable *k)
{
	int own = range_at(k->proc, k->va);
	u32 i, n = 0;

	for (i = 0; i < MOVABLES; i++)
		n += w.movables[i].used && &w.movables[i] != k && w.movables[i].mem == k->mem;
	for (i = 0; i < RANGES; i++)
		n += w.ranges[i].used && (int)i != own && w.ranges[i].mem == k->mem;
	for (i = 0; i < PINS; i++)
		n += w.pins[i].used && w.pins[i].mem == k->mem;
	for (i = 0; i < PHYS; i++)
		n += w.phys[i].used && w.phys[i].mem == k->mem;
	return n;
}

static int naive_move(const struct n_movable *k, bool system)
{
	const struct n_mem *mem = &w.mems[k->mem];

	if (system && mem->system)
		return 0;
	if (!system && hits(&w.chaos.fail_alloc))
		return -ENOSPC;
	if (w.gpus[mem->gpu].removed)
		return -ENODEV;
	if (!system && vram_used(mem->gpu) + mem->pages * PAGE > w.config.vram * PAGE)
		return -ENOSPC;
	return others(k) || w.config.strict ? -EBUSY : 0;
}

void op_movable_move(const u32 *arg)
{
	int i = PICK(w.movables, arg[0]), want;
	bool system = arg[1] % 2;
	struct n_mem *mem;

	if (i < 0)
		return;
	/* A copy under way is a reason to stay. */
	settle_all();
	want = naive_move(&w.movables[i], system);
	MUST(sg_movable_move(&w.movables[i].k, system ? SG_IN_SYSTEM : SG_IN_VRAM) == want);
	mem = &w.mems[w.movables[i].mem];
	if (!want) {
		mem->system = system;
		memset(mem->phys, 0, sizeof(mem->phys));
	}
	MUST(sg_movable_place(&w.movables[i].k) == (mem->system ? SG_IN_SYSTEM : SG_IN_VRAM));
}
