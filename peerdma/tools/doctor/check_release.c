// SPDX-License-Identifier: MIT
/*
 * check_release.c - is a release in use that is known to be bad?  known_releases.c has the table.
 */
#include <stdio.h>
#include <string.h>

#include "releases.h"

/* What is on this machine; text "": it is not there, or its release cannot be read. */
struct found {
	struct release release;
	bool opened;
	char source[64], text[48];
};

struct facts {
	struct found of[SOFTWARES];
	bool kernel_known;
	struct release kernel;
};

bool release_before(const struct release *a, const struct release *b)
{
	if (a->major != b->major)
		return a->major < b->major;
	return a->minor != b->minor ? a->minor < b->minor : a->patch < b->patch;
}

static bool in_range(const struct release *r, const struct release_range *range)
{
	return !release_before(r, &range->from) &&
	       (!range->before.major || release_before(r, &range->before));
}

static bool is_empty(const struct release_range *range)
{
	return !range->from.major && !range->before.major;
}

/* "2.5.1-1", "24.10-1.1.4": what follows the numbers is no part of the release. */
static bool parse(const char *s, struct release *out)
{
	*out = (struct release){ 0 };
	return sscanf(s, "%5u.%5u.%5u", &out->major, &out->minor, &out->patch) >= 2;
}

/* ---- what is here ---- */

static void find_nvidia(struct doctor *d, struct found *out)
{
	struct driver_release r;

	if (!any_gpu_apart(d, VENDOR_NVIDIA))
		return;
	nvidia_release(d, &r);
	if (!r.known)
		return;
	out->release = (struct release){ r.major, r.minor, r.patch };
	out->opened = r.opened;
	snprintf(out->source, sizeof(out->source), "%s", NVIDIA_VERSION);
	snprintf(out->text, sizeof(out->text), "%s, %s", r.text, r.opened ? "open" : "proprietary");
}

static void find_module(struct doctor *d, const char *module, struct found *out)
{
	char version[48];

	snprintf(out->source, sizeof(out->source), "/sys/module/%s/version", module);
	if (!tree_word(d->tree, out->source, version, sizeof(version)) &&
	    parse(version, &out->release))
		snprintf(out->text, sizeof(out->text), "%s", version);
}

/* The newest, where several are installed. */
static void find_gdrdrv_source(struct doctor *d, struct found *out)
{
	static const char prefix[] = "gdrdrv-";
	struct release r;
	const char *names;

	if (module_loaded(d, "gdrdrv") || tree_list(d->tree, "/usr/src", &names))
		return;
	for (; *names; names = tree_next(names)) {
		if (strncmp(names, prefix, strlen(prefix)) || !parse(names + strlen(prefix), &r) ||
		    release_before(&r, &out->release))
			continue;
		out->release = r;
		snprintf(out->source, sizeof(out->source), "/usr/src");
		tree_clean(out->text, sizeof(out->text), names, strlen(names));
	}
}

static void find(struct doctor *d, struct facts *f)
{
	memset(f, 0, sizeof(*f));
	find_nvidia(d, &f->of[SOFTWARE_NVIDIA]);
	find_module(d, "mlx5_core", &f->of[SOFTWARE_OFED]);
	find_module(d, "gdrdrv", &f->of[SOFTWARE_GDRDRV]);
	find_gdrdrv_source(d, &f->of[SOFTWARE_GDRDRV_SOURCE]);
	f->kernel_known = parse(d->machine->release, &f->kernel);
}

/* ---- the rows ---- */

static bool is_release(const struct known_release *row, const struct found *here)
{
	if (!*here->text || (row->flavour == FLAVOUR_OPEN && !here->opened) ||
	    (row->flavour == FLAVOUR_PROPRIETARY && here->opened))
		return false;
	for (size_t i = 0; i < RELEASE_RANGES && !is_empty(&row->releases[i]); i++) {
		if (in_range(&here->release, &row->releases[i]))
			return true;
	}
	return false;
}

static enum answer is_kernel(const struct known_release *row, const struct facts *facts)
{
	if (is_empty(&row->kernels))
		return ANSWER_YES;
	if (!facts->kernel_known)
		return ANSWER_UNKNOWN;
	return in_range(&facts->kernel, &row->kernels) ? ANSWER_YES : ANSWER_NO;
}

static enum answer both(enum answer a, enum answer b)
{
	if (a == ANSWER_NO || b == ANSWER_NO)
		return ANSWER_NO;
	return a == ANSWER_UNKNOWN ? a : b;
}

/* The first module that pins memory by nvidia_p2p; NULL: none is loaded. */
static const char *client(struct doctor *d)
{
	static const char *const modules[] = {
		"nvidia_peermem", "nv_peer_mem", "nvidia_fs", "gdrdrv", "peerdma_nvidia",
	};

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		if (module_loaded(d, modules[i]))
			return modules[i];
	}
	return NULL;
}

/* peer -1: the row names none.  True: something was said. */
static bool say_row(struct doctor *d, const struct known_release *row, const struct facts *facts,
		    int peer)
{
	const struct found *here = &facts->of[row->of];
	const char *loaded = row->crashes ? client(d) : NULL;
	struct seen seen = { 0 };
	enum answer applies = is_kernel(row, facts);
	struct finding *f;

	if (row->also && applies != ANSWER_NO)
		applies = both(applies, row->also(d, peer < 0 ? NULL : &d->machine->devices[peer],
						  &seen));
	if (applies == ANSWER_NO)
		return false;
	f = say(d, applies == ANSWER_YES ? row->verdict : VERDICT_UNKNOWN, "%s", row->name);
	f->ways = loaded ? 0 : row->ways;
	f->vendor = row->of == SOFTWARE_NVIDIA ? VENDOR_NVIDIA : 0;
	if (peer >= 0)
		f->device = peer;
	evidence(d, f, here->source, "%s", here->text);
	if (!is_empty(&row->kernels))
		evidence_file(d, f, "/proc/sys/kernel/osrelease");
	if (*seen.source)
		evidence(d, f, seen.source, "%s", seen.value);
	if (loaded)
		evidence(d, f, "/sys/module", "%s is loaded", loaded);
	evidence(d, f, "reported", "%s (%s)", row->source, row->date);
	consequence(d, f, "%s%s", applies == ANSWER_YES ? "" : "not known whether it is so here: ",
		    row->consequence);
	remedy(d, f, "%s", row->remedy);
	return true;
}

static bool say_release(struct doctor *d, const struct known_release *row,
			const struct facts *facts)
{
	bool any = false;

	if (!is_release(row, &facts->of[row->of]))
		return false;
	if (!row->peers)
		return say_row(d, row, facts, -1);
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (row->peers & PEER(d->machine->devices[i].kind) && device_concerned(d, i))
			any |= say_row(d, row, facts, (int)i);
	}
	return any;
}

static void say_good(struct doctor *d, const struct facts *facts, const bool bad[SOFTWARES])
{
	struct finding *f = NULL;

	for (size_t i = 0; i < SOFTWARES; i++) {
		if (!*facts->of[i].text || bad[i])
			continue;
		if (!f)
			f = say(d, VERDICT_OK, "this machine");
		evidence(d, f, facts->of[i].source, "%s: not known to be bad", facts->of[i].text);
	}
}

static void run(struct doctor *d)
{
	bool bad[SOFTWARES] = { false };
	struct facts facts;

	find(d, &facts);
	for (const struct known_release *row = known_releases; row->name; row++)
		bad[row->of] |= say_release(d, row, &facts);
	say_good(d, &facts, bad);
}

const struct check check_release = { "release", "Known bad releases", NULL, run };
