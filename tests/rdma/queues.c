// SPDX-License-Identifier: MIT
/* queues.c - see queues.h. */
#include <stdio.h>
#include <string.h>

#include "pair.h"
#include "queues.h"

void *queue_find(uint64_t id, struct rxe_queue_buf **queue)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct rxe_queue_buf *begin;
	uint64_t *at, *end;
	char line[400];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "uverbs") || sscanf(line, "%lx-%lx", (unsigned long *)&begin, (unsigned long *)&end) != 2)
			continue;
		for (at = (uint64_t *)begin->data; at < end; at++)
			if (*at == id) {
				fclose(maps);
				if (queue)
					*queue = begin;
				return at;
			}
	}
	die("no request in the queue");
}
