/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * room.h - the memory that one mapping takes.  It is allocated before pin->lock is taken
 * (charge.h); peerdma_map_create() only uses it.  So is the attachment of an imported dma-buf,
 * for which its exporter allocates, too.  How much a mapping takes is known for sure
 * only when it is made: if the room was too small, the attempt says what it wants, and is
 * repeated.
 *
 * The repetition ends.  A map that is wanted is there in the next attempt, or the pin's own is
 * free.  The segments that are wanted are twice those of the attempt before, or as many as the
 * pin has runs, so they are enough after 31 attempts.  Entries of the table are wanted exactly:
 * they follow from the segments and from the device's largest segment.  Both are the same in
 * each attempt for all memory whose addresses peerdma.ko makes.  But a driver may change its
 * device's limit, and a provider that makes addresses itself (Tegra, NVIDIA's coherent GPUs, the
 * exporter of a dma-buf) may cut the memory into other segments each time.  So after
 * PEERDMA_ROOM_ATTEMPTS the mapping fails.
 */
#ifndef PEERDMA_ROOM_H
#define PEERDMA_ROOM_H

#include <linux/scatterlist.h>
#include <linux/types.h>

struct peerdma_account;
struct peerdma_import;
struct peerdma_map;
struct peerdma_segment;

#define PEERDMA_ROOM_ATTEMPTS	40

struct peerdma_room {
	struct peerdma_account *account;	/* that the mapping is charged to */
	struct peerdma_map *map;		/* NULL: only if the pin's own one is free */
	struct peerdma_segment *segs;
	u32 nsegs;
	struct sg_table sgt;			/* sgl is NULL: none */
	struct peerdma_import *import;		/* dmabuf.c: no mapping has it yet; or NULL */
	void (*detach)(struct peerdma_import *import);	/* of that */

	bool wants_map;
	u32 wants_segs;				/* at least */
	u32 wants_ents;				/* of sgt, exactly; 0: none */
	u32 attempts;				/* too little room, since the last mapping */
};

/*
 * Allocates what is wanted and not there yet.  0 or -ENOMEM.  make: no lock of ours held.
 * make_now: for a caller that holds one; never waits for the user's cgroup, and so fails
 * more easily.
 */
int peerdma_room_make(struct peerdma_room *room);
int peerdma_room_make_now(struct peerdma_room *room);
void peerdma_room_free(struct peerdma_room *room);
/* Ends the attachment that no mapping has taken, if there is one.  No lock of ours held. */
void peerdma_room_detach(struct peerdma_room *room);

#endif
