// SPDX-License-Identifier: MIT OR GPL-2.0
/* trace.c - the one place where the tracepoints are defined. */
#define CREATE_TRACE_POINTS
#include "trace.h"
