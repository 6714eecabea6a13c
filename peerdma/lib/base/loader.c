// SPDX-License-Identifier: MIT
/* loader.c - what the dynamic loader has loaded. */
#include <link.h>

#include "internal.h"

static int loader_count(struct dl_phdr_info *info, size_t size, void *out)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof(info->dlpi_adds))
		*(unsigned long long *)out = info->dlpi_adds;
	return 1;
}

uint64_t loader_loads(void)
{
	unsigned long long count = 0;

	dl_iterate_phdr(loader_count, &count);
	return count;
}
