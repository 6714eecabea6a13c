// SPDX-License-Identifier: MIT
/*
 * ends.c - what goes with what.  Called when the core has already done it, so
 * that every pin that must have ended is seen to have, exactly once.
 */
#include "model.h"

void pin_ended(u32 i, int callbacks)
{
	struct n_pin *p = &w.pins[i];

	MUST(tpin_count(&p->t.callbacks) == callbacks);
	MUST(tpin_count(&p->t.unmaps) == 1);
	MUST(tpin_count(&p->t.frees) == 1);
	w.gpus[w.mems[p->mem].gpu].revocations += (u64)callbacks;
	p->used = false;
	if (p->range >= 0)
		slab_settle((u32)p->range);
}

static void range_gone(u32 r)
{
	u32 i;

	/* First this: a slab that is going has no slots to settle. */
	w.ranges[r].slab = false;
	for (i = 0; i < PINS; i++) {
		if (!w.pins[i].used || w.pins[i].range != (int)r)
			continue;
		if (w.pins[i].persistent)
			w.pins[i].range = -1;
		else
			pin_ended(i, 1);
	}
	if (w.ranges[r].imported)
		w.mems[w.ranges[r].mem].imports--;
	w.ranges[r].used = false;
}

static void share_gone(u32 share)
{
	u32 i;

	w.shares[share].dead = true;
	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].import == (int)share)
			w.bufs[i].import = -1;
	}
}

static bool slab_busy(const struct n_range *r, u32 index)
{
	u32 i;

	for (i = 0; i < PINS; i++) {
		if (w.pins[i].used && w.pins[i].range == (int)index)
			return true;
	}
	return w.mems[r->mem].imports || is_kept(r->mem);
}

void buf_gone(u32 i)
{
	struct n_buf *b = &w.bufs[i];
	struct n_range *r;

	b->used = false;
	if (b->share >= 0)
		share_gone((u32)b->share);
	if (b->copy >= 0)
		range_gone((u32)b->copy);
	if (b->range < 0)
		return;
	r = &w.ranges[b->range];
	if (r->slab)
		memset(r->slots + (b->va - r->va) / SLOT, slab_busy(r, (u32)b->range) ? LIMBO : FREE,
		       (b->len + SLOT - 1) / SLOT);
	if (!--r->bufs)
		range_gone((u32)b->range);
}

void ctx_gone(u32 ctx)
{
	u32 i;

	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].ctx == (int)ctx)
			buf_gone(i);
	}
	for (i = 0; i < STREAMS; i++) {
		if (w.streams[i].used && w.streams[i].ctx == ctx)
			w.streams[i].used = false;
	}
	for (i = 0; i < JOBS; i++) {
		if (w.works[i].used && w.works[i].ctx == ctx)
			w.works[i].used = false;
	}
	w.ctxs[ctx].used = false;
}

/* A reservation goes with all that stands in it, whichever client put it there. */
static void reservation_gone(struct n_reservation *r)
{
	u32 i;

	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].proc == r->proc && w.bufs[i].va >= r->va &&
		    w.bufs[i].va < r->va + r->pages * PAGE)
			buf_gone(i);
	}
	r->used = false;
}

void client_gone(u32 client)
{
	u32 i;

	for (i = 0; i < CTXS; i++) {
		if (w.ctxs[i].used && w.ctxs[i].client == client)
			ctx_gone(i);
	}
	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].ctx < 0 && w.bufs[i].client == client)
			buf_gone(i);
	}
	for (i = 0; i < RESERVATIONS; i++) {
		if (w.reservations[i].used && w.reservations[i].client == client)
			reservation_gone(&w.reservations[i]);
	}
	for (i = 0; i < PHYS; i++) {
		if (w.phys[i].used && w.phys[i].client == client)
			w.phys[i].gone = true;
	}
	for (i = 0; i < EVENTS; i++) {
		if (w.events[i].used && w.events[i].client == client)
			w.events[i].used = false;
	}
	w.clients[client].used = false;
}

void gpu_gone(u32 gpu)
{
	u32 i;

	for (i = 0; i < CTXS; i++) {
		if (w.ctxs[i].used && w.ctxs[i].gpu == gpu)
			ctx_gone(i);
	}
	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].range >= 0 &&
		    w.mems[w.ranges[w.bufs[i].range].mem].gpu == gpu)
			buf_gone(i);
	}
	for (i = 0; i < PINS; i++) {
		struct n_pin *p = &w.pins[i];

		if (!p->used || w.mems[p->mem].gpu != gpu)
			continue;
		/* A persistent one is unmapped, and stays to be put. */
		MUST(p->persistent && tpin_count(&p->t.unmaps) == 1 && !tpin_count(&p->t.frees));
		p->orphan = true;
	}
	w.gpus[gpu].removed = true;
	vram_away(w.gpus[gpu].vram);
	w.gpus[gpu].vram = NULL;
}

static bool referred(u32 mem)
{
	u32 i;

	for (i = 0; i < RANGES; i++) {
		if (w.ranges[i].used && w.ranges[i].mem == mem)
			return true;
	}
	for (i = 0; i < PINS; i++) {
		if (w.pins[i].used && w.pins[i].mem == mem)
			return true;
	}
	for (i = 0; i < PHYS; i++) {
		if (w.phys[i].used && w.phys[i].mem == mem)
			return true;
	}
	return is_kept(mem);
}

static bool mapped(u32 phys)
{
	u32 i;

	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].phys == (int)phys)
			return true;
	}
	return false;
}

static bool gpu_in_use(u32 gpu)
{
	u32 i;

	for (i = 0; i < CLIENTS; i++) {
		if (w.clients[i].used && w.clients[i].gpu == gpu)
			return true;
	}
	for (i = 0; i < MEMS; i++) {
		if (w.mems[i].used && w.mems[i].gpu == gpu)
			return true;
	}
	return false;
}

void sweep(void)
{
	u32 i;

	for (i = 0; i < PHYS; i++) {
		if (w.phys[i].used && w.phys[i].gone && !mapped(i))
			w.phys[i].used = false;
	}
	for (i = 0; i < MEMS; i++) {
		if (w.mems[i].used && !referred(i))
			w.mems[i].used = false;
	}
	for (i = 0; i < GPUS; i++) {
		if (w.gpus[i].used && w.gpus[i].removed && !gpu_in_use(i))
			w.gpus[i].used = false;
	}
}
