// SPDX-License-Identifier: MIT
/*
 * device_kind.c - what a PCI function is to us.
 */
#include <string.h>

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

/*
 * In the processor, for a screen: it has no memory that others would reach.  AMD's: Raven, Picasso, Renoir, Lucienne, Cezanne,
 * Barcelo, Van Gogh, Rembrandt; Mendocino, Raphael, Phoenix, Hawk Point, Granite Ridge, Strix, Krackan.
 */
static bool is_for_a_screen(const struct device *d)
{
	static const unsigned int amd[] = {
		0x15dd, 0x15d8, 0x1636, 0x164c, 0x1638, 0x15e7, 0x163f, 0x1681,
		0x1506, 0x164e, 0x15bf, 0x1900, 0x13c0, 0x150e, 0x1114,
	};

	for (size_t i = 0; d->vendor == AMD && i < sizeof(amd) / sizeof(amd[0]); i++) {
		if (d->device == amd[i])
			return true;
	}
	return d->vendor == INTEL && d->class >> 8 == 0x0300 && !strcmp(d->name, "0000:00:02.0");
}

static bool is_gpu(const struct device *d)
{
	unsigned int base = d->class >> 16;

	if (device_is_softgpu(d))
		return true;
	/* A server's display of its management processor is no GPU that others would reach. */
	if (base == 0x03)
		return (d->vendor == NVIDIA || d->vendor == AMD || d->vendor == INTEL) &&
		       !is_for_a_screen(d);
	/* AMD's Instinct boards are "processing accelerators". */
	return base == 0x12 && d->vendor == AMD;
}

/* "Multimedia": video, and what is neither video nor sound.  Sound is no peer of a GPU's. */
static bool is_capture(const struct device *d)
{
	unsigned int kind = d->class >> 8;

	return d->class >> 16 == 0x04 && kind != 0x0401 && kind != 0x0403;
}

static bool is_card(const struct device *d)
{
	/* Xilinx, Altera, Lattice, Microchip */
	static const unsigned int fpga_makers[] = { 0x10ee, 0x1172, 0x1204, 0x11aa };

	for (size_t i = 0; i < sizeof(fpga_makers) / sizeof(fpga_makers[0]); i++) {
		if (d->vendor == fpga_makers[i])
			return true;
	}
	/* QEMU's edu, and capture cards, signal processing, processing accelerators. */
	return is(d, 0x1234, 0x11e8) || is_capture(d) || d->class >> 16 == 0x11 ||
	       (d->class >> 16 == 0x12 && d->port != PORT_IN_PROCESSOR);
}

void device_kind(struct device *d)
{
	d->kind = DEVICE_OTHER;
	if (d->class >> 8 == 0x0604)
		d->kind = DEVICE_BRIDGE;
	else if (is_gpu(d))
		d->kind = DEVICE_GPU;
	/* QEMU's network controller as a frame grabber. */
	else if (!strcmp(d->driver, "peerdma_grabber"))
		d->kind = DEVICE_CARD;
	else if (d->class >> 16 == 0x02)
		d->kind = DEVICE_NIC;
	else if (d->class >> 8 == 0x0108)
		d->kind = DEVICE_NVME;
	else if (is_card(d))
		d->kind = DEVICE_CARD;
}

bool device_is_handed_on(const struct device *d)
{
	return strstr(d->driver, "vfio") || strstr(d->driver, "pciback") ||
	       !strcmp(d->driver, "pci-stub") || !strcmp(d->driver, "uio_pci_generic") ||
	       !strcmp(d->driver, "igb_uio");
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
