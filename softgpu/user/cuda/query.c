// SPDX-License-Identifier: MIT
/* query.c - asks the driver what stands at an address. */
#include <string.h>

#include "internal.h"

atomic_uint sgu_registered;

CUresult sgu_query(uint64_t va, struct softgpu_query *q)
{
	memset(q, 0, sizeof(*q));
	q->size = sizeof(*q);
	q->va = va;
	/* outside the window only registered memory is known: malloc'ed pointers are answered at once */
	if (!sgu_in_window(va) && !atomic_load(&sgu_registered))
		return CUDA_SUCCESS;
	return sgu_result(sgu_call_any(SOFTGPU_QUERY, q));
}
