/* SPDX-License-Identifier: MIT */
/* sg_os_libc.h - the part of core/sg_os.h that every user-space implementation takes from libc. */
#pragma once

#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The same types as in the kernel, so that formats and pointers agree. */
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#ifndef container_of
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#endif

/* A broken invariant ends the process, because no later result can be trusted. */
#define SG_WARN_ON(cond) \
	((cond) ? (fprintf(stderr, "softgpu: %s:%d: broken invariant: %s\n", __FILE__, __LINE__, \
			   #cond), abort(), true) : false)
