/* SPDX-License-Identifier: MIT */
/*
 * transport.h - the one way from softgpu's user libraries to its driver.
 *
 * Two transports speak the same structs (softgpu_uapi.h): /dev/softgpuN, and
 * softgpu's core inside this process.  Everything above is the same for both.
 */
#ifndef SGU_TRANSPORT_H
#define SGU_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "softgpu_uapi.h"

struct sgu_transport {
	const char *name;
	/* Whether other processes and devices can reach these GPUs' memory. */
	int shared;
	/*
	 * Finds the GPUs: index[] gets the N of each, in rising order.  Returns
	 * how many there are, 0 when this transport has none, or -errno.
	 */
	int (*open)(unsigned int index[SOFTGPU_MAX_GPUS]);
	/* One call on the GPU with this index: 0 or -errno. */
	int (*call)(unsigned int index, unsigned long cmd, void *arg);
	/*
	 * Maps memory of kind VISIBLE for the CPU where it stands.  0 or -errno; NULL
	 * where this cannot be.
	 */
	int (*show)(unsigned int index, void *addr, size_t length);
	/*
	 * Maps new host memory over [addr, addr + length), write-combined as far as the
	 * kernel can tell.  0 or -errno; NULL: there is none to be had.
	 */
	int (*write_combined)(unsigned int index, void *addr, size_t length);
	/* The same, of managed memory, which /proc/self/maps calls NVIDIA's device. */
	int (*managed)(unsigned int index, void *addr, size_t length);
	/* Gives up the open GPUs, touching nothing else: cuInit failed, or this is a forked child. */
	void (*forget)(void);
};

extern const struct sgu_transport sgu_transport_dev;
extern const struct sgu_transport sgu_transport_core;

/*
 * Picks the transport and opens the GPUs: /dev/softgpuN when there is one,
 * softgpu inside this process when SOFTGPU_INPROCESS=1 says so, or it says
 * nothing and sgu_want_inprocess() was called (these come first).  Returns the number of GPUs or -errno.  Called once, under the
 * caller's lock; may be called again when it found none.
 */
int sgu_open(void);
void sgu_want_inprocess(void);
bool sgu_wants_inprocess(void);

/* GPUs are numbered 0 to sgu_open() - 1 from here on. */
int sgu_call(int gpu, unsigned long cmd, void *arg);

/*
 * A call that any GPU can answer, since it is about the process (addresses,
 * handles): the first GPU that has not been removed answers.
 */
int sgu_call_any(unsigned long cmd, void *arg);

/* The number of the GPU with this index, or -1. */
int sgu_gpu_of_index(unsigned int index);

int sgu_show(int gpu, void *addr, size_t length);
/* Host memory over [addr, addr + length) that forked children share: 0 or -errno. */
enum sgu_host { SGU_HOST, SGU_HOST_WRITE_COMBINED, SGU_HOST_MANAGED };
int sgu_host(int gpu, void *addr, size_t length, enum sgu_host kind);
/*
 * Takes the CPU addresses [addr, addr + length): any access faults and nothing else gets them.
 * As NVIDIA's: private, so that the kernel can be forced to put pages there (FOLL_FORCE), which
 * are not the GPU's; and a child has it, too.  flags are mmap's; returns what mmap returns.
 */
void *sgu_reserve(void *addr, size_t length, int flags);
void sgu_forget(void);
int sgu_shared(void);

/* One line on stderr when SOFTGPU_LOG is set: what failed, why, and what helps. */
void sgu_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
