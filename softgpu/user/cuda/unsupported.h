/* SPDX-License-Identifier: MIT */
/* unsupported.h - the answer of functions that the software GPU does not implement. */
#pragma once

#include <stdbool.h>

/*
 * Returns the CUresult of the call: CUDA_ERROR_NOT_SUPPORTED, or an earlier reason to fail. Says the
 * function's name in the log, unless that was told before.
 */
int sgu_unsupported(const char *function, bool told);
