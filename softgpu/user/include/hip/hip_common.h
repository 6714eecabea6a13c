/* SPDX-License-Identifier: MIT */
/* hip_common.h - the platform, as compilers and build systems of HIP programs define it. */
#ifndef HIP_COMMON_H
#define HIP_COMMON_H

#if !defined(__HIP_PLATFORM_AMD__)
#define __HIP_PLATFORM_AMD__
#endif

/* Marks of device code, which other compilers do not know. */
#if !defined(__HIPCC__) && !defined(__HIP__) && !defined(__host__)
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#endif

#endif
