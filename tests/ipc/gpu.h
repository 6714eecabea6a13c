/* SPDX-License-Identifier: MIT */
/* gpu.h - one provider's memory, for gpu.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

extern const char *const gpu_provider[];	/* names as in peerdma_ipc_info, of each kind of memory; NULL ends them */
/* Makes it usable in this process; false: it is not there. */
bool gpu_begin(void);
/* NULL: this machine has none of that kind. */
void *gpu_alloc(int kind, size_t length);
void gpu_free(int kind, void *p, size_t length);
void gpu_put(void *p, const void *from, size_t length);
void gpu_get(void *to, const void *p, size_t length);
/* Whether another process can reach memory of this kind. */
bool gpu_shared(void);
/* Makes the calling thread's opened memory go away with its context; false: there is no such thing. */
bool gpu_new_context(void);
bool gpu_no_context(bool none);
