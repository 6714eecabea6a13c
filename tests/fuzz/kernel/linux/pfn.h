/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define PFN_PHYS(n)	((phys_addr_t)(n) << PAGE_SHIFT)
