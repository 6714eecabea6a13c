/* SPDX-License-Identifier: MIT */
/* window.h - the window of device addresses, one for all libraries in a process. */
#ifndef SGU_WINDOW_H
#define SGU_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define SGU_PAGE ((uint64_t)SOFTGPU_PAGE_SIZE)

/* Takes the addresses, for so many GPUs.  -EEXIST: the server has no room for another client; else -errno. */
int sgu_window_open(int gpus);
/* Is va inside the window? */
bool sgu_in_window(uint64_t va);
/* Whether this process's contexts are one with those of other processes (MPS). */
bool sgu_window_has_server(void);

#endif
