// SPDX-License-Identifier: MIT
/* tokens.c - the older way to register: who asks for the tokens has registered the buffer. */
#include "pair.h"

static bool run(bool right)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	unsigned long long id;
	CUdeviceptr p = gpu_memory();

	if (right)
		OK(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p));
	else
		OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	OK(cuMemsetD8(p, 0x5a, SIZE));
	return device_sees(p, 0x5a);
}

const struct pair pair = {
	"Retrieving the tokens of a buffer sets SYNC_MEMOPS on it; asking for another attribute does not.",
	RULE_SYNC_MEMOPS, run,
};
