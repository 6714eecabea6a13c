/* SPDX-License-Identifier: MIT */
/*
 * failing_malloc.h - this program's malloc() and its like, over glibc's: the nth call of a thread fails. Build it with
 * -fno-builtin and without sanitizers, which have allocators of their own.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

static _Thread_local uint32_t fail_in;		/* 1: the next one; 0: none */
static bool failed;				/* one did */
static _Atomic size_t made;			/* and not freed, of all threads */

static bool fails(void)
{
	if (!fail_in || --fail_in)
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

static inline size_t allocated(void)
{
	return made;
}

static void *counted(void *p)
{
	made += p != NULL;
	return p;
}

void *malloc(size_t size)
{
	return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
	if (fails())
		return NULL;
	return p ? __libc_realloc(p, size) : counted(__libc_realloc(p, size));
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : counted(__libc_memalign(align, size));
}

void free(void *p)
{
	made -= p != NULL;
	__libc_free(p);
}
