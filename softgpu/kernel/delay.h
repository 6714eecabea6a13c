/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* delay.h - delays that are never shorter than requested. */
#ifndef SOFTGPU_DELAY_H
#define SOFTGPU_DELAY_H

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/sched.h>

/*
 * Sleeps for at least this long; 0: not at all. msleep() counts jiffies. If ticks come
 * late, as in a virtual machine on a busy host, it starts from a count that lags behind and
 * ends when that count catches up in one step, which is too early.
 */
static inline void softgpu_delay_us(u64 us)
{
	ktime_t until = ktime_add_us(ktime_get(), us);

	while (us && ktime_before(ktime_get(), until)) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
	}
}

static inline void softgpu_delay_ms(u32 ms)
{
	softgpu_delay_us((u64)ms * USEC_PER_MSEC);
}

#endif
