/* SPDX-License-Identifier: MIT */
/*
 * device.h - a device that reads and writes GPU memory past CUDA: the FPGA card
 * (/dev/fpga0) on softgpu.ko; with SOFTGPU_INPROCESS=1 a thread that pins the
 * memory and goes through the GPU's aperture, as the card does.
 *
 * It pins what it needs for as long as an access lasts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: there is no such device; *why says what is missing. */
bool device_open(const char **why);

/* Reads `length` bytes of GPU memory; when it returns they have been read. */
void device_read(uint64_t gpu, void *to, size_t length);

/*
 * Tells the device to write, and returns; the data arrive later: not before
 * device_wait(), which returns when they have, as a completion's arrival tells a
 * real program.  One write at a time; `from` stays the caller's until then.
 */
void device_write(uint64_t gpu, const void *from, size_t length);
void device_wait(void);

/* How long a kernel that waits for a write in vain must wait to be sure. */
unsigned int device_patience_ms(void);

/* The ordering rules as strict mode has seen them broken since device_open(); returns how many rules there are. */
struct rule {
	char text[256];
	uint64_t broken;
};
#define RULES_MAX 8
int device_rules(struct rule rules[RULES_MAX]);
