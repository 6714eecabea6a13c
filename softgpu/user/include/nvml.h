/* SPDX-License-Identifier: MIT */
/*
 * nvml.h - the part of the NVIDIA Management Library (names, values and layouts of release 12) that
 * softgpu's libnvidia-ml.so.1 implements.
 *
 * The interface follows NVIDIA's exactly.  The text is our own.  Unless a comment says otherwise, a
 * function does what NVIDIA documents.
 */
#ifndef SOFTGPU_NVML_H
#define SOFTGPU_NVML_H
#define __nvml_nvml_h__

#define NVML_API_VERSION	12
#define NVML_API_VERSION_STR	"12"

#ifndef DECLDIR
#define DECLDIR
#endif

/* The library also exports the plain symbols.  The older of them fill the older structs. */
#ifndef NVML_NO_UNVERSIONED_FUNC_DEFS
#define nvmlInit			nvmlInit_v2
#define nvmlDeviceGetCount		nvmlDeviceGetCount_v2
#define nvmlDeviceGetHandleByIndex	nvmlDeviceGetHandleByIndex_v2
#define nvmlDeviceGetHandleByPciBusId	nvmlDeviceGetHandleByPciBusId_v2
#define nvmlDeviceGetPciInfo		nvmlDeviceGetPciInfo_v3
#define nvmlDeviceGetNvLinkRemotePciInfo	nvmlDeviceGetNvLinkRemotePciInfo_v2
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nvmlReturn_enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_INSUFFICIENT_POWER = 8,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_IRQ_ISSUE = 11,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_CORRUPTED_INFOROM = 14,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_OPERATING_SYSTEM = 17,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_IN_USE = 19,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_NO_DATA = 21,
	NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
	NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_DEPRECATED = 26,
	NVML_ERROR_NOT_READY = 27,
	NVML_ERROR_GPU_NOT_FOUND = 28,
	NVML_ERROR_INVALID_STATE = 29,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE	32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE	16
#define NVML_DEVICE_NAME_BUFFER_SIZE		64
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE		96
#define NVML_DEVICE_UUID_BUFFER_SIZE		80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE		96
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE	80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE	80
#define NVML_INIT_FLAG_NO_GPUS			1
#define NVML_INIT_FLAG_NO_ATTACH		2

#define NVML_STRUCT_VERSION(data, ver) \
	((unsigned int)(sizeof(nvml##data##_v##ver##_t) | ((ver) << 24U)))

typedef struct nvmlPciInfo_st {
	char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];	/* domain of 4 digits */
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;		/* device ID << 16 | vendor ID */
	unsigned int pciSubSystemId;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];			/* domain of 8 digits */
} nvmlPciInfo_t;

typedef struct nvmlMemory_st {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
	unsigned int version;			/* nvmlMemory_v2 */
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_v2_t;
#define nvmlMemory_v2 NVML_STRUCT_VERSION(Memory, 2)

typedef enum nvmlComputeMode_enum {
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
	NVML_COMPUTEMODE_COUNT
} nvmlComputeMode_t;

typedef struct nvmlBAR1Memory_st {
	unsigned long long bar1Total;
	unsigned long long bar1Free;
	unsigned long long bar1Used;
} nvmlBAR1Memory_t;

typedef enum nvmlValueType_enum {
	NVML_VALUE_TYPE_DOUBLE = 0,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
	NVML_VALUE_TYPE_SIGNED_INT = 5,
	NVML_VALUE_TYPE_UNSIGNED_SHORT = 6,
	NVML_VALUE_TYPE_COUNT
} nvmlValueType_t;

typedef union nvmlValue_st {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	signed long long sllVal;
	unsigned short usVal;
} nvmlValue_t;

#define NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON	90
#define NVML_FI_DEV_NVLINK_LINK_COUNT		91

typedef struct nvmlFieldValue_st {
	unsigned int fieldId;			/* NVML_FI_* */
	unsigned int scopeId;
	long long timestamp;			/* us since 1970 */
	long long latencyUsec;
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn;		/* of this field */
	nvmlValue_t value;
} nvmlFieldValue_t;

#define NVML_NVLINK_MAX_LINKS	18

typedef enum nvmlEnableState_enum {
	NVML_FEATURE_DISABLED = 0,
	NVML_FEATURE_ENABLED = 1,
} nvmlEnableState_t;

#define NVML_GPU_FABRIC_UUID_LEN		16
#define NVML_GPU_FABRIC_STATE_NOT_SUPPORTED	0
#define NVML_GPU_FABRIC_STATE_NOT_STARTED	1
#define NVML_GPU_FABRIC_STATE_IN_PROGRESS	2
#define NVML_GPU_FABRIC_STATE_COMPLETED		3

typedef unsigned char nvmlGpuFabricState_t;

typedef struct nvmlGpuFabricInfo_st {
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	nvmlGpuFabricState_t state;
} nvmlGpuFabricInfo_t;

typedef struct nvmlGpuFabricInfo_v2_st {
	unsigned int version;			/* nvmlGpuFabricInfo_v2 */
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	nvmlGpuFabricState_t state;
	unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;
typedef nvmlGpuFabricInfo_v2_t nvmlGpuFabricInfoV_t;
#define nvmlGpuFabricInfo_v2 NVML_STRUCT_VERSION(GpuFabricInfo, 2)

nvmlReturn_t DECLDIR nvmlInit_v2(void);
/*
 * With NVML_INIT_FLAG_NO_GPUS, a machine without GPUs is not an error.  NVML_INIT_FLAG_NO_ATTACH
 * has no effect.
 */
nvmlReturn_t DECLDIR nvmlInitWithFlags(unsigned int flags);
/* Handles remain valid after the next nvmlInit. */
nvmlReturn_t DECLDIR nvmlShutdown(void);
/* The texts are softgpu's own. */
const char *DECLDIR nvmlErrorString(nvmlReturn_t result);

/*
 * softgpu's driver has no NVIDIA release number.  The returned number is that of the API that it
 * follows.
 */
nvmlReturn_t DECLDIR nvmlSystemGetDriverVersion(char *version, unsigned int length);
nvmlReturn_t DECLDIR nvmlSystemGetNVMLVersion(char *version, unsigned int length);
nvmlReturn_t DECLDIR nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion);
nvmlReturn_t DECLDIR nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion);

nvmlReturn_t DECLDIR nvmlDeviceGetCount_v2(unsigned int *deviceCount);
nvmlReturn_t DECLDIR nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t DECLDIR nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t DECLDIR nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device);
nvmlReturn_t DECLDIR nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length);
nvmlReturn_t DECLDIR nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index);
/* The N of /dev/softgpuN. */
nvmlReturn_t DECLDIR nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber);
nvmlReturn_t DECLDIR nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
/* If the GPU's memory does not belong to a PCI device, all fields but the texts are zero. */
nvmlReturn_t DECLDIR nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t DECLDIR nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
/* Used memory: the distinct 64 KiB pages that pins hold, and the part that the driver reserves. */
nvmlReturn_t DECLDIR nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory);
/*
 * NVML_FI_DEV_NVLINK_LINK_COUNT is 0.  For each other field nvmlReturn is NVML_ERROR_NOT_SUPPORTED.
 * The call itself fails only for invalid arguments.
 */
nvmlReturn_t DECLDIR nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
					      nvmlFieldValue_t *values);
/* No GPU has an NVLink: NVML_ERROR_NOT_SUPPORTED. */
nvmlReturn_t DECLDIR nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
					      nvmlEnableState_t *isActive);
nvmlReturn_t DECLDIR nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
							 nvmlPciInfo_t *pci);
/* No GPU is part of a fabric: NVML_GPU_FABRIC_STATE_NOT_SUPPORTED. */
nvmlReturn_t DECLDIR nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device,
						nvmlGpuFabricInfo_t *gpuFabricInfo);
nvmlReturn_t DECLDIR nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device,
						 nvmlGpuFabricInfoV_t *gpuFabricInfo);
nvmlReturn_t DECLDIR nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode);
nvmlReturn_t DECLDIR nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);

#ifdef __cplusplus
}
#endif

#endif
