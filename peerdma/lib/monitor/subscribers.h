/* SPDX-License-Identifier: MIT */
/*
 * subscribers.h - functions to be called for memory events, any number of them.
 * libpeerdma and libpeerdma-hooks each have lists of their own.
 *
 * Calling takes no lock and allocates nothing: it happens inside malloc() and free().
 */
#ifndef PEERDMA_SUBSCRIBERS_H
#define PEERDMA_SUBSCRIBERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "peerdma_hooks.h"

/* fn is written last and read first.  `inside` keeps a pair in place while it is called. */
struct subscriber {
	_Atomic(peerdma_hook_fn) fn;
	_Atomic(void *) arg;
	_Atomic unsigned int inside;
	_Atomic pid_t child;	/* 0, or a child of vfork() that is inside, and may be killed there */
	_Atomic bool taken;
	pid_t process;
};

#define SUBSCRIBERS_PER_BLOCK 32

/* Zeros are an empty list.  Further blocks are added when all places are taken, used again, and never freed. */
struct subscribers {
	struct subscriber places[SUBSCRIBERS_PER_BLOCK];
	_Atomic(struct subscribers *) next;
};

/* 0, or -ENOMEM: fn is not subscribed. */
int subscribers_add(struct subscribers *list, peerdma_hook_fn fn, void *arg);
/* When it returns, fn is not running with arg and will not be called; not to be called from fn. */
void subscribers_remove(struct subscribers *list, peerdma_hook_fn fn, void *arg);
void subscribers_call(struct subscribers *list, const struct peerdma_hook_event *event);

#endif
