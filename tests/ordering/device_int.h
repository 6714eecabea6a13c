/* SPDX-License-Identifier: MIT */
/* device_int.h - the two devices, for device.c. */
#pragma once

#include "device.h"

struct device {
	unsigned int patience_ms;
	/* NULL, or what is missing. */
	const char *(*open)(void);
	void (*read)(uint64_t gpu, void *to, size_t length);
	/* In a thread of its own. */
	void (*write)(uint64_t gpu, const void *from, size_t length);
	int (*rules)(struct rule rules[RULES_MAX]);
};

extern const struct device device_process, device_fpga;

/* Ends the program: not the pair is at fault, but what it runs on. */
void device_broken(const char *what) __attribute__((noreturn));
