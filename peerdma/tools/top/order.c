// SPDX-License-Identifier: MIT
/*
 * order.c - in which order processes are shown.
 */
#include <stdlib.h>
#include <string.h>

#include "top.h"

static const char *const names[TOP_ORDERS] = {
	[TOP_BY_HELD] = "held", [TOP_BY_GETS] = "gets", [TOP_BY_DMA] = "dma",
	[TOP_BY_REVOCATIONS] = "revocations",
	[TOP_BY_PID] = "pid", [TOP_BY_NAME] = "name",
};

bool top_order_find(const char *name, enum top_order *order)
{
	for (int i = 0; *name && i < TOP_ORDERS; i++) {
		if (!strncmp(names[i], name, strlen(name))) {
			*order = i;
			return true;
		}
	}
	return false;
}

const char *top_order_name(enum top_order order)
{
	return names[order];
}

static double weight(const struct top_process *p, enum top_order order)
{
	const struct top_counts *c = &p->counts;
	double dma;

	switch (order) {
	case TOP_BY_HELD:
		return (double)p->held;
	case TOP_BY_GETS:
		return top_rated(c, TOP_GETS) ? c->rate[TOP_GETS] : 0;
	case TOP_BY_DMA:
		top_dma(c, &dma);
		return dma;
	case TOP_BY_REVOCATIONS:
		return (double)(top_revocations(p) + c->value[TOP_ENDED]);
	default:
		return 0;
	}
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct top_process *x = a, *y = b;
	enum top_order order = *(enum top_order *)arg;
	double wx = weight(x, order), wy = weight(y, order);
	int by_name = order == TOP_BY_NAME ? strcmp(x->comm, y->comm) : 0;

	if (wx != wy)
		return wx < wy ? 1 : -1;
	return by_name ? by_name : (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_device(const void *a, const void *b)
{
	return strcmp(((const struct top_device *)a)->name, ((const struct top_device *)b)->name);
}

void top_sort(struct top_sample *s, enum top_order order)
{
	if (s->process_count)
		qsort_r(s->processes, s->process_count, sizeof(s->processes[0]), compare, &order);
	if (s->device_count)
		qsort(s->devices, s->device_count, sizeof(s->devices[0]), by_device);
}
