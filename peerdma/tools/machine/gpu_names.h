/* SPDX-License-Identifier: MIT */
/* gpu_names.h - what drivers call GPUs that the list of names (names.c) does not have. */
#pragma once

#include "machine.h"

/* Fills the titles of such GPUs.  0 or -ENOMEM. */
int gpu_names_read(struct machine *m);
