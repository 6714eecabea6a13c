// SPDX-License-Identifier: MIT
/*
 * paths.c - the state of each way on each path: the worst of what the way itself needs, and of the
 * findings that bear on it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"

static enum way_state state_of(enum verdict verdict)
{
	static const enum way_state states[] = {
		[VERDICT_OK] = STATE_WORKS, [VERDICT_SLOW] = STATE_SLOW,
		[VERDICT_UNKNOWN] = STATE_UNKNOWN, [VERDICT_BROKEN] = STATE_FAILS,
	};

	return states[verdict];
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
		w->finding = (int)i;
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
	for (unsigned int i = 0; i < d->pair_count; i++)
		add_pair(d, &d->pairs[i]);
	for (unsigned int i = 0; !d->chosen && i < m->count; i++) {
		if (path_of_gpu(d, i))
			add(d, i, -1, PATH_SELF, -1);
	}
	return 0;
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
