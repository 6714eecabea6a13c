// SPDX-License-Identifier: MIT
/* known_host.c - see known_host.h. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/thread_end.h"
#include "internal.h"
#include "monitor/monitor.h"
#include "known_host.h"

#define TABLE_SIZE (sizeof(struct known_host_entry) << KNOWN_HOST_BITS)

static const uint64_t not_seen;			/* the word of a process where not all is seen */
static struct known_host_entry none[1 << KNOWN_HOST_BITS];	/* of a thread that has none: never written */

_Alignas(64) struct known_host_words known_host_words = { .making = &not_seen };
_Thread_local struct known_host_entry *known_host_table __attribute__((tls_model("initial-exec"))) = none;

/* ---- whether all is seen ---- */

/*
 * Looked for once, when CUDA is there, and again when the loader has loaded something:
 * that may be a library that is in front.  What does not see all does not come to see
 * it later.
 */
static bool all_seen(void)
{
	static _Atomic bool never;
	static _Atomic uint64_t known;		/* how many had been loaded, and 1 */
	const uint64_t *word;
	uint64_t now;

	if (atomic_load(&never))
		return false;
	now = loader_loads() << 1 | 1;
	if (atomic_load(&known) == now)
		return true;
	word = hooks_making();
	if (!word) {
		word = &not_seen;
		atomic_store(&never, true);
	}
	__atomic_store_n(&known_host_words.making, word, __ATOMIC_SEQ_CST);
	if (atomic_load(&never))	/* another thread may have found so meanwhile */
		__atomic_store_n(&known_host_words.making, &not_seen, __ATOMIC_SEQ_CST);
	atomic_store(&known, now);
	return word != &not_seen;
}

/* ---- a thread's table ---- */

static void known_host_end(void)
{
	if (known_host_table != none)
		munmap(known_host_table, TABLE_SIZE);
	known_host_table = none;
}

static struct thread_end end = { .fn = known_host_end };

/* A child, however it was forked, gets zeros: not all that is the parent's is the child's, too. */
static bool table_make(void)
{
	void *table = mmap(NULL, TABLE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
		return false;
	if (madvise(table, TABLE_SIZE, MADV_WIPEONFORK) || !thread_end_register(&end)) {
		munmap(table, TABLE_SIZE);
		return false;
	}
	known_host_table = table;
	return true;
}

void known_host_add(const void *ptr, uint64_t word)
{
	struct known_host_entry *e;

	if (!all_seen() || !word || word & PEERDMA_HOOKS_MAKING_NOW || (known_host_table == none && !table_make()))
		return;
	e = known_host_entry((uintptr_t)ptr);
	e->address = (uintptr_t)ptr;
	e->word = word;
}

void known_host_forget(void)
{
	__atomic_fetch_add(&known_host_words.views, PEERDMA_HOOKS_MAKING_ONE, __ATOMIC_RELEASE);
}
