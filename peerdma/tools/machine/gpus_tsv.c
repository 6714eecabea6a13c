// SPDX-License-Identifier: MIT
/*
 * gpus_tsv.c - the list of GPUs, and its table for scripts and captured trees.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpus.h"
#include "base/tool.h"

void gpus_free(struct gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++) {
		free(gpus->gpus[i].name);
		free(gpus->gpus[i].uuid);
	}
	free(gpus->gpus);
	gpus->gpus = NULL;
	gpus->count = 0;
}

static const char header[] = "index\tpci\tname\tuuid\tbar1_total\tbar1_used\tbar1_free";
#define FIELDS 7

static void write_figure(FILE *to, bool known, uint64_t figure)
{
	if (known)
		fprintf(to, "\t%" PRIu64, figure);
	else
		fputs("\t-", to);
}

void gpus_write_tsv(const struct gpus *gpus, FILE *to, bool identify)
{
	fprintf(to, "%s\n", header);
	for (size_t i = 0; i < gpus->count; i++) {
		const struct gpu *g = &gpus->gpus[i];

		fprintf(to, "%" PRIu64 "\t%s\t%s\t%s", g->index, *g->pci ? g->pci : "-", g->name,
			identify ? g->uuid : "-");
		write_figure(to, g->has_bar1, g->total);
		write_figure(to, g->has_bar1, g->used);
		write_figure(to, g->has_bar1, g->free);
		fputc('\n', to);
	}
}

static bool pci_field(const struct field *f, char out[PCI_NAME_MAX])
{
	char text[64];

	if (field_is(f, "-"))
		return true;
	if (f->length >= sizeof(text))
		return false;
	memcpy(text, f->s, f->length);
	text[f->length] = 0;
	return strlen(text) == f->length && pci_name(text, out);
}

static bool gpu_parse(const char *s, const char *end, struct gpu *g)
{
	struct field f[FIELDS + 1];

	memset(g, 0, sizeof(*g));
	if (tsv_split(s, end, f, FIELDS + 1) != FIELDS ||
	    !text_u64(f[0].s, f[0].length, &g->index) || !pci_field(&f[1], g->pci))
		return false;
	g->has_bar1 = !field_is(&f[4], "-");
	if (g->has_bar1 && (!text_u64(f[4].s, f[4].length, &g->total) ||
			    !text_u64(f[5].s, f[5].length, &g->used) ||
			    !text_u64(f[6].s, f[6].length, &g->free)))
		return false;
	g->name = text_clean(f[2].s, f[2].length);
	g->uuid = text_clean(f[3].s, f[3].length);
	return true;
}

int gpus_parse_tsv(const char *data, size_t length, struct gpus *out)
{
	const char *s = data, *end = data + length;
	size_t lines = 0;

	out->gpus = NULL;
	out->count = 0;
	for (size_t i = 0; i < length; i++)
		lines += data[i] == '\n';
	if (!lines || length < sizeof(header) || memcmp(data, header, sizeof(header) - 1) ||
	    data[sizeof(header) - 1] != '\n')
		return -EBADMSG;
	out->gpus = calloc(lines, sizeof(out->gpus[0]));
	if (!out->gpus)
		return -ENOMEM;
	for (s += sizeof(header); s < end;) {
		const char *newline = memchr(s, '\n', end - s);
		struct gpu *g = &out->gpus[out->count];

		/* A last line without its end was cut off */
		if (!newline || !gpu_parse(s, newline, g)) {
			gpus_free(out);
			return -EBADMSG;
		}
		out->count++;
		if (!g->name || !g->uuid) {
			gpus_free(out);
			return -ENOMEM;
		}
		s = newline + 1;
	}
	return 0;
}
