/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/* tegra_test.h - each call of Tegra's nvidia_p2p for a program: /dev/tegra_test.  One pin per open file. */
#ifndef TEGRA_TEST_H
#define TEGRA_TEST_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * The callback queues a work item, which unmaps and frees the table.  Each call below waits for
 * that of a callback that has returned.  What the callback leaves out or does otherwise:
 */
#define TEGRA_KEEP_TABLE	1	/* frees it at FREE_TABLE or the last close; mmap() shows its pages until then */
#define TEGRA_KEEP_MAPPING	2	/* leaves its mapping to the driver */
#define TEGRA_PUT_INSIDE	4	/* calls put_pages there */
#define TEGRA_NO_CALLBACK	8	/* gives none */
#define TEGRA_LEAK_TABLE	16	/* with KEEP_TABLE: it is never freed */
#define TEGRA_FREE_INSIDE	32	/* frees it in the callback, which may not be allowed to sleep */

struct tegra_get {
	__u64 vaddr;
	__u64 size;
	__u32 flags;
	__u32 entries;		/* out, and what follows: of the table */
	__u32 version;
	__u32 page_size;
	__u64 table_size;
	__u32 null_table;	/* out: *page_table is NULL afterwards */
	__u32 combined;		/* out: the caller's area there says that it is write-combined */
};

struct tegra_map {
	__u32 direction;	/* enum dma_data_direction */
	__u32 entries;		/* out, and what follows */
	__u32 version;
	__u32 busy;		/* in: with this process's mmap_lock taken for writing */
	__u64 address;		/* of the first run */
	__u64 length;		/* of all */
};

struct tegra_state {
	__u32 callbacks;
	__s32 put_inside;	/* what put_pages gave in the callback */
};

#define TEGRA_GET		_IOWR(0xba, 0, struct tegra_get)
#define TEGRA_PUT		_IO(0xba, 1)
#define TEGRA_MAP		_IOWR(0xba, 2, struct tegra_map)
#define TEGRA_UNMAP		_IO(0xba, 3)
#define TEGRA_FREE_TABLE	_IO(0xba, 4)
#define TEGRA_STATE		_IOR(0xba, 5, struct tegra_state)
/* mmap offset 0: the pages with vm_page_prot as it is; offset 4096: write-combined. */

#endif
