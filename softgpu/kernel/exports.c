// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * exports.c - exports the core's functions that personalities call; the core itself has no
 * module code.
 */
#include <linux/export.h>
#include "softgpu_kapi.h"

EXPORT_SYMBOL_GPL(sg_find);
EXPORT_SYMBOL_GPL(sg_find_host);
EXPORT_SYMBOL_GPL(sg_pin_get);
EXPORT_SYMBOL_GPL(sg_pin_put);
EXPORT_SYMBOL_GPL(sg_pin_put_by);
EXPORT_SYMBOL_GPL(sg_pin_is_of);
EXPORT_SYMBOL_GPL(sg_pin_hold);
EXPORT_SYMBOL_GPL(sg_pin_unhold);
EXPORT_SYMBOL_GPL(sg_pin_live);
EXPORT_SYMBOL_GPL(sg_pin_page);
EXPORT_SYMBOL_GPL(sg_pin_pages);
EXPORT_SYMBOL_GPL(sg_pin_uuid);
EXPORT_SYMBOL_GPL(sg_pin_gpu_index);
EXPORT_SYMBOL_GPL(sg_gpu_stats);
EXPORT_SYMBOL_GPL(sg_set_platform);
EXPORT_SYMBOL_GPL(sg_chaos_get);
EXPORT_SYMBOL_GPL(sg_chaos_map);
EXPORT_SYMBOL_GPL(sg_chaos_pin);
EXPORT_SYMBOL_GPL(sg_chaos_pinned);
