/* SPDX-License-Identifier: MIT */
/* main_ended.h - for threads that go on without the first one of their process. */
#pragma once

#include <stdio.h>
#include <unistd.h>

/* Waits until the first thread has ended.  Then /proc/self/maps, which is that thread's, is empty. */
static inline void await_end_of_main(void)
{
	int c;

	do {
		FILE *maps = fopen("/proc/self/maps", "re");

		usleep(100);
		c = maps ? getc(maps) : EOF;
		if (maps)
			fclose(maps);
	} while (c != EOF);
}
