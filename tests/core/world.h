/* SPDX-License-Identifier: MIT */
/* world.h - for cases with one machine and one process: each case's setup() makes them, teardown() ends them. */
#pragma once

#include "../cases.h"
#include "util.h"

static struct machine m;
static struct user u;
static int key;

/* Checks that nothing is left. */
static int teardown(void **state)
{
	user_down(&u);
	machine_down(&m);
	return 0;
}
