// SPDX-License-Identifier: MIT
/*
 * user_limits.c - which limit of peerdma.ko's a user is at: the sentence behind EDQUOT,
 * ENOBUFS and, for host memory, ENOMEM.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "user_limits.h"

static const struct {
	const char *things, *parameter, *remedy;
} quotas[] = {
	[QUOTA_PINS] = { "pins", "max_pins_per_user", "unpin some" },
	[QUOTA_MAPPINGS] = { "mappings for devices", "max_mappings_per_user", "unmap some" },
	[QUOTA_VIEWS] = { "CPU views", "max_views_per_user", "end some" },
	[QUOTA_EXPORTS] = { "exported dma-bufs", "max_exports_per_user", "close some" },
};

/* What the user has and may have; all 0: the module is older than its limits, or does not answer. */
static struct peerdma_info info_of(int fd)
{
	struct peerdma_info info = { .size = sizeof(info) };

	if (sys_ioctl(fd, PEERDMA_INFO, &info))
		memset(&info, 0, sizeof(info));
	return info;
}

const char *limit_quota(int fd, enum quota quota, char *text, size_t size)
{
	const struct peerdma_info info = info_of(fd);
	const struct {
		uint32_t has, most;
	} numbers[] = {
		[QUOTA_PINS] = { info.user_pins, info.max_user_pins },
		[QUOTA_MAPPINGS] = { info.user_mappings, info.max_user_mappings },
		[QUOTA_VIEWS] = { info.user_views, info.max_user_views },
		[QUOTA_EXPORTS] = { info.user_exports, info.max_user_exports },
	};
	int n;

	/* Another thread may have ended some meanwhile. */
	if (numbers[quota].most)
		n = snprintf(text, size, "user %u has %" PRIu32 " %s, and one user may have %" PRIu32, getuid(), numbers[quota].has,
			     quotas[quota].things, numbers[quota].most);
	else
		n = snprintf(text, size, "user %u has as many %s as one user may have", getuid(), quotas[quota].things);
	snprintf(text + n, size - (size_t)n, ": %s, or raise peerdma's module parameter %s", quotas[quota].remedy,
		 quotas[quota].parameter);
	return text;
}

const char *limit_aperture(int fd, uint64_t length, char *text, size_t size)
{
	const struct peerdma_info info = info_of(fd);
	const uint64_t has = info.user_aperture, most = info.max_user_aperture;
	int n;

	if (most)
		n = snprintf(text, size, "user %u has %" PRIu64 " bytes of device memory pinned, this pin of %" PRIu64
			     " bytes would make it more than the %" PRIu64 " that one user may have", getuid(), has, length,
			     most);
	else
		n = snprintf(text, size, "user %u would have more device memory pinned than one user may have", getuid());
	snprintf(text + n, size - (size_t)n, ": unpin some, or raise peerdma's module parameter max_aperture_mib_per_user");
	return text;
}

const char *limit_locked(int fd, uint64_t addr, uint64_t length, char *text, size_t size)
{
	const uint64_t has = info_of(fd).user_locked, limit = sys_memlock_limit(), page = page_size();
	const uint64_t needed = ((addr + length + page - 1) & -page) - (addr & -page);

	if (limit == UINT64_MAX)
		snprintf(text, size, "the kernel is out of memory (RLIMIT_MEMLOCK does not limit this process)");
	else if (has + needed > limit)
		snprintf(text, size, "user %u has %" PRIu64 " bytes of host memory pinned, in all processes together, and %" PRIu64
			 " more are above RLIMIT_MEMLOCK, %" PRIu64 " bytes: unpin some, or raise the limit ('ulimit -l')",
			 getuid(), has, needed, limit);
	else
		snprintf(text, size, "user %u has locked as much memory as RLIMIT_MEMLOCK allows, %" PRIu64 " bytes ('ulimit -l'), of "
			 "which peerdma's pins are %" PRIu64 "; or the kernel is out of memory", getuid(), limit, has);
	return text;
}
