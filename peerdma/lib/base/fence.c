// SPDX-License-Identifier: MIT
/*
 * fence.c - membarrier(2): one thread makes a memory fence for all threads of the process.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "order.h"
#include "variables.h"

bool ord_fence_others(void)
{
	int before = errno;
	bool done = !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);

	errno = before;
	return done;
}

bool ord_fence_others_works(void)
{
	if (variable_is(VARIABLE_MEMBARRIER, "off"))
		return false;
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) &&
	       !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
