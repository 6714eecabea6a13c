/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* reserve.h - addresses that reach nothing any more, and that their device gets for nothing else. */
#ifndef PEERDMA_RESERVE_H
#define PEERDMA_RESERVE_H

#include "map.h"

/*
 * Takes the translations of a mapping away, and keeps its addresses until
 * peerdma_unreserve().  Returns false, and changes nothing, if there is nothing to keep: the
 * addresses are not the IOMMU's, or the DMA API did not give them to peerdma_map_resource().
 * The caller flushes (object.c). pin->lock held.  Cannot fail.
 */
bool peerdma_reserve(struct peerdma_map *map);
/* Gives the addresses back, if any are kept.  The caller flushes. pin->lock held. */
void peerdma_unreserve(struct peerdma_map *map);

int peerdma_reserve_init(void);
void peerdma_reserve_exit(void);

#endif
