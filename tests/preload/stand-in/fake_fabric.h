/* SPDX-License-Identifier: MIT */
/* fake_fabric.h - a stand-in for libfabric.so.1, as far as libpeerdma-fabric uses it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fid_mem_monitor;

struct fake_fabric {
	int open_error, bind_error;	/* what the calls return */
	int opens, binds, closes;	/* counted */
	uint32_t version;		/* of the last open */
	char name[32];
	struct fid_mem_monitor *monitor;	/* that was bound */
	int notified;			/* since the test set it to 0 */
	const void *addr;		/* of the last one */
	size_t length;
	const char *called;		/* the last function, with its version */
	void *arguments[3];
	uint64_t flags;
};
