// SPDX-License-Identifier: MIT
/*
 * top_outputs.c - prints looks of `peerdma top` that have rates: what has changed in a time that is the same everywhere.
 * test_outputs.py compares it with rates.txt.
 */
#include <stdlib.h>
#include <string.h>

#include "top/top.h"

static const struct tool tool = { .root = "", .ascii = true };

static void counts(struct top_counts *c, int turn, const uint64_t *values)
{
	for (int i = 0; i < TOP_COUNTERS; i++) {
		if (values[i])
			top_count(c, i, turn ? values[i] : values[i] / 2);
	}
}

static void gpu(struct top_sample *s, int turn, uint64_t used, uint64_t total)
{
	struct top_gpu *g;
	size_t n = s->gpu_count++;

	s->gpus = realloc(s->gpus, s->gpu_count * sizeof(*g));
	g = &s->gpus[n];
	*g = (struct top_gpu){ .index = n, .pci = "0000:03:00.0", .name = strdup("a GPU"), .uuid = strdup("GPU-1"), .has_bar1 = total,
			       .total = total, .used = used };
	if (n != 1)
		return;
	top_count(&g->counts, TOP_REVOCATIONS, 4 + turn);
	top_count(&g->counts, TOP_COPIES, 2 + 30 * turn);
	top_count(&g->counts, TOP_COPIED, 8192 + 1000000 * turn);
}

static struct top_process *process(struct top_sample *s, int turn, uint64_t pid, const char *comm, uint64_t held, uint64_t gets, uint64_t hits,
				   uint64_t moved)
{
	struct top_process *p = top_process(s, pid, comm);

	p->held = held;
	p->pins = pid;
	p->mappings = pid + 1;
	p->views = pid + 2;
	p->exports = pid + 3;
	p->caches = gets ? 1 : 0;
	if (gets) {
		top_count(&p->counts, TOP_GETS, 10 + gets * turn);
		top_count(&p->counts, TOP_HITS, hits * turn);
		top_count(&p->counts, TOP_ENDED, pid * turn);
	}
	if (moved)
		top_count(&p->counts, pid % 2 ? TOP_READ : TOP_WRITTEN, moved * turn);
	return p;
}

static void look(struct top_sample *s, int turn)
{
	static const uint64_t module[TOP_COUNTERS] = { 10, 30, 19990, 8, 44, 20000, 6 };
	struct top_device *d;

	*s = (struct top_sample){ .time = 100 + 2.5 * turn, .has_module = true, .has_pins = true, .live = 1 };
	counts(&s->module, turn, module);
	gpu(s, turn, 0, 100);
	gpu(s, turn, 1, 1 << 20);
	gpu(s, turn, 50, 100);
	gpu(s, turn, 99, 100);
	gpu(s, turn, 100, 100);
	gpu(s, turn, 101, 100);
	gpu(s, turn, 0, 0);
	d = top_device(s, "0000:05:00.0");
	strcpy(d->driver, "peerdma_fpga");
	d->mappings = 12;
	top_count(&d->counts, TOP_READ, 100 + turn * 2559);
	top_count(&d->counts, TOP_WRITTEN, 5 + turn * 2560);
	top_count(&d->counts, TOP_REVOCATIONS, 3);
	d = top_device(s, "mlx5_0");
	top_count(&d->counts, TOP_WRITTEN, turn ? 7 : 8);		/* went back */
	top_count(&d->counts, TOP_READ, turn * 25000000ULL);
	process(s, turn, 3, "few", 5, 4, 4, 0);
	process(s, turn, 1, "much", 1 << 20, 24000, 23999, 5000);
	process(s, turn, 4, "less", 1 << 20, 25000, 0, 7500)->revoked = 2;
	process(s, turn, 2, "J\xc3\xbcrgen", 3 << 20, 0, 0, 2560);
	process(s, turn, 5, "a", 0, 24998750, 3, 0);
	top_count(&top_process(s, 2, "")->counts, TOP_REVOCATIONS, 9 * turn);
	top_missing(s, "something: %d", turn);
	top_missing(s, "more");
}

int main(void)
{
	/* What comes to the edges of how rates are shown. */
	static const double rates[] = { 0, 0.04, 0.96, 9.94, 9.96, 999, 9999, 9999.6, 12345, 9999600, 3e9, 4e12, 7e15, 2e19 };
	struct top_sample before, now;

	look(&before, 0);
	look(&now, 1);
	top_json(&before);
	top_rates(&before, &now);
	for (enum top_order order = 0; order < TOP_ORDERS; order++) {
		top_sort(&now, order);
		printf("by %s:", top_order_name(order));
		for (size_t i = 0; i < now.process_count; i++)
			printf(" %s", now.processes[i].comm);
		printf("\n");
	}
	top_sort(&now, TOP_BY_GETS);
	top_text(&tool, &now, TOP_BY_GETS, 1000, stdout);
	top_json(&now);
	top_text(&tool, &now, TOP_BY_GETS, 60, stdout);
	top_text(&tool, &now, TOP_BY_GETS, 10, stdout);
	top_free(&before);
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct top_sample one = { .has_module = true, .live = 2 };
		struct top_process *p = top_process(&one, 1, "x");

		one.module.rated = one.module.known = 1U << TOP_PINS;
		one.module.rate[TOP_PINS] = rates[i];
		p->counts.known = p->counts.rated = 1U << TOP_READ;
		p->counts.rate[TOP_READ] = rates[i];
		printf("%g\n", rates[i]);
		top_text(&tool, &one, TOP_BY_PID, 1000, stdout);
		top_free(&one);
	}
	top_free(&now);
	top_text(&tool, &now, TOP_BY_PID, 1000, stdout);
	return top_sees_something(&now);
}
