// SPDX-License-Identifier: MIT
/* unsupported.c - the functions of libcuda that the software GPU does not implement. */
#include "unsupported.h"
#include "weak.h"

#define SYMBOL(name) WEAK(name, sgu_unsupported)
#include "symbols.def"
#undef SYMBOL
