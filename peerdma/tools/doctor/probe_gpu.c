// SPDX-License-Identifier: MIT
/*
 * probe_gpu.c - a GPU's memory by CUDA, which is loaded and not linked; and patterns.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

#define SYNC_MEMOPS 6

static bool take(struct probe *p, const char *name, void *function)
{
	void *symbol = dlsym(p->cuda.library, name);

	memcpy(function, &symbol, sizeof(symbol));
	if (!symbol)
		snprintf(p->why, sizeof(p->why), "libcuda.so.1 has no %s", name);
	return symbol;
}

bool probe_did(struct probe *p, cuda_result r, const char *call)
{
	if (r)
		snprintf(p->why, sizeof(p->why), "%s: CUDA error %d", call, r);
	return !r;
}

bool probe_open_gpu(struct probe *p, const struct device *gpu)
{
	struct cuda *c = &p->cuda;
	cuda_context context;
	unsigned int on = 1;
	void *optional;

	c->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!c->library) {
		snprintf(p->why, sizeof(p->why), "libcuda.so.1 cannot be loaded");
		return false;
	}
	if (!take(p, "cuInit", &c->init) || !take(p, "cuDeviceGetByPCIBusId", &c->by_pci) ||
	    !take(p, "cuDeviceGet", &c->by_number) ||
	    !take(p, "cuDevicePrimaryCtxRetain", &c->retain) ||
	    !take(p, "cuDevicePrimaryCtxRelease_v2", &c->release) ||
	    !take(p, "cuCtxSetCurrent", &c->set_current) || !take(p, "cuMemAlloc_v2", &c->alloc) ||
	    !take(p, "cuMemFree_v2", &c->free) || !take(p, "cuMemcpyHtoD_v2", &c->to_gpu) ||
	    !take(p, "cuMemcpyDtoH_v2", &c->to_host) || !take(p, "cuPointerSetAttribute",
							      &c->set_attribute))
		return false;
	optional = dlsym(c->library, "cuMemGetHandleForAddressRange");
	memcpy(&c->get_handle, &optional, sizeof(optional));
	if (!probe_did(p, c->init(0), "cuInit"))
		return false;
	if (gpu ? !probe_did(p, c->by_pci(&p->device, gpu->name), "cuDeviceGetByPCIBusId") :
		  !probe_did(p, c->by_number(&p->device, 0), "cuDeviceGet"))
		return false;
	if (!probe_did(p, c->retain(&context, p->device), "cuDevicePrimaryCtxRetain"))
		return false;
	if (probe_did(p, c->set_current(context), "cuCtxSetCurrent") &&
	    probe_did(p, c->alloc(&p->memory, PROBE_MEMORY), "cuMemAlloc")) {
		if (probe_did(p, c->set_attribute(&on, SYNC_MEMOPS, p->memory),
			      "cuPointerSetAttribute"))
			return true;
		c->free(p->memory);
	}
	c->release(p->device);
	return false;
}

void probe_close_gpu(struct probe *p)
{
	p->cuda.free(p->memory);
	p->cuda.release(p->device);
}

void probe_fill(unsigned char *to, unsigned int salt)
{
	uint32_t x = 2463534242U + salt;

	for (unsigned int i = 0; i < PROBE_LENGTH; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		to[i] = (unsigned char)(x >> 8);
	}
}

unsigned int probe_differ(const struct probe *p, unsigned int *first)
{
	unsigned int wrong = 0;

	for (unsigned int i = PROBE_LENGTH; i-- > 0;) {
		if (p->sent[i] != p->got[i]) {
			wrong++;
			*first = i;
		}
	}
	return wrong;
}

bool probe_begin(struct probe *p)
{
	*p = (struct probe){ .card = -1 };
	p->room = aligned_alloc(4096, PROBE_ROOM);
	p->sent = p->room;
	p->got = p->room ? p->room + PROBE_HALF : NULL;
	return p->room;
}

/* The library stays: CUDA's does not bear being closed. */
void probe_end(struct probe *p)
{
	free(p->room);
}
