// SPDX-License-Identifier: MIT
/*
 * top_json.c - a look as one line of JSON.
 */
#include "base/json.h"
#include "top.h"

static const char *const names[TOP_COUNTERS] = {
	[TOP_PINS] = "pins", [TOP_UNPINS] = "unpins", [TOP_MAPS] = "maps", [TOP_UNMAPS] = "unmaps",
	[TOP_EXPORTS] = "exports",
	[TOP_REVOCATIONS] = "revocations", [TOP_FAULTS] = "faults", [TOP_GETS] = "cache_gets",
	[TOP_HITS] = "cache_hits",
	[TOP_ENDED] = "cache_invalidated", [TOP_COPIES] = "copies", [TOP_COPIED] = "bytes_copied",
	[TOP_READ] = "bytes_read",
	[TOP_WRITTEN] = "bytes_written",
};

static void counters(struct json_object *o, const struct top_counts *c)
{
	struct json_object *all = json_object_in(o, "counters"), *one;

	for (int i = 0; i < TOP_COUNTERS; i++) {
		if (!top_known(c, i))
			continue;
		one = json_object_in(all, names[i]);
		json_number(one, "total", c->value[i]);
		if (top_rated(c, i)) {
			json_number(one, "change", c->change[i]);
			json_real(one, "per_second", c->rate[i]);
		} else {
			json_null(one, "change");
			json_null(one, "per_second");
		}
	}
}

static void gpu(struct json_object *o, const struct top_gpu *g)
{
	json_number(o, "index", g->index);
	json_text(o, "pci", *g->pci ? g->pci : NULL);
	json_text(o, "name", g->name);
	if (g->has_bar1) {
		json_number(o, "bar1_total", g->total);
		json_number(o, "bar1_used", g->used);
	} else {
		json_null(o, "bar1_total");
		json_null(o, "bar1_used");
	}
	counters(o, &g->counts);
}

static void process(struct json_object *o, const struct top_process *p)
{
	json_number(o, "pid", p->pid);
	json_text(o, "comm", p->comm);
	json_number(o, "pins", p->pins);
	json_number(o, "pins_revoked", p->revoked);
	json_number(o, "held", p->held);
	json_number(o, "mappings", p->mappings);
	json_number(o, "views", p->views);
	json_number(o, "exports", p->exports);
	json_number(o, "caches", p->caches);
	counters(o, &p->counts);
}

int top_json(const struct top_sample *s)
{
	struct json_object *o = json_new("peerdma-top/1"), *at;

	json_real(o, "time", s->time);
	if (s->interval > 0)
		json_real(o, "interval", s->interval);
	else
		json_null(o, "interval");
	if (s->has_module) {
		at = json_object_in(o, "module");
		json_number(at, "pins_live", s->live);
		counters(at, &s->module);
	} else {
		json_null(o, "module");
	}
	at = json_array_in(o, "gpus");
	for (size_t i = 0; i < s->gpu_count; i++)
		gpu(json_append(at), &s->gpus[i]);
	at = json_array_in(o, "devices");
	for (size_t i = 0; i < s->device_count; i++) {
		struct json_object *d = json_append(at);

		json_text(d, "name", s->devices[i].name);
		json_text(d, "driver", *s->devices[i].driver ? s->devices[i].driver : NULL);
		json_number(d, "mappings", s->devices[i].mappings);
		counters(d, &s->devices[i].counts);
	}
	at = json_array_in(o, "processes");
	for (size_t i = 0; i < s->process_count; i++)
		process(json_append(at), &s->processes[i]);
	at = json_array_in(o, "not_shown");
	for (size_t i = 0; i < s->missing_count; i++)
		json_append_text(at, s->missing[i]);
	return json_print_line(o);
}
