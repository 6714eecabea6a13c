/* SPDX-License-Identifier: MIT */
/*
 * share.h - file descriptors that carry a driver's key to another process.
 *
 * A descriptor is a sealed memfd with a few words. Only the driver gives the words a meaning; the
 * file owns no memory.
 */
#pragma once

#include <stdint.h>

#include "cuda.h"

enum sgu_share_type { SGU_SHARE_PHYS = 1, SGU_SHARE_POOL = 2 };

struct sgu_share {
	uint32_t type;			/* enum sgu_share_type */
	uint32_t gpu;			/* the N of /dev/softgpuN */
	uint64_t id, key[2];
	CUmemAllocationProp prop;	/* of SGU_SHARE_PHYS */
	uint64_t length;
};

/*
 * Whether memory can be created with these handle types. A fabric handle needs an IMEX channel.
 * There is none, and the error is that of a machine without one.
 */
static inline CUresult sgu_handle_types_ok(unsigned int types)
{
	if (types &
	    ~(unsigned int)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC))
		return CUDA_ERROR_NOT_SUPPORTED;
	return types & CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

/* Returns a close-on-exec descriptor in *fd. */
CUresult sgu_share_make(const struct sgu_share *share, int *fd);
/* CUDA_ERROR_INVALID_VALUE: not a descriptor of that type. */
CUresult sgu_share_read(int fd, enum sgu_share_type type, struct sgu_share *share);
