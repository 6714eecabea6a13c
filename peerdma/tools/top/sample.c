// SPDX-License-Identifier: MIT
/*
 * sample.c - one look at everything.  Sources are read one after the other:
 * what they say of one moment may be some milliseconds apart.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pins/pins_table.h"
#include "top.h"

#define STATS_PATH "/sys/kernel/debug/peerdma/stats"

int top_read_module(const struct tool *tool, struct top_sample *s)
{
	static const struct {
		const char *name;
		enum top_counter counter;
	} names[] = {
		{ "pins", TOP_PINS }, { "unpins", TOP_UNPINS }, { "maps", TOP_MAPS },
		{ "unmaps", TOP_UNMAPS },
		{ "exports", TOP_EXPORTS }, { "revocations", TOP_REVOCATIONS },
		{ "faults", TOP_FAULTS },
	};
	size_t length;
	uint64_t n;
	char *data;
	int ret = file_read(tool->root, STATS_PATH, &data, &length);

	/* Why it is not there, the table of pins says as well. */
	if (ret)
		return ret == -ENOMEM ? ret : 0;
	s->has_module = top_number(data, "live", &s->live);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (top_number(data, names[i].name, &n))
			top_count(&s->module, names[i].counter, n);
	}
	free(data);
	return 0;
}

int top_read_pins(const struct tool *tool, struct top_sample *s)
{
	struct pins_table table;
	int ret = pins_read(tool->root, &table);

	if (ret == -ENOMEM)
		return ret;
	if (ret)
		return top_missing(s, "pins by process: %s", pins_why(ret));
	s->has_pins = true;
	for (size_t i = 0; !ret && i < table.count; i++) {
		const struct pin *pin = &table.pins[i];
		struct top_process *p = top_process(s, pin->pid, pin->comm);

		if (!p) {
			ret = -ENOMEM;
			break;
		}
		p->pins++;
		if (strcmp(pin->state, "revoked"))
			p->held += pin->pinned_length;
		else
			p->revoked++;
		p->mappings += pin->mappings;
		p->views += pin->views;
		p->exports += pin->exports;
		ret = top_pin_devices(pin->devices, s);
	}
	if (!ret && table.malformed)
		ret = top_missing(s, "pins by process: " PINS_PATH
				  ": %zu lines are no pins; use the command and the module of "
				  "one release", table.malformed);
	pins_free(&table);
	return ret;
}

int top_look(const struct tool *tool, struct top_sample *s)
{
	static int (*const sources[])(const struct tool *tool, struct top_sample *s) = {
		top_read_module, top_read_pins, top_read_users, top_read_clients, top_read_cards,
		top_read_rdma, top_read_gpus, top_read_caches,
	};
	struct timespec now;
	int ret = 0;

	memset(s, 0, sizeof(*s));
	clock_gettime(CLOCK_MONOTONIC, &now);
	s->time = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	for (size_t i = 0; !ret && i < sizeof(sources) / sizeof(sources[0]); i++)
		ret = sources[i](tool, s);
	if (ret)
		top_free(s);
	return ret;
}
