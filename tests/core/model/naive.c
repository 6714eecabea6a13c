// SPDX-License-Identifier: MIT
/* naive.c - the second version's answers, each by walking what there is. */
#include "model.h"

bool planted;

int pick(const bool *used, size_t stride, u32 count, u32 n)
{
	const char *base = (const char *)used;
	u32 i, there = 0;

	for (i = 0; i < count; i++)
		there += *(const bool *)(base + i * stride);
	if (!there)
		return -1;
	n %= there;
	for (i = 0;; i++) {
		if (*(const bool *)(base + i * stride) && !n--)
			return (int)i;
	}
}

int spare(const bool *used, size_t stride, u32 count)
{
	const char *base = (const char *)used;
	u32 i;

	for (i = 0; i < count; i++) {
		if (!*(const bool *)(base + i * stride))
			return (int)i;
	}
	return -1;
}

static bool covers(u64 start, u64 len, u64 va)
{
	return va >= start && va - start < len;
}

static bool overlap(u64 a, u64 a_len, u64 b, u64 b_len)
{
	return a < b + b_len && b < a + a_len;
}

int buf_at(u32 proc, u64 va)
{
	u32 i;

	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].proc == proc && covers(w.bufs[i].va, w.bufs[i].len, va))
			return (int)i;
	}
	return -1;
}

int range_at(u32 proc, u64 va)
{
	u32 i;

	for (i = 0; i < RANGES; i++) {
		if (w.ranges[i].used && w.ranges[i].proc == proc && !w.ranges[i].copy &&
		    covers(w.ranges[i].va, w.ranges[i].pages * PAGE, va))
			return (int)i;
	}
	return -1;
}

int reservation_at(u32 proc, u64 va)
{
	u32 i;

	for (i = 0; i < RESERVATIONS; i++) {
		const struct n_reservation *r = &w.reservations[i];

		if (r->used && r->proc == proc && covers(r->va, r->pages * PAGE, va))
			return (int)i;
	}
	return -1;
}

bool bufs_overlap(u32 proc, u64 va, u64 len)
{
	u32 i;

	for (i = 0; i < BUFS; i++) {
		if (w.bufs[i].used && w.bufs[i].proc == proc &&
		    overlap(w.bufs[i].va, w.bufs[i].len, va, len))
			return true;
	}
	return false;
}

bool ranges_overlap(u32 proc, u64 va, u64 len)
{
	u32 i;

	for (i = 0; i < RANGES; i++) {
		if (w.ranges[i].used && w.ranges[i].proc == proc && !w.ranges[i].copy &&
		    overlap(w.ranges[i].va, w.ranges[i].pages * PAGE, va, len))
			return true;
	}
	return false;
}

bool is_client(u32 proc)
{
	return w.config.clients >> proc & 1;
}

u64 window_base(u32 proc)
{
	return is_client(proc) ? WINDOW_BASE + proc * WINDOW_PAGES * PAGE : WINDOW_BASE;
}

int shared_on(u32 gpu)
{
	u32 i;

	for (i = 0; i < CTXS; i++) {
		if (w.ctxs[i].used && w.ctxs[i].shared && w.ctxs[i].gpu == gpu)
			return (int)i;
	}
	return -1;
}

bool same_ctx(int a, int b)
{
	return a == b || (a >= 0 && b >= 0 && w.ctxs[a].shared && w.ctxs[b].shared &&
			  w.ctxs[a].gpu == w.ctxs[b].gpu);
}

/* Which pages of a process's window are taken. */
static void window_map(u32 proc, bool *taken)
{
	u32 i;
	u64 k;

	memset(taken, 0, WINDOW_PAGES);
	for (i = 0; i < RANGES; i++) {
		const struct n_range *r = &w.ranges[i];

		for (k = 0; r->used && r->proc == proc && !r->in_reservation && !r->copy && k < r->pages; k++)
			taken[(r->va - window_base(proc)) / PAGE + k] = true;
	}
	for (i = 0; i < RESERVATIONS; i++) {
		const struct n_reservation *r = &w.reservations[i];

		for (k = 0; r->used && r->proc == proc && k < r->pages; k++)
			taken[(r->va - window_base(proc)) / PAGE + k] = true;
	}
}

static bool all_free(const bool *taken, u64 page, u64 pages)
{
	u64 i;

	if (page + pages > w.config.window)
		return false;
	for (i = 0; i < pages; i++) {
		if (taken[page + i])
			return false;
	}
	return true;
}

u64 window_find(u32 proc, u64 pages, u64 align)
{
	bool taken[WINDOW_PAGES];
	u64 page;

	window_map(proc, taken);
	for (page = 0; page + pages <= w.config.window; page++) {
		if ((window_base(proc) + page * PAGE) % align == 0 && all_free(taken, page, pages))
			return window_base(proc) + page * PAGE;
	}
	return 0;
}

bool window_free(u32 proc, u64 va, u64 pages)
{
	bool taken[WINDOW_PAGES];

	if (va < window_base(proc) || va >= window_base(proc) + w.config.window * PAGE)
		return false;
	window_map(proc, taken);
	return all_free(taken, (va - window_base(proc)) / PAGE, pages);
}

u64 vram_used(u32 gpu)
{
	u64 pages = 0;
	u32 i;

	for (i = 0; i < MEMS; i++) {
		if (w.mems[i].used && w.mems[i].gpu == gpu && !w.mems[i].system)
			pages += w.mems[i].pages;
	}
	return pages * PAGE;
}

u64 bar1_used_with(u32 gpu, u32 mem, u64 first, u64 pages)
{
	static u32 seen[MEMS][MEM_PAGES], now;
	u64 sum = 0, k;
	u32 i;

	now++;
	for (i = 0; i < PINS; i++) {
		const struct n_pin *p = &w.pins[i];

		if (!p->used || w.mems[p->mem].gpu != gpu || w.mems[p->mem].system)
			continue;
		for (k = p->first; k < p->first + p->pages; k++) {
			sum += w.config.per_pin || seen[p->mem][k] != now;
			seen[p->mem][k] = now;
		}
		if (planted && p->pages == 3)
			sum--;
	}
	for (k = first; !w.mems[mem].system && k < first + pages; k++)
		sum += w.config.per_pin || seen[mem][k] != now;
	return sum * PAGE;
}

u64 bar1_used(u32 gpu)
{
	return bar1_used_with(gpu, 0, 0, 0);
}

bool bar1_short(u32 mem, u64 first, u64 pages)
{
	u32 gpu = w.mems[mem].gpu;
	u64 size = w.config.bar1 * PAGE, used = bar1_used(gpu);
	u64 more = bar1_used_with(gpu, mem, first, pages) - used;

	if (w.chaos.bar1_limit && w.chaos.bar1_limit < size)
		size = w.chaos.bar1_limit;
	return more && w.config.reserved * PAGE + used + more > size;
}

bool is_kept(u32 mem)
{
	u32 i;

	for (i = 0; i < MOVABLES; i++) {
		if (w.movables[i].used && w.movables[i].mem == mem)
			return true;
	}
	return false;
}

u32 ctxs_on(u32 gpu)
{
	u32 i, n = 0;

	for (i = 0; i < CTXS; i++)
		n += w.ctxs[i].used && w.ctxs[i].gpu == gpu;
	return n;
}

u32 pins_on(u32 gpu)
{
	u32 i, n = 0;

	for (i = 0; i < PINS; i++)
		n += w.pins[i].used && w.mems[w.pins[i].mem].gpu == gpu;
	return n;
}

static bool in_use_elsewhere(u32 range)
{
	u32 i;

	for (i = 0; i < PINS; i++) {
		if (w.pins[i].used && w.pins[i].range == (int)range)
			return true;
	}
	return w.mems[w.ranges[range].mem].imports || is_kept(w.ranges[range].mem);
}

void slab_settle(u32 range)
{
	u32 i;

	if (!w.ranges[range].slab || in_use_elsewhere(range))
		return;
	for (i = 0; i < SLOTS; i++) {
		if (w.ranges[range].slots[i] == LIMBO)
			w.ranges[range].slots[i] = FREE;
	}
}

bool hits(u32 *countdown)
{
	if (!*countdown)
		return false;
	--*countdown;
	return !*countdown;
}

u32 take_handle(u32 proc)
{
	return w.procs[proc].next_handle++;
}

int client_of(u32 proc, u32 n)
{
	u32 i, there = 0;

	for (i = 0; i < CLIENTS; i++)
		there += w.clients[i].used && w.clients[i].proc == proc;
	if (!there)
		return -1;
	n %= there;
	for (i = 0;; i++) {
		if (w.clients[i].used && w.clients[i].proc == proc && !n--)
			return (int)i;
	}
}

bool client_removed(u32 client)
{
	return w.gpus[w.clients[client].gpu].removed;
}

u32 gpu_for(int ctx, u32 client)
{
	return ctx < 0 ? w.clients[client].gpu : w.ctxs[ctx].gpu;
}

bool choose_ctx(u32 n, u32 by, bool none, int *ctx, u32 *client)
{
	int c;

	*ctx = none ? -1 : PICK(w.ctxs, n);
	if (!none && *ctx < 0)
		return false;
	c = none ? PICK(w.clients, by) : client_of(w.ctxs[*ctx].proc, by);
	*client = (u32)c;
	return c >= 0;
}
