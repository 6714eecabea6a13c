// SPDX-License-Identifier: MIT
/*
 * process.c - detects a fork without a system call at each check.
 *
 * One page is marked MADV_WIPEONFORK. It holds this process's number. After any kind of fork, the
 * child gets a page of zeros. The child then takes the next number, which none of its ancestors has
 * had.
 *
 * The two functions below decide what a forked child may do with its parent's context. Calls that
 * children may not make use check_owner(). The three calls that children may make use is_owner().
 * The child shares the parent's descriptors, and a thread of the parent may have held any lock
 * during the fork. So in a child
 *
 *	peerdma_unpin(), peerdma_unmap()  return 0 and do nothing: the memory stays
 *	                                  with the context;
 *	peerdma_close()                   closes the child's descriptors and frees the
 *	                                  child's copy of the memory.
 *
 * None of the three takes a lock, waits, or makes another system call on a descriptor: reading an
 * eventfd, for example, would take the parent's notice. None changes a list before freeing it.
 * Lists are walked in one direction. A link is stored after the object that it leads to is complete
 * (LIST_STORE), so a list is consistent at any moment of a fork. Trees are not touched.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

static _Atomic uint64_t none;		/* used if no such page can be made */
static _Atomic(_Atomic uint64_t *) page;	/* set once per program; children inherit it */
static _Atomic uint64_t last_number;	/* inherited by children */

static _Atomic uint64_t *page_make(void)
{
	_Atomic uint64_t *expected = NULL, *made = &none;
	long size = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED && !madvise(p, size, MADV_WIPEONFORK))
		made = p;
	/* Another thread may have set `page` first, with or without a real page. */
	if ((!atomic_compare_exchange_strong(&page, &expected, made) || made == &none) &&
	    p != MAP_FAILED)
		munmap(p, size);
	return atomic_load(&page);
}

uint64_t process_id(void)
{
	_Atomic uint64_t *number = atomic_load_explicit(&page, memory_order_acquire);
	uint64_t n, expected = 0;

	if (!number)
		number = page_make();
	if (number == &none)
		/* no such page, or a kernel before 4.14: one system call per check */
		return getpid();

	n = atomic_load_explicit(number, memory_order_relaxed);
	if (n)
		return n;

	/* Above all pids, so that these numbers never equal a getpid() of above. */
	n = (1ULL << 32) + atomic_fetch_add(&last_number, 1);
	return atomic_compare_exchange_strong(number, &expected, n) ? n : expected;
}

bool is_owner(const struct peerdma *ctx)
{
	return ctx->process == process_id();
}

int check_owner(const struct peerdma *ctx, const char *call)
{
	if (is_owner(ctx))
		return 0;
	return fail(-EPERM, "%s: this context was opened by a parent process and pins that process's memory; "
		    "open one in this process with peerdma_open()", call);
}
