/* SPDX-License-Identifier: MIT */
/* hip_runtime.h - the header that HIP programs include.  It contains no device code. */
#ifndef HIP_RUNTIME_H
#define HIP_RUNTIME_H

#include "hip_common.h"
#include "hip_runtime_api.h"

#endif
