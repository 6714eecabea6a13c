// SPDX-License-Identifier: MIT
/* ops_life.c - files, windows, contexts and GPUs come and go. */
#include "model.h"
#include "clients/clients.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, len)	((void)(at), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(at, len)	((void)(at), (void)(len))
#endif

#define SERVER	7

static void set_window(u32 client)
{
	struct n_proc *p = &w.procs[w.clients[client].proc];
	struct softgpu_window a = { .length = w.config.window * PAGE };
	int want = client_removed(client) ? -ENODEV : 0;
	u32 proc = w.clients[client].proc, other;

	a.server = is_client(proc) ? SERVER : 0;
	/* Not where another client of the server is. */
	for (other = 0; !want && !p->has_window && a.server && other < w.config.procs; other++) {
		if (!is_client(other) || client_of(other, 0) < 0 || !w.procs[other].has_window)
			continue;
		a.base = window_base(other) + (w.config.window - 1) * PAGE;
		MUST(CALL(w.clients[client].c, SOFTGPU_WINDOW, &a) == -EEXIST);
	}
	a.base = window_base(proc);
	/* Only the first call decides. */
	if (p->has_window)
		a.length = PAGE;
	MUST(CALL(w.clients[client].c, SOFTGPU_WINDOW, &a) == want);
	if (want)
		return;
	p->has_window = true;
	MUST(a.base == window_base(proc) && a.length == w.config.window * PAGE);
	MUST(a.server == (is_client(proc) ? SERVER : 0));
}

static void make_ctx(u32 client)
{
	struct n_client *n = &w.clients[client];
	struct softgpu_ctx_create a = { 0 };
	int i = SPARE(w.ctxs), want = 0, other = -1;
	struct sg_ctx *ctx;
	bool shared;

	if (i < 0)
		return;
	/* A client is one from its window on. */
	shared = is_client(n->proc) && w.procs[n->proc].has_window;
	if (shared)
		other = shared_on(n->gpu);
	if (client_removed(client))
		want = -ENODEV;
	else if (other >= 0)
		want = w.ctxs[other].faulted ? -EIO : 0;
	else if (w.config.mode == SOFTGPU_COMPUTE_EXCLUSIVE && ctxs_on(n->gpu))
		want = -EBUSY;
	MUST(CALL(n->c, SOFTGPU_CTX_CREATE, &a) == want);
	if (want)
		return;
	w.ctxs[i] = (struct n_ctx){ .used = true, .proc = n->proc, .client = client, .gpu = n->gpu,
				    .shared = shared, .handle = take_handle(n->proc) };
	MUST(a.ctx == w.ctxs[i].handle);
	/* QUERY tells them too, but only of an allocation. */
	ctx = sg_list_entry(w.sg->ctxs.prev, struct sg_ctx, in_sg);
	w.ctxs[i].p2p_token = ctx->p2p_token;
	w.ctxs[i].va_space_token = ctx->va_space_token;
	MUST(ctx->p2p_token && ctx->va_space_token);
	MUST(other < 0 || (w.ctxs[other].p2p_token == ctx->p2p_token &&
			   w.ctxs[other].va_space_token == ctx->va_space_token));
}

void op_open(const u32 *arg)
{
	u32 proc = arg[0] % w.config.procs, gpu = arg[1] % w.config.gpus;
	int i = SPARE(w.clients), want;
	struct n_client *n;

	if (i < 0)
		return;
	n = &w.clients[i];
	want = w.gpus[gpu].used && !w.gpus[gpu].removed ? 0 : -ENODEV;
	MUST(sg_client_open(w.sg, gpu, &w.procs[proc].key, &user_host_ops, NULL, &n->c) == want);
	if (want)
		return;
	MUST(sg_client_key(n->c) == &w.procs[proc].key);
	if (client_of(proc, 0) < 0) {
		w.procs[proc].has_window = false;
		w.procs[proc].next_handle = 1;
	}
	n->used = true;
	n->proc = proc;
	n->gpu = gpu;
	if (arg[2] % 4) {
		set_window((u32)i);
		make_ctx((u32)i);
	}
}

void op_close(const u32 *arg)
{
	int i = PICK(w.clients, arg[0]);

	if (i < 0)
		return;
	settle_all();
	sg_client_close(w.clients[i].c);
	client_gone((u32)i);
}

void op_window(const u32 *arg)
{
	int i = PICK(w.clients, arg[0]);

	if (i >= 0)
		set_window((u32)i);
}

void op_ctx_create(const u32 *arg)
{
	int i = PICK(w.clients, arg[0]);

	if (i >= 0)
		make_ctx((u32)i);
}

void op_ctx_destroy(const u32 *arg)
{
	int i = PICK(w.ctxs, arg[0]), client, want = 0;
	struct softgpu_handle a;

	if (i < 0)
		return;
	client = client_of(w.ctxs[i].proc, arg[1]);
	a.handle = w.ctxs[i].handle;
	if (client_removed((u32)client))
		want = -ENODEV;
	settle_all();
	MUST(CALL(w.clients[client].c, SOFTGPU_CTX_DESTROY, &a) == want);
	if (want)
		return;
	ctx_gone((u32)i);
	MUST(CALL(w.clients[client].c, SOFTGPU_CTX_DESTROY, &a) == -ENOENT);
	MUST(CALL(w.clients[client].c, SOFTGPU_CTX_SYNC, &a) == -ENOENT);
}

void op_gpu_remove(const u32 *arg)
{
	u32 gpu = arg[0] % w.config.gpus;

	if (arg[1] % 2 || !w.gpus[gpu].used || w.gpus[gpu].removed)
		return;
	settle_all();
	sg_gpu_remove(w.sg, gpu);
	gpu_gone(gpu);
}

static u64 phys(void *priv, u64 offset)
{
	return VRAM_PHYS + (u64)(uintptr_t)priv * 0x10000000ULL + offset;
}

/*
 * VRAM is used again, by the next world too: what stands there is not zero, and
 * pages come once.  While there is no such GPU, the sanitizer knows of no memory.
 */
static u8 *vram_of(u32 gpu, u64 size)
{
	static u8 *kept[GPUS];

	if (!kept[gpu]) {
		kept[gpu] = malloc(VRAM_MAX * PAGE);
		MUST(kept[gpu]);
		memset(kept[gpu], 0xa5, VRAM_MAX * PAGE);
	}
	ASAN_POISON_MEMORY_REGION(kept[gpu], VRAM_MAX * PAGE);
	ASAN_UNPOISON_MEMORY_REGION(kept[gpu], size);
	return kept[gpu];
}

void vram_away(u8 *vram)
{
	ASAN_POISON_MEMORY_REGION(vram, VRAM_MAX * PAGE);
	(void)vram;
}

/* It takes the lowest index that is not used any more. */
void op_gpu_add(const u32 *arg)
{
	u64 size = w.config.vram * PAGE;
	struct sg_gpu_desc desc = {
		.name = "model", .vram_size = size, .bar1_size = w.config.bar1 * PAGE,
		.bar1_reserved = w.config.reserved * PAGE, .bar1_per_pin = w.config.per_pin,
		.compute_mode = w.config.mode, .engines = 1, .phys = phys,
	};
	u32 want, index;

	(void)arg;
	for (want = 0; want < w.config.gpus && w.gpus[want].used; want++)
		;
	if (want == w.config.gpus)
		return;
	desc.priv = (void *)(uintptr_t)want;
	desc.vram = vram_of(want, size);
	machine_system(&desc);
	MUST(!sg_gpu_add(w.sg, &desc, &index) && index == want);
	w.gpus[want] = (struct n_gpu){ .used = true, .vram = desc.vram };
}

void op_info(const u32 *arg)
{
	int i = PICK(w.clients, arg[0]), err;
	struct softgpu_info a = { 0 };
	u32 k, count = 0, gpu;

	if (i < 0)
		return;
	gpu = w.clients[i].gpu;
	err = CALL(w.clients[i].c, SOFTGPU_INFO, &a);
	MUST(err == (client_removed((u32)i) ? -ENODEV : 0));
	if (err)
		return;
	for (k = 0; k < GPUS; k++)
		count += w.gpus[k].used && !w.gpus[k].removed;
	MUST(a.index == gpu && a.count == count && a.pins == pins_on(gpu));
	MUST(a.vram_free == w.config.vram * PAGE - vram_used(gpu));
	MUST(a.bar1_used == w.config.reserved * PAGE + bar1_used(gpu));
	MUST(a.strict == w.chaos.strict && a.compute_mode == w.config.mode);
}
