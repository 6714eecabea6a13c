/* SPDX-License-Identifier: MIT */
/*
 * softgpu.h - functions that only softgpu's libcuda has.  They are not part of CUDA.  A program
 * that must also run with NVIDIA's library looks them up by name (dlsym), and works without them.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Launches a stand-in for a kernel that polls a flag.  It runs in the stream until the word at
 * `flag` is `expected`, or for timeout_ms (1 to 60000).  Then it writes the last word that it read
 * to `result`.  Both addresses are in memory of the stream's GPU, and multiples of 4.
 *
 * On a real GPU, a kernel may not see a flag that a device writes while the kernel runs.  In strict
 * mode (SOFTGPU_CHAOS=strict=1, or softgpu.ko's debugfs) the stand-in sees the write only if it was
 * over before this call, or if cuFlushGPUDirectRDMAWrites() followed it.  Without strict mode the
 * stand-in always sees it.
 */
CUresult CUDAAPI softgpu_watch(CUdeviceptr flag, unsigned int expected, unsigned int timeout_ms,
			       CUdeviceptr result, CUstream stream);

#ifdef __cplusplus
}
#endif
#endif
