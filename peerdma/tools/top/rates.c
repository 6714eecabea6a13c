// SPDX-License-Identifier: MIT
/*
 * rates.c - what has changed between two looks.
 *
 * A counter that went back belongs to another one of that name, or lost a part of
 * what it counts (a cache was closed, a file too): then there is no rate, not a wrong one.
 */
#include <string.h>

#include "top.h"

static void rate(const struct top_counts *before, struct top_counts *now, double interval)
{
	for (int c = 0; c < TOP_COUNTERS; c++) {
		if (!top_known(before, c) || !top_known(now, c) || now->value[c] < before->value[c])
			continue;
		now->rated |= 1U << c;
		now->change[c] = now->value[c] - before->value[c];
		now->rate[c] = (double)now->change[c] / interval;
	}
}

static const struct top_process *same_process(const struct top_sample *s,
					      const struct top_process *p)
{
	for (size_t i = 0; i < s->process_count; i++) {
		if (s->processes[i].pid == p->pid && !strcmp(s->processes[i].comm, p->comm))
			return &s->processes[i];
	}
	return NULL;
}

static const struct top_device *same_device(const struct top_sample *s, const struct top_device *d)
{
	for (size_t i = 0; i < s->device_count; i++) {
		if (!strcmp(s->devices[i].name, d->name) &&
		    !strcmp(s->devices[i].driver, d->driver))
			return &s->devices[i];
	}
	return NULL;
}

static const struct top_gpu *same_gpu(const struct top_sample *s, const struct top_gpu *g)
{
	for (size_t i = 0; i < s->gpu_count; i++) {
		if (s->gpus[i].index == g->index && !strcmp(s->gpus[i].uuid, g->uuid))
			return &s->gpus[i];
	}
	return NULL;
}

void top_rates(const struct top_sample *before, struct top_sample *now)
{
	now->interval = now->time - before->time;
	if (now->interval <= 0) {
		now->interval = 0;
		return;
	}
	rate(&before->module, &now->module, now->interval);
	for (size_t i = 0; i < now->process_count; i++) {
		const struct top_process *p = same_process(before, &now->processes[i]);

		if (p)
			rate(&p->counts, &now->processes[i].counts, now->interval);
	}
	for (size_t i = 0; i < now->device_count; i++) {
		const struct top_device *d = same_device(before, &now->devices[i]);

		if (d)
			rate(&d->counts, &now->devices[i].counts, now->interval);
	}
	for (size_t i = 0; i < now->gpu_count; i++) {
		const struct top_gpu *g = same_gpu(before, &now->gpus[i]);

		if (g)
			rate(&g->counts, &now->gpus[i].counts, now->interval);
	}
}

bool top_dma(const struct top_counts *c, double *sum)
{
	*sum = (top_rated(c, TOP_READ) ? c->rate[TOP_READ] : 0) + (top_rated(c, TOP_WRITTEN) ? c->rate[TOP_WRITTEN] : 0);
	return top_rated(c, TOP_READ) || top_rated(c, TOP_WRITTEN);
}
