// SPDX-License-Identifier: MIT
/*
 * names.c - what makers call their devices, from the list of names that
 * distributions install (pci.ids).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "machine.h"
#include "base/tool.h"

struct wanted {
	const struct machine *m;
	unsigned int vendor;	/* whose lines are passing */
	bool vendor_wanted;
};

/* "10de  NVIDIA Corporation" at the line's start, "\t2335  GH100" after one tab. */
static bool number_at(const char *s, size_t length, unsigned int *out)
{
	*out = 0;
	if (length < 7 || s[4] != ' ' || s[5] != ' ')
		return false;
	for (int i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef", *at = s[i] ? strchr(digits, s[i]) : NULL;

		if (!at)
			return false;
		*out = *out << 4 | (unsigned int)(at - digits);
	}
	return true;
}

static bool concerns_us(const struct device *d)
{
	return d->kind != DEVICE_OTHER;
}

static bool keep(const char *line, size_t length, void *arg)
{
	struct wanted *w = arg;
	unsigned int n;

	if (number_at(line, length, &n)) {
		w->vendor = n;
		w->vendor_wanted = false;
		for (unsigned int i = 0; i < w->m->count; i++)
			w->vendor_wanted |= concerns_us(&w->m->devices[i]) &&
				w->m->devices[i].vendor == n;
		return w->vendor_wanted;
	}
	if (!w->vendor_wanted || !length || *line != '\t' || !number_at(line + 1, length - 1, &n))
		return false;
	for (unsigned int i = 0; i < w->m->count; i++) {
		const struct device *d = &w->m->devices[i];

		if (concerns_us(d) && d->vendor == w->vendor && d->device == n)
			return true;
	}
	return false;
}

static void title(struct device *d, const char *data)
{
	char vendor[8], device[8], name[80];
	const char *v, *next, *n;

	snprintf(d->title, sizeof(d->title), "%04x:%04x", d->vendor, d->device);
	snprintf(vendor, sizeof(vendor), "%04x  ", d->vendor);
	snprintf(device, sizeof(device), "\t%04x  ", d->device);
	for (v = data; v && strncmp(v, vendor, 6); v = strchr(v, '\n') ? strchr(v, '\n') + 1 : NULL)
		;
	if (!v)
		return;
	next = strchr(v, '\n');
	/* As far as the next maker. */
	for (n = next; n && n[1] == '\t'; n = strchr(n + 1, '\n')) {
		if (!strncmp(n + 1, device, 7)) {
			tree_clean(d->title, sizeof(d->title), n + 8, strcspn(n + 8, "\n"));
			return;
		}
	}
	tree_clean(name, sizeof(name), v + 6, strcspn(v + 6, "\n"));
	snprintf(d->title, sizeof(d->title), "%s %04x", name, d->device);
}

int names_read(struct machine *m)
{
	static const char *const places[] = { "/usr/share/misc/pci.ids",
					      "/usr/share/hwdata/pci.ids" };
	struct wanted w = { .m = m };
	const char *data = "";
	int ret = -ENOENT;

	for (size_t i = 0; ret && i < sizeof(places) / sizeof(places[0]); i++)
		ret = tree_lines(m->tree, places[i], keep, &w, &data, NULL);
	if (ret == -ENOMEM)
		return ret;
	for (unsigned int i = 0; i < m->count; i++)
		title(&m->devices[i], ret ? "" : data);
	return 0;
}
