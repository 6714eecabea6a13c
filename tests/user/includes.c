// SPDX-License-Identifier: MIT
/* includes.c - the C library's names that programs have with CUDA's headers alone, as with NVIDIA's. */
#include <cuda.h>
#include <cuda_runtime_api.h>

/* <stdlib.h> and <stdint.h> by cuda.h, <limits.h> and <stddef.h> by driver_types.h. */
int main(void)
{
	uint64_t *p = malloc(sizeof(*p));
	size_t offset = offsetof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS, vaSpaceToken);

	if (!p || abs(INT_MIN + 1) != INT_MAX || offset != sizeof(*p))
		exit(EXIT_FAILURE);
	free(p);
	return EXIT_SUCCESS;
}
