// SPDX-License-Identifier: MIT
/* Foreign text made fit to print: valid UTF-8 without control characters, and the same a second time. */
#include <json-c/json.h>

#include "fuzz.h"
#include "base/tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(data, size), *clean = text_clean(copy, size), *again;
	struct json_object *o, *back;

	MUST(clean);
	MUST(text_width(clean) <= strlen(clean));
	for (const char *s = clean; *s; s++)
		MUST((unsigned char)*s >= ' ' && *s != 0x7f);
	again = text_clean(clean, strlen(clean));
	MUST(again && !strcmp(clean, again));
	o = json_object_new_string(clean);
	back = json_tokener_parse(json_object_to_json_string(o));
	MUST(back && !strcmp(json_object_get_string(back), clean));
	json_object_put(back);
	json_object_put(o);
	free(again);
	free(clean);
	free(copy);
	return 0;
}
