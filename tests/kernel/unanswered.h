/* SPDX-License-Identifier: MIT */
/*
 * unanswered.h - a page that no access ever gets: a page of a FUSE file system, in the
 * process's own user namespace, whose server never answers a READ.  Any user can make one
 * with Debian's defaults.
 *
 * The script loads the module fuse and opens /dev/fuse to all, as udev does (load_fuse).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct unanswered {
	char *memory;		/* private and writable; no access to it ever returns */
	pid_t server;		/* a child of the caller; when it dies, accesses fail */
	char mount[32];
};

/* A counter that processes forked after this call share: of READs that servers have got. */
volatile uint32_t *unanswered_counter(void);
/*
 * Maps `length' bytes.  The calling process has one thread; from here on it is in a user
 * and a mount namespace of its own, with the same user id.  0 or -errno.
 */
int unanswered_begin(struct unanswered *u, size_t length, volatile uint32_t *reads);
/* Kills the server: who waits for the memory is woken with an error. */
void unanswered_end(struct unanswered *u);
