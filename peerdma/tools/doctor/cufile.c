// SPDX-License-Identifier: MIT
/*
 * cufile.c - reads cufile.json: JSON with comments that begin with two slashes.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "storage.h"

static void malformed(struct cufile *out, const char *text)
{
	out->state = CUFILE_MALFORMED;
	snprintf(out->why, sizeof(out->why), "%s", text);
}

static unsigned int line_at(const char *data, size_t offset)
{
	unsigned int line = 1;

	for (size_t i = 0; i < offset; i++)
		line += data[i] == '\n';
	return line;
}

/* Only white space and comments may follow the object. */
static size_t rest(const char *data, size_t length, size_t at)
{
	while (at < length) {
		if (strchr(" \t\r\n", data[at]) && data[at])
			at++;
		else if (length - at > 1 && !memcmp(data + at, "//", 2))
			at += strcspn(data + at, "\n");
		else
			break;
	}
	return at;
}

static bool truth(struct json_object *in, const char *key, bool otherwise, struct cufile *out)
{
	struct json_object *value;
	char why[64];

	if (!json_object_object_get_ex(in, key, &value))
		return otherwise;
	if (json_object_is_type(value, json_type_boolean))
		return json_object_get_boolean(value);
	snprintf(why, sizeof(why), "properties.%s is neither true nor false", key);
	malformed(out, why);
	return otherwise;
}

static void take(struct json_object *o, struct cufile *out)
{
	struct json_object *properties;

	if (!json_object_is_type(o, json_type_object)) {
		malformed(out, "not a JSON object");
		return;
	}
	if (!json_object_object_get_ex(o, "properties", &properties))
		return;
	if (!json_object_is_type(properties, json_type_object)) {
		malformed(out, "properties is no object");
		return;
	}
	out->p2pdma = truth(properties, "use_pci_p2pdma", out->p2pdma, out);
	out->compat = truth(properties, "allow_compat_mode", out->compat, out);
}

static void parse(struct doctor *d, const char *data, size_t length, struct cufile *out)
{
	struct json_tokener *tokener = json_tokener_new();
	enum json_tokener_error error;
	struct json_object *o;
	char why[96];
	size_t end;

	if (!tokener) {
		d->no_memory = true;
		return;
	}
	/* At most a tree's file long: it fits. */
	o = json_tokener_parse_ex(tokener, data, (int)length);
	error = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	/* A comment, or a number, in the last line may have no newline: this one ends it. */
	if (error == json_tokener_continue) {
		o = json_tokener_parse_ex(tokener, "\n", 1);
		error = json_tokener_get_error(tokener);
		end = length;
	}
	if (error == json_tokener_success)
		end = rest(data, length, end);
	if (error != json_tokener_success || end < length) {
		snprintf(why, sizeof(why), "line %u: %s", line_at(data, end < length ? end : length),
			 error == json_tokener_success ? "more after the end" :
			 error == json_tokener_continue ? "it ends too early" :
			 json_tokener_error_desc(error));
		malformed(out, why);
	} else {
		take(o, out);
	}
	json_object_put(o);
	json_tokener_free(tokener);
}

void cufile_read(struct doctor *d, struct cufile *out)
{
	const char *data;
	size_t length;
	int ret = tree_read(d->tree, CUFILE_JSON, &data, &length);

	*out = (struct cufile){ .state = CUFILE_READ, .compat = true };
	if (!ret) {
		parse(d, data, length, out);
		return;
	}
	out->state = ret == -ENOENT ? CUFILE_MISSING : CUFILE_UNREADABLE;
	snprintf(out->why, sizeof(out->why), "%s", strerror(-ret));
}
