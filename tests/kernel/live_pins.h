/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/* live_pins.h - /dev/live_pins: what a pin of GPU memory costs while many others live. */
#ifndef LIVE_PINS_H
#define LIVE_PINS_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define LIVE_PINS_MAX		100000
#define LIVE_PINS_ROUNDS	101

/*
 * Brings the pins that stay to `live', each of one page, going round the `pages'
 * pages at va; then gets and puts one pin more, several times.
 */
struct live_pins_run {
	__u64 va;
	__u32 pages;
	__u32 live;
	__u64 get, put;		/* out: ticks of the time stamp counter, medians */
};

/* Pins each of `pages' pages at va once; they stay until their memory is freed. */
struct live_pins_victims {
	__u64 va;
	__u32 pages;
	__u32 callbacks;	/* out: since the last of these calls, of all pins */
};

#define LIVE_PINS_RUN		_IOWR(0xb9, 0, struct live_pins_run)
#define LIVE_PINS_VICTIMS	_IOWR(0xb9, 1, struct live_pins_victims)

#endif
