// SPDX-License-Identifier: MIT
/*
 * nocore.c - the transport for SOFTGPU_INPROCESS=1. A GPU inside the process has neither memory
 * that the CPU sees at the GPU's addresses nor a driver. So HSA has only the CPU with its pool and
 * signals.
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
