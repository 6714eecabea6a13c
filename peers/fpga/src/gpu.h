/* SPDX-License-Identifier: MIT */
/*
 * gpu.h - GPU memory, through the CUDA driver API and NVML, or stand-ins for them.  Both
 * are loaded at run time, so that one program runs with any of them, or reports that there
 * is none.
 */
#ifndef FPGA_GPU_H
#define FPGA_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util.h"

#define GPUS_MAX	16

enum gpu_calls { CALLS_CUDA, CALLS_CUDA_HOST, CALLS_HIP, CALLS_NONE };
enum gpu_export { EXPORT_NONE, EXPORT_CUDA, EXPORT_HSA };

/* A kind of GPU memory: by which calls it is allocated, how cards reach it, and its properties. */
struct gpu_make {
	const char *name;	/* in options */
	const char *provider;	/* peerdma's */
	const char *alloc, *free;	/* calls of the program */
	const char *pin;	/* calls of the bridge */
	enum gpu_calls calls;
	unsigned int flags;	/* of cuMemHostAlloc */
	enum gpu_export export;	/* cards get it as a dma-buf, not by its address */
	bool in_bar;		/* VRAM, which devices reach through BAR1; else system memory */
	bool outlives;		/* pinned memory stays until unpinned, even if freed */
	bool later;		/* a free does not wait for revocations: pinned memory stays until they are over */
};
extern const struct gpu_make make_nvidia;

struct gpu {
	int index;
	char name[64];
	char pci[20];		/* domain:bus:device.function, as sysfs writes it */
	void *ctx;		/* primary context, retained */
	void *nvml;		/* its NVML handle, or NULL */
	const struct gpu_make *make;
	int hip_device;
};

struct gpu_usage {
	bool known;		/* NVML answered */
	uint64_t bar1_total;
	uint64_t bar1_used;
	uint64_t vram_total;
	uint64_t vram_used;
};

/* Loads the libraries and retains every GPU's primary context.  False and why. */
bool gpus_open(struct gpu gpus[GPUS_MAX], int *count, struct why *why);
void gpus_close(struct gpu gpus[], int count);

/*
 * The same GPU, with another kind of memory: the software GPU has all kinds.  False and
 * why.  It is valid as long as the original.
 */
bool gpu_as(const struct gpu *gpu, const struct gpu_make *make, struct gpu *other, struct why *why);

/*
 * Finds a kind by its name at the start of text, alone or before a colon; *rest is the text
 * after it.  NULL: none.
 */
const struct gpu_make *gpu_make(const char *text, const char **rest);

/*
 * The calls below return false and why.  A length is never 0. gpu_alloc() asks for
 * SYNC_MEMOPS: the card must see what cuMemcpy has written.
 */
bool gpu_alloc(const struct gpu *gpu, size_t length, uint64_t *addr, struct why *why);
bool gpu_free(const struct gpu *gpu, uint64_t addr, struct why *why);
/* Exports memory as a dma-buf; *offset is the offset of addr in it.  The descriptor is never 0. */
bool gpu_export(const struct gpu *gpu, uint64_t addr, size_t length, int *fd, uint64_t *offset, struct why *why);
bool gpu_write(const struct gpu *gpu, uint64_t addr, const void *from, size_t length,
	       struct why *why);
bool gpu_read(const struct gpu *gpu, void *to, uint64_t addr, size_t length, struct why *why);
bool gpu_set(const struct gpu *gpu, uint64_t addr, unsigned char value, size_t length,
	     struct why *why);
uint64_t gpu_buffer_id(uint64_t addr);	/* 0: unknown */

/* Bytes that gpu_write() and gpu_read() have moved so far, by the GPU's copy engine. */
uint64_t gpu_bytes_copied(void);

struct gpu_usage gpu_usage(const struct gpu *gpu);
const char *gpu_driver_version(void);	/* from NVML, or "unknown" */

#endif
