/* SPDX-License-Identifier: MIT */
/*
 * vmm_int.h - shared by phys.c (memory and its handles) and vmm.c (addresses, mappings, access).
 *
 * The driver manages the addresses and the memory. These files add what CUDA requires: a handle
 * counts its retains. While its memory is mapped, a handle without retains still exists. It cannot
 * be used, but cuMemRetainAllocationHandle() finds it again.
 */
#pragma once

#include "internal.h"
#include "vmm.h"

struct phys {
	struct sgu_obj obj;
	int gpu;
	uint32_t handle;		/* the driver's handle */
	size_t length;
	CUmemAllocationProp prop;
	/* cuMemCreate() and Retain calls minus Release calls; protected by sgu_vmm_lock */
	unsigned int retained;
	unsigned int mapped;		/* number of mappings; protected by sgu_vmm_lock */
};

/*
 * Protects the ranges and the counts in struct phys. Never held across a call of the driver,
 * because unmapping waits for clients that have the memory pinned.
 */
extern pthread_mutex_t sgu_vmm_lock;

/* Returns a reference to the memory of a handle that is retained at least once. */
struct phys *sgu_phys_get(CUmemGenericAllocationHandle handle);

/*
 * Makes a CUDA handle, retained once, for the driver's handle. On failure, releases the driver's
 * handle.
 */
CUresult sgu_phys_publish(int gpu, uint32_t handle, size_t length, const CUmemAllocationProp *prop,
			  CUmemGenericAllocationHandle *out);

/* Ends memory whose counts are both 0. Called without sgu_vmm_lock. */
void sgu_phys_end(struct phys *phys);
