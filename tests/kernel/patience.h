/* SPDX-License-Identifier: MIT */
/* patience.h - how much slower this kernel may be than Debian's: vm/run sets it for debug kernels. */
#pragma once

#include <stdlib.h>

static inline int patience(void)
{
	const char *times = getenv("PEERDMA_PATIENCE");

	return times && atoi(times) > 0 ? atoi(times) : 1;
}
