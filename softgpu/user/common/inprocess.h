/* SPDX-License-Identifier: MIT */
/*
 * inprocess.h - access to the software GPU that libcuda has inside this process with
 * SOFTGPU_INPROCESS=1. Used by the stand-in for NVML, and by demonstrations that pin its memory.
 * Exported by libcuda.so.1; not part of CUDA.
 */
#pragma once

struct sg;
struct sgu_transport;

/* The transport to this GPU. */
const struct sgu_transport *softgpu_inprocess_transport(void);

/* Whether softgpu_inprocess_begin() was called. */
int softgpu_inprocess_begun(void);

/*
 * The core, for sg_pin_get() and similar calls. NULL before a successful cuInit(), and in a forked
 * child.
 */
struct sg *softgpu_inprocess_core(void);

/* The process, in the core's terms, that owns libcuda's memory (sg_pin_who.proc_key). */
const void *softgpu_inprocess_key(void);
