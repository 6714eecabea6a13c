// SPDX-License-Identifier: MIT
/* libpeerdma's look at /proc/self/stat, where a process names itself as it likes. */
#include "fuzz.h"
#include "../../peerdma/lib/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = fuzz_text(data, size), *line;
	size_t room = size + 1000;

	host_heap_start(name);
	/* Whatever it calls itself, the field is found; a newline is escaped there, as a NUL ends it. */
	line = malloc(room);
	MUST(line);
	snprintf(line, room, "1 (%s) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 "
		 "31 32 33 34 35 36 37 38 39 40 41 42 43 4096 48 49 50 51 52\n", name);
	MUST(host_heap_start(line) == 4096);
	free(line);
	free(name);
	return 0;
}
