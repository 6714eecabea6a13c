// SPDX-License-Identifier: MIT
/* peer.c - access of one GPU to another's memory, which software GPUs do not have. */
#include "runtime.h"

RT_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	CUresult result = rt_check_device(device);

	return rt_done(result ? result : cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

RT_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr,
						int srcDevice, int dstDevice)
{
	CUresult result = rt_check_device(srcDevice);

	if (!result)
		result = cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice,
						 dstDevice);
	return rt_done(result);
}

/* The driver's calls are by context, which the runtime has one of for each device. */
static CUresult with_peer(int peer, CUresult (*call)(CUcontext ctx))
{
	CUresult result = rt_enter();
	CUcontext ctx;

	if (!result)
		result = rt_check_device(peer);
	if (!result)
		result = cuDevicePrimaryCtxRetain(&ctx, peer);
	if (result)
		return result;
	result = call(ctx);
	cuDevicePrimaryCtxRelease(peer);
	return result;
}

static CUresult enable(CUcontext ctx)
{
	return cuCtxEnablePeerAccess(ctx, 0);
}

RT_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	return flags ? rt_fail(cudaErrorInvalidValue) : rt_done(with_peer(peerDevice, enable));
}

RT_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
	return rt_done(with_peer(peerDevice, cuCtxDisablePeerAccess));
}
