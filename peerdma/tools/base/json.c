// SPDX-License-Identifier: MIT
/*
 * json.c - writes JSON with json-c.  All text has been through text_clean().
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>

#include "json.h"
#include "pins/pins_table.h"
#include "tool.h"

static struct json_object *need(struct json_object *o)
{
	if (!o) {
		warn("out of memory");
		exit(EXIT_ERROR);
	}
	return o;
}

static void put(struct json_object *o, const char *key, struct json_object *value)
{
	if (json_object_object_add(o, key, value))
		need(NULL);
}

struct json_object *json_new(const char *schema)
{
	struct json_object *o = need(json_object_new_object());

	json_text(o, "schema", schema);
	json_text(o, "version", TOOL_VERSION);
	return o;
}

void json_text(struct json_object *o, const char *key, const char *s)
{
	put(o, key, s ? need(json_object_new_string(s)) : NULL);
}

void json_number(struct json_object *o, const char *key, uint64_t n)
{
	put(o, key, need(json_object_new_uint64(n)));
}

void json_address(struct json_object *o, const char *key, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, n);
	json_text(o, key, text);
}

void json_real(struct json_object *o, const char *key, double x)
{
	char text[64];

	snprintf(text, sizeof(text), "%.2f", x);
	put(o, key, isfinite(x) ? need(json_object_new_double_s(x, text)) : NULL);
}

void json_truth(struct json_object *o, const char *key, int value)
{
	put(o, key, need(json_object_new_boolean(value)));
}

void json_null(struct json_object *o, const char *key)
{
	put(o, key, NULL);
}

struct json_object *json_object_in(struct json_object *o, const char *key)
{
	struct json_object *inner = need(json_object_new_object());

	put(o, key, inner);
	return inner;
}

struct json_object *json_array_in(struct json_object *o, const char *key)
{
	struct json_object *array = need(json_object_new_array());

	put(o, key, array);
	return array;
}

struct json_object *json_append(struct json_object *array)
{
	struct json_object *o = need(json_object_new_object());

	if (json_object_array_add(array, o))
		need(NULL);
	return o;
}

void json_append_text(struct json_object *array, const char *s)
{
	if (json_object_array_add(array, need(json_object_new_string(s))))
		need(NULL);
}

void json_ranges(struct json_object *o, const char *key, const struct phys_range *ranges,
		 size_t count)
{
	struct json_object *array = json_array_in(o, key), *range;

	for (size_t i = 0; i < count; i++) {
		range = json_append(array);
		json_address(range, "phys", ranges[i].start);
		json_number(range, "length", ranges[i].length);
	}
}

void json_pin(struct json_object *o, const struct pin *pin)
{
	json_number(o, "id", pin->id);
	json_number(o, "pid", pin->pid);
	if (pin->handle)
		json_number(o, "handle", pin->handle);
	else
		json_null(o, "handle");
	json_text(o, "comm", pin->comm);
	json_text(o, "client", pin->client);
	json_text(o, "provider", pin->provider);
	json_text(o, "state", pin->state);
	json_text(o, "flags", pin->flags);
	json_address(o, "addr", pin->addr);
	json_number(o, "length", pin->length);
	json_number(o, "pinned_length", pin->pinned_length);
	json_number(o, "page_size", 1ULL << pin->page_shift);
	json_number(o, "mappings", pin->mappings);
	json_number(o, "views", pin->views);
	json_number(o, "exports", pin->exports);
	json_number(o, "generation", pin->generation);
	json_ranges(o, "segments", pin->segments, pin->segment_count);
	if (pin->uid != UINT64_MAX)
		json_number(o, "uid", pin->uid);
}

static int print(struct json_object *o, int how)
{
	const char *s = json_object_to_json_string_ext(o, how | JSON_C_TO_STRING_NOSLASHESCAPE);
	int ret = s && puts(s) >= 0 ? EXIT_OK : EXIT_ERROR;

	if (!s)
		warn("out of memory");
	json_object_put(o);
	return ret;
}

int json_print(struct json_object *o)
{
	return print(o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
}

int json_print_line(struct json_object *o)
{
	int ret = print(o, JSON_C_TO_STRING_PLAIN);

	return fflush(stdout) ? EXIT_ERROR : ret;
}
