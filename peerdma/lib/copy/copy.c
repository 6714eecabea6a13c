// SPDX-License-Identifier: MIT
/*
 * copy.c - copies through a view: the ends here, whole lines by the best way
 * that the CPU has.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../internal.h"
#include "copy.h"
#include "peerdma_copy.h"

static const struct copy_method *choose(void)
{
	const struct copy_method *m, *best = NULL;
	const char *wish = secure_getenv("PEERDMA_COPY");

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

	if (!m) {	/* two threads find the same */
		m = choose();
		atomic_store_explicit(&chosen, m, memory_order_relaxed);
	}
	return m;
}

/* One access each, as wide as the view's address allows; the other side by memcpy(), which may be any two. */
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

/* At most a line: up to the next multiple of 8, by eights, and the rest. */
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
 * Loads from a view are made in any order, ahead of time, and from buffers that were
 * filled before; none of these may be from before the caller knew that there is
 * something to read.
 */
static void fence_before_loads(void)
{
#if defined(__x86_64__)
	__builtin_ia32_mfence();	/* which streaming loads do not pass; lfence would do for others */
#elif defined(__aarch64__)
	__asm__ volatile("dmb ld" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Bytes up to the first whole line, or all of them. */
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

EXPORT const char *peerdma_copy_method(void)
{
	return method()->name;
}
