// SPDX-License-Identifier: MIT
/*
 * /dev/softgpuN's calls with hostile structs: numbers, sizes and bytes as the input has
 * them, by two processes on two GPUs.  Nothing is foretold; nothing may crash, leak,
 * hang or be left behind.
 *
 * Each call: its number, the size of its struct, a mask of which 4-byte words come from
 * a table of values that mean something, then that many bytes of words.
 */
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define USERS	3
#define WORDS	24
#define PINS	8

static struct machine m;
static struct user users[USERS];
static struct tpin pins[PINS];
static bool pinned[PINS];
static char keys[2];
static u64 values[16];	/* addresses and lengths that exist, or did */
static u32 next_value;

/* In host memory of this program, so that copies have somewhere to go. */
static u8 host[4 * 65536];

static u64 value_of(u8 byte)
{
	static const u64 lengths[] = { 0, 1, 511, 512, 4096, 65535, 65536, 65537, 131072, 1 << 20,
				       1ULL << 32, 1ULL << 47, 1ULL << 63, ~0ULL };

	if (byte < 14)
		return lengths[byte];
	if (byte < 32)
		return byte - 13;	/* handles */
	if (byte < 128)
		return values[byte % 16] + (byte / 16 % 4) * 65536;
	if (byte < 160)
		return HOST(host) + (byte % 4) * 65536;
	return WINDOW_BASE + (byte - 160) * PAGE;
}

static void learn(const void *arg, u32 words)
{
	u64 v;
	u32 i;

	for (i = 2; i + 2 <= words; i += 2) {
		memcpy(&v, (const char *)arg + i * 4, sizeof(v));
		if (v >= WINDOW_BASE && v < WINDOW_BASE + WINDOW_LEN)
			values[next_value++ % 16] = v;
	}
}

/* The process's memory is `host`; all else faults. */
static int host_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	u8 *at = host + (addr - HOST(host));

	(void)cookie;
	if (addr < HOST(host) || addr - HOST(host) > sizeof(host) || len > sizeof(host) - (addr - HOST(host)))
		return -EFAULT;
	if (to_process)
		memcpy(at, local, len);
	else
		memcpy(local, at, len);
	return 0;
}

static const struct sg_host_ops host_ops = { .copy = host_copy };

/* What is slow is no fault: waits of a minute, copies of terabytes. */
static void tame(u32 nr, void *arg, u32 size)
{
	struct softgpu_copy *c = arg;
	struct softgpu_fill *f = arg;
	struct softgpu_watch *w = arg;
	struct softgpu_value *v = arg;
	struct softgpu_window *win = arg;

	/* No other thread is there to end a wait for a value. */
	if (nr == _IOC_NR(SOFTGPU_VALUE) && size >= sizeof(*v) && v->op <= SOFTGPU_VALUE_NOR)
		v->op = SOFTGPU_VALUE_WRITE;
	if (nr == _IOC_NR(SOFTGPU_WATCH) && size >= sizeof(*w))
		w->timeout_ms = w->timeout_ms ? 1 + w->timeout_ms % 2 : 0;
	if (nr == _IOC_NR(SOFTGPU_WINDOW) && size >= sizeof(*win) && (win->base >= 1ULL << 40 || win->length < PAGE))
		win->base = WINDOW_BASE;
	if (nr == _IOC_NR(SOFTGPU_COPY) && size >= sizeof(*c)) {
		c->width %= 1 << 17;
		c->height %= 4;
		c->dst_pitch %= 1 << 18;
		c->src_pitch %= 1 << 18;
	}
	if (nr == _IOC_NR(SOFTGPU_FILL) && size >= sizeof(*f)) {
		f->width %= 1 << 17;
		f->height %= 4;
		f->pitch %= 1 << 18;
	}
}

/* No other thread is there to take a function from its stream. */
static void run_function(struct user *u, u32 ctx)
{
	struct softgpu_host_func f = { .ctx = ctx };

	MUST(!CALL(u->client, SOFTGPU_HOST_FUNC_NEXT, &f));
	f.error = 0;
	MUST(!CALL(u->client, SOFTGPU_HOST_FUNC_DONE, &f));
}

static const u8 *one_call(const u8 *data, const u8 *end)
{
	u64 arg[40] = { 0 };	/* longer than any struct */
	u32 nr = data[0] % 0x68, words = data[1] % (WORDS + 1), mask = data[2] | data[3] << 8, i;
	struct user *u = &users[data[1] / 32 % USERS];
	u32 size = words * 4, min;

	for (i = 1, data += 4; i < words && data < end; i++) {
		u64 v = mask & (1u << i % 16) ? value_of(*data++) : *data++;

		if (i % 2 == 0 && i + 1 < words && mask & (1u << i % 16)) {
			memcpy((char *)arg + i * 4, &v, 8);
			i++;
		} else {
			u32 low = (u32)v;

			memcpy((char *)arg + i * 4, &low, 4);
		}
	}
	/* The size that a caller would give, most of the time. */
	if (nr != 0x67 && data < end && *data % 8 && sg_call_size(nr, &min))
		size = sg_call_size(nr, &min);
	if (size < 4)
		size = 4;
	*(u32 *)arg = size;
	tame(nr, arg, size);
	if (nr == _IOC_NR(SOFTGPU_HOST_FUNC_NEXT))
		return data;
	if (!sg_call(u->client, nr, arg, size)) {
		learn(arg, size / 4);
		if (nr == _IOC_NR(SOFTGPU_HOST_FUNC))
			run_function(u, ((struct softgpu_host_func *)arg)->ctx);
	}
	return data;
}

static void pin(const u8 *data)
{
	u32 i = data[1] % PINS;

	if (pinned[i]) {
		bool gone = sg_pin_put(m.sg, &pins[i].pin, pins[i].pin.persistent) != 0;

		MUST(pins[i].frees == 1 && pins[i].unmaps == 1 && pins[i].callbacks == gone);
		pinned[i] = false;
		return;
	}
	pinned[i] = !tpin_get(&pins[i], &users[data[1] / 8 % USERS], value_of(data[2]),
			      value_of(data[3]), data[1] / 64 % 2);
}

static void up(u32 i)
{
	struct softgpu_window win = { .base = WINDOW_BASE, .length = WINDOW_LEN };
	struct softgpu_ctx_create ctx = { 0 };
	struct user *u = &users[i];

	u->key = &keys[i / 2];
	u->sg = m.sg;
	MUST(!sg_client_open(m.sg, i % 2, u->key, &host_ops, NULL, &u->client));
	MUST(!CALL(u->client, SOFTGPU_WINDOW, &win));
	MUST(!CALL(u->client, SOFTGPU_CTX_CREATE, &ctx));
	u->ctx = ctx.ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const u8 *end = data + size;
	u32 i;

	machine_up(&m, 2, 8 * PAGE, 6 * PAGE, PAGE);
	next_value = 0;
	for (i = 0; i < 16; i++)
		values[i] = WINDOW_BASE;
	memset(pins, 0, sizeof(pins));
	for (i = 0; i < USERS; i++)
		up(i);
	while (end - data >= 4) {
		if (data[0] % 8 == 7) {
			pin(data);
			data += 4;
		} else if (data[0] == 0xff || data[0] == 0xef) {
			i = data[1] % USERS;
			user_down(&users[i]);
			up(i);
			data += 4;
		} else {
			data = one_call(data, end);
		}
	}
	for (i = 0; i < USERS; i++)
		user_down(&users[i]);
	for (i = 0; i < PINS; i++) {
		if (pinned[i] && pins[i].frees == 0)
			MUST(!sg_pin_put(m.sg, &pins[i].pin, true));
		pinned[i] = false;
	}
	machine_down(&m);
	return 0;
}
