// SPDX-License-Identifier: MIT
/* sync.c - peerdma_sync(): copies between the memory and the copy that stands for it. */
#include "backend.h"

EXPORT int peerdma_sync(struct peerdma_region *region, uint64_t offset, uint64_t length, unsigned int flags)
{
	int ret = check_given("peerdma_sync", "region", region, NULL);
	struct peerdma_region *copy;

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_sync");
	if (ret)
		return ret;
	if ((flags != PEERDMA_TO_DEVICE && flags != PEERDMA_FROM_DEVICE) ||
	    (flags == PEERDMA_FROM_DEVICE && region->flags & PEERDMA_READONLY))
		return fail(-EINVAL, "peerdma_sync: flags 0x%x: give one of PEERDMA_TO_DEVICE and, if the pin is not READONLY, "
			    "PEERDMA_FROM_DEVICE", flags);
	if (!length && !offset)
		length = region->length;
	if (!length || offset >= region->length || length > region->length - offset)
		return fail(-EINVAL, "peerdma_sync: [%llu, +%llu) is not within the %llu bytes that were pinned",
			    (unsigned long long)offset, (unsigned long long)length, (unsigned long long)region->length);
	copy = region->backend->move ? region : __atomic_load_n(&region->stand_in, __ATOMIC_ACQUIRE);
	ret = copy ? copy->backend->move(copy, offset, length, flags == PEERDMA_FROM_DEVICE) : 0;
	if (!ret)
		return 0;
	return fail(ret, "peerdma_sync: %s", peerdma_last_error());
}
