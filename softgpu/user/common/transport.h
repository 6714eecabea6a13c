/* SPDX-License-Identifier: MIT */
/*
 * transport.h - the interface between softgpu's user libraries and its driver.
 *
 * There are two transports for the same structs (softgpu_uapi.h): /dev/softgpuN, and softgpu's core
 * inside this process. All code above the transport is the same for both.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "softgpu_uapi.h"

struct sgu_transport {
	const char *name;
	/* Whether other processes and devices can reach the GPUs' memory. */
	int shared;
	/*
	 * Finds the GPUs and stores the N of each in index[], in ascending order. Returns their
	 * number, 0 if this transport has none, or -errno.
	 */
	int (*open)(unsigned int index[SOFTGPU_MAX_GPUS]);
	/* Makes one call on the GPU with this index: 0 or -errno. */
	int (*call)(unsigned int index, unsigned long cmd, void *arg);
	/*
	 * Maps memory of kind VISIBLE for the CPU, at its own address. 0 or -errno. NULL: not
	 * supported.
	 */
	int (*show)(unsigned int index, void *addr, size_t length);
	/*
	 * Maps new host memory at [addr, addr + length), write-combined if the kernel supports it.
	 * 0 or -errno. NULL: not supported.
	 */
	int (*write_combined)(unsigned int index, void *addr, size_t length);
	/*
	 * The same for managed memory, which /proc/self/maps shows as a mapping of NVIDIA's device.
	 */
	int (*managed)(unsigned int index, void *addr, size_t length);
	/*
	 * Closes the GPUs and changes nothing else. Called if cuInit() failed, and in a forked
	 * child.
	 */
	void (*forget)(void);
};

extern const struct sgu_transport sgu_transport_dev;
extern const struct sgu_transport sgu_transport_core;

/*
 * Chooses the transport and opens the GPUs: softgpu inside this process with SOFTGPU_INPROCESS=1,
 * or if the variable is not set and sgu_want_inprocess() was called; otherwise /dev/softgpuN.
 * Returns the number of GPUs, or -errno. The caller serializes calls. It may call again after a
 * call that found no GPU.
 */
int sgu_open(void);
void sgu_want_inprocess(void);
bool sgu_wants_inprocess(void);
/*
 * Call before sgu_open(). From then on GPUs are opened by their names among AMD's render nodes,
 * which /proc/self/maps shows for their memory; by /dev/softgpuN if that node is not there.
 */
void sgu_want_render_nodes(void);

/* GPUs are numbered from 0 to the result of sgu_open() - 1. */
int sgu_call(int gpu, unsigned long cmd, void *arg);

/*
 * Fills *info by SOFTGPU_INFO. -EPROTO: the driver is of another build than this library, which the
 * log says.
 */
int sgu_info(int gpu, struct softgpu_info *info);

/*
 * For calls that any GPU can answer, because they are about the process (addresses, handles). Uses
 * the first GPU that was not removed.
 */
int sgu_call_any(unsigned long cmd, void *arg);

/* The number of the GPU with this index, or -1. */
int sgu_gpu_of_index(unsigned int index);

int sgu_show(int gpu, void *addr, size_t length);
/* Maps host memory at [addr, addr + length) that forked children share: 0 or -errno. */
enum sgu_host { SGU_HOST, SGU_HOST_WRITE_COMBINED, SGU_HOST_MANAGED };
int sgu_host(int gpu, void *addr, size_t length, enum sgu_host kind);
/*
 * Reserves the CPU addresses [addr, addr + length). Accesses fault, and no other mapping gets the
 * addresses. Like NVIDIA's reservation, the mapping is private. So with FOLL_FORCE the kernel can
 * put pages there that are not the GPU's, and a forked child inherits the reservation. flags are
 * those of mmap(), as is the result.
 */
void *sgu_reserve(void *addr, size_t length, int flags);
void sgu_forget(void);
int sgu_shared(void);

/* Prints one line on stderr if SOFTGPU_LOG is set: what failed, why, and the remedy. */
void sgu_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
