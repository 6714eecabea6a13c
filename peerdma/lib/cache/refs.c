// SPDX-License-Identifier: MIT
/*
 * refs.c - see refs.h.
 */
#include "refs.h"

void refs_fill(struct thread_refs *refs, uint32_t gen)
{
	ord_store(&refs->range, 0);
	ord_store(&refs->gen, gen);
}

enum ref ref_get_first(struct thread_refs *refs, const uint64_t *state_word, uint64_t expected)
{
	uint32_t count = ord_load(&refs->count);

	ord_store(&refs->count, count + COUNT_GET);
	refs_fill(refs, state_gen(expected));
	ord_fence();
	if (ord_load_acquire(state_word) == expected)
		return REF_OK;
	ord_store(&refs->gen, 0);
	ord_store_release(&refs->count, count);
	return REF_UNDONE;
}

/*
 * Either the ender counted this put, or REF_UNDONE makes this thread call teardown_last_ref().
 * After the put, the number may belong to another region.  Then the refs count for that one, and
 * the region that was put has already ended.
 */
enum ref ref_put_first(struct thread_refs *refs, const uint64_t *state_word)
{
	uint64_t now = ord_load_acquire(state_word);

	if (state_of(now) == STATE_LIVE) {
		refs_fill(refs, state_gen(now));
		ord_fence();
		if (ord_load(state_word) == now)
			return REF_OK;
		ord_store(&refs->gen, 0);
	}
	return REF_UNDONE;
}

bool refs_empty(struct thread_refs *refs, uint32_t gen)
{
	if (ord_load(&refs->gen) != gen)
		return false;
	ord_store(&refs->gen, 0);
	ord_store(&refs->range, 0);
	return true;
}
