/* SPDX-License-Identifier: MIT */
/* callback.h - for context.c: functions that streams call end with their context. */
#ifndef SGU_CALLBACK_H
#define SGU_CALLBACK_H

#include <stdint.h>

/* Waits until no function of that context of the driver is still to be called. */
void sgu_callbacks_finish(int gpu, uint32_t kctx);

#endif
