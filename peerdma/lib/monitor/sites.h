/* SPDX-License-Identifier: MIT */
/*
 * sites.h - redirects the C library's own system calls to a handler.
 *
 * The C library calls the kernel in few places for each of munmap, mremap and so on. All of its own
 * uses (free(), malloc_trim(), a thread's stack) go through these places, and an interposed symbol
 * would not see them. Each place is an instruction of five bytes, followed by the one that enters
 * the kernel:
 *
 *	mov $11, %eax          jmp stub
 *	syscall            ->  syscall
 *
 * One store within 16 aligned bytes replaces the first instruction by a jump of the same five bytes
 * while other threads run. Another thread is before or after the instruction, never inside it. The
 * stub is in the unused end of the last page of the library's code.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Called in place of the system call, with the number and six arguments. Returns -errno like the
 * kernel.
 */
typedef long (*sites_handler)(long number, const long *args);
/* Makes the system call. */
long system_call(long number, const long *args);

/*
 * Whether this processor is supported: its instructions are known here, and it can store 16 bytes
 * at once.
 */
bool sites_known(void);
/*
 * Finds the places in [text, end) and redirects them to stubs in [room, room_end), which call the
 * handler, one and the same for all. Writes the first `max` places to `sites`. Returns their number,
 * or -errno: -ENOSPC no room, -EOPNOTSUPP a place cannot be replaced by one store, -EACCES this
 * process may not change code, -EALREADY the places already jump to this room.
 */
int sites_redirect(uintptr_t text, uintptr_t end, uintptr_t room, uintptr_t room_end,
		   sites_handler handler,
		   uintptr_t *sites, size_t max);
