// SPDX-License-Identifier: MIT
/*
 * bench_pin.c - pin and unpin; a pin's view for the CPU, and its mapping for a device;
 * copies through a view.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "peerdma_copy.h"

enum kind { PIN, VIEW, MAP, TO_VIEW, FROM_VIEW, MEMCPY };

struct subject {
	struct bench *b;
	enum kind kind;
	bool device;
	uint64_t length;
};

/* A thread's own memory and pin. */
struct user {
	const struct subject *s;
	void *memory, *view, *other;
	struct peerdma_region *region;
};

static void end(void *state)
{
	struct user *u = state;

	peerdma_unpin(u->region);	/* and its view */
	if (u->memory)
		subject_free(u->s->device, u->memory, u->s->length);
	if (u->other)
		subject_free(false, u->other, u->s->length);
	free(u);
}

static int begin(void *arg, unsigned int thread, void **state)
{
	const struct subject *s = arg;
	struct user *u = calloc(1, sizeof(*u));
	bool copies = s->kind >= TO_VIEW;
	int ret = 0;

	if (!u)
		return -ENOMEM;
	u->s = s;
	u->memory = subject_alloc(s->device, s->length);
	u->other = copies ? subject_alloc(false, s->length) : NULL;
	if (!u->memory || (copies && !u->other))
		ret = -ENOMEM;
	if (!ret && (s->kind == MEMCPY || !s->b->ctx)) {
		u->view = u->memory;	/* ordinary memory stands for a view */
		*state = u;
		return 0;
	}
	if (!ret)
		ret = peerdma_pin(s->b->ctx, u->memory, s->length, 0, NULL, &u->region);
	if (!ret && !thread)
		subject_provider(s->b, s->device, u->region);
	if (!ret && copies)
		ret = peerdma_cpu_view(u->region, &u->view);
	if (!ret && s->kind == PIN) {
		ret = peerdma_unpin(u->region);
		u->region = NULL;
	}
	if (ret)
		end(u);
	*state = u;
	return ret;
}

static int one(struct user *u)
{
	const struct subject *s = u->s;
	struct peerdma_mapping *mapping;
	struct peerdma_region *region;
	void *view;
	int ret;

	switch (s->kind) {
	case PIN:
		ret = peerdma_pin(s->b->ctx, u->memory, s->length, 0, NULL, &region);
		return ret ? ret : peerdma_unpin(region);
	case VIEW:
		ret = peerdma_cpu_view(u->region, &view);
		return ret ? ret : peerdma_cpu_view_end(u->region, view);
	case MAP:
		ret = peerdma_map(u->region, s->b->options.pci,
				  PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE, &mapping);
		return ret ? ret : peerdma_unmap(mapping);
	case TO_VIEW:
		peerdma_copy_to_view(u->view, u->other, s->length);
		peerdma_view_fence();
		return 0;
	case FROM_VIEW:
		peerdma_copy_from_view(u->other, u->view, s->length);
		return 0;
	default:
		memcpy(u->view, u->other, s->length);
		__asm__ volatile("" ::: "memory");
		return 0;
	}
}

static int calls(void *state, unsigned int n)
{
	int ret = 0;

	while (n-- && !ret)
		ret = one(state);
	return ret;
}

static void sweep(struct bench *b, const char *what, const char *name, enum kind kind, bool device,
		  const uint64_t *usual)
{
	struct subject s = { .b = b, .kind = kind, .device = device };
	const uint64_t *sizes;
	size_t n = bench_sizes(b, usual, &sizes);

	for (size_t i = 0; i < n; i++) {
		s.length = sizes[i];
		bench_measure(b, &(struct bench_case){
			.what = what, .name = name, .of = "bytes", .size = sizes[i], .arg = &s,
			.moves = kind >= TO_VIEW,
			.batch = kind >= TO_VIEW && sizes[i] < 65536 ? 16 : 1, .begin = begin,
			.calls = calls, .end = end });
	}
}

static const uint64_t pin_sizes[] = { 4096, 65536, 1 << 20, 16 << 20, 0 };
static const uint64_t copy_sizes[] = { 64, 4096, 65536, 1 << 20, 16 << 20, 0 };

void bench_pin(struct bench *b)
{
	if (!b->ctx) {
		bench_leave_out(b, "pin", b->why_not);
		return;
	}
	sweep(b, "pin", "host", PIN, false, pin_sizes);
	if (b->gpu)
		sweep(b, "pin", "device", PIN, true, pin_sizes);
}

void bench_map(struct bench *b)
{
	if (!b->ctx) {
		bench_leave_out(b, "map", b->why_not);
		return;
	}
	sweep(b, "map", "CPU view, host", VIEW, false, pin_sizes);
	if (b->gpu)
		sweep(b, "map", "CPU view, device", VIEW, true, pin_sizes);
	if (!b->options.pci)
		return;
	sweep(b, "map", "for a device, host", MAP, false, pin_sizes);
	if (b->gpu)
		sweep(b, "map", "for a device, device", MAP, true, pin_sizes);
}

void bench_copy(struct bench *b)
{
	sweep(b, "copy", "memcpy", MEMCPY, false, copy_sizes);
	if (!b->ctx) {
		bench_leave_out(b, "copy", "nothing can be pinned; measured with the calls for views, on ordinary memory");
		sweep(b, "copy", "to memory", TO_VIEW, false, copy_sizes);
		sweep(b, "copy", "from memory", FROM_VIEW, false, copy_sizes);
		return;
	}
	sweep(b, "copy", "to a view, host", TO_VIEW, false, copy_sizes);
	sweep(b, "copy", "from a view, host", FROM_VIEW, false, copy_sizes);
	if (!b->gpu)
		return;
	sweep(b, "copy", "to a view, device", TO_VIEW, true, copy_sizes);
	sweep(b, "copy", "from a view, device", FROM_VIEW, true, copy_sizes);
}
