/* SPDX-License-Identifier: MIT */
/*
 * inprocess.h - how others in this process reach the software GPU that libcuda
 * holds when SOFTGPU_INPROCESS=1: the NVML look-alike, and demonstrations that
 * pin its memory.  Exported by libcuda.so.1; not part of CUDA.
 */
#ifndef SGU_INPROCESS_H
#define SGU_INPROCESS_H

struct sg;
struct sgu_transport;

/* The transport to it. */
const struct sgu_transport *softgpu_inprocess_transport(void);

/* softgpu_inprocess_begin() was called. */
int softgpu_inprocess_begun(void);

/* The core, for sg_pin_get() and its kin; NULL before cuInit has succeeded, and in a forked child. */
struct sg *softgpu_inprocess_core(void);

/* The process of that core that libcuda's memory belongs to (sg_pin_who.proc_key). */
const void *softgpu_inprocess_key(void);

#endif
