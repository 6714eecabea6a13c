/* SPDX-License-Identifier: MIT */
/* chaos.h - the core's knobs from the environment. */
#ifndef SGU_CHAOS_H
#define SGU_CHAOS_H

#include "sg.h"

/*
 * "knob=number,..." (or blanks between) into chaos; what is not named stays as it is.
 * -EINVAL when it cannot be understood, with a line on stderr; *chaos is then of no use.
 */
int sgu_chaos_parse(const char *text, struct sg_chaos *chaos);

#endif
