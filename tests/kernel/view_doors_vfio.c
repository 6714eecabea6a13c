// SPDX-License-Identifier: MIT
/* view_doors_vfio.c - a card that a user drives through VFIO is given a CPU view: see view_doors.h */
#include <linux/vfio.h>

#include "peerdma_test_card.h"
#include "view_doors.h"

/* Addresses of the card. */
#define OWN_AT		0x100000ULL
#define VIEW_AT		0x10000000ULL
#define SOME		512

static int container, group, device;
static struct dma_card card;
static char name[64];
static char *own;		/* a page that VFIO maps for the card: it can do DMA */
static bool open_door;

static int dma_map(void *at, uint64_t iova, size_t length)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map), .flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)at, .iova = iova, .size = length,
	};

	return ioctl(container, VFIO_IOMMU_MAP_DMA, &map);
}

static int dma_unmap(uint64_t iova, size_t length)
{
	struct vfio_iommu_type1_dma_unmap unmap = { .argsz = sizeof(unmap), .iova = iova, .size = length };

	return ioctl(container, VFIO_IOMMU_UNMAP_DMA, &unmap);
}

/* Between two addresses of the card's, through its own memory. */
static void copy(uint64_t from, uint64_t to)
{
	card_begin(&card, from, CARD_MEMORY, SOME);
	card_wait(&card);
	card_begin(&card, CARD_MEMORY, to, SOME);
	card_wait(&card);
}

static const char *missing(void)
{
	return name[0] ? NULL : "this kernel has no VFIO";
}

/* ---- as root ---- */

void door_vfio_prepare(const char *address)
{
	char path[128], link[128], group_path[64];
	ssize_t n;

	if (!strcmp(address, "-"))
		return;
	snprintf(name, sizeof(name), "%s", address);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group", address);
	n = readlink(path, link, sizeof(link) - 1);
	CHECK(n > 0);
	link[n < 0 ? 0 : n] = 0;
	snprintf(group_path, sizeof(group_path), "/dev/vfio/%s", strrchr(link, '/') ? strrchr(link, '/') + 1 : "");
	/* As an administrator does for a user who is to have the card. */
	container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	group = open(group_path, O_RDWR | O_CLOEXEC);
	CHECK(container >= 0 && group >= 0);
}

/* ---- as the user ---- */

static void master(void)
{
	struct vfio_region_info config = { .argsz = sizeof(config), .index = VFIO_PCI_CONFIG_REGION_INDEX };
	uint16_t command = 0;

	WORKS(ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &config));
	CHECK(pread(device, &command, 2, (off_t)config.offset + 4) == 2);
	command |= 2 | 4;	/* memory space, bus master */
	CHECK(pwrite(device, &command, 2, (off_t)config.offset + 4) == 2);
}

/* The card works: it copies a page's beginning to its end. */
static void vfio_begin(void)
{
	struct vfio_region_info bar = { .argsz = sizeof(bar), .index = VFIO_PCI_BAR0_REGION_INDEX };

	WORKS(ioctl(group, VFIO_GROUP_SET_CONTAINER, &container));
	WORKS(ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU));
	device = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, name);
	CHECK(device >= 0);
	WORKS(ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &bar));
	card.bar = mmap(NULL, bar.size, PROT_READ | PROT_WRITE, MAP_SHARED, device, (off_t)bar.offset);
	CHECK(card.bar != MAP_FAILED);
	master();
	own = host_memory(PAGE);
	WORKS(dma_map(own, OWN_AT, PAGE));
	memset(own, 0, PAGE);
	memset(own, OWNED, SOME);
	copy(OWN_AT, OWN_AT + SOME);
	CHECK(own[SOME] == OWNED && own[2 * SOME - 1] == OWNED && own[2 * SOME] == 0);
}

/* With the view's page table entries there, and without. */
static void enter(char *view)
{
	int there, faulted;

	if (!own)
		vfio_begin();
	NO_PAGES(there = dma_map(view, VIEW_AT, VIEW_LENGTH));
	madvise(view, VIEW_LENGTH, MADV_DONTNEED);
	NO_PAGES(faulted = dma_map(view, VIEW_AT, VIEW_LENGTH));
	open_door = !there || !faulted;
}

/* If the door is open: what does the card reach? */
static void after(char *view)
{
	if (!open_door)
		return;
	memset(own, 0, PAGE);
	copy(VIEW_AT, OWN_AT);
	CHECK(own[0] != REUSED);
	memset(own, OWNED, PAGE);
	copy(OWN_AT, VIEW_AT);	/* the caller looks at the memory */
	WORKS(dma_unmap(VIEW_AT, VIEW_LENGTH));
}

const struct door door_vfio = { "VFIO", .missing = missing, .enter = enter, .after = after };
