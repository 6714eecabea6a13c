/* SPDX-License-Identifier: MIT */
/* vram.h - the memory of GPUs inside this process, which can be mapped several times. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Makes VRAM for the GPU with this index: zeroed pages, allocated at their first access, not
 * inherited by forked children. NULL: out of memory.
 */
void *sgu_vram_make(unsigned int gpu, size_t size);

/*
 * Maps [vram, vram + length) of the GPU at `at`, too. -EOPNOTSUPP: not possible on this system.
 * Other errors: -errno.
 */
int sgu_vram_map(unsigned int gpu, uint64_t vram, uint64_t length, int prot, void *at);

/* Removes the view at `at`: an access then raises SIGBUS. */
void sgu_vram_hide(void *at, uint64_t length);
