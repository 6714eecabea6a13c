/* SPDX-License-Identifier: MIT */
/*
 * fake_hsa.h - a stand-in for libhsa-runtime64.so.1 with the calls that peerdma_ipc.h makes for signals.  Signals are words in
 * pages that a process shares with those that it forks; a test decides what calls return.
 */
#pragma once

#include <stdint.h>

struct fake_hsa {
	/* Called by each attach, export of memory or creation, which fails with what it returns.  NULL: none fails. */
	int (*attaching)(void);
	int (*creating)(void);
	/* Called before a signal is destroyed, and before one is looked at.  NULL: nothing. */
	void (*destroying)(void);
	void (*looking)(void);
	unsigned int attached;		/* less those that were destroyed */
};

extern struct fake_hsa fake_hsa;

/* Before the first fork. */
void fake_hsa_share(void);
