// SPDX-License-Identifier: MIT
/*
 * kernel_files.c - what drivers tell of their counters in debugfs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

static const char *value_of(const char *data, const char *name, size_t *length)
{
	size_t n = strlen(name);

	for (const char *line = data; *line;) {
		size_t whole = strcspn(line, "\n");

		if (whole > n && !memcmp(line, name, n) && (line[n] == '\t' || line[n] == ':')) {
			size_t at = n + 1 + strspn(line + n + 1, " ");

			*length = whole > at ? whole - at : 0;
			return line + at;
		}
		line += whole + (line[whole] == '\n');
	}
	return NULL;
}

bool top_number(const char *data, const char *name, uint64_t *out)
{
	size_t length;
	const char *value = value_of(data, name, &length);

	return value && text_u64(value, length, out);
}

static void cut(char *out, size_t size, const char *s, size_t length)
{
	char *clean = text_clean(s, length);
	size_t n = clean ? strlen(clean) : 0;

	if (n >= size)
		n = size - 1;
	/* Not in the middle of a character. */
	while (n && clean && (clean[n] & 0xc0) == 0x80)
		n--;
	if (clean)
		memcpy(out, clean, n);
	out[n] = 0;
	free(clean);
}

bool top_word(const char *data, const char *name, char *out, size_t size)
{
	size_t length;
	const char *value = value_of(data, name, &length);

	if (value)
		cut(out, size, value, length);
	return value;
}

/* ---- tables of clients ---- */

enum { PID, COMM, DEVICE, COPIES, READ, WRITTEN, REVOCATIONS, COLUMNS };
static const char *const columns[COLUMNS] = {
	[PID] = "pid", [COMM] = "comm", [DEVICE] = "device", [COPIES] = "copies",
	[READ] = "bytes_read",
	[WRITTEN] = "bytes_written", [REVOCATIONS] = "revocations",
};
static const enum top_counter counters[COLUMNS] = {
	[COPIES] = TOP_COPIES, [READ] = TOP_READ, [WRITTEN] = TOP_WRITTEN,
	[REVOCATIONS] = TOP_REVOCATIONS,
};
#define FIELDS_MAX 32

static int client(const struct field *fields, const int *at, const char *driver,
		  struct top_sample *s)
{
	struct top_device *device = NULL;
	struct top_process *process;
	char name[TOP_DEVICES_TEXT];
	uint64_t numbers[COLUMNS] = { 0 };
	char *comm;

	for (int c = 0; c < COLUMNS; c++) {
		if (c != COMM && c != DEVICE && at[c] >= 0 &&
		    !text_u64(fields[at[c]].s, fields[at[c]].length, &numbers[c]))
			return -EBADMSG;
	}
	comm = text_clean(fields[at[COMM]].s, fields[at[COMM]].length);
	if (!comm)
		return -ENOMEM;
	process = top_process(s, numbers[PID], comm);
	free(comm);
	if (!process)
		return -ENOMEM;
	if (at[DEVICE] >= 0) {
		cut(name, sizeof(name), fields[at[DEVICE]].s, fields[at[DEVICE]].length);
		device = top_device(s, name);
		if (!device)
			return -ENOMEM;
		snprintf(device->driver, sizeof(device->driver), "%s", driver);
	}
	for (int c = COPIES; c < COLUMNS; c++) {
		if (at[c] < 0)
			continue;
		top_count(&process->counts, counters[c], numbers[c]);
		if (device)
			top_count(&device->counts, counters[c], numbers[c]);
	}
	return 0;
}

int top_clients_parse(const char *data, size_t length, const char *driver, struct top_sample *s)
{
	const char *end = data + length, *line = data;
	struct field fields[FIELDS_MAX];
	size_t count = 0, taken = 0, refused = 0;
	int at[COLUMNS], ret;

	for (size_t number = 0; line < end; number++) {
		const char *newline = memchr(line, '\n', (size_t)(end - line)),
			*stop = newline ? newline : end;
		size_t n = tsv_split(line, stop, fields, FIELDS_MAX);

		if (!number) {
			count = n;
			for (int c = 0; c < COLUMNS; c++) {
				at[c] = -1;
				for (size_t f = 0; f < n; f++) {
					if (field_is(&fields[f], columns[c]))
						at[c] = (int)f;
				}
			}
			if (at[PID] < 0 || at[COMM] < 0)
				return -EBADMSG;
		} else {
			ret = n == count ? client(fields, at, driver, s) : -EBADMSG;
			if (ret == -ENOMEM)
				return ret;
			*(ret ? &refused : &taken) += 1;
		}
		line = newline ? newline + 1 : end;
	}
	return refused && !taken ? -EBADMSG : 0;
}

int top_pin_devices(const char *text, struct top_sample *s)
{
	while (*text) {
		size_t length = strcspn(text, ",");
		const char *colon = memrchr(text, ':', length);
		struct top_device *device;
		char name[TOP_DEVICES_TEXT];
		uint64_t n;

		if (colon && colon > text &&
		    text_u64(colon + 1, length - (size_t)(colon + 1 - text), &n)) {
			cut(name, sizeof(name), text, (size_t)(colon - text));
			device = top_device(s, name);
			if (!device)
				return -ENOMEM;
			device->mappings += n;
		}
		text += length + (text[length] == ',');
	}
	return 0;
}
