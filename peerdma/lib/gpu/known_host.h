/* SPDX-License-Identifier: MIT */
/*
 * known_host.h - addresses that CUDA did not know when it was asked, and that it
 * cannot have taken since.
 *
 * Only where libpeerdma-hooks sees every call that creates addresses of CUDA.  Its word
 * (peerdma_hooks_making()) counts calls that began, and calls under way:
 *
 *	the thread that asks		the thread that allocates
 *	W = the word			the word: one more began, one more under way
 *	CUDA: not known			CUDA takes the address
 *	none under way in W:		the word: one less under way
 *	remember (address, W)
 *
 * If CUDA took the address before it was asked, it knew the address.  If it took it
 * afterwards, its call began either before W was read and had not ended, so nothing is
 * remembered; or later, and the word has changed for good.  So CUDA does not know the address
 * while the word is W.  That holds for the thread to which the call returns the address, and for
 * a thread that asks CUDA while the call is under way, because the word changed before.  No
 * lock is taken, and nothing is written that threads share.
 *
 * Each thread remembers for itself; no other reads it.  An entry is for one address, not for
 * its page: CUDA's managed memory shares pages among allocations, so one byte says nothing
 * about the next.
 *
 * Unmapping of host memory is not reported.  An address that was host memory and was unmapped
 * since counts as host memory until CUDA allocates anything, and so does what was mapped there
 * instead, if CUDA does not know it.  The library's own views of device memory are counted.
 */
#ifndef PEERDMA_REMEMBERED_H
#define PEERDMA_REMEMBERED_H

#include <stdbool.h>
#include <stdint.h>

#define KNOWN_HOST_BITS	8	/* a page of entries */

struct known_host_entry {
	uintptr_t address;
	uint64_t word;		/* 0: none; the hooks' never is */
};

struct known_host_words {
	const uint64_t *making;	/* atomic: the hooks'; points to 0 where they do not see all */
	uint64_t views;		/* atomic: counted as the hooks count, so that both add up */
};

extern struct known_host_words known_host_words;
extern _Thread_local struct known_host_entry *known_host_table __attribute__((tls_model("initial-exec")));

/* 0: nothing is remembered now.  Both only grow, but for the count of what is under way: the sum is the same only if they are. */
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

/* It was the host's, and neither CUDA nor HSA knew it; `word' was read before they were asked. */
void known_host_add(const void *ptr, uint64_t word);

/* The library has mapped something that is not the host's. */
void known_host_forget(void);

#endif
