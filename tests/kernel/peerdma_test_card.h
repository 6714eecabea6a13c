/* SPDX-License-Identifier: MIT */
/* peerdma_test_card.h - the DMA cards of the tests, driven from user space. */
#pragma once

#include "peerdma_test.h"

struct dma_card {
	struct peerdma_map_args at;	/* its PCI address */
	volatile uint64_t *bar;
};

/* Its own memory, in transfers; what one carries at most, and about how long that takes. */
#define CARD_MEMORY	0x40000
#define CARD_MOST	4092
#define CARD_TAKES_MS	100

/* The PCI addresses of those that a mapping can be made for, in their order; as many as there is room for: how many. */
unsigned int find_cards(struct peerdma_map_args *cards, unsigned int room);
/* Of the nth of them: domain << 16 | bus << 8 | devfn; 0: there is no such card.  And whether an IOMMU translates for it. */
uint32_t card_bdf(unsigned int n);
bool card_bdf_translated(unsigned int n);
/* All that there are, able to do DMA: how many. */
unsigned int cards_open(struct dma_card *cards, unsigned int room);
/* One transfer: an end of it is in CARD_MEMORY. */
void card_begin(const struct dma_card *card, uint64_t from, uint64_t to, size_t n);
bool card_busy(const struct dma_card *card);
void card_wait(const struct dma_card *card);
/* PEERDMA_MAP for the card.  *count: room, then how many there are. */
int card_map_for(const struct dma_card *card, int fd, uint32_t handle, uint32_t flags,
		 struct peerdma_segment *segs, uint32_t *count, uint32_t *mapping);
/* Its addresses are its own, translated. */
bool card_translated(const struct dma_card *card);

/*
 * The same for tests that need one card only: the first.
 */

/* False: there is none. */
bool card_open(void);
/* Carries bytes between its own memory and an address of its own, and waits. */
void card_dma(uint64_t from, uint64_t to, size_t n);
/* Copies at most 4092 bytes between addresses of the card's, through its own memory. */
void card_copy(uint64_t from, uint64_t to, size_t n);
int card_map(int fd, uint32_t handle, uint32_t flags, struct peerdma_segment *segs,
	     uint32_t *count, uint32_t *mapping);
bool card_behind_iommu(void);
/* Without a driver nothing is mapped for a device, except on a PC without an IOMMU. */
bool card_needs_driver(void);
/* Gives it one that does nothing, as bind_cards of tests/vm/lib.sh does. */
void card_bind(void);
/* Whether it may do DMA; `make' allows it first. */
bool card_master(bool make);
/* As sysfs has it. */
void card_name(char *name, size_t size);
/* It is removed from its bus; and found again, with the driver that a mapping needs. */
void card_remove(void);
void card_rescan(void);
