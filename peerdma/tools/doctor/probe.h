/* SPDX-License-Identifier: MIT */
/*
 * probe.h - what the probes share: memory of a GPU, patterns, and their comparison.
 *
 *   probe_gpu.c   CUDA, loaded        probe.c       a card writes to the memory and reads it
 *   probe_view.c  the CPU does, and the memory as a dma-buf
 *   probe_nic.c   an RDMA device does (rdma.c), in each way in which it takes the memory
 *   probe_nvme.c  what a drive's driver says to the memory
 */
#pragma once

#include "doctor.h"

#define PROBE_LENGTH	9000U		/* several transfers of a card, the last one short */
#define PROBE_HALF	12288U		/* PROBE_LENGTH in whole pages */
#define PROBE_ROOM	(2U * PROBE_HALF)
#define PROBE_MEMORY	(2UL << 20)	/* a page of its own, that can be exported */

/* The names, numbers and layouts of CUDA's ABI. */
typedef int cuda_result;
typedef int cuda_device;
typedef void *cuda_context;
typedef uint64_t cuda_pointer;

struct cuda {
	void *library;
	cuda_result (*init)(unsigned int flags);
	cuda_result (*by_pci)(cuda_device *device, const char *pci);
	cuda_result (*by_number)(cuda_device *device, int number);
	cuda_result (*retain)(cuda_context *context, cuda_device device);
	cuda_result (*release)(cuda_device device);
	cuda_result (*set_current)(cuda_context context);
	cuda_result (*alloc)(cuda_pointer *p, size_t size);
	cuda_result (*free)(cuda_pointer p);
	cuda_result (*to_gpu)(cuda_pointer to, const void *from, size_t size);
	cuda_result (*to_host)(void *to, cuda_pointer from, size_t size);
	cuda_result (*set_attribute)(const void *value, int attribute, cuda_pointer p);
	/* May be NULL */
	cuda_result (*get_handle)(void *handle, cuda_pointer p, size_t size, int type,
				  unsigned long long flags);
};

struct probe {
	struct cuda cuda;
	cuda_device device;
	cuda_pointer memory;		/* PROBE_MEMORY bytes */
	int card;
	unsigned char *room;		/* PROBE_ROOM bytes of the host, in which are */
	unsigned char *sent, *got;	/* PROBE_LENGTH bytes each */
	char why[160];			/* what has failed last */
};

/* false: out of memory.  probe_end() in any case. */
bool probe_begin(struct probe *p);
void probe_end(struct probe *p);
/* gpu: NULL is CUDA's first. */
bool probe_open_gpu(struct probe *p, const struct device *gpu);
void probe_close_gpu(struct probe *p);
bool probe_did(struct probe *p, cuda_result r, const char *call);

/* The memory for the CPU, while *ctx is open; false: peerdma_last_error().  peerdma_close() in any case. */
struct peerdma;
bool probe_view(const struct probe *p, struct peerdma **ctx, void **view);
/* The same with struct pages, for transfers by this device; it stays mapped until the process ends. */
bool probe_pages(const struct probe *p, const char *pci, struct peerdma **ctx, char **base);

/* probe_nic.c: all ways between the GPU and an RDMA device that is open, as findings. */
struct rdma;
void probe_nic_try(struct doctor *d, struct probe *p, struct rdma *r, const char *subject,
		   bool software);

/* The GPU's memory as a dma-buf; NULL: r->why. */
struct verbs_mr *probe_nic_dmabuf(struct probe *p, struct rdma *r);

/* A pattern that no other memory has by chance, and no two positions have alike. */
void probe_fill(unsigned char *to, unsigned int salt);
/* How many bytes of `got` are not those of `sent`, and the first. */
unsigned int probe_differ(const struct probe *p, unsigned int *first);
