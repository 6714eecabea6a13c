// SPDX-License-Identifier: MIT
/*
 * render_paths.c - which paths work, for people and as JSON.  Paths that are alike are one line.
 */
#include <stdio.h>
#include <string.h>

#include "paths.h"
#include "base/json.h"
#include "base/tool.h"

#define PAIRS_SHOWN	3

/* ---- the first line ---- */

/* What the machine is to do for a GPU, by the peer. */
enum job { JOB_ADAPTERS, JOB_CARDS, JOB_STORAGE, JOB_GPUS, JOBS };

static enum job job_of(const struct doctor *d, const struct demand *want)
{
	int peer = want->path < 0 ? -1 : d->paths->paths[want->path].peer;
	enum device_kind kind = peer < 0 ? want->peer : d->machine->devices[peer].kind;

	return kind == DEVICE_CARD ? JOB_CARDS : kind == DEVICE_NVME ? JOB_STORAGE :
	       kind == DEVICE_GPU ? JOB_GPUS : JOB_ADAPTERS;
}

/* The jobs, a bit each, of which something that is wanted has this verdict. */
static unsigned int jobs_with(const struct doctor *d, enum verdict v)
{
	unsigned int jobs = 0;

	for (unsigned int i = 0; i < d->paths->demand_count; i++) {
		const struct demand *want = &d->paths->demands[i];

		if (state_verdict(want->state) == v)
			jobs |= 1U << job_of(d, want);
	}
	return jobs;
}

static unsigned int jobs_wanted(const struct doctor *d)
{
	unsigned int jobs = 0;

	for (unsigned int i = 0; i < d->paths->demand_count; i++)
		jobs |= 1U << job_of(d, &d->paths->demands[i]);
	return jobs;
}

#define BOTH	(1U << JOB_ADAPTERS | 1U << JOB_CARDS)

/* Their names, one or more.  Returns how many: RDMA by adapters and by cards is one unless one of them is meant. */
static unsigned int jobs_names(unsigned int jobs, unsigned int wanted, char out[128])
{
	bool apart = (wanted & BOTH) == BOTH && (jobs & BOTH) != BOTH;
	const char *names[JOBS] = {
		[JOB_ADAPTERS] = apart ? "GPUDirect RDMA by adapters" : "GPUDirect RDMA",
		[JOB_CARDS] = apart ? "GPUDirect RDMA by cards" : "GPUDirect RDMA",
		[JOB_STORAGE] = "GPUDirect Storage", [JOB_GPUS] = "Peer-to-peer between GPUs",
	};
	unsigned int n = 0;
	size_t used = 0;

	if ((jobs & BOTH) == BOTH)
		jobs &= ~(1U << JOB_CARDS);
	for (unsigned int job = 0; job < JOBS; job++) {
		if (jobs & 1U << job)
			used += (size_t)snprintf(out + used, 128 - used, "%s%s", !n++ ? "" :
						 jobs >> (job + 1) ? ", " : " and ", names[job]);
	}
	return n;
}

/* GPUs for which something of these jobs is wanted, and works this well at most. */
static unsigned int gpus_with(const struct doctor *d, unsigned int jobs, enum way_state worst)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < d->machine->count; i++) {
		bool any = false;

		for (unsigned int k = 0; k < d->paths->demand_count; k++) {
			const struct demand *want = &d->paths->demands[k];

			any |= want->gpu == i && want->state <= worst &&
			       jobs & 1U << job_of(d, want);
		}
		n += any;
	}
	return n;
}

static bool any_peer(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->paths->count; i++) {
		if (d->paths->paths[i].peer >= 0)
			return true;
	}
	return false;
}

static const char *without_demand(const struct doctor *d)
{
	const char *inside = d->machine->container ? " in this container" : "";
	static char line[96];

	if (d->machine->tegra)
		return "The GPU is in the processor: cards reach host memory, which is the GPU's, too.";
	if (d->chosen && !any_of_kind(d, DEVICE_GPU))
		return "Neither of the two devices is a GPU.";
	if (any_of_kind(d, DEVICE_GPU))
		return d->paths->count ? "No path is wanted." :
		       "The GPUs here are set aside for virtual machines.";
	snprintf(line, sizeof(line), "There is no GPU%s whose memory could be reached.", inside);
	return line;
}

static void failing(const struct doctor *d)
{
	unsigned int wanted = jobs_wanted(d), jobs = jobs_with(d, VERDICT_BROKEN);
	unsigned int of = gpus_with(d, jobs, STATE_WORKS), n = gpus_with(d, jobs, STATE_FAILS);
	unsigned int works = jobs_with(d, VERDICT_OK) & ~jobs & ~jobs_with(d, VERDICT_UNKNOWN) &
			     ~jobs_with(d, VERDICT_SLOW);
	char names[128];
	bool one;

	if (!n) {
		puts("The devices here should reach the GPUs' memory, but something that is installed is broken.");
		return;
	}
	one = jobs_names(jobs, wanted, names) == 1;
	if (n == of)
		printf("%s do%s not work here as %s", names, one ? "es" : "",
		       one ? "it is" : "they are");
	else
		printf("%s do%s not work for %u of %u GPUs as they are", names, one ? "es" : "", n,
		       of);
	if (works) {
		jobs_names(works, wanted, names);
		printf("; %s should work", names);
	}
	puts(".");
}

void render_headline(const struct doctor *d)
{
	enum verdict v = doctor_verdict(d);
	unsigned int wanted = jobs_wanted(d), jobs = jobs_with(d, v);
	char names[128];
	bool one;

	if (!d->paths->demand_count) {
		puts(without_demand(d));
		return;
	}
	/* None: a finding that stands alone decides, or data that was not moved. */
	one = jobs_names(jobs ? jobs : wanted, wanted, names) == 1;
	switch (v) {
	case VERDICT_BROKEN:
		failing(d);
		break;
	case VERDICT_UNKNOWN:
		printf("Whether %s work%s here cannot be told.\n", names, one ? "s" : "");
		break;
	case VERDICT_SLOW:
		printf("%s should work here, but more slowly than %s could.\n", names,
		       one ? "it" : "they");
		break;
	case VERDICT_OK:
		if (any_peer(d))
			printf("%s should work here.\n", names);
		else
			puts("The GPUs' memory can be given to other devices; there is none here that would take it.");
		break;
	}
}

/* ---- the paths ---- */

static bool alike(const struct doctor *d, const struct path *a, const struct path *b)
{
	const struct device *devices = d->machine->devices;

	if (a->path != b->path || (a->peer < 0) != (b->peer < 0) ||
	    (a->peer >= 0 && devices[a->peer].kind != devices[b->peer].kind))
		return false;
	for (unsigned int way = 0; way < WAYS; way++) {
		if (a->ways[way].state != b->ways[way].state ||
		    strcmp(a->ways[way].why, b->ways[way].why))
			return false;
	}
	return true;
}

static void names(const struct doctor *d, const struct path *p)
{
	const struct device *gpu = &d->machine->devices[p->gpu], *peer;

	fputs(gpu->label, stdout);
	if (p->peer < 0) {
		fputs(" and any peer", stdout);
		return;
	}
	peer = &d->machine->devices[p->peer];
	printf(" and %s", *peer->label ? peer->label : peer->name);
	if (*peer->known_as)
		printf(" (%.*s)", (int)strcspn(peer->known_as, ","), peer->known_as);
}

/* Host memory is worth a word where nothing else is there, or it is the way. */
static bool is_worth(const struct path *p, unsigned int way, bool all)
{
	if (p->ways[way].state == STATE_NOT_APPLICABLE)
		return false;
	if (way != WAY_HOST || all || p->ways[way].state == STATE_WORKS)
		return true;
	for (unsigned int other = 0; other < WAYS; other++) {
		if (other != WAY_HOST && p->ways[other].state >= STATE_SLOW)
			return false;
	}
	return true;
}

static void group(const struct doctor *d, const struct tool *tool, unsigned int first, bool all)
{
	const struct path_table *t = d->paths;
	unsigned int n = 0;
	char line[500];

	for (unsigned int i = first; i < t->count; i++) {
		if (!alike(d, &t->paths[first], &t->paths[i]))
			continue;
		if (n < PAIRS_SHOWN) {
			fputs(n ? ", " : "", stdout);
			names(d, &t->paths[i]);
		}
		n++;
	}
	if (n > PAIRS_SHOWN)
		printf(" and %u more", n - PAIRS_SHOWN);
	if (t->paths[first].peer >= 0)
		printf(": %s", path_name(t->paths[first].path));
	putchar('\n');
	for (unsigned int way = 0; way < WAYS; way++) {
		const struct way_fact *w = &t->paths[first].ways[way];

		if (!is_worth(&t->paths[first], way, all))
			continue;
		/* What a finding below says is said there. */
		if (w->finding >= 0 && finding_is_shown(&d->findings[w->finding], all))
			snprintf(line, sizeof(line), "%s: %s: see %s below", way_word(way),
				 state_word(w->state), d->findings[w->finding].check->title);
		else
			snprintf(line, sizeof(line), "%s: %s%s%s", way_word(way),
				 state_word(w->state), *w->why ? ": " : "", w->why);
		render_wrapped(tool, "", line);
	}
}

/* A GPU's own line says nothing where it has peers. */
static bool is_told(const struct doctor *d, const struct path *p)
{
	for (unsigned int i = 0; p->peer < 0 && i < d->paths->count; i++) {
		if (d->paths->paths[i].gpu == p->gpu && d->paths->paths[i].peer >= 0)
			return false;
	}
	return true;
}

void render_paths(const struct doctor *d, const struct tool *tool, bool all)
{
	const struct path_table *t = d->paths;

	for (unsigned int i = 0; i < t->count; i++) {
		bool before = false;

		for (unsigned int k = 0; k < i; k++)
			before |= alike(d, &t->paths[k], &t->paths[i]);
		if (before || !is_told(d, &t->paths[i]))
			continue;
		putchar('\n');
		group(d, tool, i, all);
	}
}

/* ---- JSON ---- */

static void device_json(const struct doctor *d, struct json_object *o, const char *key, int device)
{
	const struct device *x = device < 0 ? NULL : &d->machine->devices[device];
	struct json_object *in;

	if (!x) {
		json_null(o, key);
		return;
	}
	in = json_object_in(o, key);
	json_text(in, "label", x->label);
	json_text(in, "pci", x->name);
	json_text(in, "known_as", *x->known_as ? x->known_as : NULL);
}

static void path_json(const struct doctor *d, struct json_object *o, const struct path *p)
{
	struct json_object *ways, *way_object;

	device_json(d, o, "gpu", (int)p->gpu);
	device_json(d, o, "peer", p->peer);
	json_text(o, "path", p->peer < 0 ? NULL : path_name(p->path));
	ways = json_array_in(o, "ways");
	for (unsigned int way = 0; way < WAYS; way++) {
		way_object = json_append(ways);
		json_text(way_object, "way", way_key(way));
		json_text(way_object, "state", state_word(p->ways[way].state));
		json_text(way_object, "why", *p->ways[way].why ? p->ways[way].why : NULL);
		json_text(way_object, "remedy", p->ways[way].remedy);
	}
}

void render_paths_json(const struct doctor *d, struct json_object *o)
{
	struct json_object *array = json_array_in(o, "paths"), *item, *ways;

	for (unsigned int i = 0; i < d->paths->count; i++)
		path_json(d, json_append(array), &d->paths->paths[i]);
	array = json_array_in(o, "wanted");
	for (unsigned int i = 0; i < d->paths->demand_count; i++) {
		const struct demand *want = &d->paths->demands[i];

		item = json_append(array);
		device_json(d, item, "gpu", (int)want->gpu);
		device_json(d, item, "peer",
			    want->path < 0 ? -1 : d->paths->paths[want->path].peer);
		ways = json_array_in(item, "ways");
		for (unsigned int way = 0; way < WAYS; way++) {
			if (want->ways & WAY(way))
				json_append_text(ways, way_key(way));
		}
		json_text(item, "state", state_word(want->state));
	}
}
