// SPDX-License-Identifier: MIT
/*
 * free_runs.c - the free runs of an aperture between pins: a device that needs contiguous
 * bus addresses can get at most the largest.
 */
#include <inttypes.h>
#include <string.h>

#include "aperture.h"
#include "base/tool.h"

#define BAR	32	/* characters of the longest one */

static unsigned int class_of(uint64_t length)
{
	unsigned int class = 0;

	while (length >>= 1)
		class++;
	return class;
}

static void add(struct free_runs *f, uint64_t length)
{
	struct free_class *class = &f->classes[class_of(length)];

	if (!length)
		return;
	class->count++;
	class->bytes += length;
	f->count++;
	f->bytes += length;
	if (length > f->largest)
		f->largest = length;
}

void free_runs_fill(struct free_runs *f, const struct phys_range *in, const struct phys_range *held,
		    size_t count)
{
	uint64_t at = in->start;

	memset(f, 0, sizeof(*f));
	for (size_t i = 0; i < count; i++) {
		add(f, held[i].start - at);
		at = held[i].start + held[i].length;
	}
	add(f, in->start + in->length - at);
}

unsigned int free_runs_percent(const struct free_runs *f)
{
	uint64_t lost = f->bytes - f->largest, bytes = f->bytes;

	if (!lost)
		return 0;
	while (bytes >> 56) {	/* so that a hundred times as much fits */
		bytes >>= 1;
		lost >>= 1;
	}
	/* Rounded up: only a single run has 0. */
	return (unsigned int)((lost * 100 + bytes - 1) / bytes);
}

static void bar(const struct tool *tool, uint64_t bytes, uint64_t most)
{
	/* By the shares of the bytes; a class that is there has at least one character. */
	unsigned int n = (unsigned int)((double)bytes / (double)most * BAR);

	do {
		fputs(tool->ascii ? "#" : "■", stdout);
	} while (n-- > 1);
}

void free_runs_draw(const struct tool *tool, const struct free_runs *f, const char *indent)
{
	char size[32], other[32];
	uint64_t most = 0;

	printf("%sfree: %s in %" PRIu64 " run%s, the largest %s: %u%% fragmented\n", indent,
	       text_size(f->bytes, size), f->count, f->count == 1 ? "" : "s",
	       text_size(f->largest, other), free_runs_percent(f));
	if (f->count < 2)
		return;
	for (unsigned int i = 0; i < FREE_CLASSES; i++) {
		if (f->classes[i].bytes > most)
			most = f->classes[i].bytes;
	}
	for (unsigned int i = 0; i < FREE_CLASSES; i++) {
		const struct free_class *class = &f->classes[i];

		if (!class->count)
			continue;
		printf("%s  from %8s: %8" PRIu64 "  ", indent, text_size(1ULL << i, size),
		       class->count);
		bar(tool, class->bytes, most);
		printf(" %s\n", text_size(class->bytes, size));
	}
}
