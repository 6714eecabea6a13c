// SPDX-License-Identifier: MIT
/*
 * device_kind.c - what a PCI function is to us.
 */
#include "machine.h"

#define NVIDIA	0x10de
#define AMD	0x1002
#define INTEL	0x8086

static bool is(const struct device *d, unsigned int vendor, unsigned int device)
{
	return d->vendor == vendor && d->device == device;
}

/* QEMU's ivshmem: the memory of softgpu. */
bool device_is_softgpu(const struct device *d)
{
	return is(d, 0x1af4, 0x1110);
}

static bool is_gpu(const struct device *d)
{
	unsigned int base = d->class >> 16;

	if (device_is_softgpu(d))
		return true;
	/* A server's display of its management processor is no GPU that others would reach. */
	if (base == 0x03)
		return d->vendor == NVIDIA || d->vendor == AMD || d->vendor == INTEL;
	/* AMD's Instinct boards are "processing accelerators". */
	return base == 0x12 && d->vendor == AMD;
}

static bool is_card(const struct device *d)
{
	/* Xilinx, Altera, Lattice, Microchip */
	static const unsigned int fpga_makers[] = { 0x10ee, 0x1172, 0x1204, 0x11aa };

	for (size_t i = 0; i < sizeof(fpga_makers) / sizeof(fpga_makers[0]); i++) {
		if (d->vendor == fpga_makers[i])
			return true;
	}
	/* QEMU's edu, and video capture, signal processing, processing accelerators. */
	return is(d, 0x1234, 0x11e8) || d->class >> 8 == 0x0400 || d->class >> 16 == 0x11 ||
	       d->class >> 16 == 0x12;
}

void device_kind(struct device *d)
{
	d->kind = DEVICE_OTHER;
	if (d->class >> 8 == 0x0604)
		d->kind = DEVICE_BRIDGE;
	else if (is_gpu(d))
		d->kind = DEVICE_GPU;
	else if (d->class >> 16 == 0x02)
		d->kind = DEVICE_NIC;
	else if (d->class >> 8 == 0x0108)
		d->kind = DEVICE_NVME;
	else if (is_card(d))
		d->kind = DEVICE_CARD;
}

const char *device_kind_label(enum device_kind kind)
{
	switch (kind) {
	case DEVICE_GPU:
		return "GPU";
	case DEVICE_NIC:
		return "NIC";
	case DEVICE_NVME:
		return "NVME";
	case DEVICE_CARD:
		return "CARD";
	case DEVICE_OTHER:
	case DEVICE_BRIDGE:
		break;
	}
	return "";
}
