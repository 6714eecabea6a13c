// SPDX-License-Identifier: MIT
/* ipc.c - memory of other processes. For events see event.c. */
#include <string.h>
#include <unistd.h>

#include "hip_int.h"

/* The content of a handle. */
struct content {
	hsa_amd_ipc_memory_t memory;
	uint64_t size, offset;	/* of the allocation; of the pointer in it */
	uint32_t pid, reserved;
};

_Static_assert(sizeof(struct content) <= sizeof(hipIpcMemHandle_t), "a handle's size");

HIP_EXPORT hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
	struct content content = { .pid = (uint32_t)getpid() };
	hipError_t error = hip_enter();
	struct hip_memory m;

	if (!error && (!handle || !ptr))
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	m = hip_memory_at(ptr);
	if (!m.known || m.registered)
		return hip_done(hipErrorInvalidValue);
	content.size = m.size;
	content.offset = (uint64_t)((char *)ptr - m.base);
	error = hip_of_status(hsa_amd_ipc_memory_create(m.base, m.size, &content.memory));
	if (error)
		return hip_done(error);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &content, sizeof(content));
	return hipSuccess;
}

HIP_EXPORT hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned int flags)
{
	hipError_t error = hip_enter();
	struct content content;
	hsa_status_t status;
	void *base;

	if (!error && (!ptr || flags != hipIpcMemLazyEnablePeerAccess))
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	memcpy(&content, &handle, sizeof(content));
	if (!content.size || content.offset >= content.size)
		return hip_done(hipErrorInvalidValue);
	if (content.pid == (uint32_t)getpid())
		return hip_done(hipErrorInvalidContext);
	status = hsa_amd_ipc_memory_attach(&content.memory, content.size, 0, NULL, &base);
	if (status == HSA_STATUS_ERROR_INVALID_ARGUMENT)
		return hip_done(hipErrorInvalidDevicePointer);
	if (status)
		return hip_done(hip_of_status(status));
	*ptr = (char *)base + content.offset;
	return hipSuccess;
}

HIP_EXPORT hipError_t hipIpcCloseMemHandle(void *ptr)
{
	hipError_t error = hip_enter();
	struct hip_memory m;

	if (error)
		return hip_done(error);
	m = hip_memory_at(ptr);
	if (!m.ipc)
		return hip_done(hipErrorInvalidValue);
	hip_work_wait_device(-1);
	return hip_done(hip_of_status(hsa_amd_ipc_memory_detach(m.base)));
}
