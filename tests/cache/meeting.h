/* SPDX-License-Identifier: MIT */
/*
 * meeting.h - base/order.h for current.c in meeting.c: the test is called before and after each exchange, which decides
 * whether a thread cache's thread or its cache ends first, and while the one waits for the other.
 */
#pragma once

#undef CACHE_ORDER_HEADER
#undef CACHE_ORDER_H
#include "../../peerdma/lib/base/order.h"
#include <stdint.h>

void meeting_before(uint32_t to);
void meeting_after(uint32_t to);
int meeting_yield(void);

static inline bool meeting_replace(uint32_t *p, uint32_t from, uint32_t to)
{
	bool done;

	meeting_before(to);
	done = ord_replace(p, from, to);
	meeting_after(to);
	return done;
}

#undef ord_replace
#define ord_replace(p, from, to) meeting_replace(p, from, to)
#define sched_yield() meeting_yield()
