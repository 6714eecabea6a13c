// SPDX-License-Identifier: MIT
/*
 * pair_gids.c - the GIDs of a port: which are of RoCE v2, and of which kind their addresses are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair_facts.h"
#include "base/tool.h"

const char *gid_kind_word(enum gid_kind kind)
{
	static const char *const words[] = { "not known", "link-local", "global", "IPv4-mapped" };

	return words[kind];
}

enum gid_kind gid_kind_of(const char *text)
{
	unsigned int part[8], any = 0;

	if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3],
		   &part[4], &part[5], &part[6], &part[7]) != 8)
		return GID_UNKNOWN;
	for (int i = 0; i < 8; i++)
		any |= part[i];
	if (!any)
		return GID_UNKNOWN;
	if (!(part[0] | part[1] | part[2] | part[3] | part[4]) && part[5] == 0xffff)
		return GID_IPV4;
	return (part[0] & 0xffc0) == 0xfe80 ? GID_LINK_LOCAL : GID_GLOBAL;
}

/* Not through the tree: it remembers what it has read. */
static void remember_port(const char *device, const char *port, FILE *to)
{
	for (unsigned int i = 0; i < GIDS_MAX; i++) {
		char path[192], *data;
		enum gid_kind kind;
		size_t length;

		snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports/%.8s/gids/%u", device, port,
			 i);
		if (file_read("", path, &data, &length))
			return;
		kind = gid_kind_of(data);
		free(data);
		if (kind != GID_UNKNOWN)
			fprintf(to, "%s\t%s\t%u\t%s\n", device, port, i, gid_kind_word(kind));
	}
}

void gid_kinds_remember(struct doctor *d)
{
	const char *devices, *ports;
	char path[128], *data = NULL;
	size_t length;
	FILE *to;

	if (!tree_is_live(d->tree) || tree_list(d->tree, RDMA_DEVICES, &devices))
		return;
	to = open_memstream(&data, &length);
	if (!to)
		return;
	for (; *devices; devices = tree_next(devices)) {
		snprintf(path, sizeof(path), RDMA_DEVICES "/%.64s/ports", devices);
		if (tree_list(d->tree, path, &ports))
			continue;
		for (; *ports; ports = tree_next(ports))
			remember_port(devices, ports, to);
	}
	if (!fclose(to))
		tree_put(d->tree, GID_KINDS_PATH, data, length);
	free(data);
}

static enum gid_kind kind_in(const char *data, const struct rail *r, unsigned int index)
{
	for (const char *line = data; *line;) {
		size_t length = strcspn(line, "\n");
		struct field fields[4];
		uint64_t n;

		if (tsv_split(line, line + length, fields, 4) == 4 &&
		    field_is(&fields[0], r->device) && field_is(&fields[1], r->port) &&
		    text_u64(fields[2].s, fields[2].length, &n) && n == index) {
			for (enum gid_kind kind = GID_LINK_LOCAL; kind < GID_KINDS; kind++) {
				if (field_is(&fields[3], gid_kind_word(kind)))
					return kind;
			}
		}
		line += length + (line[length] == '\n');
	}
	return GID_UNKNOWN;
}

void rail_gids(struct doctor *d, struct rail *r)
{
	const char *kinds = "";
	char path[192], type[32];
	bool seen = false, whole = !tree_read(d->tree, GID_KINDS_PATH, &kinds, NULL);

	for (unsigned int i = 0; i < GIDS_MAX; i++) {
		int ret;

		snprintf(path, sizeof(path), RDMA_DEVICES "/%s/ports/%s/gid_attrs/types/%u",
			 r->device, r->port, i);
		ret = tree_word(d->tree, path, type, sizeof(type));
		if (ret == -ENOENT || ret == -EACCES)
			break;
		seen = true;
		/* An entry that is not used cannot be read: EINVAL. */
		if (ret || !*type)
			continue;
		r->gid_count++;
		if (!strcmp(type, "RoCE v2"))
			r->v2[r->v2_count++] = (struct gid){ i, kind_in(kinds, r, i) };
	}
	/* A bundle of a release that did not look has some of them only. */
	r->gids_known = seen && (r->v2_count || whole);
}

const struct gid *rail_gid(const struct rail *r)
{
	const struct gid *best = NULL;

	for (unsigned int i = 0; i < r->v2_count; i++) {
		if (!best || r->v2[i].kind > best->kind)
			best = &r->v2[i];
	}
	return best;
}
