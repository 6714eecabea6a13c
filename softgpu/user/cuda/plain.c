// SPDX-License-Identifier: MIT
/*
 * plain.c - the names without a version of all versioned functions, with the ABI of the current
 * version. For functions that interposers patch, they are defined beside the function (hook.h).
 */
#include "internal.h"

#define PLAIN(name, parameters, versioned, arguments)		\
	SGU_EXPORT CUresult name parameters;			\
	SGU_EXPORT CUresult name parameters			\
	{							\
		return versioned arguments;			\
	}

#undef cuDeviceTotalMem
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuMemGetInfo
#undef cuMemGetAddressRange
#undef cuMemAllocHost
#undef cuMemHostGetDevicePointer
#undef cuMemHostRegister
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuMemcpyDtoD
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpyDtoDAsync
#undef cuMemcpy2D
#undef cuMemcpy2DUnaligned
#undef cuMemcpy2DAsync
#undef cuMemsetD8
#undef cuMemsetD16
#undef cuMemsetD32
#undef cuMemsetD2D8
#undef cuMemsetD2D16
#undef cuMemsetD2D32
#undef cuIpcOpenMemHandle
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags

PLAIN(cuDeviceTotalMem, (size_t *bytes, CUdevice dev),
      cuDeviceTotalMem_v2, (bytes, dev))
PLAIN(cuCtxCreate, (CUcontext *pctx, unsigned int flags, CUdevice dev),
      cuCtxCreate_v2, (pctx, flags, dev))
PLAIN(cuCtxDestroy, (CUcontext ctx),
      cuCtxDestroy_v2, (ctx))
PLAIN(cuCtxPushCurrent, (CUcontext ctx),
      cuCtxPushCurrent_v2, (ctx))
PLAIN(cuCtxPopCurrent, (CUcontext *pctx),
      cuCtxPopCurrent_v2, (pctx))
PLAIN(cuMemGetInfo, (size_t *free, size_t *total),
      cuMemGetInfo_v2, (free, total))
PLAIN(cuMemGetAddressRange, (CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr),
      cuMemGetAddressRange_v2, (pbase, psize, dptr))
PLAIN(cuMemAllocHost, (void **pp, size_t bytesize),
      cuMemAllocHost_v2, (pp, bytesize))
PLAIN(cuMemHostGetDevicePointer, (CUdeviceptr *pdptr, void *p, unsigned int Flags),
      cuMemHostGetDevicePointer_v2, (pdptr, p, Flags))
PLAIN(cuMemHostRegister, (void *p, size_t bytesize, unsigned int Flags),
      cuMemHostRegister_v2, (p, bytesize, Flags))
PLAIN(cuMemcpyHtoD, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
      cuMemcpyHtoD_v2, (dstDevice, srcHost, ByteCount))
PLAIN(cuMemcpyDtoH, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
      cuMemcpyDtoH_v2, (dstHost, srcDevice, ByteCount))
PLAIN(cuMemcpyDtoD, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
      cuMemcpyDtoD_v2, (dstDevice, srcDevice, ByteCount))
PLAIN(cuMemcpyHtoDAsync, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
			  CUstream hStream),
      cuMemcpyHtoDAsync_v2, (dstDevice, srcHost, ByteCount, hStream))
PLAIN(cuMemcpyDtoHAsync, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
      cuMemcpyDtoHAsync_v2, (dstHost, srcDevice, ByteCount, hStream))
PLAIN(cuMemcpyDtoDAsync, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
			  CUstream hStream),
      cuMemcpyDtoDAsync_v2, (dstDevice, srcDevice, ByteCount, hStream))
PLAIN(cuMemcpy2D, (const CUDA_MEMCPY2D *pCopy),
      cuMemcpy2D_v2, (pCopy))
PLAIN(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D *pCopy),
      cuMemcpy2DUnaligned_v2, (pCopy))
PLAIN(cuMemcpy2DAsync, (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
      cuMemcpy2DAsync_v2, (pCopy, hStream))
PLAIN(cuMemsetD8, (CUdeviceptr dstDevice, unsigned char uc, size_t N),
      cuMemsetD8_v2, (dstDevice, uc, N))
PLAIN(cuMemsetD16, (CUdeviceptr dstDevice, unsigned short us, size_t N),
      cuMemsetD16_v2, (dstDevice, us, N))
PLAIN(cuMemsetD32, (CUdeviceptr dstDevice, unsigned int ui, size_t N),
      cuMemsetD32_v2, (dstDevice, ui, N))
PLAIN(cuMemsetD2D8, (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
		     size_t Height),
      cuMemsetD2D8_v2, (dstDevice, dstPitch, uc, Width, Height))
PLAIN(cuMemsetD2D16, (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
		      size_t Height),
      cuMemsetD2D16_v2, (dstDevice, dstPitch, us, Width, Height))
PLAIN(cuMemsetD2D32, (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
		      size_t Height),
      cuMemsetD2D32_v2, (dstDevice, dstPitch, ui, Width, Height))
PLAIN(cuIpcOpenMemHandle, (CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags),
      cuIpcOpenMemHandle_v2, (pdptr, handle, Flags))
PLAIN(cuStreamDestroy, (CUstream hStream),
      cuStreamDestroy_v2, (hStream))
PLAIN(cuEventDestroy, (CUevent hEvent),
      cuEventDestroy_v2, (hEvent))
PLAIN(cuDevicePrimaryCtxRelease, (CUdevice dev),
      cuDevicePrimaryCtxRelease_v2, (dev))
PLAIN(cuDevicePrimaryCtxReset, (CUdevice dev),
      cuDevicePrimaryCtxReset_v2, (dev))
PLAIN(cuDevicePrimaryCtxSetFlags, (CUdevice dev, unsigned int flags),
      cuDevicePrimaryCtxSetFlags_v2, (dev, flags))
