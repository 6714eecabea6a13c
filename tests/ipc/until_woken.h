/* SPDX-License-Identifier: MIT */
/*
 * until_woken.h - the library's sleeps on a signal, without the end that it sets them.
 *
 * It looks again after a second, whether it was woken or not.  Where that is off, a wake that is lost does not look like a slow
 * machine: the sleep has no end, and after a minute the program fails.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "syscalls.h"

#define LOST_AFTER_S 60

static atomic_bool until_woken;

static void wake_is_lost(int sig)
{
	static const char says[] = "not ok - a wake was lost: asleep for a minute\n";

	_exit(write(1, says, sizeof(says) - 1) < 0 ? 2 : 1);
}

static long own_syscall(long number, long a[6])
{
	bool sleeps = until_woken && is_sleep(number, a);
	long ret;

	if (sleeps) {
		signal(SIGALRM, wake_is_lost);
		alarm(LOST_AFTER_S);
		a[3] = 0;
	}
	ret = pass_on(number, a);
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
