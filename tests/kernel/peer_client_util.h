/* SPDX-License-Identifier: MIT */
/* peer_client_util.h - a region of a peer-memory client, as peer_client_test.ko has it registered. */
#pragma once

#include "peer_client_test.h"
#include "peerdma_test.h"

/* ---- memory of the provider that the run is about ---- */

/* Zeroes to start with; its first byte's address. */
uint64_t memory_get(size_t length);
/* Returns when its owner may use it for something else. */
void memory_free(uint64_t va);
/* 8 bytes at a multiple of 8. */
void memory_write(uint64_t va, uint64_t value);
/* False: none of this provider here.  *why says so. */
bool memory_begin(const char *provider, const char **why);

/* ---- one region, of one open file ---- */

/* One call; ret of it, or -1000 - errno. */
int peer_call(int fd, struct peer_client_call *c);
int peer(int fd, uint32_t op, uint32_t arg);
int region_open(uint32_t on);
int region_acquire(int fd, uint64_t va, size_t size);
int region_get(int fd, uint64_t va, size_t size);
/* Checks the table; *dma, unless NULL: the first address. */
int region_map(int fd, unsigned int card, uint64_t *dma);
/* All of it, which must work: up to where a core activates. */
int region_up(uint32_t on, uint64_t va, size_t size, unsigned int card);
/* Deregisters and closes. */
void region_down(int fd);
uint64_t begun(int fd);
uint64_t done(int fd);
uint64_t peek(int fd, uint64_t offset);

extern uint32_t cards[2];	/* bus << 8 | devfn */
extern unsigned int ncards;
bool cards_find(void);

/* Frees in a thread of its own; free_end() waits for it. */
struct freer {
	uint64_t va;
	struct task task;
};
void free_begin(struct freer *f, uint64_t va);
void free_end(struct freer *f);

/* peer_client_races.c */
void race_plain(void);
void race_unmapping(void);
void race_with_a_lock(void);
void killed(void);
void charged(void);
void unloading(void);

/* Whose memory the run is about. */
extern const char *which;

/* Waits until peerdma has as many pins as before, for what ends in the background. */
#define PINS_BACK(before) CHECK(pins_are(before))
uint64_t pins_now(void);
bool pins_are(uint64_t wanted);
