// SPDX-License-Identifier: MIT
/*
 * next.c - what each copy of a function calls.
 *
 * Copy 0, the exported one, is called by name.  It calls what the name would be bound to
 * without this library: the next one in the loader's order, which may be another interposer's,
 * and otherwise the watched library's own, if that is not in the order (RTLD_LOCAL).  The other
 * copies each stand for one pointer that a program looked up, and call that pointer.
 *
 * So a chain of calls is as long as the list of libraries, unless a library calls back the first
 * one by name.  Each thread remembers the copies that it is in.  A second entry of the same copy
 * calls the watched library's own function, and the chain ends.
 */
#include "hooks.h"

bool hook_is_ours(const struct hook *h, const void *p)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		if (p == h->ours[i])
			return true;
	return false;
}

void *hook_own(struct hook *h)
{
	void *own = atomic_load_explicit(&h->own, memory_order_acquire);

	if (!own) {
		own = real_symbol(h->library, h->name);
		atomic_store_explicit(&h->own, own, memory_order_release);
	}
	return own;
}

/*
 * The next one by name is the next one for good: later libraries come behind it.  If there is
 * none, the next library that is loaded may be it.
 */
static void *next_by_name(struct hook *h)
{
	void *next = atomic_load_explicit(&h->real[0], memory_order_acquire);
	uint64_t loads;

	if (next)
		return next;
	loads = loader_loads();
	if (loads == atomic_load_explicit(&h->alone, memory_order_relaxed))
		return NULL;
	next = next_symbol(h->name);
	if (next) {
		loader_keep(next);
		atomic_store_explicit(&h->real[0], next, memory_order_release);
	} else {
		atomic_store_explicit(&h->alone, loads, memory_order_relaxed);
	}
	return next;
}

void *hook_real(struct hook *h, unsigned int slot)
{
	void *next;

	if (slot)
		return atomic_load_explicit(&h->real[slot], memory_order_acquire);
	next = next_by_name(h);
	return next ? next : hook_own(h);
}

void *hook_for(struct hook *h, void *real)
{
	if (hook_is_ours(h, real))
		return real;
	if (real == hook_real(h, 0))
		return h->ours[0];
	for (unsigned int i = 1; i < SLOTS; i++) {
		void *is = NULL;

		if (atomic_compare_exchange_strong(&h->real[i], &is, real) || is == real)
			return h->ours[i];
	}
	return real;
}

/*
 * A bit for each copy of each function.  A call that never returns (longjmp(), a thread that is
 * cancelled) leaves its bit: from then on that copy passes by other interposers in this thread.
 */
#define WORDS ((HOOK_IDS * SLOTS + 63) / 64)
static _Thread_local __attribute__((tls_model("initial-exec"))) uint64_t inside[WORDS];

static uint64_t *word_of(const struct hook *h, unsigned int slot, uint64_t *bit)
{
	unsigned int copy = h->id * SLOTS + slot;

	*bit = 1ULL << copy % 64;
	return &inside[copy / 64];
}

void *hook_target(struct hook *h, unsigned int slot)
{
	uint64_t bit, *word = word_of(h, slot, &bit);

	return (*word & bit) ? hook_own(h) : hook_real(h, slot);
}

bool hook_enter(const struct hook *h, unsigned int slot)
{
	uint64_t bit, *word = word_of(h, slot, &bit);
	bool was = *word & bit;

	*word |= bit;
	return was;
}

void hook_leave(const struct hook *h, unsigned int slot, bool was)
{
	uint64_t bit, *word = word_of(h, slot, &bit);

	if (!was)
		*word &= ~bit;
}
