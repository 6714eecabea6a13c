// SPDX-License-Identifier: MIT
/* sites_other.c - for processors that are not supported; see sites.h. */
#ifndef __x86_64__
#include <errno.h>

#include "sites.h"

bool sites_known(void)
{
	return false;
}

long system_call(long number, const long *args)
{
	(void)number;
	(void)args;
	return -ENOSYS;
}

int sites_redirect(uintptr_t text, uintptr_t end, uintptr_t room, uintptr_t room_end,
		   sites_handler handler,
		   uintptr_t *sites, size_t max)
{
	(void)text;
	(void)end;
	(void)room;
	(void)room_end;
	(void)handler;
	(void)sites;
	(void)max;
	return -EOPNOTSUPP;
}
#endif
