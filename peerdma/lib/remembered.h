/* SPDX-License-Identifier: MIT */
/*
 * remembered.h - addresses that CUDA did not know when it was asked, and that it
 * cannot have taken since.
 *
 * Only where libpeerdma-hooks sees every call that makes addresses CUDA's.  Its word
 * (peerdma_hooks_making()) counts those that began, and those under way:
 *
 *	who asks			who allocates
 *	W = the word			the word: one more began, one more under way
 *	CUDA: not known			CUDA takes the address
 *	none under way in W:		the word: one less under way
 *	remember (address, W)
 *
 * CUDA took the address before it was asked: then it knew it.  It took it after: then
 * that call began either before W was read, and had not ended, so that nothing is
 * remembered; or later, and the word is another from then on, for good.  So while the word is W
 * CUDA still does not know the address: not only for who is handed it when the call
 * returns, but also for who sees by CUDA itself that it knows the address already, since
 * the word changed before that.  No lock, no write to what threads share.
 *
 * What is remembered is a thread's own: no other reads it.  It is of the very address,
 * not of its page: CUDA's managed memory shares pages among allocations, and what one
 * byte is says nothing of the next.
 *
 * Nobody tells that the host's memory is unmapped.  An address that was the host's when it
 * was asked for and is unmapped is called the host's until CUDA allocates anything; if
 * something else than CUDA's is mapped there meanwhile, that is, too.  The library's own views of
 * devices' memory are counted, because it can.
 */
#ifndef PEERDMA_REMEMBERED_H
#define PEERDMA_REMEMBERED_H

#include <stdbool.h>
#include <stdint.h>

#define REMEMBERED_BITS	8	/* a page of entries */

struct remembered {
	uintptr_t address;
	uint64_t word;		/* 0: none; the hooks' never is */
};

struct remembered_words {
	const uint64_t *making;	/* atomic: the hooks'; points to 0 where they do not see all */
	uint64_t views;		/* atomic: counted as the hooks count, so that both add up */
};

extern struct remembered_words remembered_words;
extern _Thread_local struct remembered *remembered_table __attribute__((tls_model("initial-exec")));

/* 0: nothing is remembered now.  Both only grow, but for the count of what is under way: the sum is the same only if they are. */
static inline uint64_t remembered_word(void)
{
	const uint64_t *making = __atomic_load_n(&remembered_words.making, __ATOMIC_ACQUIRE);
	uint64_t word = __atomic_load_n(making, __ATOMIC_ACQUIRE);

	return word ? word + __atomic_load_n(&remembered_words.views, __ATOMIC_ACQUIRE) : 0;
}

static inline struct remembered *remembered_entry(uintptr_t address)
{
	return &remembered_table[address * 0x9e3779b97f4a7c15ULL >> (64 - REMEMBERED_BITS)];
}

static inline bool remembered_hosts(const void *ptr)
{
	const struct remembered *e = remembered_entry((uintptr_t)ptr);

	return e->address == (uintptr_t)ptr && e->word && e->word == remembered_word();
}

/* It was the host's, and neither CUDA nor HSA knew it; `word' was read before they were asked. */
void remember_hosts(const void *ptr, uint64_t word);

/* The library has mapped something that is not the host's. */
void remembered_over(void);

#endif
