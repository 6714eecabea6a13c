/* SPDX-License-Identifier: MIT */
/* orders.h - what order_schedule.c offers the test that drives it. */
#pragma once

#include <stdbool.h>

#define ORDER_THREADS 4		/* thread 0 is the main one */

int order_self(void);
/* The main thread does what follows as if it were another; -1: no more. */
void order_act_as(int thread);
void order_drainer(void *thread);
/* Nothing waits; the threads to come are so many, and their drainers are started first. */
void order_reset(int threads);
/* All that still waits in buffers is seen. */
void order_settle(void);
/* ord_fence_others() does nothing: the test must notice. */
extern bool order_broken_fence;
/* What ord_fence_others_works() says. */
extern bool order_others;
/* It fails, as where it is forbidden after the cache was made. */
extern bool order_fence_fails;
