/* SPDX-License-Identifier: MIT */
/* unsupported.h - the answer of functions that the software GPU does not implement. */
#pragma once

#include <stdbool.h>

/* Returns the nvmlReturn_t of the call. Says the function's name in the log, unless that was told. */
int nvml_unsupported(const char *function, bool told);
