/* SPDX-License-Identifier: MIT */
/*
 * fake_pool.h - the stand-in's memory pools (fake_cuda.h), as those of NVIDIA's driver 580 are. A pool gives an address
 * again as soon as it is freed. An importer that has it mapped sees the old bytes until it imports what is there now.
 * The second import of a pool has the first one's handle; each has a descriptor until the pool is destroyed as often, which
 * fails while it has memory. The second import of an address is that address, and one free unmaps it. Contexts end nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "../../lib/stand-ins/pointer_attributes.h"

struct fake_pools {
	/* What calls fail with. */
	int export_error, export_pointer_error, import_error, access_error, import_pointer_error, free_error, destroy_error;
	int gpu_shares_none;		/* a GPU whose pools cannot be shared */
	int devices;			/* of this machine; 0: 1 */
	int no_access;			/* a device that cannot reach the memory; 0: none, as the first one can */
	size_t partly;			/* so many bytes at the end of what is imported CUDA does not know */
	int host;			/* pools are of host memory */
	size_t longer;			/* so many more than there are it says that an allocation of the exporter's has */
	/*
	 * The importer's calls that succeeded, in order: i imports a pool, a lets a device touch it, p imports a pointer,
	 * f frees one, d destroys a pool.
	 */
	char log[256];
	unsigned int pools, pointers;	/* that are imported now */
	/*
	 * Calls about what there is not, or not any more; imported pools destroyed with memory in them; imports beside what was
	 * freed before they were allocated.
	 */
	unsigned int wrong;
	void (*imported)(void);		/* called by each import of a pointer, when it is done.  NULL: none */
	void (*exporting)(void);	/* the same by each export of a pointer, before */
};

extern struct fake_pools fake_pools;

int fake_pool_create(void **pool, bool shareable);
/* The program frees all that was imported, by no call of the library's.  others: and other memory is there now. */
void fake_pool_lose(bool others);
/* For the rest of the stand-in. */
bool fake_pool_attribute(unsigned long long ptr, int attribute, void *data, int *error);
bool fake_pool_free(unsigned long long ptr, int *error);

int cuMemAllocFromPoolAsync(unsigned long long *ptr, size_t size, void *pool, void *stream);
int cuMemPoolDestroy(void *pool);
