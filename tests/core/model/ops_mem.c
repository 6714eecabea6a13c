// SPDX-License-Identifier: MIT
/* ops_mem.c - device allocations, the program's own memory, and what QUERY says of them. */
#include "model.h"

int new_mem(u32 gpu, u64 pages)
{
	int i = SPARE(w.mems);

	MUST(i >= 0);
	memset(&w.mems[i], 0, sizeof(w.mems[i]));
	w.mems[i].used = true;
	w.mems[i].gpu = gpu;
	w.mems[i].pages = (u32)pages;
	return i;
}

int new_range(u32 proc, int ctx, u32 mem, u64 va)
{
	int i = SPARE(w.ranges);

	MUST(i >= 0);
	w.ranges[i] = (struct n_range){ .used = true, .proc = proc, .ctx = ctx, .mem = mem, .va = va,
					.pages = w.mems[mem].pages, .access = 3,
					.seq = ++w.range_seq };
	return i;
}

/* First fit among the slabs of a context, or of a client that has them in none, the oldest first; -1: none has room. */
static int slab_with_room(int ctx, u32 client, u32 count, u32 *at)
{
	u64 last = 0;

	for (;;) {
		int next = -1;
		u32 i, run = 0;

		for (i = 0; i < RANGES; i++) {
			const struct n_range *r = &w.ranges[i];

			if (r->used && r->slab && r->ctx == ctx && (ctx >= 0 || r->client == client) && r->seq > last &&
			    (next < 0 || r->seq < w.ranges[next].seq))
				next = (int)i;
		}
		if (next < 0)
			return -1;
		last = w.ranges[next].seq;
		slab_settle((u32)next);
		for (i = 0; i < SLOTS; i++) {
			run = w.ranges[next].slots[i] == FREE ? run + 1 : 0;
			if (run == count) {
				*at = i + 1 - count;
				return next;
			}
		}
	}
}

/* Where an allocation must go; the errno when it must fail. */
static int naive_alloc(int ctx, u32 client, u64 len, int *range, u64 *va)
{
	u32 proc = w.clients[client].proc, gpu = gpu_for(ctx, client);
	u64 pages = (len + PAGE - 1) / PAGE;
	u32 count = (u32)((len + SLOT - 1) / SLOT), at = 0;
	bool small = len <= PAGE / 2;

	*range = small ? slab_with_room(ctx, client, count, &at) : -1;
	if (*range < 0) {
		if (hits(&w.chaos.fail_alloc) || vram_used(gpu) + pages * PAGE > w.config.vram * PAGE)
			return -ENOSPC;
		if (!w.procs[proc].has_window)
			return -EINVAL;
		*va = window_find(proc, pages, PAGE);
		if (!*va)
			return -ENOSPC;
		*range = new_range(proc, ctx, (u32)new_mem(gpu, pages), *va);
		w.ranges[*range].slab = small;
		w.ranges[*range].client = client;
	}
	*va = w.ranges[*range].va + (u64)at * SLOT;
	if (small)
		memset(w.ranges[*range].slots + at, TAKEN, count);
	w.ranges[*range].bufs++;
	return 0;
}

static void do_alloc(const u32 *arg, u64 len)
{
	struct softgpu_mem_alloc a = { .length = len };
	int slot = SPARE(w.bufs), want, range = -1, ctx;
	bool wrong = arg[3] % 64 == 0;
	u64 va = 0;
	u32 client;

	if (slot < 0 || SPARE(w.mems) < 0 || SPARE(w.ranges) < 0 ||
	    !choose_ctx(arg[0], arg[1], arg[3] / 64 % 6 == 0, &ctx, &client))
		return;
	a.ctx = (ctx < 0 ? 0 : w.ctxs[ctx].handle) + (wrong ? 1000 : 0);
	if (client_removed(client))
		want = -ENODEV;
	else if (len > w.config.vram * PAGE)
		want = -ENOSPC;
	else if (wrong)
		want = -ENOENT;
	else if (ctx >= 0 && w.ctxs[ctx].faulted)
		want = -EIO;
	else
		want = naive_alloc(ctx, client, len, &range, &va);
	MUST(CALL(w.clients[client].c, SOFTGPU_MEM_ALLOC, &a) == want);
	if (want)
		return;
	w.bufs[slot] = (struct n_buf){ .used = true, .kind = SOFTGPU_KIND_DEVICE, .client = client,
				       .proc = w.clients[client].proc, .ctx = ctx, .range = range, .phys = -1,
				       .share = -1, .copy = -1, .import = -1, .va = va, .len = len,
				       .id = ++w.last_id };
	MUST(a.va == va);
	MUST(a.buffer_id == w.last_id);
}

void op_alloc_small(const u32 *arg)
{
	do_alloc(arg, 1 + arg[2] % (PAGE / 2));
}

void op_alloc(const u32 *arg)
{
	u64 pages = arg[3] % 32 ? 8 : 70;

	do_alloc(arg, 1 + arg[2] % (pages * PAGE));
}

/* Ends a buf of some kinds by the address where it, or something else, begins. */
static int end_buf(const u32 *arg, u32 nr, u32 kinds)
{
	int i = PICK(w.bufs, arg[0]), client, at, want = 0;
	struct softgpu_va a = { .size = sizeof(a) };
	u32 proc;

	if (i < 0)
		return -1;
	/* Sometimes in another process, where something else may stand at the address. */
	proc = arg[2] % 8 ? w.bufs[i].proc : arg[3] % w.config.procs;
	client = client_of(proc, arg[1]);
	if (client < 0)
		return -1;
	a.va = w.bufs[i].va + (arg[3] % 16 ? 0 : SLOT);
	at = buf_at(proc, a.va);
	if (client_removed((u32)client))
		want = -ENODEV;
	else if (at < 0 || w.bufs[at].va != a.va || !(kinds & 1u << w.bufs[at].kind))
		want = -ENOENT;
	/* It waits for the work of its context, not for that of others. */
	if (!want)
		settle_others(w.bufs[at].ctx);
	MUST(sg_call(w.clients[client].c, nr, &a, sizeof(a)) == want);
	if (want)
		return -1;
	for (i = 0; i < JOBS; i++) {
		if (w.works[i].used && (int)w.works[i].ctx == w.bufs[at].ctx)
			w.works[i].used = false;
	}
	return at;
}

void op_free(const u32 *arg)
{
	int at = end_buf(arg, _IOC_NR(SOFTGPU_MEM_FREE), 1u << SOFTGPU_KIND_DEVICE);

	if (at >= 0)
		buf_gone((u32)at);
}

void op_unregister(const u32 *arg)
{
	int at = end_buf(arg, _IOC_NR(SOFTGPU_HOST_UNREGISTER),
			 1u << SOFTGPU_KIND_HOST | 1u << SOFTGPU_KIND_MANAGED |
			 1u << SOFTGPU_KIND_REGISTERED);

	if (at >= 0)
		buf_gone((u32)at);
}

void op_ipc_close(const u32 *arg)
{
	int at = end_buf(arg, _IOC_NR(SOFTGPU_IPC_CLOSE), 1u << SOFTGPU_KIND_IPC);

	if (at >= 0 && !--w.bufs[at].opens)
		buf_gone((u32)at);
}

static int naive_register(u32 proc, const struct softgpu_host_register *a)
{
	int r = reservation_at(proc, a->va);

	if (a->kind == SOFTGPU_KIND_REGISTERED) {
		if (w.procs[proc].has_window && a->va < window_base(proc) + w.config.window * PAGE &&
		    a->va + a->length > window_base(proc))
			return -EINVAL;
	} else if (r < 0 || a->va + a->length > w.reservations[r].va + w.reservations[r].pages * PAGE) {
		return -ENOENT;
	}
	return bufs_overlap(proc, a->va, a->length) ? -EEXIST : 0;
}

void op_register(const u32 *arg)
{
	int ctx = PICK(w.ctxs, arg[0]), slot = SPARE(w.bufs), client, want;
	int r = PICK(w.reservations, arg[1]);
	struct softgpu_host_register a = { .kind = SOFTGPU_KIND_HOST + arg[2] % 3,
					   .length = 1 + arg[3] % (2 * PAGE), .host_flags = arg[3] };

	if (ctx < 0 || slot < 0)
		return;
	client = client_of(w.ctxs[ctx].proc, arg[1]);
	a.ctx = w.ctxs[ctx].handle;
	a.va = 0x10000000 + arg[2] % 16 * PAGE;
	if (r >= 0 && arg[1] % 16)
		a.va = w.reservations[r].va + arg[1] / 16 % w.reservations[r].pages * PAGE;
	if (a.kind == SOFTGPU_KIND_REGISTERED && arg[1] % 16)
		a.va = 0x10000000 + arg[1] % 16 * PAGE;
	want = client_removed((u32)client) ? -ENODEV : w.ctxs[ctx].faulted ? -EIO :
	       naive_register(w.ctxs[ctx].proc, &a);
	MUST(CALL(w.clients[client].c, SOFTGPU_HOST_REGISTER, &a) == want);
	if (want)
		return;
	w.bufs[slot] = (struct n_buf){ .used = true, .kind = a.kind, .proc = w.ctxs[ctx].proc,
				       .ctx = ctx, .range = -1, .phys = -1, .share = -1, .copy = -1, .import = -1,
				       .va = a.va, .len = a.length, .host_flags = a.host_flags,
				       .id = ++w.last_id };
	MUST(a.buffer_id == w.last_id);
}

void op_set_attr(const u32 *arg)
{
	struct softgpu_set_attr a = { .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .value = arg[2] % 2 };
	int i = PICK(w.bufs, arg[0]), client, at, want;

	if (i < 0)
		return;
	client = client_of(w.bufs[i].proc, arg[1]);
	a.va = w.bufs[i].va + arg[2] % (w.bufs[i].len + 2);
	at = buf_at(w.bufs[i].proc, a.va);
	want = client_removed((u32)client) ? -ENODEV : at < 0 ? -ENOENT : 0;
	MUST(CALL(w.clients[client].c, SOFTGPU_SET_ATTR, &a) == want);
	if (!want)
		w.bufs[at].sync = a.value;
}

/* Any address: of this process, of another, or of none. */
void op_query(const u32 *arg)
{
	int i = PICK(w.bufs, arg[0]), client = PICK(w.clients, arg[1]), at, r;
	struct softgpu_query a = { 0 };

	if (client < 0)
		return;
	a.va = i < 0 || arg[2] % 8 == 0 ? window_base(w.clients[client].proc) + arg[3] % (WINDOW_PAGES * PAGE) :
					  w.bufs[i].va + arg[3] % (2 * w.bufs[i].len);
	at = buf_at(w.clients[client].proc, a.va);
	r = reservation_at(w.clients[client].proc, a.va);
	MUST(CALL(w.clients[client].c, SOFTGPU_QUERY, &a) == (client_removed((u32)client) ? -ENODEV : 0));
	if (client_removed((u32)client))
		return;
	if (at >= 0)
		MUST(a.kind == w.bufs[at].kind && a.buffer_id == w.bufs[at].id && a.base == w.bufs[at].va);
	else if (r >= 0)
		MUST(a.kind == SOFTGPU_KIND_RESERVED && a.base == w.reservations[r].va &&
		     a.length == w.reservations[r].pages * PAGE && !a.buffer_id);
	else
		MUST(a.kind == SOFTGPU_KIND_NONE && !a.base && !a.buffer_id);
}
