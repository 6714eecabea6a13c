/* SPDX-License-Identifier: MIT */
/* touch.h - reads and writes memory that may not be there. */
#pragma once

#include <stdint.h>

/* Once per process. */
void touch_init(void);

/* 0, or the signal that the access raised.  Any thread. */
int touch_read(const volatile uint64_t *p, uint64_t *value);
int touch_write(volatile uint64_t *p, uint64_t value);
