// SPDX-License-Identifier: MIT
#include "util.h"

#include <sched.h>

u64 test_seed, test_step;

static void say_step(void)
{
	printf("\tseed %llu, step %llu\n", test_seed, test_step);
}

__attribute__((constructor)) static void begin(void)
{
	check_says = say_step;
}

static u64 phys(void *priv, u64 offset)
{
	return VRAM_PHYS + (u64)(uintptr_t)priv * 0x10000000ULL + offset;
}

static void *system_alloc(u64 length)
{
	return aligned_alloc(PAGE, length);
}

static void system_free(void *memory, u64 length)
{
	(void)length;
	free(memory);
}

static u64 system_phys(const void *memory, u64 offset)
{
	return (u64)(uintptr_t)memory + offset;
}

void machine_system(struct sg_gpu_desc *desc)
{
	desc->system_alloc = system_alloc;
	desc->system_free = system_free;
	desc->system_phys = system_phys;
}

void machine_up(struct machine *m, u32 gpus, u64 vram, u64 bar1, u64 reserved)
{
	u32 i, index;

	m->gpus = gpus;
	m->vram_size = vram;
	MUST(!sg_create(&m->sg));
	for (i = 0; i < gpus; i++) {
		struct sg_gpu_desc desc = {
			.name = "test GPU", .vram_size = vram, .bar1_size = bar1,
			.bar1_reserved = reserved, .engines = 2, .phys = phys, .hide = m->hide,
			.priv = (void *)(uintptr_t)i, .uuid = { (u8)i, 1, 2, 3 },
		};

		machine_system(&desc);
		m->vram[i] = malloc(vram);
		MUST(m->vram[i]);
		memset(m->vram[i], 0xa5, vram);
		desc.vram = m->vram[i];
		MUST(!sg_gpu_add(m->sg, &desc, &index) && index == i);
	}
}

void machine_idle(struct machine *m)
{
	struct sg_gpu_stats st;
	u32 i;

	for (i = 0; i < m->gpus; i++) {
		if (sg_gpu_stats(m->sg, i, &st))
			continue;
		MUST(st.vram_free == st.vram_total);
		MUST(st.bar1_used == st.bar1_reserved);
		MUST(st.pins == 0);
		MUST(st.clients == 0);
		MUST(st.objects == 0);
	}
}

void machine_down(struct machine *m)
{
	u32 i;

	machine_idle(m);
	for (i = 0; i < m->gpus; i++) {
		sg_gpu_remove(m->sg, i);
		free(m->vram[i]);
	}
	sg_destroy(m->sg);
}

static void copy_word(void *to, const void *from, u64 len)
{
	if (len == 8)
		__atomic_store_n((u64 *)to, __atomic_load_n((const u64 *)from, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	else
		__atomic_store_n((u32 *)to, __atomic_load_n((const u32 *)from, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

static int host_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	void *theirs = (void *)(uintptr_t)addr;

	(void)cookie;
	if (addr < 4096)
		return -EFAULT;
	/* A word that streams write and wait for is read and written whole: others do so meanwhile. */
	if ((len == 8 || len == 4) && !((addr | HOST(local)) % len))
		copy_word(to_process ? theirs : local, to_process ? local : theirs, len);
	else
		memcpy(to_process ? theirs : local, to_process ? local : theirs, len);
	return 0;
}

const struct sg_host_ops user_host_ops = { .copy = host_copy };

void user_up(struct user *u, struct machine *m, u32 gpu, const void *key)
{
	user_up_at(u, m, gpu, key, WINDOW_BASE, WINDOW_LEN);
}

void user_up_at(struct user *u, struct machine *m, u32 gpu, const void *key, u64 base, u64 length)
{
	struct softgpu_window w = { .base = base, .length = length };
	struct softgpu_ctx_create c = { 0 };

	u->key = key;
	u->sg = m->sg;
	MUST(!sg_client_open(m->sg, gpu, key, &user_host_ops, NULL, &u->client));
	MUST(!CALL(u->client, SOFTGPU_WINDOW, &w));
	MUST(!CALL(u->client, SOFTGPU_CTX_CREATE, &c));
	u->ctx = c.ctx;
}

u8 *user_up_in(struct user *u, struct machine *m, const void *key, u8 *storage, u64 length, u64 reserved)
{
	struct softgpu_va_reserve r = { .length = reserved };
	u8 *window = storage + PAGE - HOST(storage) % PAGE;

	user_up_at(u, m, 0, key, HOST(window), length);
	MUST(!CALL(u->client, SOFTGPU_VA_RESERVE, &r));
	return window + (r.va - HOST(window));
}

void user_down(struct user *u)
{
	if (u->client)
		sg_client_close(u->client);
	u->client = NULL;
}

int mem_alloc(struct user *u, u64 len, u64 *va)
{
	struct softgpu_mem_alloc a = { .ctx = u->ctx, .length = len };
	int err = CALL(u->client, SOFTGPU_MEM_ALLOC, &a);

	*va = a.va;
	return err;
}

int mem_free(struct user *u, u64 va)
{
	struct softgpu_va a = { .va = va };

	return CALL(u->client, SOFTGPU_MEM_FREE, &a);
}

u64 mem_new(struct user *u, u64 len)
{
	u64 va;

	MUST(!mem_alloc(u, len, &va));
	return va;
}

static u32 stream_of(struct user *u, u32 flags)
{
	struct softgpu_stream_create s = { .ctx = u->ctx, .flags = flags };

	MUST(!CALL(u->client, SOFTGPU_STREAM_CREATE, &s));
	return s.stream;
}

u32 stream_new(struct user *u)
{
	return stream_of(u, SOFTGPU_STREAM_NON_BLOCKING);
}

u32 stream_blocking(struct user *u)
{
	return stream_of(u, 0);
}

int stream_sync(struct user *u, u32 stream)
{
	struct softgpu_stream s = { .ctx = u->ctx, .stream = stream };

	return CALL(u->client, SOFTGPU_STREAM_SYNC, &s);
}

int stream_query(struct user *u, u32 stream)
{
	struct softgpu_stream s = { .ctx = u->ctx, .stream = stream };

	return CALL(u->client, SOFTGPU_STREAM_QUERY, &s);
}

struct sg_gpu_stats stats_of(struct machine *m, u32 gpu)
{
	struct sg_gpu_stats st = { 0 };

	MUST(!sg_gpu_stats(m->sg, gpu, &st));
	return st;
}

struct softgpu_query query(struct user *u, u64 va)
{
	struct softgpu_query q = { .va = va };

	MUST(!CALL(u->client, SOFTGPU_QUERY, &q));
	return q;
}

int copy(struct user *u, u32 stream, u64 dst, u64 src, u64 len, u32 flags)
{
	struct softgpu_copy c = { .ctx = u->ctx, .stream = stream, .flags = flags, .dst = dst,
				  .src = src, .width = len, .height = 1 };

	return CALL(u->client, SOFTGPU_COPY, &c);
}

int fill(struct user *u, u32 stream, u64 dst, u64 len, u32 value, u32 flags)
{
	struct softgpu_fill f = { .ctx = u->ctx, .stream = stream, .flags = flags, .dst = dst, .width = len,
				  .height = 1, .value = value, .elem = 1 };

	return CALL(u->client, SOFTGPU_FILL, &f);
}

u32 word_at(struct user *u, u64 va)
{
	u32 word = 0;

	MUST(!copy(u, 0, HOST(&word), va, sizeof(word), SOFTGPU_OP_SYNC));
	return word;
}

void set_word_at(struct user *u, u64 va, u32 word)
{
	MUST(!copy(u, 0, va, HOST(&word), sizeof(word), SOFTGPU_OP_SYNC));
}

int enlist(struct user *u, u32 kind, u64 va, u64 len)
{
	struct softgpu_host_register h = { .ctx = u->ctx, .kind = kind, .va = va, .length = len };

	return CALL(u->client, SOFTGPU_HOST_REGISTER, &h);
}

int discharge(struct user *u, u64 va)
{
	struct softgpu_va a = { .va = va };

	return CALL(u->client, SOFTGPU_HOST_UNREGISTER, &a);
}

u64 rnd_u64(u64 *state)
{
	uint64_t s = *state, number = rnd(&s);

	*state = s;
	return number;
}

static void on_callback(struct sg_pin *pin)
{
	struct tpin *t = container_of(pin, struct tpin, pin);

	__atomic_add_fetch(&t->callbacks, 1, __ATOMIC_SEQ_CST);
	if (t->on_callback)
		t->on_callback(t);
}

static void on_unmap(struct sg_pin *pin)
{
	struct tpin *t = container_of(pin, struct tpin, pin);

	__atomic_add_fetch(&t->unmaps, 1, __ATOMIC_SEQ_CST);
}

static void on_free(struct sg_pin *pin)
{
	struct tpin *t = container_of(pin, struct tpin, pin);

	MUST(tpin_count(&t->unmaps) == 1);
	__atomic_add_fetch(&t->frees, 1, __ATOMIC_SEQ_CST);
}

const struct sg_pin_ops tpin_ops = { on_callback, on_unmap, on_free };

int tpin_get(struct tpin *t, struct user *u, u64 va, u64 len, bool persistent)
{
	struct sg_pin_who who = { .proc_key = u->key, .managed = true };

	memset(&t->pin, 0, sizeof(t->pin));
	t->callbacks = t->unmaps = t->frees = 0;
	return sg_pin_get(u->sg, &t->pin, &tpin_ops, &who, va, len, persistent);
}

int tpin_put(struct tpin *t, struct user *u, bool persistent)
{
	int err = sg_pin_put(u->sg, &t->pin, persistent);

	while (!tpin_count(&t->frees))
		sched_yield();
	return err;
}

void dma_write(struct machine *m, struct user *u, u64 va, u32 value)
{
	struct tpin t;

	MUST(!tpin_get(&t, u, va, PAGE, false));
	__atomic_store_n((u32 *)(void *)(m->vram[0] + (sg_pin_page(&t.pin, 0) - VRAM_PHYS)), value,
			 __ATOMIC_RELAXED);
	MUST(!tpin_put(&t, u, false));
}

int tpin_count(const int *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
