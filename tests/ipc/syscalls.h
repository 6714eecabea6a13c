/* SPDX-License-Identifier: MIT */
/*
 * syscalls.h - the system calls that the library makes with syscall() go through a function of the test's, own_syscall(), which
 * passes on what it does not change.
 */
#pragma once

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static long own_syscall(long number, long a[6]);

static inline long pass_on(long number, const long a[6])
{
	static long (*libc_syscall)(long number, ...);

	if (!libc_syscall)
		libc_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Not first in a call that a test stops in the middle. */
__attribute__((constructor)) static void find_syscall(void)
{
	pass_on(SYS_gettid, (const long[6]) { 0 });
}

/* Whether the library sleeps on a signal with it. */
static inline bool is_sleep(long number, const long a[6])
{
	return number == SYS_futex_waitv || (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET);
}

/* The library calls this one: it is the first of its name that the loader finds. It reads more arguments than there may be. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	return own_syscall(number, a);
}
