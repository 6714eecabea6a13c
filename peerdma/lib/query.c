// SPDX-License-Identifier: MIT
/*
 * query.c - peerdma_query(): what memory is a pointer in?
 */
#include "internal.h"

EXPORT int peerdma_query(struct peerdma *ctx, const void *ptr, struct peerdma_memory *out)
{
	struct peerdma_memory m;
	int error;

	(void)ctx;	/* CUDA's and the kernel's answers are the process's, not the context's */
	error = check_size("peerdma_query", out->size, MEMORY_FIRST);
	if (error)
		return error;

	m = (struct peerdma_memory){ .size = out->size, .kind = PEERDMA_KIND_HOST, .device = -1 };
	if (host_for_certain(ptr)) {
		if (m.size == sizeof(m))
			*out = m;	/* a few nanoseconds, and this path has few */
		else
			put_out(out, &m, sizeof(m));
		return 0;
	}

	switch (cuda_query(ptr, &m, &error)) {
	case CUDA_KNOWN:
		break;
	case CUDA_FAILED:
		return fail(-EIO, "peerdma_query: cuPointerGetAttributes(%p) failed with CUDA error %d; "
			    "see cuGetErrorName(), and earlier errors of this program's kernels and copies",
			    ptr, error);
	case CUDA_ABSENT:
	case CUDA_UNKNOWN:
		/* Reserved device addresses and freed ones cannot be read; what can is the host's. */
		m.kind = host_readable(ptr) ? PEERDMA_KIND_HOST : PEERDMA_KIND_UNKNOWN;
		break;
	}
	put_out(out, &m, sizeof(m));
	return 0;
}
