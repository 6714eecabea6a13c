/* SPDX-License-Identifier: MIT */
/* hip_ext.h - AMD's extensions to HIP.  All of those here are in hip_runtime_api.h. */
#ifndef HIP_EXT_H
#define HIP_EXT_H

#include "hip_runtime.h"

#endif
