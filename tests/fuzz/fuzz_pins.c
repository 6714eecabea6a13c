// SPDX-License-Identifier: MIT
/* The table of pins: any bytes; what is understood can be printed, as JSON too. */
#include <json-c/json.h>

#include "fuzz.h"
#include "base/json.h"
#include "pins/pins_table.h"

static bool printable(const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	}
	return true;
}

static void check_pin(const struct pin *p)
{
	struct json_object *o = json_new("peerdma.fuzz"), *again;

	MUST(p->page_shift < 64 && p->addr + p->length >= p->addr);
	MUST(printable(p->comm) && printable(p->client) && printable(p->provider));
	MUST(printable(p->state) && printable(p->flags));
	for (size_t i = 0; i < p->segment_count; i++)
		MUST(p->segments[i].start + p->segments[i].length >= p->segments[i].start);
	json_pin(o, p);
	again = json_tokener_parse(json_object_to_json_string(o));
	MUST(again);
	json_object_put(again);
	json_object_put(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(data, size);
	struct pins_table table;

	if (!pins_parse(copy, size, &table)) {
		MUST(!table.malformed == !table.first_malformed);
		for (size_t i = 0; i < table.count; i++)
			check_pin(&table.pins[i]);
		pins_free(&table);
	}
	free(copy);
	return 0;
}
