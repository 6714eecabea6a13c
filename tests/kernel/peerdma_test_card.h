/* SPDX-License-Identifier: MIT */
/* peerdma_test_card.h - the DMA card of the tests, driven from user space. */
#ifndef PEERDMA_TEST_CARD_H
#define PEERDMA_TEST_CARD_H

#include "peerdma_test.h"

/* False: there is none. */
bool card_open(void);
/* Copies at most 4092 bytes between addresses of the card's, through its own memory. */
void card_copy(uint64_t from, uint64_t to, size_t n);
/* PEERDMA_MAP for the card.  *count: room, then how many there are. */
int card_map(int fd, uint32_t handle, uint32_t flags, struct peerdma_segment *segs,
	     uint32_t *count, uint32_t *mapping);
bool card_behind_iommu(void);
/* Whether it may do DMA; `make' allows it first. */
bool card_master(bool make);

#endif
