/* SPDX-License-Identifier: MIT */
/*
 * memory.h - memory to register: the host's, or the software GPU's, registered by its address (peer), by a dma-buf of
 * CUDA's (dmabuf), which keeps the memory when it is freed, or by one of libpeerdma's (export), which does not; or managed
 * memory, which is the host's as well.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>

enum memory_kind { MEMORY_HOST, MEMORY_DMABUF, MEMORY_PEER, MEMORY_EXPORT, MEMORY_MANAGED };

struct memory {
	enum memory_kind kind;
	size_t size;
	uint64_t addr;
	struct peerdma_region *region;	/* of MEMORY_EXPORT, once registered */
};

/* "host", "dmabuf", "peer", "export", "managed"; else the program ends. */
enum memory_kind memory_kind(const char *name);

void memory_alloc(struct memory *m, enum memory_kind kind, size_t size);
/* Also while it is registered. */
void memory_free(struct memory *m);
/* What registering has made besides the MR; when that is gone. */
void memory_release(struct memory *m);
void memory_fill(const struct memory *m, unsigned char byte);
void memory_read(const struct memory *m, size_t offset, void *to, size_t size);
void memory_write(const struct memory *m, size_t offset, const void *from, size_t size);

/* A dma-buf of all of it, of MEMORY_DMABUF or MEMORY_EXPORT. */
int memory_export(struct memory *m);
/* All rights, all of it or a part; remote addresses are those of the memory. NULL and errno where it is refused. */
struct ibv_mr *memory_try_register(struct memory *m, struct ibv_pd *pd, size_t offset, size_t size);
/* The same, or the program ends. */
struct ibv_mr *memory_register(struct memory *m, struct ibv_pd *pd);
/*
 * ibv_rereg_mr() by the kernel's own command, since Debian's provider refuses before the kernel is asked. 0, or an errno. The
 * library does not know of what has changed.
 */
int memory_reregister(const struct ibv_mr *mr, uint32_t flags, const struct ibv_pd *pd, uint64_t addr, uint64_t size, unsigned int access);
