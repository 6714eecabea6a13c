/* SPDX-License-Identifier: MIT */
/* window.h - the window of device addresses. All libraries in a process share one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SGU_PAGE ((uint64_t)SOFTGPU_PAGE_SIZE)

/*
 * Reserves the window for `gpus` GPUs. -EEXIST: the server has no room for another client. Other
 * errors: -errno.
 */
int sgu_window_open(int gpus);
/* Whether va is inside the window. */
bool sgu_in_window(uint64_t va);
/* Whether this process shares its contexts with other processes (MPS). */
bool sgu_window_has_server(void);
