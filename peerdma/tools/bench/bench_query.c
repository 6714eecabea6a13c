// SPDX-License-Identifier: MIT
/*
 * bench_query.c - what is this pointer?  On the stack, on the heap, in memory that
 * nothing is known of beforehand, one address of it and many; a GPU's; and of ranges.
 */
#include <stdlib.h>

#include "bench.h"

struct subject {
	const char *name;
	bool stack, range, device, many;
	unsigned char *memory;
	uint64_t length;
};

static int begin(void *arg, unsigned int thread, void **state)
{
	(void)thread;
	*state = arg;
	return 0;
}

static int calls(void *state, unsigned int n)
{
	const struct subject *s = state;
	struct peerdma_memory m = { .size = sizeof(m) };
	char here = 0;
	const void *p = s->stack ? &here : (const void *)s->memory;
	static _Thread_local unsigned int at;
	size_t count;
	int ret = 0;

	while (n-- && !ret) {
		if (s->many)
			p = s->memory + at++ % s->length;
		ret = s->range ? peerdma_query_range(NULL, p, s->length, &m, 1, &count) :
			peerdma_query(NULL, p, &m);
	}
	return ret;
}

static void end(void *state)
{
	(void)state;
}

static void measure(struct bench *b, struct subject *s, uint64_t size)
{
	bench_measure(b, &(struct bench_case){
		.what = "query", .name = s->name, .of = "bytes", .size = size, .batch = 16,
		.arg = s,
		.begin = begin, .calls = calls, .end = end });
}

static void ranges(struct bench *b, bool device, const char *name)
{
	static const uint64_t usual[] = { 4096, 1 << 20, 64 << 20, 0 };
	struct subject s = { .name = name, .device = device, .range = true };
	const uint64_t *sizes;
	size_t n = bench_sizes(b, usual, &sizes);

	for (size_t i = 0; i < n; i++) {
		s.length = sizes[i];
		s.memory = subject_alloc(device, sizes[i]);
		if (!s.memory) {
			bench_leave_out(b, "query", "no memory of that size");
			continue;
		}
		measure(b, &s, sizes[i]);
		subject_free(device, s.memory, sizes[i]);
	}
}

void bench_query(struct bench *b)
{
	struct subject stack = { .name = "stack", .stack = true }, heap = { .name = "heap" },
		mapped = { .name = "mapped" };
	struct subject many = { .name = "mapped, by turns", .many = true, .length = 4096 };
	struct subject device = { .name = "device", .device = true };

	measure(b, &stack, 1);
	heap.memory = malloc(1);
	if (heap.memory)
		measure(b, &heap, 1);
	free(heap.memory);
	mapped.memory = subject_alloc(false, 4096);
	if (mapped.memory) {
		measure(b, &mapped, 1);
		many.memory = mapped.memory;
		measure(b, &many, many.length);
		subject_free(false, mapped.memory, 4096);
	}
	ranges(b, false, "range, mapped");
	if (!b->gpu)
		return;
	device.memory = subject_alloc(true, 4096);
	if (device.memory) {
		measure(b, &device, 1);
		subject_free(true, device.memory, 4096);
	}
	ranges(b, true, "range, device");
}
