/* SPDX-License-Identifier: MIT */
/*
 * until_woken.h - the library's sleeps on a signal, without the end that it sets them.
 *
 * It looks again after a second, whether it was woken or not.  Where that is off, a wake that is lost does not look like a slow
 * machine: the sleep has no end, and after a minute the program fails.
 */
#ifndef UNTIL_WOKEN_H
#define UNTIL_WOKEN_H

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define LOST_AFTER_S 60

static atomic_bool until_woken;

static void wake_is_lost(int sig)
{
	static const char says[] = "not ok - a wake was lost: asleep for a minute\n";

	(void)sig;
	_exit(write(1, says, sizeof(says) - 1) < 0 ? 2 : 1);
}

/* The library calls this one: it is the first of its name that the loader finds. It reads more arguments than there may be. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	static long (*libc_syscall)(long number, ...);
	va_list args;
	long a[6], ret;
	bool sleeps;

	if (!libc_syscall)
		libc_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	sleeps = until_woken && (number == SYS_futex_waitv || (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET));
	if (sleeps) {
		signal(SIGALRM, wake_is_lost);
		alarm(LOST_AFTER_S);
		a[3] = 0;
	}
	ret = libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (sleeps) {
		int error = errno;

		alarm(0);
		/* Without this call the library looks every now and then, instead of being woken. */
		if (number == SYS_futex_waitv && ret < 0 && (error == ENOSYS || error == EPERM))
			until_woken = false;
		errno = error;
	}
	return ret;
}

#endif
