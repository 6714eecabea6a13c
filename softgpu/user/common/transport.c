// SPDX-License-Identifier: MIT
/* transport.c - chooses the transport, and makes calls by GPU number. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport.h"
#include "uncancelled.h"

static const struct sgu_transport *transport;
static unsigned int gpu_index[SOFTGPU_MAX_GPUS];
static int gpus;

static atomic_bool inprocess_wanted;

void sgu_want_inprocess(void)
{
	atomic_store(&inprocess_wanted, true);
}

bool sgu_wants_inprocess(void)
{
	return atomic_load(&inprocess_wanted);
}

int sgu_open(void)
{
	SGU_UNCANCELLED;
	const char *inprocess = getenv("SOFTGPU_INPROCESS");
	int n;

	if (inprocess ? !strcmp(inprocess, "1") : atomic_load(&inprocess_wanted))
		transport = &sgu_transport_core;
	else
		transport = &sgu_transport_dev;
	n = transport->open(gpu_index);
	if (n == 0)
		sgu_log("no software GPU: load softgpu.ko so that /dev/softgpu0 appears, "
			"or set SOFTGPU_INPROCESS=1 to have one inside this process");
	if (n > 0)
		gpus = n;
	return n;
}

int sgu_call(int gpu, unsigned long cmd, void *arg)
{
	if (gpu < 0 || gpu >= gpus)
		return -ENODEV;
	return transport->call(gpu_index[gpu], cmd, arg);
}

int sgu_info(int gpu, struct softgpu_info *info)
{
	int err;

	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	err = sgu_call(gpu, SOFTGPU_INFO, info);
	if (err || info->abi == SOFTGPU_ABI)
		return err;
	sgu_log("the driver speaks interface %u, this library %u: install both from one build",
		info->abi, SOFTGPU_ABI);
	return -EPROTO;
}

int sgu_call_any(unsigned long cmd, void *arg)
{
	int err = -ENODEV;

	for (int i = 0; i < gpus && err == -ENODEV; i++)
		err = sgu_call(i, cmd, arg);
	return err;
}

int sgu_gpu_of_index(unsigned int index)
{
	for (int i = 0; i < gpus; i++) {
		if (gpu_index[i] == index)
			return i;
	}
	return -1;
}

int sgu_show(int gpu, void *addr, size_t length)
{
	return transport->show ? transport->show(gpu_index[gpu], addr, length) : -EOPNOTSUPP;
}

int sgu_host(int gpu, void *addr, size_t length, enum sgu_host kind)
{
	void *mem;

	if (kind == SGU_HOST_WRITE_COMBINED && transport->write_combined)
		return transport->write_combined(gpu_index[gpu], addr, length);
	if (kind == SGU_HOST_MANAGED && transport->managed)
		return transport->managed(gpu_index[gpu], addr, length);
	mem = mmap(addr, length, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	return mem == MAP_FAILED ? -errno : 0;
}

void *sgu_reserve(void *addr, size_t length, int flags)
{
	return mmap(addr, length, PROT_NONE, flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
}

int sgu_shared(void)
{
	return transport->shared;
}

void sgu_forget(void)
{
	SGU_UNCANCELLED;

	if (transport)
		transport->forget();
}
