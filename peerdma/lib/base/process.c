// SPDX-License-Identifier: MIT
/*
 * process.c - notices a fork without a system call per look.
 *
 * One page is marked MADV_WIPEONFORK: it holds this process's number, and the
 * kernel hands every child, however it was forked, a page of zeros.  The child
 * takes the next number, which none of its ancestors has had.
 *
 * What a forked child may do with its parent's context is decided here, and each call
 * asks: check_owner() where the call is refused, is_owner() in the three that are not.
 * The child shares the parent's descriptors, and a thread of the parent may have held any
 * lock at the moment of the fork.  So in a child
 *
 *	peerdma_unpin(), peerdma_unmap()	return 0 and do nothing: the memory stays
 *						with the context;
 *	peerdma_close()				closes the child's descriptors and frees the
 *						child's copy of the memory.
 *
 * None of the three takes a lock, waits, makes any other system call on a descriptor (one
 * that reads an eventfd takes the parent's notice), or changes a list before freeing it.
 * Lists are walked in one direction, by links that are stored after what they lead to
 * (LIST_STORE), so that they are whole whenever the process was forked; trees are left.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

static _Atomic uint64_t none;		/* stands for a page where there is none to be had */
static _Atomic(_Atomic uint64_t *) page;	/* set once, whichever it is: a process has one number */
static _Atomic uint64_t last_number;	/* inherited by children */

static _Atomic uint64_t *page_make(void)
{
	_Atomic uint64_t *expected = NULL, *made = &none;
	long size = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED && !madvise(p, size, MADV_WIPEONFORK))
		made = p;
	/* Another thread may have been first, with more luck or less. */
	if ((!atomic_compare_exchange_strong(&page, &expected, made) || made == &none) && p != MAP_FAILED)
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
		return getpid();	/* no page to be had, or a kernel before 4.14: a system call each time */

	n = atomic_load_explicit(number, memory_order_relaxed);
	if (n)
		return n;

	/* Above all pids, so that the two ways of counting never meet. */
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
