/* SPDX-License-Identifier: MIT */
/*
 * known_host.h - a cache of addresses that CUDA did not know when it was queried, and that it
 * cannot have allocated since.
 *
 * It is used only if libpeerdma-hooks sees every call that creates addresses of CUDA. The hooks'
 * word (peerdma_hooks_making()) counts calls that have begun, and calls that are running:
 *
 *	the thread that queries        the thread that allocates
 *	W = the word                   the word: one more begun, one more running
 *	CUDA: address not known        CUDA takes the address
 *	if none is running in W:       the word: one less running
 *	store (address, W)
 *
 * If CUDA took the address before the query, CUDA knew the address. If CUDA took it later, the
 * allocating call began either before W was read or after. In the first case it was still running,
 * so nothing is stored. In the second case the word has changed for good. So CUDA does not know the
 * address while the word is W. This holds for the thread that gets the address from the call, and
 * for a thread that queries CUDA during the call, because the word changes first. No lock is taken,
 * and no shared memory is written.
 *
 * Each thread has its own table, which no other thread reads. An entry is for one address, not for
 * its page: allocations of CUDA's managed memory share pages, so one byte says nothing about the
 * next.
 *
 * Unmapping of host memory is not reported. If host memory was unmapped, its address counts as host
 * memory until CUDA's next allocation. The same holds for memory that was mapped there instead, if
 * CUDA does not know it. The library's own views of device memory are counted in `views`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define KNOWN_HOST_BITS	8	/* a page of entries */

struct known_host_entry {
	uintptr_t address;
	uint64_t word;		/* 0: no entry; the word of the hooks is never 0 */
};

struct known_host_words {
	/* atomic: points to the hooks' word, or to 0 if they miss some calls */
	const uint64_t *making;
	/* atomic: counted in the units of the hooks' word, so that the two can be added */
	uint64_t views;
};

extern struct known_host_words known_host_words;
extern _Thread_local struct known_host_entry *known_host_table
	__attribute__((tls_model("initial-exec")));

/*
 * 0: nothing may be stored now. Both numbers only grow, except for the count of running calls. So
 * their sum is equal to an earlier one only if both are.
 */
static inline uint64_t known_host_word(void)
{
	const uint64_t *making = __atomic_load_n(&known_host_words.making, __ATOMIC_ACQUIRE);
	uint64_t word = __atomic_load_n(making, __ATOMIC_ACQUIRE);

	return word ? word + __atomic_load_n(&known_host_words.views, __ATOMIC_ACQUIRE) : 0;
}

static inline struct known_host_entry *known_host_entry(uintptr_t address)
{
	return &known_host_table[address * 0x9e3779b97f4a7c15ULL >> (64 - KNOWN_HOST_BITS)];
}

static inline bool known_host(const void *ptr)
{
	const struct known_host_entry *e = known_host_entry((uintptr_t)ptr);

	return e->address == (uintptr_t)ptr && e->word && e->word == known_host_word();
}

/*
 * Stores an address that is host memory and that neither CUDA nor HSA knew. `word` was read before
 * they were queried.
 */
void known_host_add(const void *ptr, uint64_t word);

/* Call after the library has mapped memory that is not host memory. */
void known_host_forget(void);
