// SPDX-License-Identifier: MIT
/* calls_with.c - gets that say more than an address: access, the caller's pointer, payload; and what options add. */
#include "toy.h"

#define R	1U
#define W	2U
#define A	0x8000U

static struct peerdma_cached *get_with(const void *p, size_t length, uint32_t access)
{
	struct peerdma_cache_request q = { .size = sizeof(q), .access = access, .user = (void *)p };
	struct peerdma_cached *hold = NULL;

	MUST(!peerdma_cache_get_with(cache, p, length, &q, &hold));
	MUST(hold->addr <= (uintptr_t)p && (uintptr_t)p + length <= hold->addr + hold->length);
	return hold;
}

static uint32_t access_at(const void *p)
{
	struct peerdma_cache_entry e = { .size = sizeof(e) };

	MUST(peerdma_cache_list(cache, (uintptr_t)p, &e, 1) == 1);
	return e.access;
}

static void touch_with(const void *p, size_t length, uint32_t access)
{
	peerdma_cache_put(cache, get_with(p, length, access));
}

/* A region has what was asked for, and more when more is asked for; nothing is lost by that. */
void access_bits(void)
{
	struct peerdma_cached *read, *both, *hold;
	struct peerdma_cache_request q = { .size = sizeof(q), .access = R | W };

	begin();
	read = get_with(AT(0), 4 * PAGE, R);
	MUST(toy.access == R && toy.user == AT(0) && access_at(AT(0)) == R);
	MUST(get_with(AT(1), PAGE, R) == read && get(AT(2), PAGE) == read && toy.adds == 1);
	both = get_with(AT(1), PAGE, W);
	MUST(both != read && toy.access == (R | W) && both->addr == BASE && both->length == 4 * PAGE);
	MUST(get_with(AT(1), PAGE, R) == both && get_with(AT(0), PAGE, W) == both && get(AT(3), PAGE) == both);
	MUST(toy.adds == 2 && counters().merges == 1 && counters().dead == 1 && toy.removes == 0);
	for (int i = 0; i < 3; i++)
		peerdma_cache_put(cache, read);
	MUST(toy.removes == 1);
	for (int i = 0; i < 4; i++)
		peerdma_cache_put(cache, both);

	/* Neighbours that become part of it give their access as well. */
	touch_with(AT(10), PAGE, R);
	touch_with(AT(12), PAGE, A);
	touch_with(AT(10), 3 * PAGE, W);
	MUST(toy.access == (R | W | A) && counters().regions == 2);
	/* Far greater than what is asked for, but it lies all in it. */
	touch_with(AT(100), 1000 * PAGE, R);
	touch_with(AT(200), PAGE, W);
	MUST(toy.last_length == 1000 * PAGE && access_at(AT(100)) == (R | W));
	/* It cannot have more: it stays as it is. */
	toy.refuse = -EACCES;
	q.access = A;
	MUST(peerdma_cache_get_with(cache, AT(200), PAGE, &q, &hold) == -EACCES);
	toy.refuse = 0;
	MUST(access_at(AT(100)) == (R | W));
	touch_with(AT(300), PAGE, W);
	finish();

	/* What the plain get asks for. */
	fresh();
	options.access = R | W;
	begin();
	touch(AT(0), PAGE);
	MUST(toy.access == (R | W) && toy.user == NULL);
	for (int i = 0; i < 3; i++)
		touch_with(AT(4), PAGE, R);	/* found again, but for those who want no more */
	MUST(toy.access == R && toy.adds == 2);
	for (int i = 0; i < 3; i++) {
		hold = get(AT(4), PAGE);
		MUST(toy.access == (R | W) && toy.adds == 3);
		peerdma_cache_put(cache, hold);
	}
	for (int i = 0; i < 3; i++)
		touch_with(AT(4), PAGE, W);
	MUST(toy.adds == 3 && counters().hits_front >= 4);
}

/* Several regions cover the range: one of them has the access, or the shortest of them is registered again. */
void access_of_overlapping(void)
{
	begin();
	touch_with(AT(0), 40 * PAGE, R | W);
	touch_with(AT(39), 2 * PAGE, R);
	MUST(toy.adds == 2 && counters().regions == 2);
	for (int i = 0; i < 3; i++)
		peerdma_cache_put(cache, get_with(AT(39), PAGE, W));
	MUST(toy.adds == 2 && counters().regions == 2 && counters().misses == 2);
	touch_with(AT(39), PAGE, A);
	MUST(toy.last_addr == BASE + 39 * PAGE && toy.last_length == 2 * PAGE && toy.access == (R | A));
	finish();

	/* As long as a region that covers the page, and no longer, though its neighbours are longer. */
	fresh();
	begin();
	touch_with(AT(0), 40 * PAGE, R);
	touch_with(AT(39), 4 * PAGE, R);
	touch_with(AT(40), 12 * PAGE, R);
	touch_with(AT(51), 39 * PAGE, R);
	touch_with(AT(60), 98 * PAGE, R);
	MUST(counters().regions == 2 && toy.last_addr == BASE + 39 * PAGE && toy.last_length == 119 * PAGE);
	touch_with(AT(39), PAGE, W);
	MUST(toy.last_addr == BASE && toy.last_length == 40 * PAGE && toy.access == (R | W));
	MUST(counters().regions == 2 && access_at(AT(0)) == (R | W) && access_at(AT(39)) == R);
}

void requests(void)
{
	struct {
		struct peerdma_cache_request q;
		uint64_t more;
	} later = { .q = { .size = sizeof(later) } };
	struct peerdma_cache_request q = { .size = sizeof(q) };
	struct peerdma_cached *hold;

	fresh();
	begin();
	MUST(!peerdma_cache_get_with(cache, AT(0), PAGE, &q, &hold));
	peerdma_cache_put(cache, hold);
	q.access = 1U << PEERDMA_ACCESS_BITS;
	MUST(peerdma_cache_get_with(cache, AT(0), PAGE, &q, &hold) == -EINVAL && strstr(peerdma_last_error(), "access"));
	q.access = 0;
	q.flags = 1U << 20;
	MUST(peerdma_cache_get_with(cache, AT(0), PAGE, &q, &hold) == -EINVAL);
	q.flags = 0;
	q.reserved[1] = 1;
	MUST(peerdma_cache_get_with(cache, AT(0), PAGE, &q, &hold) == -EINVAL);
	q.reserved[1] = 0;
	q.size = 8;
	MUST(peerdma_cache_get_with(cache, AT(0), PAGE, &q, &hold) == -EINVAL);
	MUST(!peerdma_cache_get_with(cache, AT(0), PAGE, &later.q, &hold));
	peerdma_cache_put(cache, hold);
	later.more = 1;
	MUST(peerdma_cache_get_with(cache, AT(0), PAGE, &later.q, &hold) == -E2BIG);
	finish();

	options.access = 1U << PEERDMA_ACCESS_BITS;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	options.access = 0;
	options.reserved[3] = 1;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	options.reserved[3] = 0;
	ops.reserved[2] = 1;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	ops.reserved[2] = 0;
	ops.payload = 5000;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
}

void payloads(void)
{
	struct peerdma_cached *held[50];
	char name[40];

	ops.payload = sizeof(name);
	begin();
	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 50; i++)
			held[i] = get(AT(2 * i), PAGE);
		for (uint64_t i = 0; i < 50; i++) {
			snprintf(name, sizeof(name), "%llx", (unsigned long long)(BASE + 2 * i * PAGE));
			MUST(!strcmp(peerdma_cache_payload(cache, held[i]), name));
			MUST((uintptr_t)peerdma_cache_payload(cache, held[i]) % 16 == 0);
			peerdma_cache_put(cache, held[i]);
		}
		invalidate(AT(round), 20 * PAGE);
	}
}

/* So much of the host's, and so much of a GPU's. */
void kinds(void)
{
	struct peerdma_cache_counters c;

	options.max_host = 10 * PAGE;
	options.max_device = 5 * PAGE;
	ops.extent = toy_extent;
	begin();
	for (int i = 0; i < 60; i++) {
		toy.kind = i % 3 ? i % 3 == 1 ? PEERDMA_KIND_HOST : PEERDMA_KIND_DEVICE : PEERDMA_KIND_UNKNOWN;
		touch(AT(2 * i), PAGE);
		c = counters();
		MUST(c.host <= 10 * PAGE && c.device <= 5 * PAGE && c.bytes >= c.host + c.device);
	}
	MUST(c.host == 10 * PAGE && c.device == 5 * PAGE);
	invalidate(NULL, SIZE_MAX);
	c = counters();
	MUST(!c.host && !c.device && !c.bytes);
}

static const struct peerdma_cached *told;
static int tells;

static void ended(void *arg, const struct peerdma_cached *region)
{
	MUST(arg == &told && region->length == PAGE);
	told = region;
	tells++;
}

/* Whoever holds it is told, once, when its memory goes; not when a wider one takes its place. */
void held_ends(void)
{
	struct peerdma_cached *held;
	uint32_t word = 1;

	options.ended = ended;
	options.arg = &told;
	ops.monitors = PEERDMA_MONITOR_WORD;
	toy.word = &word;
	tells = 0;
	begin();
	touch(AT(0), PAGE);
	held = get(AT(2), PAGE);
	MUST(peerdma_cache_invalidate(cache, AT(0), PAGE) == 1 && !tells);
	MUST(peerdma_cache_invalidate(cache, AT(2), PAGE) == 1 && tells == 1 && told == held && counters().dead == 1);
	MUST(peerdma_cache_invalidate(cache, AT(2), PAGE) == 0 && tells == 1);
	peerdma_cache_put(cache, held);
	MUST(toy.removes == 2 && !counters().dead && tells == 1);

	held = get(AT(2), PAGE);
	word = 2;
	touch(AT(2), PAGE);
	MUST(tells == 2 && told == held);
	peerdma_cache_put(cache, held);

	held = get(AT(2), PAGE);
	touch(AT(2), 2 * PAGE);
	MUST(tells == 2 && counters().dead == 1);
	peerdma_cache_put(cache, held);
}

/* Each get registers, each put removes. */
static void off(void)
{
	struct peerdma_cached *a, *b;

	begin();
	a = get(AT(0), PAGE);
	b = get(AT(0), PAGE);
	MUST(a != b && toy.adds == 2 && counters().regions == 2 && counters().dead == 2);
	peerdma_cache_put(cache, b);
	MUST(toy.removes == 1);
	peerdma_cache_put(cache, a);
	MUST(toy.removes == 2 && counters().regions == 0 && counters().bytes == 0 && counters().hits == 0);
	MUST(peerdma_cache_invalidate(cache, NULL, SIZE_MAX) == 0);
	for (int i = 0; i < 1000; i++)
		touch(AT(i % 3), 2 * PAGE);
	MUST(toy.adds == 1002 && toy.removes == 1002);
	finish();
}

void nothing_kept(void)
{
	struct peerdma_cached *hold;

	options.flags = PEERDMA_CACHE_OFF;
	off();
	fresh();
	setenv("PEERDMA_CACHE", "off", 1);
	off();
	unsetenv("PEERDMA_CACHE");
	fresh();
	options.flags = PEERDMA_CACHE_OFF;
	options.capacity = 4;
	begin();
	for (int i = 0; i < 4; i++)
		get(AT(0), PAGE);
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -ENOBUFS);
}

static char last_line[300];

static void line(void *arg, const char *text)
{
	MUST(arg == &told && !strchr(text, '\n'));
	snprintf(last_line, sizeof(last_line), "%s", text);
}

void logged(void)
{
	options.log = line;
	options.arg = &told;
	toy.room = 2;
	begin();
	touch(AT(0), PAGE);
	touch(AT(2), PAGE);
	MUST(!*last_line);
	touch(AT(4), PAGE);
	MUST(strstr(last_line, "idle"));
	toy.room = 0;
	touch(AT(10), 2 * PAGE);
	*last_line = 0;
	toy.widest = 2 * PAGE;
	touch(AT(11), 2 * PAGE);
	MUST(strstr(last_line, "for [0x1000000a000, 0x1000000d000): it is called for [0x1000000b000, 0x1000000d000)"));
}
