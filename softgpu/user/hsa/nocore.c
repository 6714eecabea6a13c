// SPDX-License-Identifier: MIT
/* nocore.c - GPUs inside the process have no addresses of their own that the CPU could see: HSA has none. */
#include <errno.h>

#include "transport.h"

static int no_open(unsigned int index[SOFTGPU_MAX_GPUS])
{
	(void)index;
	sgu_log("HSA needs /dev/softgpu0: it does not work with SOFTGPU_INPROCESS=1");
	return -ENODEV;
}

static void no_forget(void)
{
}

const struct sgu_transport sgu_transport_core = {
	.name = "none",
	.open = no_open,
	.forget = no_forget,
};
