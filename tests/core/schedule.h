/* SPDX-License-Identifier: MIT */
/*
 * schedule.h - runs the same threads again and again, each time in another order,
 * until every order has been had.
 *
 * A run is a list of choices, one wherever more than one thread could go on.
 * sched_explore() walks the tree of choices depth first.  Choices print as a
 * string, which repeats one run.
 */
#pragma once

#include "sg_os_schedule.h"

#define SCHED_MAX_THREADS	8

/* What a run consists of.  body() is called anew for each order, as thread 0. */
struct sched_case {
	void (*body)(void *arg);
	void *arg;
	int preemptions;	/* at most so many switches away from a thread that could go on; < 0: any */
	u64 max_runs;		/* stop there; 0: never */
};

struct sched_result {
	u64 runs;
	bool complete;		/* every order within the bound was run */
};

struct sched_result sched_explore(const struct sched_case *c);
/* One run, by a string that a failure printed. */
void sched_replay(const struct sched_case *c, const char *choices);

/* In body(): from here on orders differ, until sched_together(). */
void sched_apart(void);
/* Waits for all threads that sched_thread_start() made since, then goes on alone. */
void sched_together(void);
/* A point where another thread may go on. */
void sched_yield_here(void);
/* The choices so far, for a failure's message. */
const char *sched_choices(void);
/* Called when no thread can go on; must not return. */
extern void (*sched_deadlock)(void);
