/* SPDX-License-Identifier: MIT */
/* pair_probe.h - data between two machines: the end that asks, and the one that is asked. */
#pragma once

#include <stdbool.h>

struct pairing;
/*
 * Side A is this machine, side B is what p->name[1] names to the remote shell.  Of each rail, what was
 * moved is A's doctor's (moved()), and p->verdict is made worse by what failed.  0 or -ENOMEM.
 */
int pair_probe(struct pairing *p, const char *rsh);

/* The asked end, until its input ends: true; or it is refused, and that was said. */
bool pair_serve(int in, int out);

/* For tests: one rail, with an end that is asked by these descriptors. */
struct rail;
void pair_probe_rail(struct pairing *p, const struct rail *a, const struct rail *b, int in,
		     int out);
