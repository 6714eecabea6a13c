/* SPDX-License-Identifier: MIT */
/*
 * user_limits.h - a sentence for each limit per user: the user, the limit, and what to change. The
 * numbers come from PEERDMA_INFO, if the module has them.
 *
 * fd: of /dev/peerdma. All functions return `text`.
 */
#pragma once

#include "internal.h"

#define LIMIT_TEXT 384

enum quota { QUOTA_PINS, QUOTA_MAPPINGS, QUOTA_VIEWS, QUOTA_EXPORTS };

const char *limit_quota(int fd, enum quota quota, char *text, size_t size);	/* for EDQUOT */
/* length: size of the failed pin in bytes. */
const char *limit_aperture(int fd, uint64_t length, char *text, size_t size);	/* for ENOBUFS */
/*
 * For ENOMEM of a pin of host memory, [addr, addr + length): RLIMIT_MEMLOCK, or the kernel is out
 * of memory.
 */
const char *limit_locked(int fd, uint64_t addr, uint64_t length, char *text, size_t size);
