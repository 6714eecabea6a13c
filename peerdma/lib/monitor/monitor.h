/* SPDX-License-Identifier: MIT */
/*
 * monitor.h - monitors notify this process's caches and contexts when memory goes away. The cache
 * subscribes to them; they know nothing of the cache.
 *
 *	subscribers.h  lists of functions to call
 *	monitor.c      the library's lists, and the monitors of other libraries
 *	outside.c      peerdma_monitor.h: monitors and subscribers of other libraries
 *	hooks.c        events of GPU memory, from libpeerdma-hooks
 *	host.c         chooses the source of events of host memory:
 *	calls.c        system calls of the C library,
 *	sites.h        which are redirected; a file for each processor;
 *	ucm.c          or UCX
 *	trial.c        tests whether events are seen
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "peerdma_hooks.h"

enum monitor_memory {
	MONITOR_DEVICE,
	MONITOR_HOST,
	/* GPU or host memory, reported by other libraries; for caches, beside their own monitors */
	MONITOR_OUTSIDE,
	MONITOR_KINDS,
};

/* ---- subscribers: monitor.c ---- */

/*
 * Calls fn(arg, event) for each event from now on, in the thread that frees, before and after the
 * memory goes away. fn may be called inside malloc(), so it must not allocate or wait. 0, or
 * -ENOMEM with text, to which the caller adds "CALL: ", here as below.
 */
int monitor_subscribe(enum monitor_memory kind, peerdma_hook_fn fn, void *arg);
void monitor_unsubscribe(enum monitor_memory kind, peerdma_hook_fn fn, void *arg);
void monitor_call(enum monitor_memory kind, const struct peerdma_hook_event *event);
/* Whether there may be a subscriber. */
bool monitor_any(enum monitor_memory kind);
/* The name of another library's monitor, which reports all such memory. NULL: none. */
const char *monitor_outside(enum monitor_memory kind);
/* Registers another library's monitor. NULL, or the name of one that was registered before. */
const char *monitor_outside_start(enum monitor_memory kind, const char *name);

/* ---- GPU memory: hooks.c ---- */

/*
 * 1: libpeerdma-hooks is loaded before CUDA or HSA, and sends its events to MONITOR_DEVICE from now
 * on. 0: it is not. -errno with text: it accepts no subscription.
 */
int hooks_begin(void);
/* Whether the hooks see every call that they watch. This is tested, which takes some time. */
bool hooks_see_all(void);
/* The same with a cached result. loads: loader_loads(). */
bool hooks_complete(uint64_t loads);
/*
 * The word of peerdma_hooks_making(), if no call that creates addresses of CUDA is missed.
 * Otherwise NULL.
 */
const uint64_t *hooks_making(void);

/* ---- host memory: host.c ---- */

/*
 * 0: system calls that take host memory away are reported to MONITOR_HOST from now on, or another
 * library's monitor does this. -errno with the reason as text; later calls return the same.
 */
int host_monitor_begin(void);
/* A name for people. NULL: no monitor yet, or none is possible. */
const char *host_monitor_name(void);
/* calls.c: a system call of the C library's, redirected (sites.h). Returns -errno like the kernel. */
long monitor_system_call(long number, const long *args);
/*
 * trial.c: calls munmap(), mremap() and madvise(). 0: they are seen. Otherwise -EOPNOTSUPP with
 * text.
 */
int monitor_try_host(void);

/* ucm.c: uses the events of the process's libucm.so.0. 0, or -errno with text. */
int ucm_begin(void);

/* outside.c: whether the hooks or another library report every free of GPU memory. */
bool device_monitor_complete(void);

/* ---- peerdma_components(): base/component.h ---- */

#define HOOKS_NAME	"libpeerdma-hooks"

struct components;
void hooks_describe(struct components *to);
/* The monitors that host.c chooses from, but for those of other libraries. */
void host_describe(struct components *to);
