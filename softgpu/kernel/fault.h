/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * fault.h - a knob for a fault of a real driver.  The kernel's log says so when the knob is
 * set, and at its first hit after that, so that an odd result is not taken for a bug.
 */
#ifndef SOFTGPU_FAULT_H
#define SOFTGPU_FAULT_H

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/printk.h>
#include <linux/types.h>

struct softgpu_fault {
	const char *name;
	const char *what;	/* what happens while it is on */
	u32 max;
	bool countdown;		/* with n, only the nth operation from now is hit */
	atomic_t value;		/* 0: off */
	atomic_t hit;		/* was it since it was set? */
};

static inline int softgpu_fault_set(struct softgpu_fault *f, u64 value)
{
	if (value > f->max)
		return -ERANGE;
	atomic_set(&f->hit, 0);
	atomic_set(&f->value, value);
	if (value)
		pr_notice("FAULT INJECTION: %s=%llu: %s\n", f->name, value, f->what);
	else
		pr_notice("FAULT INJECTION: %s is off\n", f->name);
	return 0;
}

static inline u32 softgpu_fault_value(const struct softgpu_fault *f)
{
	return atomic_read(&f->value);
}

/* Returns the knob's value if this operation is to be hit, else 0. */
static inline u32 softgpu_fault_hits(struct softgpu_fault *f)
{
	int value = atomic_read(&f->value);

	if (likely(!value))
		return 0;
	if (f->countdown && atomic_dec_if_positive(&f->value) != 0)
		return 0;
	if (!atomic_xchg(&f->hit, 1))
		pr_notice("FAULT INJECTION: %s hits for the first time\n", f->name);
	return value;
}

#endif
