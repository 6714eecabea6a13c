/* SPDX-License-Identifier: MIT */
/* child.h - a step in a child of its own, and a nap. */
#pragma once

#include <stdbool.h>

/* Runs fn in a forked child, which has no GPU context of its own; whether it ended well. */
bool in_child(void (*fn)(void *), void *arg);
void nap_ms(int ms);
