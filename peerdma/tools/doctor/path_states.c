// SPDX-License-Identifier: MIT
/*
 * path_states.c - the words for ways and their states, and which findings bear on a path.
 */
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

/* softgpu stands in for either maker's GPUs. */
static bool is_of(const struct machine *m, unsigned int vendor, const struct path *p)
{
	const struct device *gpu = &m->devices[p->gpu];

	return !vendor || gpu->vendor == vendor || device_is_softgpu(gpu);
}

bool finding_bears_on(const struct doctor *d, const struct finding *f, const struct path *p,
		      enum way way)
{
	return f->ways & WAY(way) && !f->ignored && is_on(d->machine, f->device, p) &&
	       is_on(d->machine, f->other, p) && is_to(d->machine, f->peer, p) &&
	       is_of(d->machine, f->vendor, p);
}
