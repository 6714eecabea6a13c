// SPDX-License-Identifier: MIT
/* nvp2p_end.c - put, plain and persistent: every pin ends once. */
#include <signal.h>
#include <sys/wait.h>
#include "nvp2p_rules.h"

/* ---- put ---- */

static void put_unknown(struct gpu *g)
{
	static const uint64_t garbage[] = { 1, 8, 4096, 0x7fffffffffffULL, 0xffff888000000000ULL,
					    0xdead000000000100ULL, ~0ULL, 0x8000000000000000ULL };
	uint64_t va = need_alloc(g, PAGE64);
	size_t i;

	EXPECT(T(.op = T_PUT, .flags = W_NULL_TABLE).ret, 0);
	for (i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		EXPECT(T(.op = T_PUT, .flags = W_GARBAGE_TABLE, .value = garbage[i]).ret, 0);
		EXPECT(T(.op = T_FREE_PAGE_TABLE, .flags = W_GARBAGE_TABLE, .value = garbage[i]).ret,
		       0);
	}
	EXPECT(t_get(0, va, PAGE64).ret, 0);
	/* Near a live table is not the table. */
	EXPECT(T(.op = T_PUT, .flags = W_GARBAGE_TABLE, .value = t_state(0).pointer + 8).ret, 0);
	EXPECT(t_state(0).callbacks, 0);
	EXPECT(t_put(0), 0);
	EXPECT(T(.op = T_PUT, .flags = W_STALE_TABLE).ret, 0);
	EXPECT(T(.op = T_FREE_PAGE_TABLE, .flags = W_STALE_TABLE).ret, 0);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks, 0);
}

static void put_after_callback(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);

	EXPECT(t_get(0, va, PAGE64).ret, 0);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks_done, 1);
	EXPECT(T(.op = T_PUT, .flags = W_STALE_TABLE).ret, 0);
	EXPECT(t_state(0).callbacks, 1);
}

/* Each way says 0; W_KEEP, for the pin may be there still. */
static int put_by(uint64_t token, uint32_t va_space)
{
	return T(.op = T_PUT, .flags = W_KEEP, .token = token, .va_space = va_space).ret;
}

static int pins(struct gpu *g)
{
	struct softgpu_info info;

	NEED(!sg_info(g->fd, &info));
	return (int)info.pins;
}

static void child_puts(void *arg)
{
	const struct softgpu_query *tokens = arg;

	EXPECT(put_by(tokens ? tokens->p2p_token : 0, 0), 0);
}

/* Only the process whose memory it is finds its pins without a token. */
static void put_elsewhere(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	int before = pins(g);

	EXPECT(t_get(0, va, PAGE64).ret, 0);
	CHECK(in_child(child_puts, NULL), "the child did not end well");
	EXPECT(pins(g), before + 1);
	EXPECT(t_state(0).callbacks, 0);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks_done, 1);
	EXPECT(pins(g), before);
}

static void put_elsewhere_by_token(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	int before = pins(g);
	struct softgpu_query q;

	EXPECT(sg_query(g->fd, va, &q), 0);
	EXPECT(t_get(0, va, PAGE64).ret, 0);
	CHECK(in_child(child_puts, &q), "the child did not end well");
	EXPECT(pins(g), before);
	EXPECT(T(.op = T_PUT, .flags = W_STALE_TABLE).ret, 0);
	T(.op = T_FORGET);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks, 0);
}

/* The table says which pin, the token who asks; the address and the other token nothing. */
static void put_by_wrong_tokens(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64), elsewhere;
	uint32_t other = sg_ctx(g->fd);
	int before = pins(g);
	struct softgpu_query q, o;

	NEED(!sg_alloc(g->fd, other, PAGE64, &elsewhere));
	EXPECT(sg_query(g->fd, va, &q), 0);
	EXPECT(sg_query(g->fd, elsewhere, &o), 0);
	EXPECT(t_get(0, va, PAGE64).ret, 0);
	EXPECT(put_by(7, 9), 0);
	EXPECT(put_by(o.p2p_token, o.va_space_token), 0);
	EXPECT(pins(g), before + 1);
	EXPECT(T(.op = T_PUT, .token = q.p2p_token, .va_space = q.va_space_token ^ 1).ret, 0);
	EXPECT(pins(g), before);
	EXPECT(t_get(0, va, PAGE64).ret, 0);
	EXPECT(T(.op = T_PUT, .va_space = 9).ret, 0);
	EXPECT(pins(g), before);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks, 0);
}

static void put_many(struct gpu *g)
{
	uint64_t va = need_alloc(g, 64 * PAGE64);
	int round, i;

	for (round = 0; round < 20; round++) {
		for (i = 0; i < 60; i++)
			EXPECT(t_get(i, va + i * PAGE64, 4 * PAGE64).ret, 0);
		for (i = 0; i < 60; i++)
			EXPECT(t_put((i * 7 + round) % 60), 0);
	}
}

static void wrong_kind(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);

	EXPECT(t_get(0, va, PAGE64).ret, 0);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, -EINVAL);
	EXPECT(t_put(0), 0);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64).ret, 0);
	EXPECT(put_by(0, 0), 0);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
}

/* ---- persistent ---- */

static void persistent_table(struct gpu *g)
{
	uint64_t va = need_alloc(g, 2 * PAGE64), plain[2], persistent[2];
	struct nvp2p_test_call r;

	r = T(.op = T_GET_PERSISTENT, .slot = 1, .va = va, .length = 2 * PAGE64);
	CHECK(r.ret == 0 && r.out == OUT_SET, "%d", r.ret);
	CHECK(r.version == 0x00020000 && r.page_size == 1 && r.entries == 2, "%x %u %u", r.version,
	      r.page_size, r.entries);
	EXPECT(t_get(0, va, 2 * PAGE64).ret, 0);
	t_pages(0, plain, 2);
	t_pages(1, persistent, 2);
	CHECK(!memcmp(plain, persistent, sizeof(plain)), "two kinds of pin, two addresses");
	EXPECT(t_put(0), 0);
	EXPECT(T(.op = T_PUT_PERSISTENT, .slot = 1).ret, 0);
}

static bool is_coherent(struct gpu *g)
{
	FILE *f = fopen("/sys/module/nvidia/parameters/coherent", "r");
	bool on = f && fgetc(f) == 'Y';
	struct softgpu_info info;

	if (f)
		fclose(f);
	NEED(!sg_info(g->fd, &info));
	return on && !info.on_pci;
}

/* A coherent GPU's memory through BAR1: not to be cached, and for no peer. */
static void forced_through_bar1(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	struct nvp2p_test_call r = T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64, .value = 1);

	EXPECT(r.ret, 0);
	EXPECT((int)r.table_flags, 0);
	if (peer_bdf(0))
		MUST_FAIL(T(.op = T_DMA_MAP, .bdf = peer_bdf(0)), ENOTSUPP, OUT_NULL);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
	r = T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64);
	EXPECT((int)r.table_flags, 1);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
}

static void persistent_flags(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);

	if (is_coherent(g))
		forced_through_bar1(g);
	else
		MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64, .value = 1), ENOTSUPP,
			  OUT_NULL);
	/* Of others none is looked at. */
	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64, .value = 0xfffffffe).ret, 0);
	EXPECT(T(.op = T_PUT_PERSISTENT, .value = 1).ret, -EINVAL);
	EXPECT(T(.op = T_PUT_PERSISTENT, .value = 1, .flags = W_NULL_TABLE).ret, -EINVAL);
	EXPECT(T(.op = T_PUT_PERSISTENT, .flags = W_NULL_TABLE).ret, 0);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
	EXPECT(T(.op = T_PUT_PERSISTENT, .flags = W_STALE_TABLE).ret, -EINVAL);
	EXPECT(T(.op = T_PUT_PERSISTENT, .flags = W_GARBAGE_TABLE, .value = 4096).ret, -EINVAL);
}

/* The memory is kept, with its contents, and is nobody else's meanwhile. */
static void persistent_outlives_free(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64), other[64], before, after;
	uint32_t word = 0xc0ffee, seen = 0;
	struct softgpu_info info, now;
	int i;

	NEED(!sg_info(g->fd, &info));
	EXPECT(sg_copy(g->fd, g->ctx, va, PTR(&word), 4, SOFTGPU_OP_SYNC), 0);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64).ret, 0);
	t_pages(0, &before, 1);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks, 0);
	/* Others' memory, freshly zeroed, is elsewhere. */
	for (i = 0; i < 64; i++)
		other[i] = need_alloc(g, PAGE64);
	EXPECT(sg_ctx_destroy(g->fd, g->ctx), 0);
	t_pages(0, &after, 1);
	CHECK(before == after, "the address has changed");
	T(.op = T_PEEK, .data = PTR(&seen), .length = 4);
	CHECK(seen == word, "%x", seen);
	NEED(!sg_info(g->fd, &now));
	CHECK(now.bar1_used == info.bar1_used + PAGE64, "BAR1 forgot it");
	CHECK(now.vram_free == info.vram_free, "VRAM forgot it");
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
	NEED(!sg_info(g->fd, &now));
	CHECK(now.bar1_used == info.bar1_used, "BAR1 did not come back");
	CHECK(now.vram_free == info.vram_free + PAGE64, "VRAM did not come back");
	(void)other;
}

static void child_leaves_a_pin(void *arg)
{
	struct gpu g = gpu_up(0);
	uint64_t va = need_alloc(&g, PAGE64);
	uint32_t word = 0xdecade;

	(void)arg;
	EXPECT(sg_copy(g.fd, g.ctx, va, PTR(&word), 4, SOFTGPU_OP_SYNC), 0);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64).ret, 0);
}

static void persistent_outlives_the_process(struct gpu *g)
{
	struct softgpu_info info;
	uint32_t seen = 0;

	CHECK(in_child(child_leaves_a_pin, NULL), "the child did not end well");
	EXPECT(sg_info(g->fd, &info), 0);
	CHECK(info.pins == 1, "%u", info.pins);
	T(.op = T_PEEK, .data = PTR(&seen), .length = 4);
	CHECK(seen == 0xdecade, "%x", seen);
	EXPECT(t_state(0).callbacks, 0);
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
}

const struct test_case end_cases[] = {
	{ "put: what is no live table", put_unknown },
	{ "put: after the callback", put_after_callback },
	{ "put: from another process", put_elsewhere },
	{ "put: from another process, by its token", put_elsewhere_by_token },
	{ "put: wrong tokens", put_by_wrong_tokens },
	{ "put: many, in any order", put_many },
	{ "put: the other kind's", wrong_kind },
	{ "persistent: the table", persistent_table },
	{ "persistent: flags", persistent_flags },
	{ "persistent: outlives free and context", persistent_outlives_free },
	{ "persistent: outlives the process", persistent_outlives_the_process },
	{ NULL, NULL }
};
