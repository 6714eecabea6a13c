// SPDX-License-Identifier: MIT
/*
 * test_cached_pins.c - a cache of pins, on a stand-in for the kernel.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "../cases.h"
#include "fake_cuda.h"
#include "fake_sys.h"
#include "peerdma_cache.h"

#define MIB (1UL << 20)

static char *memory;	/* 4 MiB */
static struct peerdma *ctx;
static struct peerdma_cache *cache;

static int setup(void **state)
{
	fake_reset();
	return peerdma_open(&ctx, 0) || peerdma_cache_open(ctx, NULL, &cache);
}

static int teardown(void **state)
{
	peerdma_cache_close(cache);
	for (int i = 0; i < FAKE_PINS; i++) {
		if (fake.pins[i].live)
			return -1;
	}
	peerdma_close(ctx);
	return 0;
}

FIXTURE(setup, teardown)

static struct peerdma_cached *get(void *p, size_t length)
{
	struct peerdma_cached *hold = NULL;

	assert_int_equal(peerdma_cache_get(cache, p, length, &hold), 0);
	assert_true(peerdma_valid(hold->registration));
	return hold;
}

static uint64_t pins_made(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_true(c.monitors & PEERDMA_MONITOR_WORD);
	return c.misses;
}

CASE(once)
{
	struct peerdma_cached *a = get(memory + 100, 1000), *b;

	peerdma_cache_put(cache, a);
	b = get(memory + 200, 10);
	assert_ptr_equal(a, b);
	peerdma_cache_put(cache, b);
	assert_int_equal(pins_made(), 1);
	assert_int_equal(fake.unpins, 0);
	assert_int_equal(peerdma_cache_invalidate(cache, memory, 1), 1);
	assert_int_equal(fake.unpins, 0);
	assert_int_equal(peerdma_cache_drain(cache), 1);
	assert_int_equal(fake.unpins, 1);
}

/* The kernel says that it is over: the next get makes a new one, and the old one is unpinned when no caller holds it. */
CASE(revoked)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cached *held = get(memory, 1000), *again;

	fake_revoke(1);
	assert_false(peerdma_valid(held->registration));
	again = get(memory, 1000);
	assert_ptr_not_equal(held->registration, again->registration);
	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_int_equal(c.stale, 1);
	assert_int_equal(fake.unpins, 0);
	peerdma_cache_put(cache, held);
	assert_int_equal(fake.unpins, 1);
	peerdma_cache_put(cache, again);
}

/* Freed while it was being pinned, three times: the fourth is the one. */
CASE(revoked_at_once)
{
	struct peerdma_cached *hold;

	fake.revoked_at_once = 3;
	hold = get(memory, 1000);
	assert_int_equal(fake.unpins, 3);
	peerdma_cache_put(cache, hold);
	fake.revoked_at_once = 1000;
	assert_int_equal(peerdma_cache_get(cache, memory + 2 * MIB, 1, &hold), -ESTALE);
	assert_non_null(strstr(peerdma_last_error(), "again and again"));
	fake.revoked_at_once = 0;
}

/* The provider is full: what is idle makes way, and if nothing is, the reason is peerdma_pin()'s. */
CASE(full)
{
	static const int errors[] = { -ENFILE, -ENOSPC, -ENOMEM, -EDQUOT, -ENOBUFS };
	struct peerdma_cached *hold;

	fake.pin_error = -ENOSPC;
	assert_int_equal(peerdma_cache_get(cache, memory, 1, &hold), -ENOSPC);
	assert_non_null(strstr(peerdma_last_error(), "peerdma bar1"));
	fake.pin_error = 0;
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
		fake.full_error = errors[e];
		for (int i = 0; i < FAKE_PINS * 2; i++)
			peerdma_cache_put(cache, get(memory + 2 * 4096UL * (unsigned int)i % (4 * MIB), 1));
	}
}

CASE(readonly)
{
	struct peerdma_cache_options o = { .size = sizeof(o), .access = PEERDMA_ACCESS_READ };
	struct peerdma_cache *c;
	struct peerdma_cached *hold;

	assert_int_equal(peerdma_cache_open(ctx, &o, &c), 0);
	assert_int_equal(peerdma_cache_get(c, memory, 1, &hold), 0);
	assert_true(fake.pins[1].flags & PEERDMA_READONLY);
	peerdma_cache_close(c);		/* held or not */
	assert_int_equal(fake.unpins, 1);
	o.flags = 1U << 9;
	assert_int_equal(peerdma_cache_open(ctx, &o, &c), -EINVAL);
}

/* Pinned for reading, then for writing too: anew, once, without PEERDMA_READONLY. */
CASE(upgraded)
{
	struct peerdma_cache_request q = { .size = sizeof(q), .access = PEERDMA_ACCESS_READ };
	struct peerdma_cached *read, *both, *again;

	assert_int_equal(peerdma_cache_get_with(cache, memory, 1000, &q, &read), 0);
	assert_true(fake.pins[1].flags & PEERDMA_READONLY);
	both = get(memory + 10, 10);
	assert_ptr_not_equal(both, read);
	assert_false(fake.pins[2].flags & PEERDMA_READONLY);
	assert_int_equal(peerdma_cache_get_with(cache, memory, 1000, &q, &again), 0);
	assert_ptr_equal(again, both);
	assert_int_equal(pins_made(), 2);
	peerdma_cache_put(cache, read);
	assert_int_equal(fake.unpins, 1);
	peerdma_cache_put(cache, both);
	peerdma_cache_put(cache, again);
	q.access = 4;
	assert_int_equal(peerdma_cache_get_with(cache, memory, 1000, &q, &again), -EINVAL);
}

/* What the caller knows of the memory is not asked for. */
CASE(known)
{
	struct peerdma_memory host = { .size = sizeof(host), .kind = PEERDMA_KIND_HOST };
	struct peerdma_memory device = {
		.size = sizeof(device), .kind = PEERDMA_KIND_DEVICE, .base = (uintptr_t)memory, .length = 100000,
	};
	struct peerdma_cache_request q = { .size = sizeof(q), .access = PEERDMA_ACCESS_READ, .memory = &host };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cached *hold;

	assert_int_equal(peerdma_cache_get_with(cache, memory + 3 * MIB, 10, &q, &hold), 0);
	assert_int_equal(fake.last_pin.flags, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY);
	peerdma_cache_put(cache, hold);
	q.memory = &device;
	assert_int_equal(peerdma_cache_get_with(cache, memory, 10, &q, &hold), 0);
	assert_int_equal(hold->length, 65536 - (uintptr_t)memory % 65536);
	peerdma_cache_put(cache, hold);
	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_int_equal(c.host, 4096);
	assert_int_equal(c.device, 65536 - (uintptr_t)memory % 65536);
	assert_int_equal(c.aperture, 65536);
	device.size = 8;
	assert_int_equal(peerdma_cache_get_with(cache, memory + 2 * MIB, 10, &q, &hold), -EINVAL);
	assert_non_null(strstr(peerdma_last_error(), "size"));
}

/* A dma-buf that the caller has: pinned at the offset, found by the address. */
CASE(dmabuf)
{
	struct peerdma_memory m = { .size = sizeof(m), .kind = PEERDMA_KIND_DEVICE };
	struct peerdma_cache_request q = {
		.size = sizeof(q), .access = PEERDMA_ACCESS_READ | PEERDMA_ACCESS_WRITE, .flags = PEERDMA_REQUEST_DMABUF,
		.dmabuf = 7, .dmabuf_addr = (uintptr_t)memory, .memory = &m,
	};
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_cached *hold, *again;

	assert_int_equal(peerdma_cache_get_with(cache, memory + 8192, 100, &q, &hold), 0);
	assert_ptr_equal(hold->addr, memory + 8192);
	assert_int_equal(peerdma_status(hold->registration, &s), 0);
	assert_int_equal(s.addr, 8192);
	again = get(memory + 8200, 10);
	assert_ptr_equal(again, hold);
	peerdma_cache_put(cache, hold);
	peerdma_cache_put(cache, again);
	q.dmabuf_addr = (uintptr_t)memory + MIB;
	assert_int_equal(peerdma_cache_get_with(cache, memory, 100, &q, &hold), -ENXIO);
	assert_non_null(strstr(peerdma_last_error(), "dmabuf_addr"));
}

/*
 * The caller knows where the range begins, and what follows is of no known kind, because CUDA fails: it is
 * registered as it was asked for, beside what is there, and not taken for GPU memory that ends where the first does.
 */
CASE(unknown_end)
{
	struct peerdma_memory device = {
		.size = sizeof(device), .kind = PEERDMA_KIND_DEVICE, .base = (uintptr_t)memory, .length = MIB,
	};
	struct peerdma_cache_request q = {
		.size = sizeof(q), .access = PEERDMA_ACCESS_READ | PEERDMA_ACCESS_WRITE, .memory = &device,
	};
	struct peerdma_cache_counters before = { .size = sizeof(before) }, c = { .size = sizeof(c) };
	struct peerdma_memory m = { .size = sizeof(m) };
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	struct peerdma_cached *first, *hold;
	struct fake_cuda *(*cuda)(void);

	assert_non_null(library);
	*(void **)&cuda = dlsym(library, "fake_cuda");
	assert_non_null(cuda);
	assert_int_equal(peerdma_cache_get_with(cache, memory + MIB - 65536, 60000, &q, &first), 0);
	assert_int_equal(peerdma_cache_counters(cache, &before), 0);
	assert_true(before.aperture);
	cuda()->state = 700;
	assert_int_equal(peerdma_query(ctx, memory + MIB, &m), -EIO);
	assert_int_equal(peerdma_cache_get_with(cache, memory + MIB - 8192, 16384, &q, &hold), 0);
	cuda()->state = 3;
	assert_ptr_equal(hold->addr, memory + MIB - 8192);
	assert_int_equal(hold->length, 16384);
	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_int_equal(c.aperture, before.aperture);
	peerdma_cache_put(cache, first);
	peerdma_cache_put(cache, hold);
	dlclose(library);
}

CASE(mapped_once)
{
	struct peerdma_cached *hold = get(memory, 1000);
	struct peerdma_mapping *a, *b, *other;

	assert_int_equal(peerdma_cache_map(cache, hold, "0000:03:00.0", PEERDMA_TO_DEVICE, &a), 0);
	assert_int_equal(peerdma_cache_map(cache, hold, "03:00.0", PEERDMA_TO_DEVICE, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(peerdma_cache_map(cache, hold, "03:00.0", PEERDMA_FROM_DEVICE, &other), 0);
	assert_ptr_not_equal(a, other);
	assert_int_equal(peerdma_cache_map(cache, hold, "03:00.1", PEERDMA_TO_DEVICE, &other), 0);
	assert_int_equal(fake.mappings, 3);
	/* A mapping of the caller's own is not shared. */
	assert_int_equal(peerdma_map(hold->registration, "04:00.0", PEERDMA_TO_DEVICE, &a), 0);
	assert_int_equal(peerdma_cache_map(cache, hold, "04:00.0", PEERDMA_TO_DEVICE, &b), 0);
	assert_ptr_not_equal(a, b);
	assert_int_equal(peerdma_cache_map(cache, hold, "not one", PEERDMA_TO_DEVICE, &a), -EINVAL);
	peerdma_cache_put(cache, hold);
}

int main(void)
{
	memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	return cases_run(NULL, NULL);
}
