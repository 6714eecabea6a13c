// SPDX-License-Identifier: MIT
/* flush.c - makes writes of other devices visible to running work of a GPU. */
#include "../internal.h"
#include "peerdma_copy.h"

EXPORT int peerdma_flush_inbound(int scope)
{
	int error = 0;

	if (scope != PEERDMA_FLUSH_TO_OWNER && scope != PEERDMA_FLUSH_TO_ALL)
		return fail(-EINVAL, "peerdma_flush_inbound: %d is neither PEERDMA_FLUSH_TO_OWNER nor PEERDMA_FLUSH_TO_ALL",
			    scope);
	switch (cuda_flush_writes(scope, &error)) {
	case CUDA_KNOWN:
		return 0;
	case CUDA_ABSENT:
		return fail(-ENODEV, "peerdma_flush_inbound: this process has no CUDA, or this thread no current context; "
			    "make the context current whose GPU was written to");
	case CUDA_UNKNOWN:
		return fail(-EOPNOTSUPP,
			    "peerdma_flush_inbound: this GPU or its driver cannot flush; "
			    "cuCtxSynchronize(), or submit the work after the writes are complete");
	case CUDA_FAILED:
		break;
	}
	return fail(-EIO, "peerdma_flush_inbound: cuFlushGPUDirectRDMAWrites() failed with CUDA error %d; see cuGetErrorName()",
		    error);
}
