/* SPDX-License-Identifier: MIT */
/* chaos.h - sets the core's knobs from a text. */
#pragma once

#include "sg.h"

/*
 * Parses "knob=number,..." (or blanks in between) into *chaos. Knobs that are not named stay
 * unchanged. -EINVAL with a line on stderr: the text is invalid, and *chaos must not be used.
 */
int sgu_chaos_parse(const char *text, struct sg_chaos *chaos);
