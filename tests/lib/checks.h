/* SPDX-License-Identifier: MIT */
/* checks.h - check.h for tests of libpeerdma: a failure comes with the last error's text. */
#pragma once

#include "../check.h"
#include "peerdma.h"

static void say_last_error(void)
{
	printf("\tthe last error's text: %s\n", peerdma_last_error());
}

__attribute__((constructor)) static void checks_begin(void)
{
	check_says = say_last_error;
}
