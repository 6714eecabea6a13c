// SPDX-License-Identifier: MIT
/*
 * doctor.c - runs the checks and keeps what they find.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters.h"
#include "gpu_modes.h"
#include "paths.h"
#include "base/tool.h"

/* ---- which pairs ------------------------------------------------------------- */

static struct pair make_pair(const struct machine *m, unsigned int a, unsigned int b)
{
	struct pair p = { .a = a, .b = b, .passed = -1 };

	p.path = path_between(m, a, b, &p.meet);
	return p;
}

/* Of two that are as near, the better one. */
static bool is_nearer(const struct machine *m, const struct pair *p, const struct pair *than)
{
	const struct device *a = &m->devices[p->b], *b = &m->devices[than->b];

	if (p->path == PATH_SELF || than->path == PATH_SELF)
		return p->path != PATH_SELF;
	if (p->path != than->path)
		return p->path < than->path;
	return a->rdma != b->rdma ? a->rdma > b->rdma : a->ports > b->ports;
}

static unsigned int pairs_with(const struct doctor *d, unsigned int device)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < d->pair_count; i++)
		n += d->pairs[i].b == device;
	return n;
}

static bool is_peer(const struct doctor *d, unsigned int i, enum device_kind kind)
{
	const struct device *x = &d->machine->devices[i];

	return x->kind == kind && device_concerned(d, i) && !device_is_handed_on(x) &&
	       (kind != DEVICE_NIC || x->rdma != RDMA_NONE);
}

/* Which peers can work, by index: how near one is chooses between these only.  NULL: out of memory. */
static bool *find_able(struct doctor *d)
{
	const struct machine *m = d->machine;
	bool *able = calloc(m->count + 1, sizeof(able[0]));
	char why[160], remedy[160];

	for (unsigned int i = 0; able && i < m->count; i++) {
		const struct device *x = &m->devices[i];

		able[i] = x->kind == DEVICE_NIC ? x->rdma != RDMA_NONE &&
			  adapter_can_work(d, x, why, remedy) : *x->driver;
	}
	return able;
}

/* The nearest peer of a kind.  able: of those that can work; NULL: of all. */
static struct pair nearest(const struct doctor *d, unsigned int gpu, enum device_kind kind,
			   const bool *able)
{
	const struct machine *m = d->machine;
	struct pair best = { .path = PATH_SELF };

	for (unsigned int j = 0; j < m->shown_count; j++) {
		struct pair p = make_pair(m, gpu, m->shown[j]);

		if (!is_peer(d, p.b, kind) || (able && !able[p.b]) || is_nearer(m, &best, &p))
			continue;
		/* Of those that are alike, each GPU has its own. */
		if (is_nearer(m, &p, &best) || pairs_with(d, p.b) < pairs_with(d, best.b))
			best = p;
	}
	return best;
}

static void pair_with_nearest(struct doctor *d, unsigned int gpu, enum device_kind kind,
			      const bool *able)
{
	struct pair any = nearest(d, gpu, kind, NULL), best = nearest(d, gpu, kind, able);

	/* None can work: what keeps the nearest one from it is worth the most. */
	if (best.path == PATH_SELF)
		best = any;
	/* A card without a driver is no peer that is missed. */
	else if (kind != DEVICE_CARD && any.path < best.path)
		best.passed = (int)any.b;
	if (best.path != PATH_SELF)
		d->pairs[d->pair_count++] = best;
}

/*
 * Each GPU with the nearest adapter that has RDMA, the nearest drive and card: the pairs that a
 * program should use.
 */
static int find_pairs(struct doctor *d, int a, int b)
{
	const struct machine *m = d->machine;
	bool *able;

	d->pairs = calloc(a >= 0 ? 1 : (size_t)m->shown_count * 3 + 1, sizeof(d->pairs[0]));
	if (!d->pairs)
		return -ENOMEM;
	if (a >= 0) {
		d->chosen = true;
		d->pairs[d->pair_count++] = make_pair(m, (unsigned int)a, (unsigned int)b);
		return 0;
	}
	able = find_able(d);
	if (!able)
		return -ENOMEM;
	for (unsigned int i = 0; i < m->shown_count; i++) {
		for (enum device_kind kind = DEVICE_NIC; kind <= DEVICE_CARD; kind++) {
			if (path_of_gpu(d, m->shown[i]))
				pair_with_nearest(d, m->shown[i], kind, able);
		}
	}
	free(able);
	return 0;
}

/* ---- NVML ----------------------------------------------------------------------- */

#define NVML_ERROR "/nvml.error"	/* in a captured tree: why there is no table */

/* NVML is a library, and what it says goes into bundles all the same. */
static void remember_gpus(struct doctor *d)
{
	char *data = NULL;
	size_t length;
	FILE *to;

	if (d->gpus_error) {
		tree_put(d->tree, NVML_ERROR, d->gpus.why, strlen(d->gpus.why));
		return;
	}
	to = open_memstream(&data, &length);
	if (!to)
		return;
	gpus_write_tsv(&d->gpus, to, false);
	if (!fclose(to))
		tree_put(d->tree, GPUS_PATH, data, length);
	free(data);
}

static void remember_modes(struct doctor *d)
{
	size_t length;
	char *data;

	if (!gpu_modes_read(&data, &length)) {
		tree_put(d->tree, GPU_MODES_PATH, data, length);
		free(data);
	}
}

static void read_gpus(struct doctor *d)
{
	const char *data;
	size_t length;

	if (tree_is_live(d->tree)) {
		remember_modes(d);
		d->gpus_error = gpus_read("", &d->gpus);
		remember_gpus(d);
		return;
	}
	d->gpus_error = tree_read(d->tree, GPUS_PATH, &data, &length);
	if (!d->gpus_error) {
		d->gpus_error = gpus_parse_tsv(data, length, &d->gpus);
		if (d->gpus_error) {
			gpus_free(&d->gpus);
			snprintf(d->gpus.why, sizeof(d->gpus.why), GPUS_PATH ": malformed");
		}
	} else if (tree_word(d->tree, NVML_ERROR, d->gpus.why, sizeof(d->gpus.why))) {
		snprintf(d->gpus.why, sizeof(d->gpus.why), "not captured");
	}
}

/* ---- all of it ---------------------------------------------------------------- */

int doctor_run(struct doctor *d, struct machine *m, const struct doctor_options *options)
{
	int ret;

	memset(d, 0, sizeof(*d));
	d->machine = m;
	d->tree = m->tree;
	d->probe = options->probe;
	d->wanted = options->wanted;
	read_gpus(d);
	ret = find_pairs(d, options->a, options->b);
	for (unsigned int i = 0; !ret && checks[i] && !d->no_memory; i++) {
		d->check = checks[i];
		if (!checks[i]->applies || checks[i]->applies(d))
			checks[i]->run(d);
	}
	if (!ret && !d->no_memory) {
		wanted_ignore_findings(d);
		ret = paths_weigh(d);
	}
	if (!ret && !d->no_memory)
		ret = wanted_weigh(d);
	return d->no_memory ? -ENOMEM : ret;
}

void doctor_free(struct doctor *d)
{
	for (unsigned int i = 0; i < d->count; i++) {
		struct finding *f = &d->findings[i];

		free(f->subject);
		free(f->consequence);
		free(f->remedy);
		for (unsigned int e = 0; e < f->evidence_count; e++) {
			free(f->evidence[e].source);
			free(f->evidence[e].value);
		}
	}
	moved_free(d);
	paths_free(d);
	free(d->findings);
	free(d->pairs);
	free(d->cufile);
	if (!d->gpus_error)
		gpus_free(&d->gpus);
}
