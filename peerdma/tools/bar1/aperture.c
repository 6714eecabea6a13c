// SPDX-License-Identifier: MIT
/*
 * aperture.c - adds up what pins hold of an aperture.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aperture.h"

static int add(struct owner *o, const struct phys_range *r)
{
	if (o->count == o->room) {
		size_t room = o->room ? o->room * 2 : 8;
		struct phys_range *bigger = realloc(o->ranges, room * sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		o->ranges = bigger;
		o->room = room;
	}
	o->ranges[o->count++] = *r;
	return 0;
}

/* The part of r that lies in the aperture; length 0: none. */
static struct phys_range clip(const struct phys_range *in, const struct phys_range *r)
{
	uint64_t start = r->start > in->start ? r->start : in->start;
	uint64_t end_in = in->start + in->length, end_r = r->start + r->length;
	uint64_t end = end_r < end_in ? end_r : end_in;

	return (struct phys_range){ start, end > start ? end - start : 0 };
}

static int by_start(const void *a, const void *b)
{
	const struct phys_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Sorts and joins; returns the bytes covered. */
static uint64_t unite(struct phys_range *r, size_t *count)
{
	uint64_t sum = 0;
	size_t n = 0;

	if (!*count)
		return 0;
	qsort(r, *count, sizeof(*r), by_start);
	for (size_t i = 1; i < *count; i++) {
		uint64_t end = r[n].start + r[n].length, end_i = r[i].start + r[i].length;

		if (r[i].start > end)
			r[++n] = r[i];
		else if (end_i > end)
			r[n].length = end_i - r[n].start;
	}
	*count = n + 1;
	for (size_t i = 0; i <= n; i++)
		sum += r[i].length;
	return sum;
}

static int by_owner(const void *a, const void *b)
{
	const struct pin *x = *(const struct pin *const *)a, *y = *(const struct pin *const *)b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return strcmp(x->comm, y->comm);
}

/* Pins come sorted by owner: it is the last one, or a new one. */
static struct owner *owner_of(struct aperture *a, const struct pin *pin)
{
	struct owner *last = a->count ? &a->owners[a->count - 1] : NULL;
	struct owner *bigger;

	if (last && last->pid == pin->pid && !strcmp(last->comm, pin->comm))
		return last;
	if (!(a->count & (a->count - 1))) {	/* a power of two: full */
		bigger = realloc(a->owners, (a->count ? a->count * 2 : 1) * sizeof(*bigger));
		if (!bigger)
			return NULL;
		a->owners = bigger;
	}
	last = &a->owners[a->count++];
	memset(last, 0, sizeof(*last));
	last->pid = pin->pid;
	last->comm = pin->comm;
	return last;
}

static int add_pin(struct aperture *a, const struct pin *pin)
{
	struct owner *owner = NULL;

	if (!strcmp(pin->state, "revoked"))	/* it holds no call */
		return 0;
	for (size_t i = 0; i < pin->segment_count; i++) {
		struct phys_range r = clip(&a->range, &pin->segments[i]);

		if (!r.length)
			continue;
		if (!owner) {
			owner = owner_of(a, pin);
			if (!owner)
				return -ENOMEM;
			owner->pins++;
		}
		if (add(owner, &r))
			return -ENOMEM;
	}
	return 0;
}

static int most_first(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->held != y->held)
		return x->held < y->held ? 1 : -1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int sum_up(struct aperture *a)
{
	struct owner all = { 0 };
	int ret = 0;

	for (size_t i = 0; i < a->count; i++) {
		struct owner *o = &a->owners[i];

		o->held = unite(o->ranges, &o->count);
		for (size_t j = 0; !ret && j < o->count; j++)
			ret = add(&all, &o->ranges[j]);
	}
	if (!ret) {
		a->held = unite(all.ranges, &all.count);
		free_runs_fill(&a->free, &a->range, all.ranges, all.count);
	}
	free(all.ranges);
	if (a->count)
		qsort(a->owners, a->count, sizeof(a->owners[0]), most_first);
	return ret;
}

int aperture_fill(struct aperture *a, const struct phys_range *range,
		  const struct pins_table *table)
{
	const struct pin **sorted = calloc(table->count + 1, sizeof(*sorted));
	int ret = 0;

	memset(a, 0, sizeof(*a));
	if (!sorted)
		return -ENOMEM;
	a->range = *range;
	for (size_t i = 0; i < table->count; i++)
		sorted[i] = &table->pins[i];
	qsort(sorted, table->count, sizeof(*sorted), by_owner);
	for (size_t i = 0; !ret && i < table->count; i++)
		ret = add_pin(a, sorted[i]);
	free(sorted);
	if (!ret)
		ret = sum_up(a);
	if (ret)
		aperture_free(a);
	return ret;
}

void aperture_free(struct aperture *a)
{
	for (size_t i = 0; i < a->count; i++)
		free(a->owners[i].ranges);
	free(a->owners);
	memset(a, 0, sizeof(*a));
}
