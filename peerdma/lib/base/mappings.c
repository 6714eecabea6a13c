// SPDX-License-Identifier: MIT
/* mappings.c - see mappings.h. */
#include <stdlib.h>
#include <string.h>

#include "mappings.h"

/* Of this thread: /proc/self/maps is the first thread's, and empty once that has ended. */
bool mappings_open(struct mappings *m)
{
	*m = (struct mappings){ .file = fopen("/proc/thread-self/maps", "re") };
	return m->file;
}

void mappings_close(struct mappings *m)
{
	if (m->file)
		fclose(m->file);
	m->file = NULL;
}

bool mappings_find(struct mappings *m, uint64_t x)
{
	char line[256], *p;

	/* "55d0c0a00000-55d0c0a21000 rw-p ...", and a path of any length. */
	while (m->to <= x) {
		if (!fgets_unlocked(line, sizeof(line), m->file))
			return false;
		m->from = strtoull(line, &p, 16);
		m->to = *p == '-' ? strtoull(p + 1, &p, 16) : 0;
		m->plain = *p == ' ' && p[1] == 'r' && p[4] == 'p';
		m->writable = *p == ' ' && p[2] == 'w';
		while (!strchr(line, '\n') && fgets_unlocked(line, sizeof(line), m->file))
			;
	}
	return true;
}
