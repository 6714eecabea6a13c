// SPDX-License-Identifier: MIT
/*
 * query_ends.c - peerdma_query_range() against peerdma_query() of each page: wherever the range begins and ends, among
 * mappings of all kinds, below, in and across the 2 MiB in which CUDA takes addresses.
 */
#include <sys/mman.h>

#include "peerdma.h"
#include "checks.h"

#define PAGES	24
#define GRAIN	(2UL << 20)
#define MIDDLE	12	/* page of the layout that begins a grain */

static size_t page;
static char *base;
static uint32_t truth[PAGES];

/* What is at each page: private, shared, None, hole, Read-only, write-only. */
static const char *const layouts[PAGES + 1] = {
	"ppNNhhpsshhpppsNhhsRRNhh",
	"pppppppppppppppppppppppp",
	"sNsNshshsNsNsNsNshshsNsN",
	"hhhhhhhhhhhhhhhhhhhhhhhp",
	"NNNNNNNNNNNNsssssssshhhh",
	"sssssssssssshhhhhhhhhhhh",
	"RRsswwRRppwwhhwwNNwwsswp",
	NULL,
};

static void lay(const char *layout)
{
	munmap(base, PAGES * page);
	for (int i = 0; i < PAGES; i++) {
		int prot = layout[i] == 'N' ? PROT_NONE : layout[i] == 'R' ? PROT_READ : layout[i] == 'w' ? PROT_WRITE : PROT_READ | PROT_WRITE;
		int how = layout[i] == 's' ? MAP_SHARED : MAP_PRIVATE;

		if (layout[i] != 'h')
			mmap(base + i * page, page, prot, how | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	for (int i = 0; i < PAGES; i++) {
		struct peerdma_memory m = { .size = sizeof(m) };

		truth[i] = peerdma_query(NULL, base + i * page, &m) ? ~0U : m.kind;
	}
}

/* Bytes [from, to) of the layout: pieces without gaps, each byte as its page is. */
static bool right(size_t from, size_t to)
{
	struct peerdma_memory m[PAGES + 1] = { { .size = sizeof(m[0]) } };
	uintptr_t at = (uintptr_t)base + from;
	size_t n = 0;

	if (peerdma_query_range(NULL, base + from, to - from, m, PAGES + 1, &n) || !n || n > PAGES)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (m[i].base != at || !m[i].length)
			return false;
		for (; at < m[i].base + m[i].length; at = (at | (page - 1)) + 1)
			if (truth[(at - (uintptr_t)base) / page] != m[i].kind)
				return false;
		at = m[i].base + m[i].length;
	}
	return at == (uintptr_t)base + to;
}

int main(void)
{
	char *room;

	page = (size_t)getpagesize();
	room = mmap(NULL, 4 * GRAIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return 2;
	munmap(room, 4 * GRAIN);
	base = (char *)(((uintptr_t)room + 2 * GRAIN) & -GRAIN) - MIDDLE * page;
	for (int l = 0; layouts[l]; l++) {
		int wrong = 0, odd_kinds = 0;

		lay(layouts[l]);
		for (int i = 0; i < PAGES; i++)
			odd_kinds += layouts[l][i] != 'w' && truth[i] !=
				     (layouts[l][i] == 'h' || layouts[l][i] == 'N' ? PEERDMA_KIND_UNKNOWN : PEERDMA_KIND_HOST);
		CHECK(!odd_kinds, "%s: the kinds of its pages", layouts[l]);
		for (size_t from = 0; from < PAGES; from++)
			for (size_t to = from + 1; to <= PAGES; to++)
				for (int odd = 0; odd < 4; odd++)
					wrong += !right(from * page + (odd & 1 ? 100 : 0), to * page - (odd & 2 ? 100 : 0));
		CHECK(!wrong, "%s: %d ranges differ from their pages", layouts[l], wrong);
	}
	return check_end(NULL);
}
