/* SPDX-License-Identifier: MIT */
/*
 * driver_types.h - types of HIP's memory calls.  Names, values and layouts are those of HIP 7;
 * those of HIP 6 agree with them.
 */
#ifndef HIP_DRIVER_TYPES_H
#define HIP_DRIVER_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef void *hipDeviceptr_t;

typedef enum hipMemcpyKind {
	hipMemcpyHostToHost = 0,
	hipMemcpyHostToDevice = 1,
	hipMemcpyDeviceToHost = 2,
	hipMemcpyDeviceToDevice = 3,
	hipMemcpyDefault = 4,
	hipMemcpyDeviceToDeviceNoCU = 1024,	/* a copy by an engine, as all are here */
} hipMemcpyKind;

typedef enum hipPointer_attribute {
	HIP_POINTER_ATTRIBUTE_CONTEXT = 1,		/* not supported */
	HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,		/* unsigned int: hipMemoryType */
	HIP_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,	/* void * */
	HIP_POINTER_ATTRIBUTE_HOST_POINTER = 4,		/* void * */
	HIP_POINTER_ATTRIBUTE_P2P_TOKENS = 5,		/* not supported */
	HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,		/* bool */
	HIP_POINTER_ATTRIBUTE_BUFFER_ID = 7,		/* not supported */
	HIP_POINTER_ATTRIBUTE_IS_MANAGED = 8,		/* bool */
	HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,	/* int */
	HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE = 10,	/* not supported */
	HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,	/* void * */
	HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12,		/* unsigned int */
	HIP_POINTER_ATTRIBUTE_MAPPED = 13,		/* bool */
	HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,	/* not supported */
	HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,	/* not supported */
	HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,	/* unsigned int: flags of the allocation */
	HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,	/* not supported */
} hipPointer_attribute;

#endif
