// SPDX-License-Identifier: MIT
/* mover_subject.c - the importers under test, by the same calls each: mover_test.h. */
#include "mover_test.h"

enum { BIDIRECTIONAL };		/* enum dma_data_direction */

const struct subject subjects[SUBJECTS] = {
	[A_STATIC] = { "static", IMPORTER_STATIC, .movable = false, .revocable = false },
	[A_DYNAMIC] = { "dynamic", IMPORTER_DYNAMIC, .movable = true, .revocable = true },
	[A_LAZY] = { "lazy", IMPORTER_LAZY, .movable = true, .revocable = true, .keeps = true },
	[A_PINNING] = { "pinning", IMPORTER_PINNING, .movable = false, .revocable = true, .keeps = true },
	[A_NO_PEER] = { "no peer", IMPORTER_NO_PEER, .movable = true, .revocable = true },
	[THE_BRIDGE] = { "bridge", BRIDGE, .movable = false, .revocable = true },
	[BRIDGE_WITHOUT_PIN] = { "bridge, not allowed to pin", BRIDGE, .movable = true, .revocable = true },
	[A_DEAF] = { "deaf", IMPORTER_DEAF, .movable = false, .revocable = false, .newer = true },
};
const struct subject *s;

int im = -1;
struct peerdma_pin_dmabuf_args pinned;
uint64_t address;
static uint32_t mapping;

int attach(void)
{
	if (s->kind != BRIDGE)
		return importer_attach(im, dmabuf, s->kind) ? errno : 0;
	pinned = (struct peerdma_pin_dmabuf_args){ .size = sizeof(pinned), .fd = dmabuf };
	return ioctl(im, PEERDMA_PIN_DMABUF_FD, &pinned) ? errno : 0;
}

int map(void)
{
	struct importer_map m = { .direction = BIDIRECTIONAL };
	struct peerdma_segment segs[LENGTH / PAGE];
	uint32_t count = LENGTH / PAGE;

	if (s->kind != BRIDGE) {
		if (ioctl(im, IMPORTER_MAP, &m))
			return errno;
		CHECK(m.length == LENGTH);
		address = m.dma_addr;
		return 0;
	}
	if (s->movable)
		CHECK(!control("refuse pin 1"));
	if (card_map(im, pinned.handle, BOTH, segs, &count, &mapping))
		return errno;
	address = segs[0].dma_addr;
	return 0;
}

int unmap_it(void)
{
	if (s->kind != BRIDGE)
		return ioctl(im, IMPORTER_UNMAP) ? errno : 0;
	return unmap(im, mapping) ? errno : 0;
}

void detach(void)
{
	if (s->kind == BRIDGE)
		WORKS(unpin(im, pinned.handle));
	else
		WORKS(ioctl(im, IMPORTER_DETACH));
}

void subject_open(void)
{
	im = s->kind == BRIDGE ? dev_open() : importer_open();
	CHECK(im >= 0);
}

void subject_close(void)
{
	close(im);
	im = -1;
}

bool bridge_revoked(void)
{
	struct peerdma_query_args q;

	WORKS(query(im, pinned.handle, &q));
	return q.state == PEERDMA_STATE_REVOKED;
}

void transfer(void)
{
	static char mark;

	bytes[0] = ++mark;
	card_copy(address, address + 2048, 16);
	CHECK(bytes[2048] == mark);
}
