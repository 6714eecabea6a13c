/* SPDX-License-Identifier: MIT */
/*
 * counters.h - the number of bytes that each of UCX's transports has transferred in this process.
 *
 * UCX counts if it was configured with --enable-stats and the environment has
 * UCX_STATS_DEST=file:NAME.
 */
#ifndef COUNTERS_H
#define COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#define COUNTERS_MAX 24

struct counter {
	char name[16];		/* of the transport */
	uint64_t bytes;		/* that it has sent, and fetched */
};

struct counters {
	struct counter of[COUNTERS_MAX];
	int count;
};

/* False: this UCX does not count, and there are none. */
bool counters_read(struct counters *c);
/* *sum += now - then; transports without a byte are left out. */
void counters_add(struct counters *sum, const struct counters *now, const struct counters *then);

#endif
