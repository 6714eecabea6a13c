// SPDX-License-Identifier: MIT
/* layouts.c - what programs built with NVIDIA's headers rely on, checked by the compiler. */
#include "cuda.h"
#include "driver_types.h"
#include "nvml.h"

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define AT(type, field, at) _Static_assert(offsetof(type, field) == (at), #type "." #field)

SIZE(CUuuid, 16);
SIZE(CUdeviceptr, 8);
SIZE(CUresult, 4);

SIZE(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS, 16);
AT(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS, vaSpaceToken, 8);

SIZE(CUipcMemHandle, 64);
SIZE(CUipcEventHandle, 64);
SIZE(cudaIpcMemHandle_t, 64);
SIZE(cudaIpcEventHandle_t, 64);
SIZE(CUmemLocation, 8);
SIZE(CUmemAccessDesc, 12);
AT(CUmemAccessDesc, flags, 8);
SIZE(CUmemAllocationProp, 32);
AT(CUmemAllocationProp, requestedHandleTypes, 4);
AT(CUmemAllocationProp, location, 8);
AT(CUmemAllocationProp, win32HandleMetaData, 16);
AT(CUmemAllocationProp, allocFlags.compressionType, 24);
AT(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable, 25);
AT(CUmemAllocationProp, allocFlags.usage, 26);

SIZE(CUstreamBatchMemOpParams, 48);
AT(CUstreamBatchMemOpParams, waitValue.address, 8);
AT(CUstreamBatchMemOpParams, waitValue.value64, 16);
AT(CUstreamBatchMemOpParams, writeValue.flags, 24);
AT(CUstreamBatchMemOpParams, memoryBarrier.flags, 4);

SIZE(CUDA_MEMCPY2D, 128);
AT(CUDA_MEMCPY2D, srcMemoryType, 16);
AT(CUDA_MEMCPY2D, srcHost, 24);
AT(CUDA_MEMCPY2D, srcPitch, 48);
AT(CUDA_MEMCPY2D, dstXInBytes, 56);
AT(CUDA_MEMCPY2D, dstMemoryType, 72);
AT(CUDA_MEMCPY2D, dstDevice, 88);
AT(CUDA_MEMCPY2D, dstPitch, 104);
AT(CUDA_MEMCPY2D, Height, 120);

/* CUDA 12's; 13 has others */
SIZE(struct cudaPointerAttributes, 24);
AT(struct cudaPointerAttributes, devicePointer, 8);
SIZE(struct cudaDeviceProp, 1032);
AT(struct cudaDeviceProp, totalGlobalMem, 288);
AT(struct cudaDeviceProp, warpSize, 308);
AT(struct cudaDeviceProp, major, 360);
AT(struct cudaDeviceProp, reserved, 792);

SIZE(nvmlPciInfo_t, 68);
AT(nvmlPciInfo_t, domain, 16);
AT(nvmlPciInfo_t, busId, 36);
SIZE(nvmlMemory_t, 24);
SIZE(nvmlMemory_v2_t, 40);
SIZE(nvmlBAR1Memory_t, 24);
AT(nvmlBAR1Memory_t, bar1Used, 16);
_Static_assert(nvmlMemory_v2 == 0x02000028, "version of nvmlMemory_v2_t");
