// SPDX-License-Identifier: MIT
/* nvp2p_pins.c - what may be pinned, and how pins end. */
#include "nvp2p_rules.h"

/* Small allocations share a page, and so do their pins. */
static void small_allocations(struct gpu *g)
{
	uint64_t a = need_alloc(g, 100), b = need_alloc(g, 100), page_a, page_b;

	CHECK(a / PAGE64 == b / PAGE64, "two small allocations are in different pages");
	EXPECT(t_get(0, a & ~(PAGE64 - 1), PAGE64).ret, 0);
	EXPECT(t_get(1, b & ~(PAGE64 - 1), PAGE64).ret, 0);
	t_pages(0, &page_a, 1);
	t_pages(1, &page_b, 1);
	CHECK(page_a == page_b, "one page, two addresses");
	EXPECT(t_put(0), 0);
	EXPECT(t_put(1), 0);
}

/* An odd length is rounded up to pages, and so may its pin. */
static void rounded_up(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64 + 1);

	CHECK(va % PAGE64 == 0, "%#llx", (unsigned long long)va);
	EXPECT(t_get(0, va, 2 * PAGE64).ret, 0);
	EXPECT(t_put(0), 0);
}

static void vmm_memory(struct gpu *g)
{
	struct softgpu_va_reserve r = { .length = 8 * PAGE64 };
	struct softgpu_phys_create p = { .length = 4 * PAGE64 };
	struct softgpu_map m = { .ctx = g->ctx, .length = 4 * PAGE64 };
	struct softgpu_va_range u = { .length = 4 * PAGE64 };

	EXPECT(SG_CALL(g->fd, SOFTGPU_VA_RESERVE, &r), 0);
	EXPECT(SG_CALL(g->fd, SOFTGPU_PHYS_CREATE, &p), 0);
	MUST_FAIL(t_get(0, r.va, PAGE64), EINVAL, OUT_NULL);
	m.va = r.va;
	m.handle = p.handle;
	EXPECT(SG_CALL(g->fd, SOFTGPU_MAP, &m), 0);
	EXPECT(t_get(0, m.va, 4 * PAGE64).ret, 0);
	MUST_FAIL(t_get(1, m.va, 5 * PAGE64), EINVAL, OUT_NULL);
	u.va = m.va;
	EXPECT(SG_CALL(g->fd, SOFTGPU_UNMAP, &u), 0);
	EXPECT(t_state(0).callbacks_done, 1);
}

/* cuMemCreate() without gpuDirectRDMACapable: this driver does not pin it, by whichever handle, but exports it. */
static void vmm_no_rdma(struct gpu *g)
{
	struct softgpu_va_reserve r = { .length = 8 * PAGE64 };
	struct softgpu_phys_create p = { .length = 4 * PAGE64, .flags = SOFTGPU_PHYS_NO_RDMA };
	struct softgpu_map m = { .ctx = g->ctx, .length = 4 * PAGE64 };
	struct softgpu_va_range u = { .length = 4 * PAGE64 };
	struct softgpu_phys_export e = { 0 };
	struct softgpu_phys_import again = { 0 };
	int fd;

	EXPECT(SG_CALL(g->fd, SOFTGPU_VA_RESERVE, &r), 0);
	EXPECT(SG_CALL(g->fd, SOFTGPU_PHYS_CREATE, &p), 0);
	m.va = r.va;
	m.handle = p.handle;
	EXPECT(SG_CALL(g->fd, SOFTGPU_MAP, &m), 0);
	MUST_FAIL(t_get(0, m.va, 4 * PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = m.va, .length = PAGE64), EINVAL, OUT_NULL);
	EXPECT(sg_dmabuf(g->fd, m.va, 4 * PAGE64, &fd), 0);
	close(fd);
	e.handle = p.handle;
	EXPECT(SG_CALL(g->fd, SOFTGPU_PHYS_EXPORT, &e), 0);
	again.id = e.id;
	again.key[0] = e.key[0];
	again.key[1] = e.key[1];
	EXPECT(SG_CALL(g->fd, SOFTGPU_PHYS_IMPORT, &again), 0);
	m.va = r.va + 4 * PAGE64;
	m.handle = again.handle;
	EXPECT(SG_CALL(g->fd, SOFTGPU_MAP, &m), 0);
	MUST_FAIL(t_get(0, m.va, PAGE64), EINVAL, OUT_NULL);
	for (u.va = r.va; u.va < r.va + 8 * PAGE64; u.va += 4 * PAGE64)
		EXPECT(SG_CALL(g->fd, SOFTGPU_UNMAP, &u), 0);
}

/* The other lengths are in tests/conformance/get.c. */
static void bad_lengths(struct gpu *g)
{
	uint64_t va = need_alloc(g, 4 * PAGE64);

	EXPECT(T(.op = T_GET, .va = va, .length = PAGE64, .flags = W_NULL_TABLE).ret, -EINVAL);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64, .flags = W_NULL_TABLE).ret, -EINVAL);
	MUST_FAIL(t_get(0, va + 3 * PAGE64, 2 * PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, va, 1ULL << 63), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, 0ULL - PAGE64, 2 * PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = va, .length = 0), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = va, .length = 5 * PAGE64), EINVAL, OUT_NULL);
}

/* They open their own context's memory and no other's, and are worth nothing once it has gone. */
static void tokens(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64), elsewhere;
	uint32_t other = sg_ctx(g->fd);
	struct softgpu_query q;

	EXPECT(sg_query(g->fd, va, &q), 0);
	MUST(!sg_alloc(g->fd, other, PAGE64, &elsewhere));
	MUST_FAIL(T(.op = T_GET, .va_space = q.va_space_token, .va = va, .length = PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET, .token = q.p2p_token, .va_space = q.va_space_token, .va = elsewhere,
		    .length = PAGE64), EINVAL, OUT_NULL);
	EXPECT(sg_ctx_destroy(g->fd, g->ctx), 0);
	MUST_FAIL(T(.op = T_GET, .token = q.p2p_token, .va_space = q.va_space_token, .va = va,
		    .length = PAGE64), EINVAL, OUT_NULL);
}

/* Each way says 0; W_KEEP, for the pin may be there still. */
static int put_by(uint64_t token, uint32_t va_space)
{
	return T(.op = T_PUT, .flags = W_KEEP, .token = token, .va_space = va_space).ret;
}

static int pins(struct gpu *g)
{
	return (int)sg_need_info(g->fd).pins;
}

/* Releases differ: 610 and later check the pointer. */
static void put_nothing(struct gpu *g)
{
	int ret = file_number("/sys/module/softgpu/parameters/driver") < 610 ? 0 : -EINVAL;

	EXPECT(T(.op = T_PUT, .flags = W_NULL_TABLE).ret, ret);
	EXPECT(T(.op = T_PUT_PERSISTENT, .flags = W_NULL_TABLE).ret, ret);
}

/* The table says which pin, the token who asks; the address and the other token nothing. */
static void put_by_wrong_tokens(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64), elsewhere;
	uint32_t other = sg_ctx(g->fd);
	int before = pins(g);
	struct softgpu_query q, o;

	MUST(!sg_alloc(g->fd, other, PAGE64, &elsewhere));
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

static bool is_coherent(struct gpu *g)
{
	return module_is("nvidia", "coherent") && !sg_need_info(g->fd).on_pci;
}

/* A coherent GPU's memory through BAR1: not to be cached, and for no peer. */
static void forced_through_bar1(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);
	struct nvp2p_test_call r = T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64, .value = 1);

	EXPECT(r.ret, 0);
	EXPECT((int)r.table_flags, 0);
	if (card_bdf(0))
		MUST_FAIL(T(.op = T_DMA_MAP, .bdf = card_bdf(0)), ENOTSUPP, OUT_NULL);
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
	EXPECT(T(.op = T_PUT_PERSISTENT).ret, 0);
	EXPECT(T(.op = T_PUT_PERSISTENT, .flags = W_STALE_TABLE).ret, -EINVAL);
	EXPECT(T(.op = T_PUT_PERSISTENT, .flags = W_GARBAGE_TABLE, .value = 4096).ret, -EINVAL);
}

const struct gpu_case pin_cases[] = {
	{ "get: small allocations share a page", small_allocations, t_reset },
	{ "get: an allocation is rounded up to pages", rounded_up, t_reset },
	{ "get: memory mapped by hand", vmm_memory, t_reset },
	{ "get: memory that is not for other devices", vmm_no_rdma, t_reset },
	{ "get: lengths that do not fit, no place for the table", bad_lengths, t_reset },
	{ "get: tokens of another context, and of one that has gone", tokens, t_reset },
	{ "put: no table", put_nothing, t_reset },
	{ "put: wrong tokens", put_by_wrong_tokens, t_reset },
	{ "put: the other kind's", wrong_kind, t_reset },
	{ "persistent: flags", persistent_flags, t_reset },
	{ }
};
