/* SPDX-License-Identifier: MIT */
/*
 * card.h - stand-ins for a process without PCI: a DMA card is a thread, an IOMMU is a
 * table, and a bus is another table.
 *
 * The card uses only bus addresses (through its IOMMU) and moves at most 4092 bytes at a
 * time through a buffer of its own, as QEMU's edu does.
 */
#ifndef CARD_H
#define CARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CARD_TRANSFER_MAX	4092
#define BUS_WINDOWS		4
#define IOMMU_ENTRIES		64

/* The BARs on the bus: first bus address, length, memory behind it. */
struct bus {
	struct { uint64_t base, length; uint8_t *behind; } windows[BUS_WINDOWS];
	int count;
};

/* Returns the memory at a bus address, or NULL if no BAR has len bytes there. */
uint8_t *bus_decode(struct bus *bus, uint64_t addr, size_t len);

struct card_totals {
	uint64_t transfers, bytes, faults;	/* ever */
	int mappings;				/* now */
};

struct card {
	struct bus *bus;
	pthread_mutex_t lock;		/* guards all below */
	pthread_cond_t idle;
	struct { uint64_t iova, bus_addr, length; bool used; } iommu[IOMMU_ENTRIES];
	uint64_t next_iova;
	bool running, stop;
	uint64_t wrong_by;		/* fault injection: added to write addresses */
	unsigned int transfer_us;	/* shortest duration of one transfer */
	struct card_totals totals;
	uint8_t buffer[4096];
};

void card_init(struct card *card, struct bus *bus);

/*
 * Maps [bus_addr, bus_addr + length) for the card, and returns the card's address of it; 0:
 * the table is full.
 */
uint64_t card_map(struct card *card, uint64_t bus_addr, uint64_t length);
void card_unmap(struct card *card, uint64_t iova);

struct card_totals card_totals(struct card *card);

/*
 * Copies length bytes from one card address to another, a transfer at a time;
 * returns how many it moved: fewer when it was stopped or an access faulted.
 */
uint64_t card_copy(struct card *card, uint64_t dst, uint64_t src, uint64_t length);

/* Stops a copy; when it returns the card is idle, until card_start_again(). */
void card_stop(struct card *card);
void card_start_again(struct card *card);

#endif
