// SPDX-License-Identifier: MIT
/*
 * wanted.c - see wanted.h and paths.h.  Without a word of the administrator, what the machine is
 * plainly there for is wanted: that each GPU reaches its nearest RDMA adapter, the cards that have
 * a driver, and the drives if GPUDirect Storage is installed.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "storage.h"
#include "wanted.h"

/* What is wanted of a path by default; 0: nothing. */
static unsigned int plainly_wanted(struct doctor *d, const struct path *p)
{
	const struct device *peer;
	unsigned int unified = p->ways[WAY_HOST].state == STATE_WORKS ? WAY(WAY_HOST) : 0;

	if (p->peer < 0)
		return 0;
	peer = &d->machine->devices[p->peer];
	switch (peer->kind) {
	case DEVICE_NIC:
		return WAYS_RDMA | WAY(WAY_COHERENT) | unified;
	case DEVICE_CARD:
		return *peer->driver ? WAYS_PCI | WAY(WAY_COHERENT) | unified : 0;
	case DEVICE_NVME:
		return storage_installed(d) ? WAYS_PCI | WAY(WAY_COHERENT) | unified : 0;
	default:
		return d->chosen ? WAYS_PCI | WAY(WAY_COHERENT) | unified : 0;
	}
}

static void demand(struct doctor *d, struct demand want)
{
	d->paths->demands[d->paths->demand_count++] = want;
}

static void demand_defaults(struct doctor *d, unsigned int gpu)
{
	int alone = -1;
	bool any = false;

	for (unsigned int i = 0; i < d->paths->count; i++) {
		const struct path *p = &d->paths->paths[i];
		unsigned int ways = p->gpu == gpu ? plainly_wanted(d, p) : 0;

		if (p->gpu == gpu && p->peer < 0)
			alone = (int)i;
		if (ways)
			demand(d, (struct demand){ .gpu = gpu, .path = (int)i, .ways = ways });
		any |= ways;
	}
	/* No peer: that its driver gives memory to one is all that can be wanted. */
	if (!any && alone >= 0)
		demand(d, (struct demand){ .gpu = gpu, .path = alone, .ways = WAYS_ALL });
}

bool wanted_none(const struct wanted *w)
{
	return w && w->none && !w->need_count;
}

static void demand_all(struct doctor *d, unsigned int gpu)
{
	const struct wanted *w = d->wanted;

	if (!w || (!w->need_count && !wanted_none(w)))
		demand_defaults(d, gpu);
	for (unsigned int i = 0; w && i < w->need_count; i++)
		demand(d, (struct demand){
			.gpu = gpu, .path = -1, .ways = w->needs[i].ways,
			.peer = w->needs[i].peer, .need = w->needs[i].word,
		});
}

static bool concerns(const struct doctor *d, const struct demand *want, unsigned int path)
{
	const struct path *p = &d->paths->paths[path];

	if (want->path >= 0)
		return want->path == (int)path;
	/* What the GPU's driver gives to any peer is none that a peer has. */
	return p->gpu == want->gpu && p->peer >= 0 &&
	       (want->peer == DEVICE_OTHER || want->peer == d->machine->devices[p->peer].kind);
}

static void best(struct doctor *d, struct demand *want)
{
	for (unsigned int i = 0; i < d->paths->count; i++) {
		for (unsigned int way = 0; way < WAYS; way++) {
			enum way_state state = d->paths->paths[i].ways[way].state;

			if (concerns(d, want, i) && want->ways & WAY(way) && state > want->state)
				want->state = state;
		}
	}
}

/*
 * Of the ways that are as good as any, those to mend are those that are set up here; if none is, those with
 * the fewest findings against them.
 */
struct choice {
	bool set_up;
	unsigned int obstacles;
};

static bool is_candidate(const struct doctor *d, const struct demand *want, unsigned int path,
			 unsigned int way)
{
	return concerns(d, want, path) && want->ways & WAY(way) &&
	       d->paths->paths[path].ways[way].state == want->state;
}

static struct choice choose(const struct doctor *d, const struct demand *want)
{
	struct choice c = { .obstacles = UINT_MAX };

	for (unsigned int i = 0; i < d->paths->count; i++) {
		for (unsigned int way = 0; way < WAYS; way++) {
			const struct way_fact *w = &d->paths->paths[i].ways[way];

			if (!is_candidate(d, want, i, way))
				continue;
			c.set_up |= w->set_up;
			if (w->obstacles && w->obstacles < c.obstacles)
				c.obstacles = w->obstacles;
		}
	}
	return c;
}

static void count_way(struct doctor *d, const struct path *p, enum way way)
{
	for (unsigned int n = 0; n < d->count; n++) {
		struct finding *f = &d->findings[n];

		/* A finding that is less bad than the state decides nothing. */
		if (f->verdict != VERDICT_OK && finding_bears_on(d, f, p, way) &&
		    f->verdict == state_verdict(p->ways[way].state))
			f->counts = true;
	}
}

/* The findings that keep it from working, or from working well, count. */
static void count_findings(struct doctor *d, const struct demand *want)
{
	struct choice c = choose(d, want);

	for (unsigned int i = 0; i < d->paths->count; i++) {
		for (unsigned int way = 0; way < WAYS; way++) {
			const struct way_fact *w = &d->paths->paths[i].ways[way];

			if (is_candidate(d, want, i, way) &&
			    (c.set_up ? w->set_up : w->obstacles == c.obstacles))
				count_way(d, &d->paths->paths[i], way);
		}
	}
}

void wanted_ignore_findings(struct doctor *d)
{
	const struct wanted *w = d->wanted;

	for (unsigned int i = 0; w && i < d->count; i++) {
		struct finding *f = &d->findings[i];

		for (unsigned int n = 0; n < w->ignored_count; n++)
			f->ignored |= !strcmp(w->ignored[n].check, f->check->name) &&
				      (!*w->ignored[n].subject ||
				       !strcmp(w->ignored[n].subject, f->subject));
	}
}

/* Of two GPUs that were chosen, the first: the path is its own. */
static bool is_asked(const struct doctor *d, unsigned int device)
{
	return path_of_gpu(d, device) &&
	       (!d->chosen || (d->paths->count && d->paths->paths[0].gpu == device));
}

/* ---- what is needed, and nothing here could be it ---- */

static const char *lacking(enum device_kind peer)
{
	switch (peer) {
	case DEVICE_NIC:
		return "no adapter with RDMA is here for the GPU";
	case DEVICE_NVME:
		return "no drive is here for the GPU";
	case DEVICE_CARD:
		return "no card is here for the GPU";
	default:
		return "no peer is here that takes the GPU's memory in this way";
	}
}

/* On no path: there is none that could say it.  No check of checks.c, so --ignore does not name it. */
static void say_unmet(struct doctor *d, const char *subject, const char *word, const char *why)
{
	static const struct check check = { .name = "need", .title = "What is needed" };
	struct finding *f;

	d->check = &check;
	f = say(d, VERDICT_BROKEN, "%s", subject);
	evidence(d, f, "needed", "%s", word);
	consequence(d, f, "%s", why);
	remedy(d, f, "see 'peerdma topo' for what is here, or leave %s out of what is needed", word);
}

/*
 * No GPU here has memory to give, so nothing was asked of one.  That there is no GPU at all, another finding says;
 * Tegra's memory is the host's, and its cards reach it by nvidia_p2p.
 */
static void say_nothing_asked(struct doctor *d)
{
	const struct wanted *w = d->wanted;
	bool gpu = any_of_kind(d, DEVICE_GPU);
	const char *why = d->machine->tegra ? "the GPU in the processor offers no such way" :
		d->chosen && !gpu ? "neither of the two devices is a GPU" :
		"the GPUs here are set aside: their memory is not this system's to give";

	if (!w || d->paths->demand_count || (!gpu && !d->chosen && !d->machine->tegra))
		return;
	for (unsigned int i = 0; i < w->need_count; i++) {
		if (!d->machine->tegra || !(w->needs[i].ways & (WAY(WAY_HOST) | WAY(WAY_NVP2P))))
			say_unmet(d, "this machine", w->needs[i].word, why);
	}
}

/* Of GPUs and adapters that can be used now: one that has fallen off the bus is in no list. */
static void say_numbers(struct doctor *d)
{
	const struct wanted *w = d->wanted;
	unsigned int gpus = 0, adapters = 0;
	char word[32], why[96];

	for (unsigned int i = 0; w && i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];

		gpus += path_of_gpu(d, i);
		adapters += x->kind == DEVICE_NIC && x->rdma == RDMA_HAS &&
			    x->ports != PORTS_DOWN && device_concerned(d, i);
	}
	if (w && gpus < w->gpus) {
		snprintf(word, sizeof(word), "gpus:%u", w->gpus);
		snprintf(why, sizeof(why), "only %u GPU%s here can be used", gpus,
			 gpus == 1 ? "" : "s");
		say_unmet(d, "this machine", word, why);
	}
	if (w && adapters < w->adapters) {
		snprintf(word, sizeof(word), "adapters:%u", w->adapters);
		snprintf(why, sizeof(why), "only %u adapter%s here ha%s RDMA and a port that is up",
			 adapters, adapters == 1 ? "" : "s", adapters == 1 ? "s" : "ve");
		say_unmet(d, "this machine", word, why);
	}
}

bool wanted_check(const struct wanted *w, const char *check)
{
	for (unsigned int i = 0; w && i < w->need_count; i++) {
		if (w->needs[i].check && !strcmp(w->needs[i].check, check))
			return true;
	}
	return false;
}

int wanted_weigh(struct doctor *d)
{
	const struct machine *m = d->machine;
	size_t most = (size_t)d->paths->count + (size_t)m->count * (WANTED_MAX + 1) + 1;

	d->paths->demands = calloc(most, sizeof(struct demand));
	if (!d->paths->demands)
		return -ENOMEM;
	for (unsigned int i = 0; i < m->count; i++) {
		if (is_asked(d, i))
			demand_all(d, i);
	}
	for (unsigned int i = 0; i < d->paths->demand_count; i++) {
		struct demand *want = &d->paths->demands[i];

		best(d, want);
		if (want->state != STATE_WORKS)
			count_findings(d, want);
		if (want->need && want->state == STATE_NOT_APPLICABLE)
			say_unmet(d, m->devices[want->gpu].label, want->need, lacking(want->peer));
	}
	say_nothing_asked(d);
	say_numbers(d);
	for (unsigned int i = 0; i < d->count; i++) {
		struct finding *f = &d->findings[i];

		if (f->ways || f->ignored || f->verdict == VERDICT_OK)
			continue;
		f->counts |= f->verdict == VERDICT_BROKEN ||
			     wanted_check(d->wanted, f->check->name);
	}
	return 0;
}

enum verdict doctor_verdict(const struct doctor *d)
{
	/* Slow is known to work. */
	static const unsigned int rank[] = {
		[VERDICT_OK] = 0, [VERDICT_SLOW] = 1, [VERDICT_UNKNOWN] = 2, [VERDICT_BROKEN] = 3,
	};
	enum verdict worst = VERDICT_OK;

	for (unsigned int i = 0; i < d->paths->demand_count; i++) {
		enum verdict v = state_verdict(d->paths->demands[i].state);

		worst = rank[v] > rank[worst] ? v : worst;
	}
	for (unsigned int i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];

		if (f->counts && !f->ways && rank[f->verdict] > rank[worst])
			worst = f->verdict;
	}
	/* Asked to move data, it has moved none. */
	if (d->probe && !d->moved_count && rank[worst] < rank[VERDICT_UNKNOWN])
		return VERDICT_UNKNOWN;
	return worst;
}
