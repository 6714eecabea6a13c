/* SPDX-License-Identifier: MIT */
/*
 * pair.h - a sentence of the GPUDirect RDMA document about ordering, as two small
 * programs: one that heeds it, and one that does not.
 *
 *   PROGRAM right    exit code 0: the data were right, and the rule was not broken
 *   PROGRAM wrong    exit code 1: the data were wrong, and the rule that was broken is named
 *
 * Anything else: 77 there is no GPU or no device, 2 it could not be tried, 3 the
 * data were not what they must be in strict mode, 4 the data were, but not the rules.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda.h"
#include "device.h"
#include "softgpu.h"

/* How much memory a program works on: one transfer of the card. */
#define SIZE ((size_t)2048)

/* As strict mode orders them. */
enum { RULE_SYNC_MEMOPS, RULE_LAUNCH_AFTER_DMA, RULE_MANAGED };

struct pair {
	const char *sentence;		/* what the document says, in our words */
	int rule;			/* the one that the wrong program breaks */
	/* Heeds the sentence or not; whether the data were what the program expects. */
	bool (*run)(bool right);
};

extern const struct pair pair;

/* Ends the program when a CUDA call fails. */
#define OK(call) pair_cuda(call, #call)
void pair_cuda(CUresult result, const char *call);

/* GPU memory, filled with 0 for all to see. */
CUdeviceptr gpu_memory(void);
void set_sync_memops(CUdeviceptr p);
CUstream new_stream(void);

/* Whether the device reads this byte everywhere in [p, p + SIZE). */
bool device_sees(CUdeviceptr p, unsigned char byte);
/* Whether CUDA does. */
bool cuda_sees(CUdeviceptr p, unsigned char byte);

/* What the device is to write: SIZE bytes of it. */
const void *message(unsigned char byte);
