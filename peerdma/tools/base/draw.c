// SPDX-License-Identifier: MIT
/*
 * draw.c - the picture of an aperture: a grid of cells, each a run of bytes,
 * a letter and a colour for each owner.
 */
#include <inttypes.h>
#include <string.h>

#include "bar1/aperture.h"
#include "tool.h"

#define ROWS		8
#define CELL_MIN	65536	/* a GPU page: nothing smaller is pinned */
#define PREFIX		11	/* "512 GiB |" and the frame after */
#define NO_OWNER		-1
#define SEVERAL		-2

/* Cyan, yellow, green, magenta, blue, red */
static const int colors[] = { 36, 33, 32, 35, 34, 31 };
#define COLORS (sizeof(colors) / sizeof(colors[0]))

struct cell {
	int owner;		/* index, NO_OWNER, SEVERAL */
	bool full;
};

/* Bytes of the sorted ranges within [start, end). */
static uint64_t covered(const struct owner *o, uint64_t start, uint64_t end)
{
	size_t low = 0, high = o->count;
	uint64_t sum = 0;

	while (low < high) {	/* the first range that ends after start */
		size_t middle = low + (high - low) / 2;

		if (o->ranges[middle].start + o->ranges[middle].length > start)
			high = middle;
		else
			low = middle + 1;
	}
	for (size_t i = low; i < o->count && o->ranges[i].start < end; i++) {
		uint64_t s = o->ranges[i].start, e = s + o->ranges[i].length;

		sum += (e < end ? e : end) - (s > start ? s : start);
	}
	return sum;
}

static struct cell cell_at(const struct aperture *a, uint64_t start, uint64_t end)
{
	struct cell cell = { NO_OWNER, false };

	for (size_t i = 0; i < a->count; i++) {
		uint64_t bytes = covered(&a->owners[i], start, end);

		if (!bytes)
			continue;
		if (cell.owner != NO_OWNER) {
			cell.owner = SEVERAL;
			return cell;
		}
		cell.owner = (int)i;
		cell.full = bytes == end - start;
	}
	return cell;
}

static char letter(int owner, bool full)
{
	if (owner == NO_OWNER)
		return '.';
	if (owner == SEVERAL)
		return '+';
	if (owner >= 26)
		return '*';
	return (char)((full ? 'A' : 'a') + owner);
}

/* With colours a cell is a block; without, owners can only be told apart by letters. */
static void put_cell(const struct tool *tool, struct cell cell)
{
	if (!tool->color) {
		if (cell.owner == NO_OWNER && !tool->ascii)
			fputs("·", stdout);
		else
			putchar(letter(cell.owner, cell.full));
		return;
	}
	if (cell.owner == NO_OWNER) {
		fputs(tool->ascii ? "." : "·", stdout);
	} else if (cell.owner == SEVERAL) {
		printf("\033[37m%s\033[0m", tool->ascii ? "+" : "▚");
	} else {
		printf("\033[%dm", colors[cell.owner % COLORS]);
		if (tool->ascii)
			putchar(letter(cell.owner, cell.full));
		else
			fputs(cell.full ? "█" : "▄", stdout);
		fputs("\033[0m", stdout);
	}
}

/* A power of two, so that rows begin at round addresses. */
static uint64_t cell_size(uint64_t length, unsigned int per_row)
{
	uint64_t size = CELL_MIN;

	while (length / size > (uint64_t)per_row * ROWS && size < 1ULL << 62)
		size *= 2;
	return size;
}

static void legend(const struct tool *tool, const struct aperture *a, const char *indent)
{
	char size[32];

	for (size_t i = 0; i < a->count; i++) {
		const struct owner *o = &a->owners[i];

		printf("%s  ", indent);
		put_cell(tool, (struct cell){ (int)i, true });
		printf("  pid %" PRIu64 " %s: %s in %zu pin%s\n", o->pid, o->comm,
		       text_size(o->held, size), o->pins, o->pins == 1 ? "" : "s");
	}
}

void aperture_draw(const struct tool *tool, const struct aperture *a, const char *indent)
{
	unsigned int per_row = 64;
	uint64_t cell, row, start = a->range.start, end = start + a->range.length;
	const char *side = tool->ascii ? "|" : "│";
	char size[32];

	while (per_row > 8 && per_row + PREFIX + strlen(indent) > tool->columns)
		per_row /= 2;
	cell = cell_size(a->range.length, per_row);
	row = cell * per_row;

	printf("%s0x%" PRIx64 " to 0x%" PRIx64 ", a cell is %s%s\n", indent, start, end - 1,
	       text_size(cell, size), tool->color && !tool->ascii ? "" :
	       "; small letter: part of it");
	for (uint64_t at = start; at < end; at = end - at > row ? at + row : end) {
		printf("%s%8s %s", indent, text_size(at - start, size), side);
		for (unsigned int i = 0; i < per_row && i * cell < end - at; i++) {
			uint64_t s = at + i * cell;

			put_cell(tool, cell_at(a, s, end - s > cell ? s + cell : end));
		}
		printf("%s\n", side);
	}
	legend(tool, a, indent);
}
