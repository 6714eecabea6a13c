/* SPDX-License-Identifier: MIT */
/* vram.h - the memory of GPUs that are in this process, which can be mapped more than once. */
#ifndef SGU_VRAM_H
#define SGU_VRAM_H

#include <stddef.h>
#include <stdint.h>

/* VRAM for the GPU with this index: zeros, taken as they are touched, not for forked children.  NULL: none to be had. */
void *sgu_vram_make(unsigned int gpu, size_t size);

/*
 * Maps [vram, vram + length) of that GPU at `at' as well.  -EOPNOTSUPP: this system
 * has no memory for it; else -errno.
 */
int sgu_vram_map(unsigned int gpu, uint64_t vram, uint64_t length, int prot, void *at);

/* What was mapped at `at' reaches the memory no more: a touch raises SIGBUS. */
void sgu_vram_hide(void *at, uint64_t length);

#endif
