/* SPDX-License-Identifier: MIT */
/*
 * file.h - what the files of this folder share.
 *
 *	open.c		opens a file: descriptors, alignment, its disks
 *	transfer.c	splits a transfer into what goes directly and what is copied
 *	direct.c	page views of regions, for disks
 *	bounce.c	copies through host memory
 *	disks.c		the PCI functions behind a file
 */
#pragma once

#include <stdatomic.h>

#include "../internal.h"
#include "peerdma_file.h"

#define DISKS_MAX	8

struct disks {
	unsigned int count;
	char pci[DISKS_MAX][16];
	const char *unknown;	/* NULL: these are all; else why they are not known */
};

struct peerdma_file {
	struct peerdma_cache *cache;
	struct peerdma *ctx;
	unsigned int flags;
	int fd;				/* of this file: without O_DIRECT if possible */
	int direct;			/* with O_DIRECT; -1: not to be had, and */
	const char *not_direct;		/* why */
	bool buffered;			/* fd takes any offset and length */
	uint32_t memory_align, offset_align;	/* of transfers by `direct' */
	uint64_t id;			/* of the disks: st_dev */
	struct disks disks;
	uint64_t direct_bytes, copied_bytes, host_bytes;	/* atomic */
	const char *_Atomic why;	/* a constant */
	unsigned int users;		/* atomic: the caller, and operations of queues */
};

/* open.c: the last put closes. */
void file_get(struct peerdma_file *file);
void file_put(struct peerdma_file *file);

/* A part of one pin, and the file's bytes that belong to it. */
struct part {
	struct peerdma_file *file;
	struct peerdma_region *region;	/* no segments */
	uint64_t at;			/* in the pinned bytes */
	uint64_t length;
	uint64_t offset;		/* in the file */
	bool write;			/* to the file */
};

/* Fills in the disks that have the file.  fd: the file. */
void disks_find(int fd, struct disks *disks);

/*
 * Where this process sees the pinned bytes of a region (no segments) in a way that the file's disks can transfer to, or NULL:
 * *why, a constant.  It lives as long as the region.
 */
char *direct_base(struct peerdma_file *file, struct peerdma_region *region, const char **why);

/* Where this process sees them in any way; NULL: nowhere.  It lives as long as the region. */
char *cpu_base(struct peerdma_region *region);

/* Returns the number of bytes, 0 at the end of the file, or -errno with text. */
ssize_t bounce(const struct part *part);

/*
 * Adds what a step of a transfer has returned to *done: true, if the next step is to follow.  An error after some bytes is
 * told by the next call; but if the memory was freed, the bytes of a read are gone with it.
 */
static inline bool file_step(ssize_t n, uint64_t wanted, ssize_t *done)
{
	if (n < 0) {
		*done = *done && n != -ESTALE ? *done : n;
		return false;
	}
	*done += n;
	return (uint64_t)n == wanted;
}
/* Reads or writes, all or to the end of the file.  -errno without text, if nothing was transferred. */
ssize_t file_io(int fd, void *memory, uint64_t length, uint64_t offset, bool write);
