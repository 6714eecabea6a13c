// SPDX-License-Identifier: MIT
/*
 * copy.c - copies through a view. Copies the two ends itself, and whole lines by the CPU's best
 * method.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../base/variables.h"
#include "../internal.h"
#include "copy.h"
#include "peerdma_copy.h"

static const struct copy_method *choose(void)
{
	const struct copy_method *m, *best = NULL;
	const char *wish = variable(VARIABLE_COPY);

	for (m = copy_methods; m->name; m++) {
		if (m->works && !m->works())
			continue;
		if (wish && !strcmp(wish, m->name))
			return m;
		if (!best)
			best = m;
	}
	return best;
}

static const struct copy_method *method(void)
{
	static _Atomic(const struct copy_method *) chosen;
	const struct copy_method *m = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (!m) {	/* two threads choose the same method */
		m = choose();
		atomic_store_explicit(&chosen, m, memory_order_relaxed);
	}
	return m;
}

/*
 * Makes one access to the view, as wide as its address allows. memcpy() accesses the other side,
 * which may be unaligned.
 */
#define PUT(type)								\
	do {									\
		type value;							\
										\
		memcpy(&value, from, sizeof(value));				\
		*(volatile type *)(void *)view = value;				\
		view += sizeof(type);						\
		from += sizeof(type);						\
		n -= sizeof(type);						\
	} while (0)

#define GET(type)								\
	do {									\
		type value = *(const volatile type *)(const void *)view;	\
										\
		memcpy(to, &value, sizeof(value));				\
		view += sizeof(type);						\
		to += sizeof(type);						\
		n -= sizeof(type);						\
	} while (0)

/*
 * Copies less than a line: bytes up to a multiple of 8, then units of 8, then the remaining bytes.
 */
#define END(STEP)								\
	do {									\
		if (n >= 1 && (uintptr_t)view & 1)				\
			STEP(uint8_t);						\
		if (n >= 2 && (uintptr_t)view & 2)				\
			STEP(uint16_t);						\
		if (n >= 4 && (uintptr_t)view & 4)				\
			STEP(uint32_t);						\
		while (n >= 8)							\
			STEP(uint64_t);						\
		if (n >= 4)							\
			STEP(uint32_t);						\
		if (n >= 2)							\
			STEP(uint16_t);						\
		if (n)								\
			STEP(uint8_t);						\
	} while (0)

static void put_end(char *view, const char *from, size_t n)
{
	END(PUT);
}

static void get_end(char *to, const char *view, size_t n)
{
	END(GET);
}

/*
 * A CPU may make loads from a view early and in any order, and from buffers filled earlier. This
 * fence keeps them from returning data from before the caller knew that there is something to read.
 */
static void fence_before_loads(void)
{
#if defined(__x86_64__)
	__builtin_ia32_mfence(); /* orders streaming loads; for other loads lfence is enough */
#elif defined(__aarch64__)
	__asm__ volatile("dmb ld" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* The number of bytes before the first whole line; n if there is no whole line. */
static size_t head_of(const void *view, size_t n)
{
	size_t head = -(uintptr_t)view & (LINE - 1);

	return head < n ? head : n;
}

EXPORT void peerdma_copy_to_view(void *view, const void *from, size_t n)
{
	size_t head = head_of(view, n), lines = (n - head) / LINE, done = head + lines * LINE;
	const char *src = from;
	char *dst = view;

	put_end(dst, src, head);
	if (lines)
		method()->to(dst + head, src + head, lines);
	put_end(dst + done, src + done, n - done);
}

EXPORT void peerdma_copy_from_view(void *to, const void *view, size_t n)
{
	size_t head = head_of(view, n), lines = (n - head) / LINE, done = head + lines * LINE;
	const char *src = view;
	char *dst = to;

	fence_before_loads();
	get_end(dst, src, head);
	if (lines)
		method()->from(dst + head, src + head, lines);
	get_end(dst + done, src + done, n - done);
}

const char *copy_why_ignored(void)
{
	const char *wish = variable(VARIABLE_COPY);

	return wish && strcmp(wish, method()->name) ? "this processor has no such method" : NULL;
}

EXPORT const char *peerdma_copy_method(void)
{
	return method()->name;
}
