// SPDX-License-Identifier: MIT
/* ops_ipc.c - one process's memory in another; IPC_CLOSE stands with the other ends in ops_mem.c. */
#include "model.h"

/* A slot for a new share: one that was never used, or the first dead one. */
static int share_slot(void)
{
	int i = SPARE(w.shares);
	u32 k;

	for (k = 0; i < 0 && k < SHARES; k++) {
		if (w.shares[k].dead)
			i = (int)k;
	}
	return i;
}

void op_ipc_export(const u32 *arg)
{
	int i = PICK(w.bufs, arg[0]), slot = share_slot(), client, want;
	struct softgpu_ipc_export a = { 0 };
	struct n_buf *b;

	if (i < 0)
		return;
	b = &w.bufs[i];
	client = client_of(b->proc, arg[1]);
	a.va = b->va + arg[2] % b->len;
	if (b->share < 0 && slot < 0)
		return;
	want = client_removed((u32)client) ? -ENODEV : b->kind != SOFTGPU_KIND_DEVICE ? -ENOENT : 0;
	MUST(CALL(w.clients[client].c, SOFTGPU_IPC_EXPORT, &a) == want);
	if (want)
		return;
	if (b->share < 0) {
		w.shares[slot] = (struct n_share){ .used = true, .id = ++w.last_share, .buf = (u32)i,
						   .key = { a.key[0], a.key[1] } };
		b->share = slot;
	}
	/* The same each time. */
	MUST(a.id == w.shares[b->share].id);
	MUST(a.key[0] == w.shares[b->share].key[0] && a.key[1] == w.shares[b->share].key[1]);
}

/* The import of a share that a process has on the GPU of a context, or else of a client; -1. */
static int import_of(int share, int ctx, u32 client)
{
	u32 i;

	for (i = 0; i < BUFS; i++) {
		const struct n_buf *b = &w.bufs[i];

		if (b->used && b->import == share && b->proc == w.clients[client].proc &&
		    gpu_for(b->ctx, b->client) == gpu_for(ctx, client))
			return (int)i;
	}
	return -1;
}

static int naive_open(int ctx, u32 client, int share, bool right_key, int *import, u64 *va)
{
	u32 proc = w.clients[client].proc;
	const struct n_buf *b;

	if (ctx >= 0 && w.ctxs[ctx].faulted)
		return -EIO;
	if (w.shares[share].dead || !right_key)
		return -ENOKEY;
	b = &w.bufs[w.shares[share].buf];
	if (b->proc == proc)
		return -EEXIST;
	*import = import_of(share, ctx, client);
	b = *import < 0 ? b : &w.bufs[*import];
	if (*import >= 0)
		return b->ctx == ctx && (ctx >= 0 || b->client == client) ? 0 : -EBUSY;
	if (!w.procs[proc].has_window)
		return -EINVAL;
	*va = window_find(proc, w.ranges[b->range].pages, PAGE);
	return *va ? 0 : -ENOSPC;
}

void op_ipc_open(const u32 *arg)
{
	int share = PICK(w.shares, arg[0]), slot = SPARE(w.bufs), ctx;
	struct softgpu_ipc_open a = { 0 };
	int want, import = -1, range;
	const struct n_buf *from;
	u32 client;
	u64 va = 0;

	if (share < 0 || slot < 0 || SPARE(w.ranges) < 0 || !choose_ctx(arg[1], arg[2], arg[1] / 64 % 4 == 0, &ctx, &client))
		return;
	a.ctx = ctx < 0 ? 0 : w.ctxs[ctx].handle;
	a.id = w.shares[share].id;
	a.key[0] = w.shares[share].key[0];
	a.key[1] = w.shares[share].key[1];
	if (arg[3] % 16 == 0)
		a.key[arg[3] / 16 % 2] ^= 1ULL << arg[3] / 32 % 64;
	want = client_removed(client) ? -ENODEV : naive_open(ctx, client, share, arg[3] % 16, &import, &va);
	MUST(CALL(w.clients[client].c, SOFTGPU_IPC_OPEN, &a) == want);
	if (want)
		return;
	if (import >= 0) {
		w.bufs[import].opens++;
		MUST(a.va == w.bufs[import].va);
		return;
	}
	from = &w.bufs[w.shares[share].buf];
	range = new_range(w.clients[client].proc, ctx, w.ranges[from->range].mem, va);
	w.ranges[range].imported = true;
	w.ranges[range].bufs = 1;
	w.mems[w.ranges[range].mem].imports++;
	w.bufs[slot] = (struct n_buf){ .used = true, .kind = SOFTGPU_KIND_IPC, .proc = w.clients[client].proc,
				       .client = client, .ctx = ctx, .range = range, .phys = -1, .share = -1, .copy = -1,
				       .import = share, .opens = 1, .len = from->len, .id = ++w.last_id,
				       .va = va + (from->va - w.ranges[from->range].va) };
	MUST(a.va == w.bufs[slot].va);
}
