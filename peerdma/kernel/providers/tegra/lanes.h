/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * lanes.h - work for each user, apart from other users' work.
 *
 * Ending a pin may take as long as a user's importers want.  So each user (account.h) has a
 * lane: what is queued there runs in turn, in at most one thread at a time, and never
 * behind another user's.
 */
#ifndef PEERDMA_TEGRA_LANES_H
#define PEERDMA_TEGRA_LANES_H

#include <linux/list.h>

struct lane;
struct peerdma_account;

/* What is run is given all that has been queued in a lane since it ran last. */
int lanes_init(void (*run)(struct list_head *batch));
/* Waits until all that was queued has run. */
void lanes_exit(void);

/* This user's lane, with a reference; NULL: out of memory.  May sleep. */
struct lane *lane_get(struct peerdma_account *account);
void lane_put(struct lane *lane);
/*
 * Never sleeps, and takes no lock that is held around an allocation.  The caller has a
 * reference to the lane.
 */
void lane_add(struct lane *lane, struct list_head *item);

#endif
