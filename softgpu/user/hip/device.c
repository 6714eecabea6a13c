// SPDX-License-Identifier: MIT
/* device.c - what devices are, and what they can do with each other. */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "hip_int.h"

static hipError_t enter_device(int device)
{
	hipError_t error = hip_enter();

	return error || hip_device_ok(device) ? error : hipErrorInvalidDevice;
}

HIP_EXPORT hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
	hipError_t error = enter_device(ordinal);

	if (!device)
		error = hipErrorInvalidValue;
	if (!error)
		*device = ordinal;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipDeviceGetName(char *name, int length, hipDevice_t device)
{
	hipError_t error = enter_device(device);

	if (!name || length <= 0)
		error = hipErrorInvalidValue;
	if (!error)
		snprintf(name, (size_t)length, "%s", hip_devices[device].name);
	return hip_done(error);
}

/* As in AMD's runtime: the 16 digits of the agent's text. */
HIP_EXPORT hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)
{
	hipError_t error = enter_device(device);

	if (!uuid)
		error = hipErrorInvalidValue;
	if (!error)
		memcpy(uuid->bytes, hip_devices[device].uuid + strlen("GPU-"), sizeof(uuid->bytes));
	return hip_done(error);
}

HIP_EXPORT hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
	hipError_t error = enter_device(device);

	if (!bytes)
		error = hipErrorInvalidValue;
	if (!error)
		*bytes = hip_devices[device].memory;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device)
{
	hipError_t error = enter_device(device);

	if (!major || !minor)
		error = hipErrorInvalidValue;
	if (!error)
		*major = *minor = 0;
	return hip_done(error);
}

static int pci_bus(int device)
{
	return (int)(hip_devices[device].bdf >> 8 & 0xff);
}

static int pci_slot(int device)
{
	return (int)(hip_devices[device].bdf >> 3 & 0x1f);
}

static int pci_domain(int device)
{
	return (int)(hip_devices[device].domain & 0xffff);
}

HIP_EXPORT hipError_t hipDeviceGetPCIBusId(char *id, int length, int device)
{
	hipError_t error = hip_enter();

	if (error)
		return hip_done(error);
	if (!id || length < 13 || !hip_device_ok(device))
		return hip_done(hipErrorInvalidValue);
	snprintf(id, (size_t)length, "%04x:%02x:%02x.%x", pci_domain(device), pci_bus(device),
		 pci_slot(device), hip_devices[device].bdf & 7);
	return hipSuccess;
}

HIP_EXPORT hipError_t hipDeviceGetByPCIBusId(int *device, const char *id)
{
	unsigned int domain, bus, slot, function = 0;
	hipError_t error = hip_enter();

	if (error)
		return hip_done(error);
	if (!device || !id || sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
		return hip_done(hipErrorInvalidValue);
	for (int i = 0; i < hip_count; i++) {
		if (pci_domain(i) == (int)domain && pci_bus(i) == (int)bus &&
		    pci_slot(i) == (int)slot && (hip_devices[i].bdf & 7) == function) {
			*device = i;
			return hipSuccess;
		}
	}
	return hip_done(hipErrorInvalidDevice);
}

#define ATTRIBUTE(name, is) case hipDeviceAttribute##name: *value = is; return true

/* False: the attribute is not one of those that a software GPU has. */
static bool attribute_of(hipDeviceAttribute_t attribute, int device, int *value)
{
	size_t memory = hip_devices[device].memory;

	switch (attribute) {
	ATTRIBUTE(AsyncEngineCount, 2);
	ATTRIBUTE(CanMapHostMemory, 1);
	ATTRIBUTE(CanUseHostPointerForRegisteredMem, 1);
	ATTRIBUTE(ConcurrentManagedAccess, 1);
	ATTRIBUTE(DirectManagedMemAccessFromHost, 1);
	ATTRIBUTE(DeviceOverlap, 1);
	ATTRIBUTE(HostNativeAtomicSupported, 1);
	ATTRIBUTE(ManagedMemory, 1);
	ATTRIBUTE(MaxPitch, INT_MAX);
	ATTRIBUTE(PageableMemoryAccess, 1);
	ATTRIBUTE(PciBusId, pci_bus(device));
	ATTRIBUTE(PciDeviceId, pci_slot(device));
	ATTRIBUTE(PciDomainId, pci_domain(device));
	ATTRIBUTE(TotalGlobalMem, memory > INT_MAX ? INT_MAX : (int)memory);
	ATTRIBUTE(UnifiedAddressing, 1);
	ATTRIBUTE(WarpSize, 64);
	ATTRIBUTE(HostRegisterSupported, 1);
	ATTRIBUTE(VirtualMemoryManagementSupported, 1);
	ATTRIBUTE(DmaBufSupported, 1);
	ATTRIBUTE(IsLargeBar, 1);
	ATTRIBUTE(FineGrainSupport, 1);
	default:
		return false;
	}
}

HIP_EXPORT hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
	hipError_t error = enter_device(device);

	if (!value)
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	switch (attribute) {
	case hipDeviceAttributeHdpMemFlushCntl:
	case hipDeviceAttributeHdpRegFlushCntl:
		/* The address of a register, which a software GPU does not have. */
		memset(value, 0, sizeof(void *));
		return hipSuccess;
	default:
		break;
	}
	if (attribute_of(attribute, device, value))
		return hipSuccess;
	*value = 0;
	if ((unsigned int)attribute <= hipDeviceAttributeHostAllocDmaBufSupported ||
	    (attribute >= hipDeviceAttributeClockInstructionRate &&
	     attribute <= hipDeviceAttributeWallClockRate))
		return hipSuccess;
	return hip_done(hipErrorInvalidValue);
}

HIP_EXPORT hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device)
{
	hipError_t error = enter_device(device);

	if (!p)
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", hip_devices[device].name);
	snprintf(p->gcnArchName, sizeof(p->gcnArchName), "softgpu");
	memcpy(p->uuid.bytes, hip_devices[device].uuid + strlen("GPU-"), sizeof(p->uuid.bytes));
	p->totalGlobalMem = hip_devices[device].memory;
	p->warpSize = 64;
	p->memPitch = INT_MAX;
	p->deviceOverlap = 1;
	p->canMapHostMemory = 1;
	p->pciBusID = pci_bus(device);
	p->pciDeviceID = pci_slot(device);
	p->pciDomainID = pci_domain(device);
	p->asyncEngineCount = 2;
	p->unifiedAddressing = 1;
	p->managedMemory = 1;
	p->hostNativeAtomicSupported = 1;
	p->pageableMemoryAccess = 1;
	p->concurrentManagedAccess = 1;
	p->canUseHostPointerForRegisteredMem = 1;
	p->directManagedMemAccessFromHost = 1;
	p->hostRegisterSupported = 1;
	p->ipcEventSupported = 1;
	p->isLargeBar = 1;
	return hipSuccess;
}

/* All GPUs are the same. */
HIP_EXPORT hipError_t hipChooseDeviceR0600(int *device, const hipDeviceProp_tR0600 *properties)
{
	hipError_t error = hip_enter();

	if (!device || !properties)
		error = hipErrorInvalidValue;
	if (!error)
		*device = 0;
	return hip_done(error);
}

/* ---- peers ---- */

static atomic_uint enabled[HIP_DEVICES_MAX];	/* the peers of each device, a bit each */

HIP_EXPORT hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
	hipError_t error = enter_device(device);

	if (!error)
		error = enter_device(peer);
	if (!can)
		error = hipErrorInvalidValue;
	if (!error)
		*can = device != peer;
	return hip_done(error);
}

static hipError_t enter_peer(int peer)
{
	hipError_t error = enter_device(peer);

	return error || peer != hip_current() ? error : hipErrorInvalidDevice;
}

HIP_EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	hipError_t error = enter_peer(peer);

	if (!error && flags)
		error = hipErrorInvalidValue;
	if (!error && atomic_fetch_or(&enabled[hip_current()], 1u << peer) & 1u << peer)
		error = hipErrorPeerAccessAlreadyEnabled;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipDeviceDisablePeerAccess(int peer)
{
	hipError_t error = enter_peer(peer);

	if (!error && !(atomic_fetch_and(&enabled[hip_current()], ~(1u << peer)) & 1u << peer))
		error = hipErrorPeerAccessNotEnabled;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int from,
					       int to)
{
	hipError_t error = enter_device(from);

	if (!error)
		error = enter_device(to);
	if (!error && from == to)
		error = hipErrorInvalidDevice;
	if (!value || (unsigned int)attribute > hipDevP2PAttrHipArrayAccessSupported)
		error = hipErrorInvalidValue;
	if (!error)
		*value = attribute == hipDevP2PAttrAccessSupported ||
			 attribute == hipDevP2PAttrNativeAtomicSupported;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t *link_type,
						   uint32_t *hops)
{
	hipError_t error = enter_device(from);

	if (!error)
		error = enter_device(to);
	if (!error && (from == to || !link_type || !hops))
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	*link_type = HSA_AMD_LINK_INFO_TYPE_PCIE;
	*hops = 1;
	return hipSuccess;
}

/* ---- settings ---- */

static _Thread_local unsigned int device_flags;
static atomic_size_t limits[hipLimitRange];

HIP_EXPORT hipError_t hipDeviceGetLimit(size_t *value, enum hipLimit_t limit)
{
	hipError_t error = hip_enter();

	if (!value)
		error = hipErrorInvalidValue;
	else if ((unsigned int)limit >= hipLimitRange)
		error = hipErrorUnsupportedLimit;
	if (!error)
		*value = atomic_load(&limits[limit]);
	return hip_done(error);
}

/* They concern kernels, so they have no effect. */
HIP_EXPORT hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value)
{
	hipError_t error = hip_enter();

	if ((unsigned int)limit >= hipLimitRange)
		error = hipErrorUnsupportedLimit;
	if (!error)
		atomic_store(&limits[limit], value);
	return hip_done(error);
}

HIP_EXPORT hipError_t hipGetDeviceFlags(unsigned int *flags)
{
	hipError_t error = hip_enter();

	if (!flags)
		error = hipErrorInvalidValue;
	if (!error)
		*flags = device_flags;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipSetDeviceFlags(unsigned int flags)
{
	const unsigned int known = hipDeviceScheduleMask | hipDeviceMapHost |
				   hipDeviceLmemResizeToMax;
	hipError_t error = hip_enter();

	if (flags & ~known)
		error = hipErrorInvalidValue;
	if (!error)
		device_flags = flags;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipDeviceSynchronize(void)
{
	hipError_t error = hip_enter();

	if (!error)
		hip_work_wait_device(hip_current());
	return hip_done(error);
}

HIP_EXPORT hipError_t hipDeviceReset(void)
{
	hipError_t error = hip_enter();

	if (error)
		return hip_done(error);
	hip_work_wait_device(hip_current());
	atomic_store(&enabled[hip_current()], 0);
	return hipSuccess;
}
