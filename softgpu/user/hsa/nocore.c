// SPDX-License-Identifier: MIT
/*
 * nocore.c - GPUs inside the process have no addresses of their own that the CPU could
 * see, and no driver: HSA has the CPU alone there, with its pool and signals.
 */
#include <errno.h>

#include "transport.h"

static int no_open(unsigned int index[SOFTGPU_MAX_GPUS])
{
	(void)index;
	sgu_log("HSA's GPUs need /dev/softgpu0; with SOFTGPU_INPROCESS=1 HSA has only the CPU's pool and signals");
	return -EOPNOTSUPP;
}

static void no_forget(void)
{
}

const struct sgu_transport sgu_transport_core = {
	.name = "none",
	.open = no_open,
	.forget = no_forget,
};
