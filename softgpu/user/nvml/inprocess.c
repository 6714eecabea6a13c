// SPDX-License-Identifier: MIT
/*
 * inprocess.c - with SOFTGPU_INPROCESS=1, libcuda has the GPU, and NVML reaches it through libcuda.
 */
#include <dlfcn.h>
#include <errno.h>

#include "inprocess.h"
#include "transport.h"

static const struct sgu_transport *theirs;

/* If the program has requested a GPU inside the process from libcuda, NVML uses it, too. */
void nvml_follow_cuda(void)
{
	void *libcuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	int (*begun)(void);

	if (!libcuda)
		return;
	begun = (int (*)(void))dlsym(libcuda, "softgpu_inprocess_begun");
	if (begun && begun())
		sgu_want_inprocess();
	dlclose(libcuda);
}

static int proxy_open(unsigned int index[SOFTGPU_MAX_GPUS])
{
	const struct sgu_transport *(*get)(void) = NULL;
	void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);

	if (libcuda)
		get = (const struct sgu_transport *(*)(void))
			dlsym(libcuda, "softgpu_inprocess_transport");
	if (!get) {
		sgu_log("SOFTGPU_INPROCESS=1, but libcuda.so.1 is not softgpu's: set LD_LIBRARY_PATH to its folder");
		return -ENODEV;
	}
	theirs = get();
	return theirs->open(index);
}

static int proxy_call(unsigned int index, unsigned long cmd, void *arg)
{
	return theirs->call(index, cmd, arg);
}

/* libcuda owns the GPU, so it is not closed here. */
static void proxy_forget(void)
{
}

const struct sgu_transport sgu_transport_core = {
	.name = "in this process",
	.open = proxy_open,
	.call = proxy_call,
	.forget = proxy_forget,
};
