/* SPDX-License-Identifier: MIT */
/*
 * paths.h - from findings to paths: which GPU's memory reaches which peer, in which way, and how well.
 *
 *   ways.c    what must be there for a way between two devices, by kind of peer and of GPU
 *   paths.c   that, and every finding that bears on the path: the state of each way
 *   path_states.c  words for ways and states; which findings bear on a path
 *   wanted.c  which of them the machine is there for, or was asked for: the verdict
 */
#pragma once

#include "doctor.h"

enum way_state {			/* best last */
	STATE_NOT_APPLICABLE,
	STATE_FAILS,
	STATE_UNKNOWN,
	STATE_SLOW,
	STATE_WORKS,
};

/* ways.c: without the findings. */
struct way_fact {
	enum way_state state;
	bool set_up;			/* by itself it would work, or may */
	unsigned int obstacles;		/* the findings that make it no better */
	int finding;			/* the index of the one that decides; -1: the way itself */
	char why[400];			/* "" it works */
	const char *remedy;		/* NULL: none, or a finding has it */
};

struct path {
	unsigned int gpu;
	int peer;			/* -1: none, what the GPU's driver gives to any */
	enum path_class path;
	int meet;			/* the bridge where they meet; -1: above */
	struct way_fact ways[WAYS];
};

/* What is wanted: that one of these ways works, on one of these paths of a GPU. */
struct demand {
	unsigned int gpu;		/* a device's index */
	int path;			/* -1: any path of the GPU */
	enum device_kind peer;		/* to such a peer; DEVICE_OTHER: any */
	unsigned int ways;
	const char *need;		/* the word that asked for it; NULL: none did */
	enum way_state state;
};

struct path_table {
	struct path *paths;
	unsigned int count;
	struct demand *demands;
	unsigned int demand_count;
};

void way_find(struct doctor *d, const struct path *p, enum way way, struct way_fact *out);
const char *way_word(enum way way);		/* "dma-buf" */
const char *way_key(enum way way);		/* "dmabuf": in JSON and of --need */
const char *state_word(enum way_state state);	/* "does not work" */
enum verdict state_verdict(enum way_state state);

/* After all checks have run, and in this order.  0 or -ENOMEM. */
void wanted_ignore_findings(struct doctor *d);	/* what is accepted */
int paths_weigh(struct doctor *d);
int wanted_weigh(struct doctor *d);		/* demands, and which findings count */
void paths_free(struct doctor *d);

bool finding_bears_on(const struct doctor *d, const struct finding *f, const struct path *p,
		      enum way way);
