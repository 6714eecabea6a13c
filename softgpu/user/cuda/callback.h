/* SPDX-License-Identifier: MIT */
/* callback.h - functions that streams call. */
#ifndef SGU_CALLBACK_H
#define SGU_CALLBACK_H

#include <stdint.h>

/*
 * Waits until no function of that context of the driver is still to be called.  The caller has ended its context's life: no
 * function joins any more.
 */
void sgu_callbacks_finish(int gpu, uint32_t kctx);
/* Waits until the thread has ended that called the context's functions.  The caller has destroyed the context in the driver. */
void sgu_callbacks_ended(int gpu, uint32_t kctx);

#endif
