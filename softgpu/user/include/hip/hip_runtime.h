/* SPDX-License-Identifier: MIT */
/* hip_runtime.h - what programs include; there is no device code here. */
#ifndef HIP_RUNTIME_H
#define HIP_RUNTIME_H

#include "hip_runtime_api.h"

#endif
