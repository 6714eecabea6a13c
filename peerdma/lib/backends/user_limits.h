/* SPDX-License-Identifier: MIT */
/*
 * user_limits.h - a sentence for each limit per user: which user has reached it, the limit,
 * what to change.  Numbers are PEERDMA_INFO's, if the module has them.
 *
 * fd: of /dev/peerdma.  All return `text`.
 */
#ifndef USER_LIMITS_H
#define USER_LIMITS_H

#include "internal.h"

#define LIMIT_TEXT 384

enum quota { QUOTA_PINS, QUOTA_MAPPINGS, QUOTA_VIEWS, QUOTA_EXPORTS };

const char *limit_quota(int fd, enum quota quota, char *text, size_t size);	/* EDQUOT */
/* length: of the pin that failed, in bytes. */
const char *limit_aperture(int fd, uint64_t length, char *text, size_t size);	/* ENOBUFS */
/* ENOMEM of a pin of host memory, [addr, addr + length): RLIMIT_MEMLOCK, or the kernel's memory. */
const char *limit_locked(int fd, uint64_t addr, uint64_t length, char *text, size_t size);

#endif
