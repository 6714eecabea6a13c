/* SPDX-License-Identifier: MIT */
/*
 * softgpu.h - what only the software GPU's libcuda has.  Nothing here is part of
 * CUDA: a program that must also run on NVIDIA's library looks these up by name
 * (dlsym), and does without.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Launches a stand-in for a kernel that polls a flag: it runs in the stream until
 * the word at `flag` reads `expected`, or for timeout_ms (1 to 60000), and then
 * writes the word that it saw last to `result`.  Both are in memory of the
 * stream's GPU, multiples of 4.
 *
 * A kernel that runs while a device writes the flag need not see it.  In strict
 * mode (SOFTGPU_CHAOS=strict=1, or softgpu.ko's debugfs) it never does, unless
 * the write was over before this call or cuFlushGPUDirectRDMAWrites() came after
 * it; without strict mode it always does.
 */
CUresult CUDAAPI softgpu_watch(CUdeviceptr flag, unsigned int expected, unsigned int timeout_ms,
			       CUdeviceptr result, CUstream stream);

#ifdef __cplusplus
}
#endif
#endif
