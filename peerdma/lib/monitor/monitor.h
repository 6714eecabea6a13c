/* SPDX-License-Identifier: MIT */
/*
 * monitor.h - monitors: what notifies this process's caches and contexts that memory
 * goes away.  Below the cache, which subscribes; knows nothing of it.
 *
 *	subscribers.h	lists of functions to call
 *	monitor.c	the library's lists, and which other libraries notify
 *	outside.c	peerdma_monitor.h: monitors and subscribers of other libraries
 *	hooks.c		events of GPU memory, from libpeerdma-hooks
 *	host.c		chooses what gives events of host memory
 *	calls.c		they come from the C library's system calls
 *	sites.h		which are redirected; a file for each processor
 *	ucm.c		or from UCX
 *	trial.c		whether they are seen
 */
#ifndef PEERDMA_MONITOR_INTERNAL_H
#define PEERDMA_MONITOR_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "peerdma_hooks.h"

enum monitor_memory {
	MONITOR_DEVICE,
	MONITOR_HOST,
	MONITOR_OUTSIDE,	/* either, from other libraries: for caches, whatever their own monitors */
	MONITOR_KINDS,
};

/* ---- subscribers: monitor.c ---- */

/*
 * fn(arg, event) for each event from now on, in the thread that frees, before the memory
 * goes and again after it.  May be called inside malloc(): fn neither allocates nor
 * waits.  0, or -ENOMEM, with text ("CALL: " goes before it, here as below).
 */
int monitor_subscribe(enum monitor_memory kind, peerdma_hook_fn fn, void *arg);
void monitor_unsubscribe(enum monitor_memory kind, peerdma_hook_fn fn, void *arg);
void monitor_call(enum monitor_memory kind, const struct peerdma_hook_event *event);
/* Whether there may be a subscriber. */
bool monitor_any(enum monitor_memory kind);
/* The name of another library's monitor that notifies of all such memory; NULL: there is none. */
const char *monitor_outside(enum monitor_memory kind);
/* It is this one from now on: NULL; or the name of the one that was there before. */
const char *monitor_outside_start(enum monitor_memory kind, const char *name);

/* ---- GPU memory: hooks.c ---- */

/*
 * 1: libpeerdma-hooks is in front, and its events go to MONITOR_DEVICE from now on; 0: it
 * is not there; or -errno, with text: it is, but accepts no subscription.
 */
int hooks_begin(void);
/* Whether none of what it watches can be called unseen; that is tried, which takes a while. */
bool hooks_see_all(void);
/* The same; loads: loader_loads(), for an answer that is not looked for again. */
bool hooks_complete(uint64_t loads);
/* The word of peerdma_hooks_making(), where no call that makes addresses CUDA's is missed; NULL: one may be. */
const uint64_t *hooks_making(void);

/* ---- host memory: host.c ---- */

/*
 * 0: system calls that take host memory away go to MONITOR_HOST from now on, or another
 * library's monitor has taken that over; or -errno, always the same, with the reason as text.
 */
int host_monitor_begin(void);
/* For people; NULL: none was needed yet, or there is none. */
const char *host_monitor_name(void);
/* calls.c: a system call of the C library's, redirected (sites.h).  As the kernel: -errno. */
long monitor_system_call(long number, const long *args);
/* trial.c: 0 if munmap(), mremap() and madvise() are seen: they are called.  Else -EOPNOTSUPP, with text. */
int monitor_try_host(void);

/* ucm.c: events of the libucm.so.0 that the process has.  0, or -errno with text. */
int ucm_begin(void);

/* outside.c: whether no free of GPU memory is missed, by the hooks or another library. */
bool device_monitor_complete(void);

#endif
