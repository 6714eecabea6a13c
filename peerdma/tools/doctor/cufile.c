// SPDX-License-Identifier: MIT
/*
 * cufile.c - reads cufile.json: JSON with comments that begin with two slashes.  Nothing of its text
 * goes into bundles, only what was understood of it.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage.h"

static void malformed(struct cufile *out, const char *text)
{
	out->state = CUFILE_MALFORMED;
	snprintf(out->why, sizeof(out->why), "%.127s", text);
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
	o = json_tokener_parse_ex(tokener, data, (int)length);
	error = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	if (error == json_tokener_success)
		end = rest(data, length, end);
	if (error != json_tokener_success || end < length) {
		snprintf(why, sizeof(why), "line %u: %s",
			 line_at(data, end < length ? end : length),
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

/* ---- the file ---- */

#define TEXT_MAX (1UL << 20)

struct text {
	FILE *to;
	size_t length;
};

/* Keeps no line in the tree.  The last line gets a newline, which a comment or a number in it needs. */
static bool collect(const char *line, size_t length, void *arg)
{
	struct text *text = arg;

	text->length += length + 1;
	if (text->length <= TEXT_MAX) {
		fwrite(line, 1, length, text->to);
		fputc('\n', text->to);
	}
	return false;
}

static void take_text(struct doctor *d, const char *data, size_t length, struct cufile *out)
{
	char facts[192];

	if (length > TEXT_MAX)
		malformed(out, "longer than 1 MiB");
	else
		parse(d, data, length, out);
	if (out->state == CUFILE_MALFORMED)
		snprintf(facts, sizeof(facts), "malformed: %s\n", out->why);
	else
		snprintf(facts, sizeof(facts), "use_pci_p2pdma=%d allow_compat_mode=%d\n", out->p2pdma,
			 out->compat);
	tree_put(d->tree, CUFILE_FACTS, facts, strlen(facts));
}

/* Of a bundle. */
static bool take_facts(struct doctor *d, struct cufile *out)
{
	static const char wrong[] = "malformed: ";
	unsigned int p2pdma, compat;
	char facts[192];

	if (tree_word(d->tree, CUFILE_FACTS, facts, sizeof(facts)))
		return false;
	if (!strncmp(facts, wrong, strlen(wrong))) {
		malformed(out, facts + strlen(wrong));
	} else if (sscanf(facts, "use_pci_p2pdma=%1u allow_compat_mode=%1u", &p2pdma, &compat) == 2) {
		out->p2pdma = p2pdma;
		out->compat = compat;
	} else {
		malformed(out, CUFILE_FACTS ": not what a bundle has");
	}
	return true;
}

static void read_all(struct doctor *d, struct cufile *out)
{
	struct text text = { 0 };
	const char *unused;
	char *data = NULL;
	size_t length;
	int ret;

	text.to = open_memstream(&data, &length);
	if (!text.to) {
		d->no_memory = true;
		return;
	}
	ret = tree_lines(d->tree, CUFILE_JSON, collect, &text, &unused, NULL);
	if (fclose(text.to)) {
		d->no_memory = true;
	} else if ((!ret && text.length) || !take_facts(d, out)) {
		if (ret) {
			out->state = ret == -ENOENT ? CUFILE_MISSING : CUFILE_UNREADABLE;
			snprintf(out->why, sizeof(out->why), "%s", strerror(-ret));
		} else {
			take_text(d, data, text.length > TEXT_MAX ? text.length : length, out);
		}
	}
	free(data);
}

const struct cufile *cufile_read(struct doctor *d)
{
	static const struct cufile nothing = { .state = CUFILE_MISSING, .compat = true };

	if (d->cufile)
		return d->cufile;
	d->cufile = malloc(sizeof(*d->cufile));
	if (!d->cufile) {
		d->no_memory = true;
		return &nothing;
	}
	*d->cufile = (struct cufile){ .state = CUFILE_READ, .compat = true };
	read_all(d, d->cufile);
	return d->cufile;
}
