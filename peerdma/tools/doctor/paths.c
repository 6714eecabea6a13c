// SPDX-License-Identifier: MIT
/*
 * paths.c - the state of each way on each path: the worst of what the way itself needs, and of the
 * findings that bear on it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_modes.h"
#include "paths.h"

static const struct {
	const char *key, *word;
} ways[WAYS] = {
	[WAY_DMABUF] = { "dmabuf", "dma-buf" },
	[WAY_PEERMEM] = { "peermem", "peer memory" },
	[WAY_NVP2P] = { "nvidia_p2p", "nvidia_p2p" },
	[WAY_P2PDMA] = { "p2pdma", "p2pdma" },
	[WAY_COHERENT] = { "coherent", "coherent link" },
	[WAY_HOST] = { "host", "host memory" },
};

const char *way_word(enum way way)
{
	return ways[way].word;
}

const char *way_key(enum way way)
{
	return ways[way].key;
}

const char *state_word(enum way_state state)
{
	static const char *const words[] = { "does not apply", "does not work", "cannot tell",
					     "works slowly", "works" };

	return words[state];
}

enum verdict state_verdict(enum way_state state)
{
	static const enum verdict verdicts[] = {
		[STATE_NOT_APPLICABLE] = VERDICT_BROKEN, [STATE_FAILS] = VERDICT_BROKEN,
		[STATE_UNKNOWN] = VERDICT_UNKNOWN, [STATE_SLOW] = VERDICT_SLOW,
		[STATE_WORKS] = VERDICT_OK,
	};

	return verdicts[state];
}

static enum way_state state_of(enum verdict verdict)
{
	static const enum way_state states[] = {
		[VERDICT_OK] = STATE_WORKS, [VERDICT_SLOW] = STATE_SLOW,
		[VERDICT_UNKNOWN] = STATE_UNKNOWN, [VERDICT_BROKEN] = STATE_FAILS,
	};

	return states[verdict];
}

/* Between the device and the bridge where the ways meet, that one left out. */
static bool is_above(const struct machine *m, int bridge, int device, int meet)
{
	for (int up = device; up >= 0 && up != meet; up = m->devices[up].parent) {
		if (up == bridge)
			return true;
	}
	return false;
}

static bool is_on(const struct machine *m, int device, const struct path *p)
{
	return device == ANY_DEVICE ||
	       (device >= 0 && (is_above(m, device, (int)p->gpu, p->meet) ||
				is_above(m, device, p->peer, p->meet)));
}

static bool is_to(const struct machine *m, enum device_kind peer, const struct path *p)
{
	return peer == DEVICE_OTHER || (p->peer >= 0 && m->devices[p->peer].kind == peer);
}

bool finding_bears_on(const struct doctor *d, const struct finding *f, const struct path *p,
		      enum way way)
{
	return f->ways & WAY(way) && !f->ignored && is_on(d->machine, f->device, p) &&
	       is_on(d->machine, f->other, p) && is_to(d->machine, f->peer, p);
}

bool path_of_gpu(const struct doctor *d, unsigned int device)
{
	const struct device *g = &d->machine->devices[device];

	return g->kind == DEVICE_GPU && device_concerned(d, device) && !device_is_handed_on(g) &&
	       !gpu_is_lent(d->tree, g->name);
}

/* The words are those of the finding that decides, if the way itself has nothing against it. */
static void weigh_way(struct doctor *d, struct path *p, enum way way)
{
	struct way_fact *w = &p->ways[way];

	way_find(d, p, way, w);
	if (w->state == STATE_NOT_APPLICABLE)
		return;
	w->set_up = w->state != STATE_FAILS;
	for (unsigned int i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];
		enum way_state state = state_of(f->verdict);

		if (state > w->state || state == STATE_WORKS || !finding_bears_on(d, f, p, way))
			continue;
		w->obstacles++;
		if (state == w->state)
			continue;
		w->state = state;
		w->obstacles = 1;
		snprintf(w->why, sizeof(w->why), "%s",
			 f->consequence ? f->consequence : f->check->title);
		w->remedy = f->remedy;
	}
}

static void add(struct doctor *d, unsigned int gpu, int peer, enum path_class class, int meet)
{
	struct path *p = &d->paths->paths[d->paths->count++];

	*p = (struct path){ .gpu = gpu, .peer = peer, .path = class, .meet = meet };
	for (unsigned int way = 0; way < WAYS; way++)
		weigh_way(d, p, way);
}

/* The GPU first, if the pair has one. */
static void add_pair(struct doctor *d, const struct pair *p)
{
	bool second = !path_of_gpu(d, p->a);
	unsigned int gpu = second ? p->b : p->a;

	if (path_of_gpu(d, gpu))
		add(d, gpu, (int)(second ? p->a : p->b), p->path, p->meet);
}

int paths_weigh(struct doctor *d)
{
	const struct machine *m = d->machine;

	d->paths = calloc(1, sizeof(*d->paths));
	if (d->paths)
		d->paths->paths = calloc((size_t)d->pair_count + m->count + 1, sizeof(struct path));
	if (!d->paths || !d->paths->paths)
		return -ENOMEM;
	wanted_ignore_findings(d);
	for (unsigned int i = 0; i < d->pair_count; i++)
		add_pair(d, &d->pairs[i]);
	for (unsigned int i = 0; !d->chosen && i < m->count; i++) {
		if (path_of_gpu(d, i))
			add(d, i, -1, PATH_SELF, -1);
	}
	return wanted_weigh(d);
}

void paths_free(struct doctor *d)
{
	if (!d->paths)
		return;
	free(d->paths->paths);
	free(d->paths->demands);
	free(d->paths);
	d->paths = NULL;
}
