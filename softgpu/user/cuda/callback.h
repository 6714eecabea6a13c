/* SPDX-License-Identifier: MIT */
/* callback.h - functions that streams call on the CPU. */
#pragma once

#include <stdint.h>

/*
 * Waits until all functions of the driver context have been called. The caller has ended the
 * context, so no function is added any more.
 */
void sgu_callbacks_finish(int gpu, uint32_t kctx);
/*
 * Waits until the thread that called the context's functions has ended. The caller has destroyed
 * the context in the driver.
 */
void sgu_callbacks_ended(int gpu, uint32_t kctx);
