// SPDX-License-Identifier: MIT
/*
 * ops_work.c - streams, events, copies and fills.
 *
 * The naive version does work at once.  The core does it when its engines come
 * by, so work that may overtake earlier work on the same memory is not queued
 * before that is done: all that is told beforehand must come out.  What one
 * stream, or the default stream and the blocking ones, do in order is left to them.
 */
#include "model.h"
#include "clients/clients.h"

#define COPY_CELLS	16u

/* What host memory holds is fixed, so that a copy may read it at any time. */
static u8 patterns[8][COPY_CELLS * SLOT];

static const u8 *pattern(u32 n)
{
	u32 i;

	for (i = 0; !patterns[0][0] && i < 8; i++)
		memset(patterns[7 - i], (int)(107 - i), sizeof(patterns[0]));
	return patterns[n];
}

static bool has_work(u32 ctx)
{
	u32 i;

	for (i = 0; i < JOBS; i++) {
		if (w.works[i].used && w.works[i].ctx == ctx)
			return true;
	}
	return false;
}

static void forget_work(u32 ctx)
{
	u32 i;

	for (i = 0; i < JOBS; i++) {
		if (w.works[i].ctx == ctx)
			w.works[i].used = false;
	}
}

static void sync_ctx(u32 ctx, u32 client)
{
	struct softgpu_handle a = { .handle = w.ctxs[ctx].handle };
	int want = client_removed(client) ? -ENODEV : w.ctxs[ctx].faulted ? -EIO : 0;

	MUST(CALL(w.clients[client].c, SOFTGPU_CTX_SYNC, &a) == want);
	if (want != -ENODEV)
		forget_work(ctx);
}

void settle_ctx(u32 ctx)
{
	if (w.ctxs[ctx].used && has_work(ctx))
		sync_ctx(ctx, w.ctxs[ctx].client);
}

void settle_others(int ctx)
{
	u32 i;

	for (i = 0; i < CTXS; i++) {
		if ((int)i != ctx)
			settle_ctx(i);
	}
}

void settle_all(void)
{
	settle_others(-1);
}

/* Strict mode's rules of what releases what are kept simple here: all or nothing. */
static void settle_if_strict(void)
{
	if (w.config.strict)
		settle_all();
}

static bool overlap(u64 a, u64 a_len, u64 b, u64 b_len)
{
	return a < b + b_len && b < a + a_len;
}

bool held_work_on(u32 proc, u64 va, u64 len)
{
	u32 i;

	for (i = 0; i < JOBS; i++) {
		const struct n_work *k = &w.works[i];

		if (k->used && k->held && w.ctxs[k->ctx].proc == proc &&
		    (overlap(k->va[0], k->cells * SLOT, va, len) ||
		     (k->mem[1] >= 0 && overlap(k->va[1], k->cells * SLOT, va, len))))
			return true;
	}
	return false;
}

static bool pinned(const struct n_work *k, int range)
{
	u32 i;

	for (i = 0; i < PINS; i++) {
		const struct n_pin *p = &w.pins[i];

		/* Any of the range's pins that touches source or destination. */
		if (p->used && p->range == range &&
		    (overlap(p->va, p->pages * PAGE, k->va[0], k->cells * SLOT) ||
		     (k->mem[1] >= 0 && overlap(p->va, p->pages * PAGE, k->va[1], k->cells * SLOT))))
			return true;
	}
	return false;
}

/* Whether the core does them in the order in which they were queued. */
static bool ordered(const struct n_work *a, const struct n_work *b)
{
	if (a->ctx != b->ctx)
		return false;
	if (a->stream == b->stream)
		return true;
	if (a->stream == -1)
		return !w.streams[b->stream].non_blocking;
	return b->stream == -1 && a->stream >= 0 && !w.streams[a->stream].non_blocking;
}

static bool same_cells(const struct n_work *a, u32 i, const struct n_work *b, u32 k)
{
	return a->mem[i] >= 0 && a->mem[i] == b->mem[k] &&
	       overlap(a->first[i], a->cells, b->first[k], b->cells);
}

static bool touch(const struct n_work *a, const struct n_work *b)
{
	return same_cells(a, 0, b, 0) || same_cells(a, 0, b, 1) || same_cells(a, 1, b, 0);
}

/* True if earlier work may still have to be done on the same memory. */
static bool settle_conflicts(const struct n_work *k)
{
	bool later = false;
	u32 i;

	for (i = 0; i < JOBS; i++) {
		if (!w.works[i].used || !touch(&w.works[i], k))
			continue;
		if (ordered(&w.works[i], k))
			later = true;
		else
			settle_ctx(w.works[i].ctx);
	}
	return later;
}

/* A stream of the context; -1: its default one. */
static int stream_of(u32 ctx, u32 n)
{
	u32 i;

	for (i = 0; i < STREAMS; i++) {
		const struct n_stream *s = &w.streams[(i + n) % STREAMS];

		if (n % 3 && s->used && s->ctx == ctx)
			return (int)((i + n) % STREAMS);
	}
	return -1;
}

static u32 stream_handle(int stream)
{
	return stream < 0 ? 0 : w.streams[stream].handle;
}

const u8 *look(u32 range, u32 cell)
{
	const struct n_range *r = &w.ranges[range];
	const u8 *at = NULL;
	struct sg_proc *proc;
	u64 run;

	sg_mutex_lock(&w.sg->lock);
	sg_list_for_each(proc, &w.sg->procs, struct sg_proc, link) {
		if (proc->key == &w.procs[r->proc].key)
			at = sg_mem_at(sg_range_at(proc, r->va)->mem, (u64)cell * SLOT, &run);
	}
	sg_mutex_unlock(&w.sg->lock);
	MUST(at);
	return at;
}

/* ---- streams and events ---- */

void op_stream_create(const u32 *arg)
{
	int ctx = PICK(w.ctxs, arg[0]), slot = SPARE(w.streams), client, want;
	struct softgpu_stream_create a = { .flags = arg[2] % 2 };

	if (ctx < 0 || slot < 0)
		return;
	client = client_of(w.ctxs[ctx].proc, arg[1]);
	a.ctx = w.ctxs[ctx].handle;
	want = client_removed((u32)client) ? -ENODEV : w.ctxs[ctx].faulted ? -EIO : 0;
	MUST(CALL(w.clients[client].c, SOFTGPU_STREAM_CREATE, &a) == want);
	if (want)
		return;
	w.streams[slot] = (struct n_stream){ true, a.flags, (u32)ctx, take_handle(w.ctxs[ctx].proc) };
	MUST(a.stream == w.streams[slot].handle);
}

static int stream_call(u32 nr, const u32 *arg, int *stream)
{
	int i = PICK(w.streams, arg[0]), client, want;
	struct softgpu_stream a = { .size = sizeof(a) };
	const struct n_ctx *x;

	*stream = i;
	if (i < 0)
		return -1;
	x = &w.ctxs[w.streams[i].ctx];
	client = client_of(x->proc, arg[1]);
	a.ctx = x->handle;
	a.stream = w.streams[i].handle;
	want = client_removed((u32)client) ? -ENODEV : x->faulted ? -EIO : 0;
	MUST(sg_call(w.clients[client].c, nr, &a, sizeof(a)) == want);
	return want;
}

void op_stream_destroy(const u32 *arg)
{
	int i;
	u32 k;

	settle_if_strict();
	if (stream_call(_IOC_NR(SOFTGPU_STREAM_DESTROY), arg, &i))
		return;
	w.streams[i].used = false;
	for (k = 0; k < JOBS; k++) {
		if (w.works[k].used && w.works[k].stream == i)
			w.works[k].stream = -2;	/* goes on, in no order with others' */
	}
}

static void stream_done(u32 ctx, int stream)
{
	u32 i;

	for (i = 0; i < JOBS; i++) {
		if (w.works[i].used && w.works[i].ctx == ctx && w.works[i].stream == stream)
			w.works[i].used = false;
	}
}

void op_stream_sync(const u32 *arg)
{
	int i;

	if (stream_call(_IOC_NR(SOFTGPU_STREAM_SYNC), arg, &i))
		return;
	stream_done(w.streams[i].ctx, i);
	MUST(!stream_call(_IOC_NR(SOFTGPU_STREAM_QUERY), arg, &i));
	settle_if_strict();
}

void op_event_create(const u32 *arg)
{
	int ctx = PICK(w.ctxs, arg[0]), slot = SPARE(w.events), client, want;
	struct softgpu_event_create a = { 0 };

	if (ctx < 0 || slot < 0)
		return;
	client = client_of(w.ctxs[ctx].proc, arg[1]);
	a.ctx = w.ctxs[ctx].handle;
	want = client_removed((u32)client) ? -ENODEV : w.ctxs[ctx].faulted ? -EIO : 0;
	MUST(CALL(w.clients[client].c, SOFTGPU_EVENT_CREATE, &a) == want);
	if (want)
		return;
	w.events[slot] = (struct n_event){ true, w.ctxs[ctx].proc, w.ctxs[ctx].client,
					   take_handle(w.ctxs[ctx].proc) };
	MUST(a.event == w.events[slot].handle);
}

void op_event_destroy(const u32 *arg)
{
	int i = PICK(w.events, arg[0]), client, want;
	struct softgpu_handle a;

	if (i < 0)
		return;
	settle_if_strict();
	client = client_of(w.events[i].proc, arg[1]);
	a.handle = w.events[i].handle;
	want = client_removed((u32)client) ? -ENODEV : 0;
	MUST(CALL(w.clients[client].c, SOFTGPU_EVENT_DESTROY, &a) == want);
	if (want)
		return;
	w.events[i].used = false;
	MUST(CALL(w.clients[client].c, SOFTGPU_EVENT_DESTROY, &a) == -ENOENT);
}

/* RECORD and STREAM_WAIT. */
static void mark(u32 nr, const u32 *arg)
{
	int i = PICK(w.events, arg[0]), ctx = PICK(w.ctxs, arg[1]), client, want;
	struct softgpu_event a = { .size = sizeof(a) };

	if (i < 0 || ctx < 0)
		return;
	settle_if_strict();
	client = client_of(w.ctxs[ctx].proc, arg[3]);
	a.ctx = w.ctxs[ctx].handle;
	a.stream = stream_handle(stream_of((u32)ctx, arg[2]));
	a.event = w.events[i].handle;
	want = client_removed((u32)client) ? -ENODEV : w.ctxs[ctx].faulted ? -EIO : 0;
	/* In another process the number may name something else; there it is not tried. */
	if (w.ctxs[ctx].proc == w.events[i].proc)
		MUST(sg_call(w.clients[client].c, nr, &a, sizeof(a)) == want);
}

void op_event_record(const u32 *arg)
{
	mark(_IOC_NR(SOFTGPU_EVENT_RECORD), arg);
}

void op_event_wait(const u32 *arg)
{
	mark(_IOC_NR(SOFTGPU_STREAM_WAIT), arg);
}

void op_event_sync(const u32 *arg)
{
	int i = PICK(w.events, arg[0]), client, want;
	struct softgpu_event a = { 0 };

	if (i < 0)
		return;
	settle_if_strict();
	client = client_of(w.events[i].proc, arg[1]);
	a.event = w.events[i].handle;
	want = client_removed((u32)client) ? -ENODEV : 0;
	MUST(CALL(w.clients[client].c, SOFTGPU_EVENT_SYNC, &a) == want);
	MUST(CALL(w.clients[client].c, SOFTGPU_EVENT_QUERY, &a) == want);
}

void op_ctx_sync(const u32 *arg)
{
	int ctx = PICK(w.ctxs, arg[0]);
	struct softgpu_handle a;
	u32 client;

	if (ctx < 0)
		return;
	client = (u32)client_of(w.ctxs[ctx].proc, arg[1]);
	a.handle = w.ctxs[ctx].handle;
	sync_ctx((u32)ctx, client);
	MUST(CALL(w.clients[client].c, SOFTGPU_FLUSH, &a) ==
	     (client_removed(client) ? -ENODEV : w.ctxs[ctx].faulted ? -EIO : 0));
}

/* ---- copies and fills ---- */

/* Device memory that has whole cells, as one side of the work; its range, -1: none. */
static int side(struct n_work *k, u32 i, u32 proc, u32 n, u32 at)
{
	const struct n_buf *buf;
	u32 cells, first, tries;

	k->mem[i] = -1;
	for (tries = 0; tries < BUFS; tries++) {
		buf = &w.bufs[(n + tries) % BUFS];
		if (buf->used && buf->proc == proc && buf->range >= 0 && buf->len >= SLOT)
			break;
	}
	if (tries == BUFS)
		return -1;
	cells = (u32)(buf->len / SLOT);
	/* At the beginning now and then, so that work meets other work. */
	first = at / 8 % (at % 2 ? cells : 1);
	if (k->cells > cells - first)
		k->cells = cells - first;
	k->va[i] = buf->va + (u64)first * SLOT;
	k->mem[i] = (int)w.ranges[buf->range].mem;
	k->first[i] = (u32)((buf->va - w.ranges[buf->range].va) / SLOT) + first;
	return buf->range;
}

static bool sync_memops(u32 proc, u64 va)
{
	int b = buf_at(proc, va);

	return b >= 0 && w.bufs[b].sync;
}

static void apply(const struct n_work *k, u8 value)
{
	u8 *dst = w.mems[k->mem[0]].cells + k->first[0];

	if (k->mem[1] >= 0)
		memcpy(dst, w.mems[k->mem[1]].cells + k->first[1], k->cells);
	else
		memset(dst, value, k->cells);
}

/* Queues it on core and naive version; value is what is written when that is not another device's. */
static void submit(struct n_work *k, u32 nr, void *a, u32 size, u32 client, int dst, int src, bool sync, u8 value)
{
	u32 proc = w.ctxs[k->ctx].proc;
	bool from_host = nr == _IOC_NR(SOFTGPU_COPY) && k->mem[1] < 0, held, earlier;
	u8 before = w.mems[k->mem[0]].cells[k->first[0]];
	int slot, want = 0;

	if (client_removed(client))
		want = -ENODEV;
	else if (w.ctxs[k->ctx].faulted)
		want = -EIO;
	else if (!(w.ranges[dst].access & 2) || (src >= 0 && !(w.ranges[src].access & 1)))
		want = -EFAULT;
	settle_if_strict();
	if (SPARE(w.works) < 0)
		settle_all();
	earlier = settle_conflicts(k);
	sync = sync || sync_memops(proc, k->va[0]) || (k->mem[1] >= 0 && sync_memops(proc, k->va[1]));
	held = w.config.strict && !sync && !from_host && !want;
	if (held && (pinned(k, dst) || (src >= 0 && pinned(k, src))))
		w.broken++;
	MUST(sg_call(w.clients[client].c, nr, a, size) == want);
	if (want)
		return;
	/* Until something synchronizes, a device that looks there sees the old. */
	if (held && !earlier)
		MUST(*look((u32)dst, k->first[0]) == before);
	apply(k, value);
	if (sync) {
		stream_done(k->ctx, k->stream);
		return;
	}
	slot = SPARE(w.works);
	MUST(slot >= 0);
	k->used = true;
	k->held = held;
	w.works[slot] = *k;
}

static int pick_work(struct n_work *k, const u32 *arg)
{
	int ctx = PICK(w.ctxs, arg[0]);

	if (ctx < 0)
		return -1;
	k->ctx = (u32)ctx;
	k->stream = stream_of((u32)ctx, arg[1]);
	k->cells = 1 + arg[1] / 8 % COPY_CELLS;
	k->mem[1] = -1;
	return client_of(w.ctxs[ctx].proc, arg[1]);
}

void op_fill(const u32 *arg)
{
	struct n_work k = { 0 };
	struct softgpu_fill a = { .size = sizeof(a), .height = 1 };
	int client = pick_work(&k, arg), dst;

	if (client < 0)
		return;
	dst = side(&k, 0, w.ctxs[k.ctx].proc, arg[2], arg[3]);
	if (dst < 0)
		return;
	a.ctx = w.ctxs[k.ctx].handle;
	a.stream = stream_handle(k.stream);
	a.flags = arg[3] % 3 == 0;
	a.elem = 1u << arg[2] % 3;
	a.value = (arg[3] & 0xff) * 0x01010101u;
	a.dst = k.va[0];
	a.width = k.cells * SLOT / a.elem;
	submit(&k, _IOC_NR(SOFTGPU_FILL), &a, sizeof(a), (u32)client, dst, -1, a.flags, (u8)a.value);
}

void op_copy(const u32 *arg)
{
	struct n_work k = { 0 };
	struct softgpu_copy a = { .size = sizeof(a), .height = 1 };
	int client = pick_work(&k, arg), dst, src = -1;
	u32 value = arg[3] % 8;

	if (client < 0)
		return;
	dst = side(&k, 0, w.ctxs[k.ctx].proc, arg[2], arg[3]);
	if (dst < 0)
		return;
	if (arg[2] % 4)
		src = side(&k, 1, w.ctxs[k.ctx].proc, arg[2] / 64, arg[3] / 64);
	/* To itself is undefined. */
	if (src >= 0 && same_cells(&k, 0, &k, 1))
		return;
	a.ctx = w.ctxs[k.ctx].handle;
	a.stream = stream_handle(k.stream);
	a.flags = arg[3] % 3 == 0;
	a.dst = k.va[0];
	a.src = src < 0 ? HOST(pattern(value)) : k.va[1];
	a.width = k.cells * SLOT;
	submit(&k, _IOC_NR(SOFTGPU_COPY), &a, sizeof(a), (u32)client, dst, src, a.flags, (u8)(value + 100));
}

/* To the host, and what comes must be what is known. */
void op_read(const u32 *arg)
{
	struct n_work k = { 0 };
	struct softgpu_copy a = { .height = 1, .flags = SOFTGPU_OP_SYNC };
	int client = pick_work(&k, arg), src, want;
	u32 i;

	if (client < 0)
		return;
	k.mem[0] = -1;
	src = side(&k, 1, w.ctxs[k.ctx].proc, arg[2], arg[3]);
	if (src < 0)
		return;
	settle_if_strict();
	settle_conflicts(&k);
	a.ctx = w.ctxs[k.ctx].handle;
	a.stream = stream_handle(k.stream);
	a.src = k.va[1];
	a.dst = HOST(w.host);
	a.width = k.cells * SLOT;
	want = client_removed((u32)client) ? -ENODEV : w.ctxs[k.ctx].faulted ? -EIO :
	       w.ranges[src].access & 1 ? 0 : -EFAULT;
	MUST(CALL(w.clients[client].c, SOFTGPU_COPY, &a) == want);
	if (want)
		return;
	stream_done(k.ctx, k.stream);
	for (i = 0; i < k.cells * SLOT; i += 73)
		MUST(w.host[i] == w.mems[k.mem[1]].cells[k.first[1] + i / SLOT]);
}

/* A copy from where the process has nothing: the context is dead. */
void op_fault(const u32 *arg)
{
	int b = PICK(w.bufs, arg[0]), want;
	struct softgpu_copy a = { .height = 1, .width = 1, .src = 8, .flags = SOFTGPU_OP_SYNC };
	struct n_ctx *x;
	u32 client, i;

	if (b < 0 || arg[1] % 4 || w.bufs[b].ctx < 0 || w.bufs[b].range < 0)
		return;
	settle_all();
	x = &w.ctxs[w.bufs[b].ctx];
	client = (u32)client_of(x->proc, arg[2]);
	a.ctx = x->handle;
	a.dst = w.bufs[b].va;
	want = client_removed(client) ? -ENODEV : x->faulted ? -EIO :
	       w.ranges[w.bufs[b].range].access & 2 ? -EIO : -EFAULT;
	MUST(CALL(w.clients[client].c, SOFTGPU_COPY, &a) == want);
	for (i = 0; want == -EIO && i < CTXS; i++) {
		if (w.ctxs[i].used && same_ctx((int)i, w.bufs[b].ctx))
			w.ctxs[i].faulted = true;
	}
}
