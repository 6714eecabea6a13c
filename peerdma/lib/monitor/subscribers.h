/* SPDX-License-Identifier: MIT */
/*
 * subscribers.h - lists of functions that are called for memory events. libpeerdma and
 * libpeerdma-hooks have separate lists.
 *
 * Calling the functions takes no lock and allocates nothing, because it happens inside malloc() and
 * free().
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "peerdma_hooks.h"

/* fn is written last and read first. The pair stays unchanged while `inside` is not 0. */
struct subscriber {
	_Atomic(peerdma_hook_fn) fn;
	_Atomic(void *) arg;
	_Atomic unsigned int inside;
	/* 0, or a child of vfork() that is in the function and may be killed there */
	_Atomic pid_t child;
	_Atomic bool taken;
	pid_t process;
};

#define SUBSCRIBERS_PER_BLOCK 32

/*
 * All zeros is an empty list. More blocks are added if all places are taken. Places are reused, and
 * blocks are never freed.
 */
struct subscribers {
	struct subscriber places[SUBSCRIBERS_PER_BLOCK];
	_Atomic(struct subscribers *) next;
};

/* 0, or -ENOMEM: not subscribed. */
int subscribers_add(struct subscribers *list, peerdma_hook_fn fn, void *arg);
/*
 * On return, fn is not running with arg and will not be called again. Must not be called from fn.
 */
void subscribers_remove(struct subscribers *list, peerdma_hook_fn fn, void *arg);
void subscribers_call(struct subscribers *list, const struct peerdma_hook_event *event);
