/* SPDX-License-Identifier: MIT */
/*
 * hip_runtime_api.h - the part of HIP that softgpu's libamdhip64 implements: devices, memory,
 * streams, events, and memory and events of other processes.  Names, values and layouts are those
 * of HIP 7.  The CPU reads and writes memory of hipMalloc at the same address.
 *
 * There are no kernels: what launches, loads or inspects them, graphs, arrays and textures return
 * hipErrorNotSupported.  The library exports those names, too, and SOFTGPU_LOG=1 prints which one
 * was called.
 */
#ifndef HIP_RUNTIME_API_H
#define HIP_RUNTIME_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hip_common.h"
#include "hip_version.h"
#ifdef __cplusplus
#include <hip/driver_types.h>
extern "C" {
#define HIP_DEFAULT(value) = value
#else
#include <hip/driver_types.h>
#define HIP_DEFAULT(value)
#endif

/* ---- errors ---- */

typedef enum hipError_t {
	hipSuccess = 0,
	hipErrorInvalidValue = 1,
	hipErrorOutOfMemory = 2,
	hipErrorMemoryAllocation = 2,
	hipErrorNotInitialized = 3,
	hipErrorInitializationError = 3,
	hipErrorDeinitialized = 4,
	hipErrorProfilerDisabled = 5,
	hipErrorProfilerNotInitialized = 6,
	hipErrorProfilerAlreadyStarted = 7,
	hipErrorProfilerAlreadyStopped = 8,
	hipErrorInvalidConfiguration = 9,
	hipErrorInvalidPitchValue = 12,
	hipErrorInvalidSymbol = 13,
	hipErrorInvalidDevicePointer = 17,
	hipErrorInvalidMemcpyDirection = 21,
	hipErrorInsufficientDriver = 35,
	hipErrorMissingConfiguration = 52,
	hipErrorPriorLaunchFailure = 53,
	hipErrorInvalidDeviceFunction = 98,
	hipErrorNoDevice = 100,
	hipErrorInvalidDevice = 101,
	hipErrorInvalidImage = 200,
	hipErrorInvalidContext = 201,
	hipErrorContextAlreadyCurrent = 202,
	hipErrorMapFailed = 205,
	hipErrorMapBufferObjectFailed = 205,
	hipErrorUnmapFailed = 206,
	hipErrorArrayIsMapped = 207,
	hipErrorAlreadyMapped = 208,
	hipErrorNoBinaryForGpu = 209,
	hipErrorAlreadyAcquired = 210,
	hipErrorNotMapped = 211,
	hipErrorNotMappedAsArray = 212,
	hipErrorNotMappedAsPointer = 213,
	hipErrorECCNotCorrectable = 214,
	hipErrorUnsupportedLimit = 215,
	hipErrorContextAlreadyInUse = 216,
	hipErrorPeerAccessUnsupported = 217,
	hipErrorInvalidKernelFile = 218,
	hipErrorInvalidGraphicsContext = 219,
	hipErrorInvalidSource = 300,
	hipErrorFileNotFound = 301,
	hipErrorSharedObjectSymbolNotFound = 302,
	hipErrorSharedObjectInitFailed = 303,
	hipErrorOperatingSystem = 304,
	hipErrorInvalidHandle = 400,
	hipErrorInvalidResourceHandle = 400,
	hipErrorIllegalState = 401,
	hipErrorNotFound = 500,
	hipErrorNotReady = 600,
	hipErrorIllegalAddress = 700,
	hipErrorLaunchOutOfResources = 701,
	hipErrorLaunchTimeOut = 702,
	hipErrorPeerAccessAlreadyEnabled = 704,
	hipErrorPeerAccessNotEnabled = 705,
	hipErrorSetOnActiveProcess = 708,
	hipErrorContextIsDestroyed = 709,
	hipErrorAssert = 710,
	hipErrorHostMemoryAlreadyRegistered = 712,
	hipErrorHostMemoryNotRegistered = 713,
	hipErrorLaunchFailure = 719,
	hipErrorCooperativeLaunchTooLarge = 720,
	hipErrorNotSupported = 801,
	hipErrorStreamCaptureUnsupported = 900,
	hipErrorStreamCaptureInvalidated = 901,
	hipErrorStreamCaptureMerge = 902,
	hipErrorStreamCaptureUnmatched = 903,
	hipErrorStreamCaptureUnjoined = 904,
	hipErrorStreamCaptureIsolation = 905,
	hipErrorStreamCaptureImplicit = 906,
	hipErrorCapturedEvent = 907,
	hipErrorStreamCaptureWrongThread = 908,
	hipErrorGraphExecUpdateFailure = 910,
	hipErrorInvalidChannelDescriptor = 911,
	hipErrorInvalidTexture = 912,
	hipErrorInvalidResourceType = 914,
	hipErrorInvalidResourceConfiguration = 915,
	hipErrorStreamDetached = 916,
	hipErrorUnknown = 999,
	hipErrorRuntimeMemory = 1052,
	hipErrorRuntimeOther = 1053,
	hipErrorInvalidClusterSize = 1054,
	hipErrorTbd = 1055,
} hipError_t;

/*
 * The last error of the thread, which hipGetLastError() forgets.  hipErrorNotReady is an answer and
 * is not kept.
 */
hipError_t hipGetLastError(void);
hipError_t hipExtGetLastError(void);
hipError_t hipPeekAtLastError(void);
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);
hipError_t hipDrvGetErrorName(hipError_t error, const char **text);
hipError_t hipDrvGetErrorString(hipError_t error, const char **text);

/* ---- devices ---- */

typedef int hipDevice_t;
typedef struct ihipCtx_t *hipCtx_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipMemPoolHandle_t *hipMemPool_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipGraphExec *hipGraphExec_t;

typedef struct hipUUID_t {
	char bytes[16];
} hipUUID;

/*
 * What a software GPU does not have, such as compute units, is 0.  The values of HdpMemFlushCntl
 * and HdpRegFlushCntl are pointers: NULL.
 */
typedef enum hipDeviceAttribute_t {
	hipDeviceAttributeCudaCompatibleBegin = 0,
	hipDeviceAttributeEccEnabled = 0,
	hipDeviceAttributeAccessPolicyMaxWindowSize,
	hipDeviceAttributeAsyncEngineCount,
	hipDeviceAttributeCanMapHostMemory,
	hipDeviceAttributeCanUseHostPointerForRegisteredMem,
	hipDeviceAttributeClockRate,
	hipDeviceAttributeComputeMode,
	hipDeviceAttributeComputePreemptionSupported,
	hipDeviceAttributeConcurrentKernels,
	hipDeviceAttributeConcurrentManagedAccess,
	hipDeviceAttributeCooperativeLaunch,
	hipDeviceAttributeCooperativeMultiDeviceLaunch,
	hipDeviceAttributeDeviceOverlap,
	hipDeviceAttributeDirectManagedMemAccessFromHost,
	hipDeviceAttributeGlobalL1CacheSupported,
	hipDeviceAttributeHostNativeAtomicSupported,
	hipDeviceAttributeIntegrated,
	hipDeviceAttributeIsMultiGpuBoard,
	hipDeviceAttributeKernelExecTimeout,
	hipDeviceAttributeL2CacheSize,
	hipDeviceAttributeLocalL1CacheSupported,
	hipDeviceAttributeLuid,
	hipDeviceAttributeLuidDeviceNodeMask,
	hipDeviceAttributeComputeCapabilityMajor,
	hipDeviceAttributeManagedMemory,
	hipDeviceAttributeMaxBlocksPerMultiProcessor,
	hipDeviceAttributeMaxBlockDimX,
	hipDeviceAttributeMaxBlockDimY,
	hipDeviceAttributeMaxBlockDimZ,
	hipDeviceAttributeMaxGridDimX,
	hipDeviceAttributeMaxGridDimY,
	hipDeviceAttributeMaxGridDimZ,
	hipDeviceAttributeMaxSurface1D,
	hipDeviceAttributeMaxSurface1DLayered,
	hipDeviceAttributeMaxSurface2D,
	hipDeviceAttributeMaxSurface2DLayered,
	hipDeviceAttributeMaxSurface3D,
	hipDeviceAttributeMaxSurfaceCubemap,
	hipDeviceAttributeMaxSurfaceCubemapLayered,
	hipDeviceAttributeMaxTexture1DWidth,
	hipDeviceAttributeMaxTexture1DLayered,
	hipDeviceAttributeMaxTexture1DLinear,
	hipDeviceAttributeMaxTexture1DMipmap,
	hipDeviceAttributeMaxTexture2DWidth,
	hipDeviceAttributeMaxTexture2DHeight,
	hipDeviceAttributeMaxTexture2DGather,
	hipDeviceAttributeMaxTexture2DLayered,
	hipDeviceAttributeMaxTexture2DLinear,
	hipDeviceAttributeMaxTexture2DMipmap,
	hipDeviceAttributeMaxTexture3DWidth,
	hipDeviceAttributeMaxTexture3DHeight,
	hipDeviceAttributeMaxTexture3DDepth,
	hipDeviceAttributeMaxTexture3DAlt,
	hipDeviceAttributeMaxTextureCubemap,
	hipDeviceAttributeMaxTextureCubemapLayered,
	hipDeviceAttributeMaxThreadsDim,
	hipDeviceAttributeMaxThreadsPerBlock,
	hipDeviceAttributeMaxThreadsPerMultiProcessor,
	hipDeviceAttributeMaxPitch,
	hipDeviceAttributeMemoryBusWidth,
	hipDeviceAttributeMemoryClockRate,
	hipDeviceAttributeComputeCapabilityMinor,
	hipDeviceAttributeMultiGpuBoardGroupID,
	hipDeviceAttributeMultiprocessorCount,
	hipDeviceAttributeUnused1,
	hipDeviceAttributePageableMemoryAccess,
	hipDeviceAttributePageableMemoryAccessUsesHostPageTables,
	hipDeviceAttributePciBusId,
	hipDeviceAttributePciDeviceId,
	hipDeviceAttributePciDomainId,
	hipDeviceAttributePersistingL2CacheMaxSize,
	hipDeviceAttributeMaxRegistersPerBlock,
	hipDeviceAttributeMaxRegistersPerMultiprocessor,
	hipDeviceAttributeReservedSharedMemPerBlock,
	hipDeviceAttributeMaxSharedMemoryPerBlock,
	hipDeviceAttributeSharedMemPerBlockOptin,
	hipDeviceAttributeSharedMemPerMultiprocessor,
	hipDeviceAttributeSingleToDoublePrecisionPerfRatio,
	hipDeviceAttributeStreamPrioritiesSupported,
	hipDeviceAttributeSurfaceAlignment,
	hipDeviceAttributeTccDriver,
	hipDeviceAttributeTextureAlignment,
	hipDeviceAttributeTexturePitchAlignment,
	hipDeviceAttributeTotalConstantMemory,
	hipDeviceAttributeTotalGlobalMem,
	hipDeviceAttributeUnifiedAddressing,
	hipDeviceAttributeUnused2,
	hipDeviceAttributeWarpSize,
	hipDeviceAttributeMemoryPoolsSupported,
	hipDeviceAttributeVirtualMemoryManagementSupported,
	hipDeviceAttributeHostRegisterSupported,
	hipDeviceAttributeMemoryPoolSupportedHandleTypes,
	hipDeviceAttributeHostNumaId,
	hipDeviceAttributeDmaBufSupported,
	hipDeviceAttributeGPUDirectRDMAWithHipVMMSupported,
	hipDeviceAttributeHandleTypeFabricSupported,
	hipDeviceAttributeHostAllocDmaBufSupported,
	hipDeviceAttributePciDomainID = hipDeviceAttributePciDomainId,
	hipDeviceAttributeCudaCompatibleEnd = 9999,
	hipDeviceAttributeAmdSpecificBegin = 10000,
	hipDeviceAttributeClockInstructionRate = 10000,
	hipDeviceAttributeUnused3,
	hipDeviceAttributeMaxSharedMemoryPerMultiprocessor,
	hipDeviceAttributeUnused4,
	hipDeviceAttributeUnused5,
	hipDeviceAttributeHdpMemFlushCntl,
	hipDeviceAttributeHdpRegFlushCntl,
	hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc,
	hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim,
	hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim,
	hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem,
	hipDeviceAttributeIsLargeBar,
	hipDeviceAttributeAsicRevision,
	hipDeviceAttributeCanUseStreamWaitValue,
	hipDeviceAttributeImageSupport,
	hipDeviceAttributePhysicalMultiProcessorCount,
	hipDeviceAttributeFineGrainSupport,
	hipDeviceAttributeWallClockRate,
	hipDeviceAttributeAmdSpecificEnd = 19999,
	hipDeviceAttributeVendorSpecificBegin = 20000,
} hipDeviceAttribute_t;

typedef struct {
	unsigned int hasGlobalInt32Atomics : 1;
	unsigned int hasGlobalFloatAtomicExch : 1;
	unsigned int hasSharedInt32Atomics : 1;
	unsigned int hasSharedFloatAtomicExch : 1;
	unsigned int hasFloatAtomicAdd : 1;
	unsigned int hasGlobalInt64Atomics : 1;
	unsigned int hasSharedInt64Atomics : 1;
	unsigned int hasDoubles : 1;
	unsigned int hasWarpVote : 1;
	unsigned int hasWarpBallot : 1;
	unsigned int hasWarpShuffle : 1;
	unsigned int hasFunnelShift : 1;
	unsigned int hasThreadFenceSystem : 1;
	unsigned int hasSyncThreadsExt : 1;
	unsigned int hasSurfaceFuncs : 1;
	unsigned int has3dGrid : 1;
	unsigned int hasDynamicParallelism : 1;
} hipDeviceArch_t;

typedef struct hipDeviceProp_tR0600 {
	char name[256];
	hipUUID uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int clockRate;
	size_t totalConstMem;
	int major;
	int minor;
	size_t textureAlignment;
	size_t texturePitchAlignment;
	int deviceOverlap;
	int multiProcessorCount;
	int kernelExecTimeoutEnabled;
	int integrated;
	int canMapHostMemory;
	int computeMode;
	int maxTexture1D;
	int maxTexture1DMipmap;
	int maxTexture1DLinear;
	int maxTexture2D[2];
	int maxTexture2DMipmap[2];
	int maxTexture2DLinear[3];
	int maxTexture2DGather[2];
	int maxTexture3D[3];
	int maxTexture3DAlt[3];
	int maxTextureCubemap;
	int maxTexture1DLayered[2];
	int maxTexture2DLayered[3];
	int maxTextureCubemapLayered[2];
	int maxSurface1D;
	int maxSurface2D[2];
	int maxSurface3D[3];
	int maxSurface1DLayered[2];
	int maxSurface2DLayered[3];
	int maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels;
	int ECCEnabled;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;
	int asyncEngineCount;
	int unifiedAddressing;
	int memoryClockRate;
	int memoryBusWidth;
	int l2CacheSize;
	int persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	int managedMemory;
	int isMultiGpuBoard;
	int multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
	int singleToDoublePrecisionPerfRatio;
	int pageableMemoryAccess;
	int concurrentManagedAccess;
	int computePreemptionSupported;
	int canUseHostPointerForRegisteredMem;
	int cooperativeLaunch;
	int cooperativeMultiDeviceLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables;
	int directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int sparseHipArraySupported;
	int hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported;
	int memoryPoolsSupported;
	int gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingHipArraySupported;
	int ipcEventSupported;
	int clusterLaunch;
	int unifiedFunctionPointers;
	int reserved[63];
	int hipReserved[32];
	char gcnArchName[256];
	size_t maxSharedMemoryPerMultiProcessor;
	int clockInstructionRate;
	hipDeviceArch_t arch;
	unsigned int *hdpMemFlushCntl;
	unsigned int *hdpRegFlushCntl;
	int cooperativeMultiDeviceUnmatchedFunc;
	int cooperativeMultiDeviceUnmatchedGridDim;
	int cooperativeMultiDeviceUnmatchedBlockDim;
	int cooperativeMultiDeviceUnmatchedSharedMem;
	int isLargeBar;
	int asicRevision;
} hipDeviceProp_tR0600;
#define hipDeviceProp_t hipDeviceProp_tR0600
#define hipGetDeviceProperties hipGetDevicePropertiesR0600
#define hipChooseDevice hipChooseDeviceR0600

enum hipComputeMode {
	hipComputeModeDefault = 0,
	hipComputeModeExclusive = 1,
	hipComputeModeProhibited = 2,
	hipComputeModeExclusiveProcess = 3,
};

enum hipLimit_t {
	hipLimitStackSize = 0,
	hipLimitPrintfFifoSize = 1,
	hipLimitMallocHeapSize = 2,
	hipLimitRange,
};

typedef enum hipDeviceP2PAttr {
	hipDevP2PAttrPerformanceRank = 0,
	hipDevP2PAttrAccessSupported = 1,
	hipDevP2PAttrNativeAtomicSupported = 2,
	hipDevP2PAttrHipArrayAccessSupported = 3,
} hipDeviceP2PAttr;

#define hipCpuDeviceId		((int)-1)
#define hipInvalidDeviceId	((int)-2)

#define hipDeviceScheduleAuto		0x0
#define hipDeviceScheduleSpin		0x1
#define hipDeviceScheduleYield		0x2
#define hipDeviceScheduleBlockingSync	0x4
#define hipDeviceScheduleMask		0x7
#define hipDeviceMapHost		0x8
#define hipDeviceLmemResizeToMax	0x10

hipError_t hipInit(unsigned int flags);
/* Both are HIP_VERSION. */
hipError_t hipDriverGetVersion(int *version);
hipError_t hipRuntimeGetVersion(int *version);
hipError_t hipGetDeviceCount(int *count);
/* Sets the device of the calling thread, as in CUDA; device 0 until then. */
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipDeviceGet(hipDevice_t *device, int ordinal);
hipError_t hipDeviceGetName(char *name, int length, hipDevice_t device);
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device);
hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device);
hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device);
hipError_t hipDeviceGetPCIBusId(char *id, int length, int device);
hipError_t hipDeviceGetByPCIBusId(int *device, const char *id);
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device);
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int device);
hipError_t hipChooseDeviceR0600(int *device, const hipDeviceProp_tR0600 *properties);
/* All GPUs reach all memory; enabling it has no effect but what the second call for a peer says. */
hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer);
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags);
hipError_t hipDeviceDisablePeerAccess(int peer);
hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int from, int to);
hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t *link_type, uint32_t *hops);
hipError_t hipDeviceGetLimit(size_t *value, enum hipLimit_t limit);
hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value);
hipError_t hipGetDeviceFlags(unsigned int *flags);
hipError_t hipSetDeviceFlags(unsigned int flags);
/* Waits for the work of all streams of the thread's device. */
hipError_t hipDeviceSynchronize(void);
/* The same, and forgets which peers were enabled. */
hipError_t hipDeviceReset(void);

typedef enum hipDriverProcAddressQueryResult {
	HIP_GET_PROC_ADDRESS_SUCCESS = 0,
	HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	HIP_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} hipDriverProcAddressQueryResult;

/* NotFound: the library has no function of that name. */
hipError_t hipGetProcAddress(const char *name, void **function, int version, uint64_t flags,
			     hipDriverProcAddressQueryResult *result);

/* ---- memory ---- */

#define hipMemAttachGlobal	0x1
#define hipMemAttachHost	0x2
#define hipMemAttachSingle	0x4

#define hipHostMallocDefault		0x0
#define hipHostMallocPortable		0x1
#define hipHostMallocMapped		0x2
#define hipHostMallocWriteCombined	0x4
#define hipHostMallocUncached		0x10000000
#define hipHostMallocNumaUser		0x20000000
#define hipHostMallocCoherent		0x40000000
#define hipHostMallocNonCoherent	0x80000000
#define hipHostAllocDefault		hipHostMallocDefault
#define hipHostAllocPortable		hipHostMallocPortable
#define hipHostAllocMapped		hipHostMallocMapped
#define hipHostAllocWriteCombined	hipHostMallocWriteCombined

#define hipDeviceMallocDefault		0x0
#define hipDeviceMallocFinegrained	0x1
#define hipMallocSignalMemory		0x2
#define hipDeviceMallocUncached		0x3
#define hipDeviceMallocContiguous	0x4

#define hipHostRegisterDefault		0x0
#define hipHostRegisterPortable		0x1
#define hipHostRegisterMapped		0x2
#define hipHostRegisterIoMemory		0x4
#define hipHostRegisterReadOnly		0x8

hipError_t hipMalloc(void **ptr, size_t size);
/* The flags have no effect on a software GPU. */
hipError_t hipExtMallocWithFlags(void **ptr, size_t size, unsigned int flags);
/*
 * Waits for the work of all streams, and for clients that have the memory pinned.  Frees host and
 * managed memory, too.
 */
hipError_t hipFree(void *ptr);
/* Allocates rows of `width' bytes.  *pitch is the distance of their beginnings. */
hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height);
hipError_t hipMemAllocPitch(hipDeviceptr_t *ptr, size_t *pitch, size_t width, size_t height,
			    unsigned int element);
/* CPU memory that GPU and CPU both use in place. */
hipError_t hipMallocManaged(void **ptr, size_t size,
			    unsigned int flags HIP_DEFAULT(hipMemAttachGlobal));
hipError_t hipHostMalloc(void **ptr, size_t size,
			 unsigned int flags HIP_DEFAULT(hipHostMallocDefault));
hipError_t hipHostAlloc(void **ptr, size_t size, unsigned int flags);
hipError_t hipExtHostAlloc(void **ptr, size_t size, unsigned int flags);
hipError_t hipMallocHost(void **ptr, size_t size);
hipError_t hipMemAllocHost(void **ptr, size_t size);
hipError_t hipHostFree(void *ptr);
hipError_t hipFreeHost(void *ptr);
/* HostMemoryAlreadyRegistered, HostMemoryNotRegistered: as the names say. */
hipError_t hipHostRegister(void *ptr, size_t size, unsigned int flags);
hipError_t hipHostUnregister(void *ptr);
hipError_t hipHostGetDevicePointer(void **device_ptr, void *host_ptr, unsigned int flags);
hipError_t hipHostGetFlags(unsigned int *flags, void *ptr);
/* Free and total bytes of the thread's device. */
hipError_t hipMemGetInfo(size_t *free, size_t *total);
/* NotFound: HIP does not know the memory. */
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t ptr);
hipError_t hipMemPtrGetInfo(void *ptr, size_t *size);
/* Allocates at once; frees when the stream has come to that. */
hipError_t hipMallocAsync(void **ptr, size_t size, hipStream_t stream);
hipError_t hipFreeAsync(void *ptr, hipStream_t stream);

typedef enum hipMemRangeHandleType {
	hipMemRangeHandleTypeDmaBufFd = 1,
	hipMemRangeHandleTypeMax = 0x7fffffff,
} hipMemRangeHandleType;

typedef enum hipMemRangeFlags {
	hipMemRangeFlagDmaBufMappingTypePcie = 1,
	hipMemRangeFlagsMax = 0x7fffffff,
} hipMemRangeFlags;

/*
 * A dma-buf of exactly this range of whole pages; the caller closes the descriptor, an int at
 * `handle'.
 */
hipError_t hipMemGetHandleForAddressRange(void *handle, hipDeviceptr_t ptr, size_t size,
					  hipMemRangeHandleType type, unsigned long long flags);

typedef enum hipMemoryType {
	hipMemoryTypeUnregistered = 0,	/* HIP does not know the memory */
	hipMemoryTypeHost = 1,
	hipMemoryTypeDevice = 2,
	hipMemoryTypeManaged = 3,
	hipMemoryTypeArray = 10,
	hipMemoryTypeUnified = 11,
} hipMemoryType;

/* hostPointer is NULL for memory of a device, although the CPU reaches it at devicePointer. */
typedef struct hipPointerAttribute_t {
	union {
		hipMemoryType type;
		hipMemoryType memoryType;	/* the field's name before HIP 6 */
	};
	int device;	/* host memory: the thread's device when it was made */
	void *devicePointer, *hostPointer;
	int isManaged;
	unsigned int allocationFlags;
} hipPointerAttribute_t;

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr);
hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t ptr);
hipError_t hipDrvPointerGetAttributes(unsigned int n, hipPointer_attribute *attributes, void **data,
				      hipDeviceptr_t ptr);
hipError_t hipPointerSetAttribute(const void *value, hipPointer_attribute attribute,
				  hipDeviceptr_t ptr);

/* ---- copies and fills ---- */

/*
 * The addresses show the direction of a copy.  Like work of the default stream, synchronous copies
 * and fills wait for earlier work of the device's blocking streams.  An asynchronous copy of host
 * memory that is neither HIP's nor registered returns when it is done.
 */
hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind);
hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, hipMemcpyKind kind,
			       hipStream_t stream);
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind,
			  hipStream_t stream HIP_DEFAULT(0));
hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void *src, size_t size);
hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size);
hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size);
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, const void *src, size_t size, hipStream_t stream);
hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size, hipStream_t stream);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size,
			      hipStream_t stream);
hipError_t hipMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t size);
hipError_t hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
			      size_t size, hipStream_t stream HIP_DEFAULT(0));
hipError_t hipMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
		       size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			    size_t width, size_t height, hipMemcpyKind kind,
			    hipStream_t stream HIP_DEFAULT(0));
hipError_t hipMemset(void *dst, int value, size_t size);
hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream HIP_DEFAULT(0));
hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count);
hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count);
hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count);
hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count,
			    hipStream_t stream HIP_DEFAULT(0));
hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count,
			     hipStream_t stream HIP_DEFAULT(0));
hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count,
			     hipStream_t stream HIP_DEFAULT(0));
hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height);
hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height,
			    hipStream_t stream HIP_DEFAULT(0));

/* ---- streams ---- */

#define hipStreamDefault	0x0
#define hipStreamNonBlocking	0x1	/* does not order itself with the default stream */
#define hipStreamLegacy		((hipStream_t)1)
#define hipStreamPerThread	((hipStream_t)2)	/* here the default stream */

typedef void (*hipStreamCallback_t)(hipStream_t stream, hipError_t status, void *user_data);
typedef void (*hipHostFn_t)(void *user_data);

/*
 * A stream runs its work in order, in a thread of its own.  Stream 0 of a device is its default
 * stream: its work waits for all earlier work of the device's blocking streams, and they wait for
 * its work.  Waiting for a stream returns the first error of its work since the last wait.
 */
hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags, int priority);
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest);
/* Queued work is finished first; the call does not wait for it. */
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event,
			      unsigned int flags HIP_DEFAULT(0));
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags);
hipError_t hipStreamGetPriority(hipStream_t stream, int *priority);
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device);
/* The functions run in the stream's thread, and must not call HIP. */
hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *user_data,
				unsigned int flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *user_data);

typedef enum hipStreamCaptureMode {
	hipStreamCaptureModeGlobal = 0,
	hipStreamCaptureModeThreadLocal = 1,
	hipStreamCaptureModeRelaxed = 2,
} hipStreamCaptureMode;

typedef enum hipStreamCaptureStatus {
	hipStreamCaptureStatusNone = 0,
	hipStreamCaptureStatusActive = 1,
	hipStreamCaptureStatusInvalidated = 2,
} hipStreamCaptureStatus;

/* No stream is captured: there are no graphs. */
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status);
hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *status,
				   unsigned long long *id);
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status,
				      unsigned long long *id HIP_DEFAULT(0),
				      hipGraph_t *graph HIP_DEFAULT(0),
				      const hipGraphNode_t **dependencies HIP_DEFAULT(0),
				      size_t *n HIP_DEFAULT(0));
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode);

/* ---- events ---- */

#define hipEventDefault			0x0
#define hipEventBlockingSync		0x1
#define hipEventDisableTiming		0x2
#define hipEventInterprocess		0x4	/* with DisableTiming */
#define hipEventDisableSystemFence	0x20000000
#define hipEventReleaseToDevice		0x40000000
#define hipEventReleaseToSystem		0x80000000
#define hipEventRecordDefault		0x0
#define hipEventRecordExternal		0x1

/* An event is done when all is done that the stream held at its latest record, or at no record. */
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned int flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream HIP_DEFAULT(0));
hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream HIP_DEFAULT(0),
				   unsigned int flags HIP_DEFAULT(0));
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop);

/* ---- other processes ---- */

#define hipIpcMemLazyEnablePeerAccess	0x1
#define HIP_IPC_HANDLE_SIZE		64

typedef struct hipIpcMemHandle_st {
	char reserved[HIP_IPC_HANDLE_SIZE];
} hipIpcMemHandle_t;

typedef struct hipIpcEventHandle_st {
	char reserved[HIP_IPC_HANDLE_SIZE];
} hipIpcEventHandle_t;

/* ptr: anywhere in an allocation of this process; the opened pointer is to the same byte. */
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr);
/*
 * flags: hipIpcMemLazyEnablePeerAccess.  InvalidContext: this process made the handle.
 * InvalidDevicePointer: the memory no longer exists.  Close it as often as it was opened.
 */
hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned int flags);
hipError_t hipIpcCloseMemHandle(void *ptr);
/* The event has the flag hipEventInterprocess.  An opened event is destroyed like any other. */
hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t event);
hipError_t hipIpcOpenEventHandle(hipEvent_t *event, hipIpcEventHandle_t handle);

/* ---- virtual memory management ---- */

typedef struct ihipMemGenericAllocationHandle *hipMemGenericAllocationHandle_t;

typedef enum hipMemAllocationType {
	hipMemAllocationTypeInvalid = 0,
	hipMemAllocationTypePinned = 1,
	hipMemAllocationTypeMax = 0x7fffffff,
} hipMemAllocationType;

typedef enum hipMemAllocationHandleType {
	hipMemHandleTypeNone = 0,
	hipMemHandleTypePosixFileDescriptor = 1,
	hipMemHandleTypeWin32 = 2,
	hipMemHandleTypeWin32Kmt = 4,
} hipMemAllocationHandleType;

typedef enum hipMemLocationType {
	hipMemLocationTypeInvalid = 0,
	hipMemLocationTypeNone = 0,
	hipMemLocationTypeDevice = 1,
	hipMemLocationTypeHost = 2,
	hipMemLocationTypeHostNuma = 3,
	hipMemLocationTypeHostNumaCurrent = 4,
} hipMemLocationType;

typedef struct hipMemLocation {
	hipMemLocationType type;
	int id;
} hipMemLocation;

typedef enum hipMemAccessFlags {
	hipMemAccessFlagsProtNone = 0,
	hipMemAccessFlagsProtRead = 1,
	hipMemAccessFlagsProtReadWrite = 3,
} hipMemAccessFlags;

typedef struct hipMemAccessDesc {
	hipMemLocation location;
	hipMemAccessFlags flags;
} hipMemAccessDesc;

typedef struct hipMemAllocationProp {
	hipMemAllocationType type;
	union {
		hipMemAllocationHandleType requestedHandleType;
		hipMemAllocationHandleType requestedHandleTypes;
	};
	hipMemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
	} allocFlags;
} hipMemAllocationProp;

typedef enum hipMemAllocationGranularity_flags {
	hipMemAllocationGranularityMinimum = 0,
	hipMemAllocationGranularityRecommended = 1,
} hipMemAllocationGranularity_flags;

/*
 * Sizes and addresses are multiples of the granularity, 64 KiB.  A mapping is of the whole memory
 * of a handle.  It is reached by copies and the CPU once a device has access.  The handle type
 * PosixFileDescriptor is supported: an int, or when importing, an int cast to a pointer, or a
 * pointer to it, as in HIP 6.
 */
hipError_t hipMemAddressReserve(void **ptr, size_t size, size_t alignment, void *address,
				unsigned long long flags);
hipError_t hipMemAddressFree(void *ptr, size_t size);
hipError_t hipMemGetAllocationGranularity(size_t *granularity, const hipMemAllocationProp *prop,
					  hipMemAllocationGranularity_flags option);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size,
			const hipMemAllocationProp *prop, unsigned long long flags);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle);
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address);
hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *prop,
						   hipMemGenericAllocationHandle_t handle);
hipError_t hipMemMap(void *ptr, size_t size, size_t offset, hipMemGenericAllocationHandle_t handle,
		     unsigned long long flags);
hipError_t hipMemUnmap(void *ptr, size_t size);
hipError_t hipMemSetAccess(void *ptr, size_t size, const hipMemAccessDesc *desc, size_t count);
hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location, void *ptr);
hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle,
					 hipMemAllocationHandleType type, unsigned long long flags);
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *os_handle,
					   hipMemAllocationHandleType type);

/* ---- not supported, declared for programs that have calls of them ---- */

typedef struct dim3 {
	uint32_t x, y, z;
#ifdef __cplusplus
	dim3(uint32_t _x = 1, uint32_t _y = 1, uint32_t _z = 1) : x(_x), y(_y), z(_z) {}
#endif
} dim3;

typedef enum hipFuncAttribute {
	hipFuncAttributeMaxDynamicSharedMemorySize = 8,
	hipFuncAttributePreferredSharedMemoryCarveout = 9,
	hipFuncAttributeMax,
} hipFuncAttribute;

typedef struct hipFuncAttributes {
	int binaryVersion;
	int cacheModeCA;
	size_t constSizeBytes;
	size_t localSizeBytes;
	int maxDynamicSharedSizeBytes;
	int maxThreadsPerBlock;
	int numRegs;
	int preferredShmemCarveout;
	int ptxVersion;
	size_t sharedSizeBytes;
} hipFuncAttributes;

typedef struct hipHostNodeParams {
	hipHostFn_t fn;
	void *userData;
} hipHostNodeParams;

hipError_t hipLaunchKernel(const void *function, dim3 blocks, dim3 threads, void **args,
			   size_t shared, hipStream_t stream);
hipError_t hipExtLaunchKernel(const void *function, dim3 blocks, dim3 threads, void **args,
			      size_t shared, hipStream_t stream, hipEvent_t start, hipEvent_t stop,
			      int flags);
hipError_t hipFuncGetAttributes(hipFuncAttributes *attributes, const void *function);
hipError_t hipFuncSetAttribute(const void *function, hipFuncAttribute attribute, int value);
hipError_t hipModuleLoad(hipModule_t *module, const char *file);
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleGetGlobal(hipDeviceptr_t *ptr, size_t *size, hipModule_t module,
			      const char *name);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
				 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				 unsigned int block_z, unsigned int shared, hipStream_t stream,
				 void **args, void **extra);
#define HIP_SYMBOL(symbol) symbol
hipError_t hipGetSymbolAddress(void **ptr, const void *symbol);
hipError_t hipGetSymbolSize(size_t *size, const void *symbol);
hipError_t hipMemcpyToSymbol(const void *symbol, const void *src, size_t size,
			     size_t offset HIP_DEFAULT(0),
			     hipMemcpyKind kind HIP_DEFAULT(hipMemcpyHostToDevice));
hipError_t hipMemcpyFromSymbol(void *dst, const void *symbol, size_t size,
			       size_t offset HIP_DEFAULT(0),
			       hipMemcpyKind kind HIP_DEFAULT(hipMemcpyDeviceToHost));
hipError_t hipGraphAddHostNode(hipGraphNode_t *node, hipGraph_t graph,
			       const hipGraphNode_t *dependencies, size_t n,
			       const hipHostNodeParams *params);
hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *dependencies,
					      size_t n, unsigned int flags);
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);

#ifdef __cplusplus
}

/* As C++ programs call these, with a pointer of any type. */
template <class T> static inline hipError_t hipMalloc(T **ptr, size_t size)
{
	return hipMalloc((void **)ptr, size);
}

template <class T> static inline hipError_t
hipHostMalloc(T **ptr, size_t size, unsigned int flags = hipHostMallocDefault)
{
	return hipHostMalloc((void **)ptr, size, flags);
}

template <class T> static inline hipError_t
hipMallocManaged(T **ptr, size_t size, unsigned int flags = hipMemAttachGlobal)
{
	return hipMallocManaged((void **)ptr, size, flags);
}

template <class T> static inline hipError_t hipExtMallocWithFlags(T **ptr, size_t size,
								  unsigned int flags)
{
	return hipExtMallocWithFlags((void **)ptr, size, flags);
}
#endif

#undef HIP_DEFAULT
#endif
