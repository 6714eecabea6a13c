// SPDX-License-Identifier: MIT
/* peer.c - access of one GPU to another's memory, which software GPUs do not have. */
#include "internal.h"

SGU_EXPORT CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	CUresult result = sgu_enter_device(dev);

	if (!result)
		result = sgu_enter_device(peerDev);
	if (result)
		return result;
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	*canAccessPeer = 0;
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
					    CUdevice srcDevice, CUdevice dstDevice)
{
	CUresult result = sgu_enter_device(srcDevice);

	if (!result)
		result = sgu_enter_device(dstDevice);
	if (result)
		return result;
	if (srcDevice == dstDevice)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
	    attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		return CUDA_ERROR_INVALID_VALUE;
	*value = 0;
	return CUDA_SUCCESS;
}

/* Checks a context that a call names as the current one's peer. */
static CUresult check_peer(CUcontext handle)
{
	struct sgu_ctx *mine, *peer;	/* they may be the same */
	CUresult result = sgu_ctx_current(&mine);

	if (!result)
		result = sgu_ctx_get(handle, &peer);
	if (result)
		return result;
	if (!atomic_load(&peer->kctx))
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	sgu_obj_put(&peer->obj);
	return result;
}

SGU_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	CUresult result;

	if (Flags)
		return sgu_refuse(CUDA_ERROR_INVALID_VALUE);
	result = check_peer(peerContext);
	return result ? result : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

SGU_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	CUresult result = check_peer(peerContext);

	return result ? result : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
