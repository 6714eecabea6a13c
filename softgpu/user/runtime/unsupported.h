/* SPDX-License-Identifier: MIT */
/* unsupported.h - the answer of functions that the software GPU does not implement. */
#pragma once

#include <stdbool.h>

/* Returns the cudaError_t of the call, and records it. The log names the function, unless told. */
int rt_unsupported(const char *function, bool told);
