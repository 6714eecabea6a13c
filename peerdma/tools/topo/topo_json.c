// SPDX-License-Identifier: MIT
/*
 * topo_json.c - the machine as one JSON object.
 */
#include <stdio.h>

#include "base/json.h"
#include "topo.h"

static void text_or_null(struct json_object *o, const char *key, const char *s)
{
	json_text(o, key, *s ? s : NULL);
}

static void json_link(struct json_object *o, const struct machine *m, const struct device *d)
{
	struct json_object *link;
	unsigned int speed, width;

	if (!d->link.known) {
		json_null(o, "link");
		return;
	}
	link = json_object_in(o, "link");
	json_number(link, "mt_per_s", d->link.speed);
	json_number(link, "lanes", d->link.width);
	if (link_is_slow(m, d, &speed, &width)) {
		json_number(link, "both_ends_mt_per_s", speed);
		json_number(link, "both_ends_lanes", width);
	}
}

static void json_device(struct json_object *o, const struct machine *m, const struct device *d)
{
	struct json_object *bars, *bar;
	char id[16];

	text_or_null(o, "label", d->label);
	json_text(o, "pci", d->name);
	json_text(o, "title", d->title);
	snprintf(id, sizeof(id), "%04x:%04x", d->vendor, d->device);
	json_text(o, "id", id);
	text_or_null(o, "known_as", d->known_as);
	json_truth(o, "software", d->software);
	text_or_null(o, "driver", d->driver);
	json_text(o, "parent", d->parent >= 0 ? m->devices[d->parent].name : NULL);
	text_or_null(o, "host_bridge", d->host);
	if (d->numa_known)
		json_number(o, "numa_node", (uint64_t)d->numa);
	else
		json_null(o, "numa_node");
	if (d->group >= 0)
		json_number(o, "iommu_group", (uint64_t)d->group);
	else
		json_null(o, "iommu_group");
	json_text(o, "iommu", d->iommu == IOMMU_UNKNOWN ? NULL : iommu_text(d->iommu));
	json_link(o, m, d);
	if (d->kind == DEVICE_BRIDGE) {
		json_text(o, "acs", d->acs == ACS_UNKNOWN ? NULL :
			  d->acs == ACS_REDIRECT ? "redirects" :
			  d->acs == ACS_OFF ? "off" : "none");
		return;
	}
	if (!d->has_bars) {
		json_null(o, "bars");
		return;
	}
	bars = json_array_in(o, "bars");
	for (unsigned int i = 0; i < PCI_BARS; i++) {
		if (!d->bars.bars[i].length)
			continue;
		bar = json_append(bars);
		json_number(bar, "resource", i);
		json_number(bar, "length", d->bars.bars[i].length);
		if (d->bars.bars[i].unset)
			json_null(bar, "start");
		else
			json_address(bar, "start", d->bars.bars[i].start);
	}
}

int topo_json(const struct nears *n)
{
	const struct machine *m = n->m;
	struct json_object *o = json_new("peerdma-topo/1"), *devices, *pairs, *pair;
	int meet;

	text_or_null(o, "kernel", m->release);
	json_text(o, "machine", m->virtual ? "virtual" : NULL);
	devices = json_array_in(o, "devices");
	for (unsigned int i = 0; i < m->count; i++) {
		if (m->devices[i].shown)
			json_device(json_append(devices), m, &m->devices[i]);
	}
	pairs = json_array_in(o, "pairs");
	for (unsigned int i = 0; i < m->shown_count; i++) {
		for (unsigned int j = i + 1; j < m->shown_count; j++) {
			unsigned int a = m->shown[i], b = m->shown[j];

			pair = json_append(pairs);
			json_text(pair, "a", m->devices[a].label);
			json_text(pair, "b", m->devices[b].label);
			json_text(pair, "path", path_name(path_between(m, a, b, &meet)));
			json_text(pair, "meet", meet >= 0 ? m->devices[meet].name : NULL);
		}
	}
	topo_json_near(o, n);
	return json_print(o);
}
