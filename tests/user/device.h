/* SPDX-License-Identifier: MIT */
/*
 * device.h - /dev/softgpuN inside the program: softgpu's core behind its own open(), ioctl(), mmap() and close(), which
 * the libraries call instead of the C library's. So all of them run as on the driver, and any of its calls can be made to
 * fail. Without sanitizers, whose own these would replace.
 *
 * There are two GPUs with 64 MiB each, at DEVICE_BUS and the next one. The environment asks for others: DEVICE_GPUS;
 * DEVICE_FIRST, the number of the first one; DEVICE_BAR1_MIB; DEVICE_MODE, the compute mode.
 */
#pragma once

#include <stdbool.h>

#include "sg.h"
#include "softgpu_uapi.h"

#define DEVICE_DOMAIN	0x10001u
#define DEVICE_BUS	0xa7u
#define DEVICE_SLOT	0x15u
#define DEVICE_FUNCTION	6u
#define DEVICE_VRAM	((u64)64 << 20)

/* NULL if no GPU has been opened. */
extern struct sg *device_core;

/* open() fails so; 0: it does not. */
extern int device_open_error;

#define DEVICE_MMAP	1ul	/* among the commands of device_fail() */
#define DEVICE_EACH	0xffffffffu
/* The nth call of this kind fails, or each; n is 0: none does. */
void device_fail(unsigned long cmd, unsigned int nth, int error);
extern bool device_failed;	/* it has */
extern bool device_no_sysfs;	/* the kernel's files say nothing of the GPUs */

/* Runs before each call of the driver, in its thread: what another thread does meanwhile. */
extern void (*device_meanwhile)(unsigned long cmd);

extern unsigned int device_calls[256];	/* by number */
extern unsigned int device_open_files;

/* What SOFTGPU_INFO says of the interface is this much more. */
extern u32 device_abi_more;

/* Another process's client of a GPU, with a window and a context with these flags. */
struct sg_client *device_other(u32 gpu, u32 flags, u32 *ctx);
