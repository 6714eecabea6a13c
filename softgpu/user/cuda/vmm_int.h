/* SPDX-License-Identifier: MIT */
/*
 * vmm_int.h - what phys.c (memory and its handles) and vmm.c (addresses,
 * mappings, access) share.
 *
 * The driver knows the addresses and the memory.  Kept here is what CUDA adds:
 * a handle counts its retains, and lives on (unusable, but found again by
 * cuMemRetainAllocationHandle) while its memory is mapped.
 */
#ifndef SGU_VMM_INT_H
#define SGU_VMM_INT_H

#include "internal.h"
#include "vmm.h"

struct phys {
	struct sgu_obj obj;
	int gpu;
	uint32_t handle;		/* the driver's */
	size_t length;
	CUmemAllocationProp prop;
	unsigned int retained;		/* cuMemCreate and Retain less Release; under sgu_vmm_lock */
	unsigned int mapped;		/* under sgu_vmm_lock */
};

/*
 * Guards the spans, and the counts in struct phys.  Never held across a call of
 * the driver, since unmapping waits for clients that have the memory pinned.
 */
extern pthread_mutex_t sgu_vmm_lock;

/* A reference to the memory behind a handle that is retained at least once. */
struct phys *sgu_phys_get(CUmemGenericAllocationHandle handle);

/* A CUDA handle, retained once, for the driver's; when it fails it has released that one. */
CUresult sgu_phys_publish(int gpu, uint32_t handle, size_t length, const CUmemAllocationProp *prop,
			  CUmemGenericAllocationHandle *out);

/* Ends memory whose last count is gone.  Without sgu_vmm_lock. */
void sgu_phys_end(struct phys *phys);

#endif
