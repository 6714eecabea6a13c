/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * amd.h - between the files of the AMD personality.
 *
 * drm/amd_rdma.h says what each call does; here is how.  What a client knows as its
 * struct amd_p2p_info is the first thing in a struct amd_pin, which also holds the
 * core's pin.  The core finds pins by address, so a pointer that a client gives is
 * not looked at before the core knows it.
 *
 * The two versions of the interface have the same types by name, so each is a file
 * of its own (api_1.c, api_2.c) over what is here, which knows neither header.
 *
 * There are no locks: a pin is touched by get_pages until `filled', then by its
 * callbacks.
 */
#ifndef SOFTGPU_AMD_H
#define SOFTGPU_AMD_H

#include <linux/completion.h>
#include <linux/dma-direction.h>
#include <linux/scatterlist.h>
#include <linux/types.h>
#include "../softgpu_kapi.h"

struct device;
struct pid;
struct amd_rdma_interface;

/* The longer one of the two versions' struct amd_p2p_info, which agree in what they share. */
struct amd_info {
	u64 va;
	u64 size;
	struct pid *pid;
	struct sg_table *pages;
	void *priv;
	void *kfd_proc;
};

struct amd_pin {
	struct amd_info info;		/* the client's */
	struct sg_pin pin;
	struct sg_table table;
	struct device *dev;		/* NULL: addresses are the bus's own */
	bool resource;			/* mapped as a resource, not as pages */
	u32 mapped;			/* segments of the table that are */
	void (*callback)(void *data);
	void *data;
	struct completion filled;	/* get_pages is done with all of this */
};

/* What a client asks for, in either version's words. */
struct amd_request {
	u64 address, length;		/* any; widened to whole pages */
	struct pid *pid;
	struct device *dev;
	u64 segment_max;		/* of the table, a power of two; 0: as long as memory is contiguous */
	void (*callback)(void *data);
	void *data;
};

/*
 * Pins and sets *info, before the callback may run.  On failure *info is what it was:
 * -ESRCH no such process, -ENOENT it has no such range, -EINVAL, -ENOMEM, -EIO.
 */
int amd_get(const struct amd_request *request, struct amd_info **info);
/* -EINVAL: it is none, or not any more. */
int amd_put(struct amd_info **info);
int amd_is_gpu_address(u64 address, struct pid *pid);
int amd_get_page_size(u64 address, u64 length, struct pid *pid, unsigned long *page_size);

extern const struct amd_rdma_interface *amd_api_1, *amd_api_2;

#endif
