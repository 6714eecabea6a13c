// SPDX-License-Identifier: MIT
/*
 * chaos.c - SOFTGPU_CHAOS="strict=1,fail_alloc=3": the core's knobs, for the
 * software GPU inside this process.
 */
#include <errno.h>
#include <string.h>

#include "chaos.h"
#include "parse.h"

/* Said whether or not anybody listens: a test with a misspelt knob must not pass. */
static int complain(const char *item, size_t length, const char *why)
{
	fprintf(stderr, "softgpu: SOFTGPU_CHAOS: '%.*s': %s", (int)length, item, why);
	return -EINVAL;
}

static int unknown(const char *item, size_t length)
{
	const struct sg_chaos_knob *knob;

	complain(item, length, "no such knob; there are");
	for (u32 i = 0; (knob = sg_chaos_knob(i)); i++)
		fprintf(stderr, " %s", knob->name);
	fputc('\n', stderr);
	return -EINVAL;
}

static int parse_item(struct sg_chaos *chaos, const char *item, size_t length)
{
	const char *equals = memchr(item, '=', length);
	const struct sg_chaos_knob *knob;
	const char *number;
	uint64_t value;
	u32 i;

	if (!equals)
		return complain(item, length, "give it as knob=number\n");
	number = equals + 1;
	for (i = 0; (knob = sg_chaos_knob(i)); i++) {
		if (strlen(knob->name) == (size_t)(equals - item) &&
		    !strncmp(knob->name, item, equals - item))
			break;
	}
	if (!knob)
		return unknown(item, length);
	if (!sgu_number(number, (size_t)(item + length - number), &value))
		return complain(item, length, "is not a number of 64 bits\n");
	if (value > knob->max)
		return complain(item, length, "is too large\n");
	sg_chaos_change(chaos, i, value);
	return 0;
}

int sgu_chaos_parse(const char *text, struct sg_chaos *chaos)
{
	int err = 0;

	while (text && *text && !err) {
		size_t length = strcspn(text, ", ");

		if (length)
			err = parse_item(chaos, text, length);
		text += length + (text[length] != 0);
	}
	return err;
}
