/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * amd.h - declarations shared by the files of the AMD personality.
 *
 * drm/amd_rdma.h says what each call does; this is how.  A client's struct amd_p2p_info is
 * the first member of a struct amd_pin, which also holds the core's pin.  The core looks up
 * pins by address, so a client's pointer is not dereferenced before the core has found it.
 *
 * The two versions of the interface use the same names for their types.  So each has a file
 * of its own (api_1.c, api_2.c) on top of this header, which includes neither vendor
 * header.
 *
 * There are no locks: only get_pages touches a pin until `filled', and only its callbacks
 * after that.
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

/* The longer one of the two versions of struct amd_p2p_info; their common fields agree. */
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
	struct device *dev;		/* NULL: the table has bus addresses */
	bool resource;			/* mapped as a resource, not as pages */
	u32 mapped;			/* number of segments that are mapped */
	void (*callback)(void *data);
	void *data;
	struct completion filled;	/* get_pages does not touch this any more */
};

/* A client's request, in either version of the interface. */
struct amd_request {
	u64 address, length;		/* any; widened to whole pages */
	struct pid *pid;
	struct device *dev;
	u64 segment_max;		/* longest segment, a power of two; 0: no limit */
	void (*callback)(void *data);
	void *data;
};

/*
 * Pins, and sets *info before the callback may run.  On failure *info keeps its old value:
 * -ESRCH no such process, -ENOENT it has no such range, -EINVAL, -ENOMEM, -EIO.
 */
int amd_get(const struct amd_request *request, struct amd_info **info);
/* -EINVAL: not a pin, or no longer one. */
int amd_put(struct amd_info **info);
int amd_is_gpu_address(u64 address, struct pid *pid);
int amd_get_page_size(u64 address, u64 length, struct pid *pid, unsigned long *page_size);

/*
 * built_for.c: whether the client's arguments of get_pages show that it was built for that
 * version; logs it.  None of them may be dereferenced before.
 */
bool amd_built_for_1(const void *info);
bool amd_built_for_2(const void *callback, const void *priv);

extern const struct amd_rdma_interface *amd_api_1, *amd_api_2;

#endif
