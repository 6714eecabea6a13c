// SPDX-License-Identifier: MIT
/* ops_vmm.c - addresses reserved, memory created, and the two brought together. */
#include "model.h"

void op_reserve(const u32 *arg)
{
	int client = PICK(w.clients, arg[0]), slot = SPARE(w.reservations), want = 0;
	struct softgpu_va_reserve a = { .length = (1 + arg[1] % 12) * PAGE };
	u64 align, va = 0;
	u32 proc;

	if (client < 0 || slot < 0)
		return;
	proc = w.clients[client].proc;
	a.align = arg[2] % 2 ? 0 : PAGE << arg[2] / 2 % 4;
	a.hint = arg[3] % 2 ? 0 : window_base(proc) + arg[3] / 2 % WINDOW_PAGES * PAGE;
	align = a.align ? a.align : PAGE;
	if (client_removed((u32)client)) {
		want = -ENODEV;
	} else if (!w.procs[proc].has_window) {
		want = -EINVAL;
	} else {
		if (a.hint && a.hint % align == 0 && window_free(proc, a.hint, a.length / PAGE))
			va = a.hint;
		else
			va = window_find(proc, a.length / PAGE, align);
		want = va ? 0 : -ENOSPC;
	}
	MUST(CALL(w.clients[client].c, SOFTGPU_VA_RESERVE, &a) == want);
	if (want)
		return;
	MUST(a.va == va);
	w.reservations[slot] = (struct n_reservation){ true, proc, (u32)client, va, a.length / PAGE };
}

void op_release(const u32 *arg)
{
	int i = PICK(w.reservations, arg[0]), client, want = 0;
	const struct n_reservation *r;
	struct softgpu_va a = { 0 };

	if (i < 0)
		return;
	r = &w.reservations[i];
	client = client_of(r->proc, arg[1]);
	a.va = r->va + (arg[2] % 8 ? 0 : PAGE);
	/* What follows it may be a reservation of its own, or none. */
	i = reservation_at(r->proc, a.va);
	if (client_removed((u32)client))
		want = -ENODEV;
	else if (i < 0 || w.reservations[i].va != a.va)
		want = -ENOENT;
	else if (bufs_overlap(r->proc, a.va, w.reservations[i].pages * PAGE) ||
		 ranges_overlap(r->proc, a.va, w.reservations[i].pages * PAGE))
		want = -EBUSY;
	MUST(CALL(w.clients[client].c, SOFTGPU_VA_RELEASE, &a) == want);
	if (!want)
		w.reservations[i].used = false;
}

void op_phys_create(const u32 *arg)
{
	int client = PICK(w.clients, arg[0]), slot = SPARE(w.phys), want = 0;
	struct softgpu_phys_create a = { .length = (1 + arg[1] % 5) * PAGE,
					 .flags = arg[2] % 4 ? 0 : SOFTGPU_PHYS_NO_RDMA };
	u32 gpu, mem;

	if (client < 0 || slot < 0 || SPARE(w.mems) < 0)
		return;
	gpu = w.clients[client].gpu;
	if (client_removed((u32)client))
		want = -ENODEV;
	else if (hits(&w.chaos.fail_alloc) || vram_used(gpu) + a.length > w.config.vram * PAGE)
		want = -ENOSPC;
	MUST(CALL(w.clients[client].c, SOFTGPU_PHYS_CREATE, &a) == want);
	if (want)
		return;
	mem = (u32)new_mem(gpu, a.length / PAGE);
	w.mems[mem].no_rdma = a.flags;
	w.phys[slot] = (struct n_phys){ .used = true, .proc = w.clients[client].proc,
					.client = (u32)client, .mem = mem,
					.handle = take_handle(w.clients[client].proc) };
	MUST(a.handle == w.phys[slot].handle);
}

void op_phys_release(const u32 *arg)
{
	int i = PICK(w.phys, arg[0]), client, want;
	struct softgpu_handle a;

	if (i < 0)
		return;
	client = client_of(w.phys[i].proc, arg[1]);
	if (client < 0)
		return;
	a.handle = w.phys[i].handle;
	want = client_removed((u32)client) ? -ENODEV : w.phys[i].gone ? -ENOENT : 0;
	MUST(CALL(w.clients[client].c, SOFTGPU_PHYS_RELEASE, &a) == want);
	if (!want)
		w.phys[i].gone = true;
}

static int naive_map(u32 proc, const struct n_phys *phys, const struct softgpu_map *a)
{
	int r = reservation_at(proc, a->va);

	if (phys->gone)
		return -ENOENT;
	if (w.gpus[w.mems[phys->mem].gpu].removed)
		return -ENODEV;
	if (a->length != w.mems[phys->mem].pages * PAGE || a->va % PAGE)
		return -EINVAL;
	if (r < 0 || a->va + a->length > w.reservations[r].va + w.reservations[r].pages * PAGE)
		return -ENOENT;
	return bufs_overlap(proc, a->va, a->length) || ranges_overlap(proc, a->va, a->length) ? -EEXIST : 0;
}

void op_map(const u32 *arg)
{
	int p = PICK(w.phys, arg[0]), slot = SPARE(w.bufs), ctx = PICK(w.ctxs, arg[1]), client, r, want;
	struct softgpu_map a = { 0 };
	struct n_buf *b;
	u32 proc;

	if (p < 0 || slot < 0 || SPARE(w.ranges) < 0)
		return;
	proc = w.phys[p].proc;
	client = client_of(proc, arg[2]);
	/* A reservation of that process, if one is met soon. */
	for (r = 0; r < RESERVATIONS - 1 && !(w.reservations[r].used && w.reservations[r].proc == proc &&
					      arg[3] % (r + 2) != 1); r++)
		;
	if (client < 0)
		return;
	if (ctx >= 0 && (w.ctxs[ctx].proc != proc || arg[2] % 4 == 0))
		ctx = -1;
	a.ctx = ctx < 0 ? 0 : w.ctxs[ctx].handle;
	a.handle = w.phys[p].handle;
	a.length = w.mems[w.phys[p].mem].pages * PAGE + (arg[3] % 32 ? 0 : PAGE);
	a.va = w.reservations[r].va;
	if (w.reservations[r].pages)
		a.va += arg[2] / 4 % w.reservations[r].pages * PAGE + (arg[3] % 33 ? 0 : SLOT);
	want = client_removed((u32)client) ? -ENODEV : naive_map(proc, &w.phys[p], &a);
	MUST(CALL(w.clients[client].c, SOFTGPU_MAP, &a) == want);
	if (want)
		return;
	b = &w.bufs[slot];
	*b = (struct n_buf){ .used = true, .kind = SOFTGPU_KIND_VMM, .proc = proc, .client = (u32)client,
			     .ctx = ctx, .phys = p, .share = -1, .copy = -1, .import = -1, .va = a.va, .len = a.length,
			     .range = new_range(proc, ctx, w.phys[p].mem, a.va), .id = ++w.last_id };
	w.ranges[b->range].in_reservation = true;
	w.ranges[b->range].access = 0;
	w.ranges[b->range].bufs = 1;
	MUST(a.buffer_id == w.last_id);
}

/* A mapping, and perhaps what follows it; true if that is made of whole mappings. */
static bool some_mappings(const u32 *arg, u32 *proc, u64 *va, u64 *len)
{
	int i = PICK(w.bufs, arg[0]), at;
	u64 done;

	if (i < 0)
		return false;
	*proc = w.bufs[i].proc;
	*va = w.bufs[i].va;
	*len = w.bufs[i].len + (arg[2] % 4 ? 0 : (1 + arg[2] / 4 % 4) * PAGE);
	if (arg[3] % 16 == 0 && *len > PAGE)
		*len -= PAGE;
	for (done = 0; done < *len; done += w.bufs[at].len) {
		at = buf_at(*proc, *va + done);
		if (at < 0 || w.bufs[at].va != *va + done || w.bufs[at].kind != SOFTGPU_KIND_VMM ||
		    w.bufs[at].len > *len - done)
			return false;
	}
	return true;
}

void op_unmap(const u32 *arg)
{
	struct softgpu_va_range a = { 0 };
	u32 proc = PROCS, i;
	bool whole = some_mappings(arg, &proc, &a.va, &a.length);
	int client = client_of(proc, arg[1]), want;

	if (client < 0)
		return;
	want = client_removed((u32)client) ? -ENODEV : whole ? 0 : -EINVAL;
	settle_all();
	MUST(CALL(w.clients[client].c, SOFTGPU_UNMAP, &a) == want);
	for (i = 0; i < BUFS && !want; i++) {
		if (w.bufs[i].used && w.bufs[i].proc == proc && w.bufs[i].va >= a.va &&
		    w.bufs[i].va < a.va + a.length)
			buf_gone(i);
	}
}

void op_access(const u32 *arg)
{
	static const u32 values[] = { 3, 3, 3, 3, 1, 0, 2, 4 };
	struct softgpu_va_range a = { .access = values[arg[3] / 16 % 8] };
	u32 proc = PROCS, i;
	bool whole = some_mappings(arg, &proc, &a.va, &a.length);
	int client = client_of(proc, arg[1]), want;

	if (client < 0)
		return;
	want = client_removed((u32)client) ? -ENODEV : whole && a.access != 2 && a.access != 4 ? 0 : -EINVAL;
	settle_all();
	MUST(CALL(w.clients[client].c, SOFTGPU_ACCESS, &a) == want);
	for (i = 0; i < BUFS && !want; i++) {
		if (w.bufs[i].used && w.bufs[i].proc == proc && w.bufs[i].va >= a.va &&
		    w.bufs[i].va < a.va + a.length)
			w.ranges[w.bufs[i].range].access = a.access;
	}
}
