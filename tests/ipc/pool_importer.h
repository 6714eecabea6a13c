/* SPDX-License-Identifier: MIT */
/* pool_importer.h - for pools.c and pool_imports.c: what the process sees that opens memory of the other one's pools. */
#pragma once

#include "pool_exporter.h"

static uint8_t byte_at(const struct peerdma_ipc_memory *m, uint64_t offset)
{
	return ((uint8_t *)m->ptr)[offset];
}

static void forget_log(void)
{
	memset(fake_pools.log, 0, sizeof(fake_pools.log));
}

static bool log_is(const char *log)
{
	bool is = !strcmp(fake_pools.log, log);

	if (!is)
		printf("# the calls were %s, and not %s\n", fake_pools.log, log);
	forget_log();
	return is;
}

static bool nothing_left(void)
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };

	peerdma_ipc_counters(&c);
	return !c.imports && !fake_pools.pools && !fake_pools.pointers && !fake_pools.wrong;
}
