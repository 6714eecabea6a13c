// SPDX-License-Identifier: MIT
/* nvp2p_get.c - what may be pinned, what a table says, and how get_pages refuses. */
#include "nvp2p_rules.h"

/* ---- success ---- */

static void table_contents(struct gpu *g)
{
	uint64_t va = need_alloc(g, 5 * PAGE64), pages[5];
	struct nvp2p_test_call r = t_get(0, va, 5 * PAGE64);
	struct softgpu_info info;
	int i, j;

	NEED(!sg_info(g->fd, &info));
	CHECK(r.ret == 0 && r.out == OUT_SET, "%d", r.ret);
	CHECK(r.version == 0x00020000, "%x", r.version);
	CHECK(r.page_size == 1, "%u", r.page_size);
	CHECK(r.entries == 5, "%u", r.entries);
	/* CPU_CACHEABLE, where VRAM is system memory. */
	CHECK(r.table_flags == !info.on_pci, "%x", r.table_flags);
	CHECK(r.registers_zero, "request registers are set");
	CHECK(!memcmp(r.uuid, info.uuid, 16), "not this GPU's");
	t_pages(0, pages, 5);
	for (i = 0; i < 5; i++) {
		CHECK(pages[i] && pages[i] % PAGE64 == 0, "page %d: %#llx", i,
		      (unsigned long long)pages[i]);
		for (j = 0; j < i; j++)
			CHECK(pages[i] != pages[j], "pages %d and %d", i, j);
	}
	EXPECT(t_put(0), 0);
}

/* What a program copied is at the pages' addresses, and the other way round. */
static void pages_are_the_memory(struct gpu *g)
{
	size_t len = 3 * PAGE64, i;
	uint64_t va = need_alloc(g, len);
	uint32_t *host = malloc(len), *seen = calloc(1, len);

	NEED(host && seen);
	for (i = 0; i < len / 4; i++)
		host[i] = i * 2654435761u;
	EXPECT(sg_copy(g->fd, g->ctx, va, PTR(host), len, SOFTGPU_OP_SYNC), 0);
	EXPECT(t_get(0, va, len).ret, 0);
	T(.op = T_PEEK, .data = PTR(seen), .length = len);
	CHECK(!memcmp(host, seen, len), "the pinned pages hold something else");
	for (i = 0; i < len / 4; i++)
		host[i] = ~host[i];
	T(.op = T_POKE, .data = PTR(host), .length = len);
	EXPECT(sg_copy(g->fd, g->ctx, PTR(seen), va, len, SOFTGPU_OP_SYNC), 0);
	CHECK(!memcmp(host, seen, len), "the GPU does not see what was written to the pages");
	EXPECT(t_put(0), 0);
	free(host);
	free(seen);
}

static void part_of_an_allocation(struct gpu *g)
{
	uint64_t va = need_alloc(g, 8 * PAGE64), all[8], part[3];

	EXPECT(t_get(0, va, 8 * PAGE64).ret, 0);
	EXPECT(t_get(1, va + 2 * PAGE64, 3 * PAGE64).ret, 0);
	t_pages(0, all, 8);
	t_pages(1, part, 3);
	CHECK(!memcmp(all + 2, part, sizeof(part)), "overlapping pins, other addresses");
	EXPECT(t_put(0), 0);
	EXPECT(t_put(1), 0);
}

static void same_range_again(struct gpu *g)
{
	uint64_t va = need_alloc(g, 4 * PAGE64), first[4], again[4];
	struct softgpu_info before, during;
	uint64_t seen[8];
	int i, j;

	NEED(!sg_info(g->fd, &before));
	for (i = 0; i < 8; i++) {
		struct nvp2p_test_call r = t_get(i, va, 4 * PAGE64);

		EXPECT(r.ret, 0);
		seen[i] = r.pointer;
		for (j = 0; j < i; j++)
			CHECK(seen[i] != seen[j], "pins %d and %d share a table", i, j);
		t_pages(i, i ? again : first, 4);
		CHECK(!i || !memcmp(first, again, sizeof(first)), "pin %d: other addresses", i);
	}
	NEED(!sg_info(g->fd, &during));
	CHECK(during.bar1_used == before.bar1_used + 4 * PAGE64, "BAR1 counts shared pages twice");
	CHECK(during.pins == before.pins + 8, "%u", during.pins);
	for (i = 0; i < 8; i++)
		EXPECT(t_put(i), 0);
}

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

static void null_data(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);

	EXPECT(T(.op = T_GET, .va = va, .length = PAGE64, .flags = W_NULL_DATA).ret, 0);
	EXPECT(sg_free(g->fd, va), 0);
	EXPECT(t_state(0).callbacks_done, 1);
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

/* ---- refusals ---- */

static void null_callback(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);

	MUST_FAIL(T(.op = T_GET, .va = va, .length = PAGE64, .flags = W_NULL_CALLBACK), EINVAL,
		  OUT_UNTOUCHED);
	/* Found before anything else. */
	MUST_FAIL(T(.op = T_GET, .va = 1, .length = 1, .token = 1, .flags = W_NULL_CALLBACK),
		  EINVAL, OUT_UNTOUCHED);
}

static void null_table_pointer(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64);

	EXPECT(T(.op = T_GET, .va = va, .length = PAGE64, .flags = W_NULL_TABLE).ret, -EINVAL);
	EXPECT(T(.op = T_GET_PERSISTENT, .va = va, .length = PAGE64, .flags = W_NULL_TABLE).ret,
	       -EINVAL);
}

static void unaligned(struct gpu *g)
{
	uint64_t va = need_alloc(g, 4 * PAGE64);

	MUST_FAIL(t_get(0, va + 1, PAGE64), EINVAL, OUT_UNTOUCHED);
	MUST_FAIL(t_get(0, va + 4096, PAGE64), EINVAL, OUT_UNTOUCHED);
	MUST_FAIL(t_get(0, va, PAGE64 - 1), EINVAL, OUT_UNTOUCHED);
	MUST_FAIL(t_get(0, va, 4096), EINVAL, OUT_UNTOUCHED);
	/* Before tokens are looked at. */
	MUST_FAIL(T(.op = T_GET, .token = 1, .va = va + 1, .length = PAGE64), EINVAL,
		  OUT_UNTOUCHED);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = va + 1, .length = PAGE64), EINVAL,
		  OUT_UNTOUCHED);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = va, .length = 1), EINVAL, OUT_UNTOUCHED);
}

static void bad_lengths(struct gpu *g)
{
	uint64_t va = need_alloc(g, 4 * PAGE64);

	MUST_FAIL(t_get(0, va, 0), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, va, 5 * PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, va + 3 * PAGE64, 2 * PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, va, 1ULL << 40), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, va, 0ULL - PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, va, 1ULL << 63), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, 0ULL - PAGE64, 2 * PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = va, .length = 0), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = va, .length = 5 * PAGE64), EINVAL, OUT_NULL);
}

/* Neighbours in address space are still two allocations. */
static void two_allocations(struct gpu *g)
{
	uint64_t va[16];
	int i, pairs = 0;

	for (i = 0; i < 16; i++)
		va[i] = need_alloc(g, PAGE64);
	for (i = 0; i < 15; i++) {
		if (va[i] + PAGE64 == va[i + 1]) {
			pairs++;
			MUST_FAIL(t_get(0, va[i], 2 * PAGE64), EINVAL, OUT_NULL);
		}
	}
	CHECK(pairs, "no two allocations are neighbours: nothing was tried");
}

static void not_gpu_memory(struct gpu *g)
{
	struct softgpu_va_reserve r = { .length = 2 * PAGE64 };
	struct softgpu_host_register h = { .ctx = g->ctx, .length = PAGE64 };
	uint64_t freed = need_alloc(g, PAGE64);
	void *host = aligned_alloc(PAGE64, PAGE64);

	NEED(host);
	EXPECT(sg_free(g->fd, freed), 0);
	MUST_FAIL(t_get(0, freed, PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, PTR(host), PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(t_get(0, 0, PAGE64), EINVAL, OUT_NULL);

	h.kind = SOFTGPU_KIND_REGISTERED;
	h.va = PTR(host);
	EXPECT(SG_CALL(g->fd, SOFTGPU_HOST_REGISTER, &h), 0);
	MUST_FAIL(t_get(0, PTR(host), PAGE64), EINVAL, OUT_NULL);

	EXPECT(SG_CALL(g->fd, SOFTGPU_VA_RESERVE, &r), 0);
	MUST_FAIL(t_get(0, r.va, PAGE64), EINVAL, OUT_NULL);
	h.kind = SOFTGPU_KIND_HOST;
	h.va = r.va;
	EXPECT(SG_CALL(g->fd, SOFTGPU_HOST_REGISTER, &h), 0);
	MUST_FAIL(t_get(0, r.va, PAGE64), EINVAL, OUT_NULL);
	h.kind = SOFTGPU_KIND_MANAGED;
	h.va = r.va + PAGE64;
	EXPECT(SG_CALL(g->fd, SOFTGPU_HOST_REGISTER, &h), 0);
	MUST_FAIL(t_get(0, r.va + PAGE64, PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = r.va, .length = PAGE64), EINVAL, OUT_NULL);
	free(host);
}

/* ---- who may ---- */

struct owner {
	uint64_t va, token;
	uint32_t va_space;
};

static void child_pins(void *arg)
{
	const struct owner *o = arg;

	/* Without tokens it is the child's own memory that is meant, and there is none. */
	MUST_FAIL(t_get(0, o->va, PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .va = o->va, .length = PAGE64), EINVAL, OUT_NULL);
	EXPECT(T(.op = T_GET, .token = o->token, .va_space = o->va_space, .va = o->va,
		 .length = PAGE64).ret, 0);
	EXPECT(T(.op = T_PUT, .token = o->token, .va_space = o->va_space).ret, 0);
}

static void tokens(struct gpu *g)
{
	struct owner o = { .va = need_alloc(g, PAGE64) };
	struct softgpu_query q;
	uint32_t other = sg_ctx(g->fd);
	uint64_t elsewhere;

	EXPECT(sg_query(g->fd, o.va, &q), 0);
	o.token = q.p2p_token;
	o.va_space = q.va_space_token;
	CHECK(o.token && o.va_space, "no tokens");
	CHECK(in_child(child_pins, &o), "the child did not end well");

	MUST_FAIL(T(.op = T_GET, .token = o.token, .va = o.va, .length = PAGE64), EIO, OUT_NULL);
	MUST_FAIL(T(.op = T_GET, .token = o.token + 1, .va_space = o.va_space, .va = o.va,
		    .length = PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET, .token = o.token, .va_space = o.va_space ^ 1, .va = o.va,
		    .length = PAGE64), EINVAL, OUT_NULL);
	MUST_FAIL(T(.op = T_GET, .va_space = o.va_space, .va = o.va, .length = PAGE64), EINVAL,
		  OUT_NULL);

	/* They open their own context's memory and no other's. */
	NEED(!sg_alloc(g->fd, other, PAGE64, &elsewhere));
	MUST_FAIL(T(.op = T_GET, .token = o.token, .va_space = o.va_space, .va = elsewhere,
		    .length = PAGE64), EINVAL, OUT_NULL);

	/* And are worth nothing once it has gone. */
	EXPECT(sg_ctx_destroy(g->fd, g->ctx), 0);
	MUST_FAIL(T(.op = T_GET, .token = o.token, .va_space = o.va_space, .va = o.va,
		    .length = PAGE64), EINVAL, OUT_NULL);
}

/* ---- BAR1 ---- */

static void bar1_is_full(struct gpu *g)
{
	struct softgpu_info info;
	uint64_t room, big, small;

	NEED(!sg_info(g->fd, &info));
	room = info.bar1_total - info.bar1_used;
	if (info.vram_free < room + 2 * PAGE64) {
		printf("skip: BAR1 (%llu) is no smaller than VRAM; load softgpu.ko with bar1=\n",
		       (unsigned long long)info.bar1_total);
		return;
	}
	big = need_alloc(g, room);
	small = need_alloc(g, PAGE64);
	EXPECT(t_get(0, big, room - PAGE64).ret, 0);
	EXPECT(t_get(1, small, PAGE64).ret, 0);
	NEED(!sg_info(g->fd, &info));
	CHECK(info.bar1_used == info.bar1_total, "%llu of %llu", (unsigned long long)info.bar1_used,
	      (unsigned long long)info.bar1_total);
	MUST_FAIL(t_get(2, big, room), ENOMEM, OUT_NULL);
	MUST_FAIL(T(.op = T_GET_PERSISTENT, .slot = 2, .va = big, .length = room), ENOMEM, OUT_NULL);
	/* What is pinned already takes no more room. */
	EXPECT(t_get(2, big, room - PAGE64).ret, 0);
	EXPECT(t_put(2), 0);
	EXPECT(t_put(1), 0);
	EXPECT(t_get(1, big, room).ret, 0);
	EXPECT(t_put(1), 0);
	EXPECT(t_put(0), 0);
}

const struct test_case get_cases[] = {
	{ "get: the table's version, page size, entries, flags, registers, uuid", table_contents },
	{ "get: physical addresses are those of the memory", pages_are_the_memory },
	{ "get: part of an allocation", part_of_an_allocation },
	{ "get: the same range again is another table, the same addresses", same_range_again },
	{ "get: small allocations share a page", small_allocations },
	{ "get: an allocation is rounded up to pages", rounded_up },
	{ "get: data may be NULL", null_data },
	{ "get: memory mapped by hand", vmm_memory },
	{ "get: no callback", null_callback },
	{ "get: no place for the table", null_table_pointer },
	{ "get: unaligned", unaligned },
	{ "get: lengths that do not fit", bad_lengths },
	{ "get: two allocations", two_allocations },
	{ "get: what is not GPU memory", not_gpu_memory },
	{ "get: tokens, and other processes", tokens },
	{ "get: BAR1 exhausted", bar1_is_full },
	{ NULL, NULL }
};
