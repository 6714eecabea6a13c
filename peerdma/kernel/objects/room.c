// SPDX-License-Identifier: MIT OR GPL-2.0
/* room.c - allocates what a mapping takes; room.h says why it is done apart. */
#include "core/charge.h"
#include "map.h"
#include "room.h"

static void free_table(struct sg_table *sgt)
{
	if (sgt->sgl)
		sg_free_table(sgt);
	memset(sgt, 0, sizeof(*sgt));
}

static int make_segs(struct peerdma_room *room, bool now)
{
	if (room->wants_segs <= room->nsegs)
		return 0;
	kvfree(room->segs);
	room->nsegs = 0;
	room->segs = peerdma_kvarray(room->wants_segs, sizeof(*room->segs), now);
	if (!room->segs)
		return -ENOMEM;
	room->nsegs = room->wants_segs;
	return 0;
}

static int make_table(struct peerdma_room *room, bool now)
{
	int err;

	if (room->wants_ents == room->sgt.orig_nents)
		return 0;
	free_table(&room->sgt);
	if (!room->wants_ents)
		return 0;
	err = peerdma_sg_alloc(&room->sgt, room->wants_ents, now);
	if (err)
		memset(&room->sgt, 0, sizeof(room->sgt));
	return err;
}

static int make(struct peerdma_room *room, bool now)
{
	if (room->wants_map && !room->map) {
		room->map = peerdma_zalloc_gfp(sizeof(*room->map), now);
		if (!room->map)
			return -ENOMEM;
	}
	return make_segs(room, now) ?: make_table(room, now);
}

int peerdma_room_make(struct peerdma_room *room)
{
	if (!room->account)
		room->account = peerdma_account();
	return room->account ? make(room, false) : -ENOMEM;
}

int peerdma_room_make_now(struct peerdma_room *room)
{
	return make(room, true);
}

void peerdma_room_detach(struct peerdma_room *room)
{
	if (unlikely(room->import))
		room->detach(room->import);
	room->import = NULL;
}

void peerdma_room_free(struct peerdma_room *room)
{
	kfree(room->map);
	kvfree(room->segs);
	free_table(&room->sgt);
	peerdma_room_detach(room);
	memset(room, 0, sizeof(*room));
}
