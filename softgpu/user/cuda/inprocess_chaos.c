// SPDX-License-Identifier: MIT
/* inprocess_chaos.c - softgpu_inprocess.h: faults at the moment that a test chooses. */
#include <errno.h>

#include "chaos.h"
#include "inprocess.h"
#include "internal.h"
#include "softgpu_inprocess.h"

SGU_EXPORT int softgpu_inprocess_revoke(uint64_t va)
{
	struct sg *core = softgpu_inprocess_core();

	return core ? (int)sg_pins_revoke_at(core, va) : -ENODEV;
}

/* Two threads that set different knobs at once: the one that comes last may undo the other's. */
SGU_EXPORT int softgpu_inprocess_chaos(const char *knobs)
{
	struct sg *core = softgpu_inprocess_core();
	struct sg_chaos chaos;
	int err;

	if (!core)
		return -ENODEV;
	sg_chaos_get(core, &chaos);
	err = sgu_chaos_parse(knobs, &chaos);
	if (!err)
		sg_chaos_set(core, &chaos);
	return err;
}
