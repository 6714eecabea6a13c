/* SPDX-License-Identifier: MIT */
/*
 * sites.h - the C library's own system calls, redirected to a handler.
 *
 * The C library calls the kernel in few places for each of munmap, mremap and so on, and
 * all of its own uses (free(), malloc_trim(), a thread's stack) come through them,
 * which symbols in front of it would not see.  Each place is an instruction of five
 * bytes, and then the one that enters the kernel:
 *
 *	mov $11, %eax			jmp stub
 *	syscall			->	syscall
 *
 * One store, inside 16 aligned bytes, puts a jump of the same five bytes in the place of the
 * first, while other threads run: a thread is before it or behind it, never in the
 * middle.  The stub lies in what is left of the last page of the library's code.
 */
#ifndef PEERDMA_SITES_H
#define PEERDMA_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is called instead: the number, and the six arguments.  Returns as the kernel does: -errno. */
typedef long (*sites_handler)(long number, const long *args);
/* The call itself. */
long system_call(long number, const long *args);

/* Whether the processor's instructions are known here, and it can store 16 bytes at once. */
bool sites_known(void);
/*
 * Finds the places in [text, end), and redirects them to stubs in [room, room_end), which call the
 * handler, one and the same for all.  How many;
 * or -errno: -ENOSPC no room, -EOPNOTSUPP one cannot be replaced by one store, -EACCES
 * code may not be changed in this process, -EALREADY there are jumps to that room instead.
 * The first `max` places are written to `sites`.
 */
int sites_redirect(uintptr_t text, uintptr_t end, uintptr_t room, uintptr_t room_end, sites_handler handler,
		   uintptr_t *sites, size_t max);

#endif
