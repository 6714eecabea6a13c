// SPDX-License-Identifier: MIT
/*
 * pins_table.c - parses the table of pins.  Its input may be any bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pins_table.h"
#include "base/tool.h"

#define COLUMNS_MAX 64

enum kind { NUMBER, TEXT, SEGMENTS };

struct column {
	const char *name;
	enum kind kind;
	bool required;
	size_t offset;		/* in struct pin */
};

#define COLUMN(name, kind, required) { #name, kind, required, offsetof(struct pin, name) }

static const struct column columns[] = {
	COLUMN(id, NUMBER, true),
	COLUMN(pid, NUMBER, true),
	COLUMN(comm, TEXT, true),
	COLUMN(client, TEXT, false),
	COLUMN(provider, TEXT, true),
	COLUMN(state, TEXT, true),
	COLUMN(flags, TEXT, false),
	COLUMN(addr, NUMBER, true),
	COLUMN(length, NUMBER, true),
	COLUMN(pinned_length, NUMBER, true),
	COLUMN(page_shift, NUMBER, false),
	COLUMN(mappings, NUMBER, false),
	COLUMN(views, NUMBER, false),
	COLUMN(exports, NUMBER, false),
	COLUMN(first_phys, NUMBER, false),
	COLUMN(generation, NUMBER, false),
	COLUMN(segments, SEGMENTS, false),
	COLUMN(devices, TEXT, false),
	COLUMN(uid, NUMBER, false),
	COLUMN(handle, NUMBER, false),
};
#define KNOWN (sizeof(columns) / sizeof(columns[0]))

/* For each field of a line, the column it is, or NULL for one from the future. */
struct header {
	const struct column *of[COLUMNS_MAX];
	size_t count;
};

static int header_parse(const char *s, const char *end, struct header *header)
{
	struct field fields[COLUMNS_MAX];
	bool seen[KNOWN] = { false };

	if (s < end && *s == '#')
		s++;
	header->count = tsv_split(s, end, fields, COLUMNS_MAX);
	for (size_t f = 0; f < header->count; f++) {
		header->of[f] = NULL;
		for (size_t c = 0; c < KNOWN; c++) {
			if (!seen[c] && field_is(&fields[f], columns[c].name)) {
				header->of[f] = &columns[c];
				seen[c] = true;
			}
		}
	}
	for (size_t c = 0; c < KNOWN; c++) {
		if (columns[c].required && !seen[c])
			return -EBADMSG;
	}
	return 0;
}

/* "start:length,start:length", "-" or nothing. */
static int segments_parse(const struct field *f, struct pin *pin)
{
	const char *s = f->s, *end = f->s + f->length;
	size_t room = 1;

	if (!f->length || field_is(f, "-"))
		return 0;
	for (size_t i = 0; i < f->length; i++)
		room += s[i] == ',';
	pin->segments = calloc(room, sizeof(pin->segments[0]));
	if (!pin->segments)
		return -ENOMEM;
	for (;;) {
		const char *comma = memchr(s, ',', end - s), *stop = comma ? comma : end;
		const char *colon = memchr(s, ':', stop - s);
		struct phys_range *r = &pin->segments[pin->segment_count];

		if (!colon || !text_u64(s, colon - s, &r->start) ||
		    !text_u64(colon + 1, stop - colon - 1, &r->length) ||
		    r->start + r->length < r->start)
			return -EBADMSG;
		pin->segment_count++;
		if (!comma)
			return 0;
		s = comma + 1;
	}
}

static void pin_free(struct pin *pin)
{
	free(pin->comm);
	free(pin->client);
	free(pin->provider);
	free(pin->state);
	free(pin->flags);
	free(pin->segments);
	free(pin->devices);
}

static int field_parse(const struct column *column, const struct field *f, struct pin *pin)
{
	void *to = (char *)pin + column->offset;

	switch (column->kind) {
	case NUMBER:
		return text_u64(f->s, f->length, to) ? 0 : -EBADMSG;
	case TEXT:
		*(char **)to = text_clean(f->s, f->length);
		return *(char **)to ? 0 : -ENOMEM;
	default:
		return segments_parse(f, pin);
	}
}

static int fill_text(struct pin *pin)
{
	char **texts[] = { &pin->comm, &pin->client, &pin->provider, &pin->state, &pin->flags,
			   &pin->devices };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!*texts[i])
			*texts[i] = strdup("");
		if (!*texts[i])
			return -ENOMEM;
	}
	return 0;
}

static int pin_parse(const struct header *header, const char *s, const char *end, struct pin *pin)
{
	struct field fields[COLUMNS_MAX];
	int ret = 0;

	memset(pin, 0, sizeof(*pin));
	pin->uid = UINT64_MAX;
	if (tsv_split(s, end, fields, COLUMNS_MAX) != header->count)
		return -EBADMSG;
	for (size_t f = 0; !ret && f < header->count; f++) {
		if (header->of[f])
			ret = field_parse(header->of[f], &fields[f], pin);
	}
	if (!ret && (pin->page_shift >= 64 || pin->addr + pin->length < pin->addr))
		ret = -EBADMSG;
	if (!ret)
		ret = fill_text(pin);
	if (ret)
		pin_free(pin);
	return ret;
}

int pins_parse(const char *data, size_t length, struct pins_table *table)
{
	const char *end = data + length;
	struct header header;
	size_t line = 0, room = 0;
	int ret;

	memset(table, 0, sizeof(*table));
	if (!length)
		return -EBADMSG;
	for (const char *s = data; s < end;) {
		const char *newline = memchr(s, '\n', end - s), *stop = newline ? newline : end;

		if (!line++) {
			ret = header_parse(s, stop, &header);
			if (ret)
				return ret;
		} else if (stop > s) {
			if (table->count == room) {
				struct pin *bigger;

				room = room ? room * 2 : 64;
				bigger = realloc(table->pins, room * sizeof(*bigger));
				if (!bigger) {
					pins_free(table);
					return -ENOMEM;
				}
				table->pins = bigger;
			}
			ret = pin_parse(&header, s, stop, &table->pins[table->count]);
			if (ret == -ENOMEM) {
				pins_free(table);
				return ret;
			}
			if (!ret)
				table->count++;
			else if (!table->malformed++)
				table->first_malformed = line;
		}
		s = newline ? newline + 1 : end;
	}
	return 0;
}

int pins_read(const char *root, struct pins_table *table)
{
	size_t length;
	char *data;
	int ret = file_read(root, PINS_PATH, &data, &length);

	if (ret)
		return ret;
	ret = pins_parse(data, length, table);
	free(data);
	return ret;
}

void pins_free(struct pins_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		pin_free(&table->pins[i]);
	free(table->pins);
	memset(table, 0, sizeof(*table));
}

const char *pins_why(int error)
{
	switch (error) {
	case -EACCES:
	case -EPERM:
		return PINS_PATH ": this user may not read it; run as root";
	case -ENOENT:
	case -ENOTDIR:
		return PINS_PATH ": not there; load the module with 'modprobe peerdma', "
		       "and if that is done, 'mount -t debugfs none /sys/kernel/debug'";
	case -EBADMSG:
		return PINS_PATH
		       ": not a table of pins; use the command and the module of one release";
	case -EFBIG:
		return PINS_PATH ": larger than 64 MiB";
	default:
		return strerror(-error);
	}
}
