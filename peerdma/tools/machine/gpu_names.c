// SPDX-License-Identifier: MIT
/*
 * gpu_names.c - GPUs' names from their driver's files, or from the table of a bundle.  NVML itself is not
 * asked: it may wake a GPU.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gpu_names.h"
#include "gpus.h"

/* "10de:2330", or "NVIDIA Corporation 2330": only numbers of the device. */
static bool has_name(const struct device *d)
{
	size_t length = strlen(d->title);
	char number[8];

	snprintf(number, sizeof(number), "%04x", d->device);
	return length < 5 || strcmp(d->title + length - 4, number) ||
	       !strchr(" :", d->title[length - 5]);
}

static bool is_model(const char *line, size_t length, void *arg)
{
	(void)arg;
	return length > 6 && !strncmp(line, "Model:", 6);
}

/* "Model: \t\t NVIDIA H200"; true: it is the title now. */
static bool name_by_nvidia(struct tree *t, struct device *d)
{
	char path[128];
	const char *s;

	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", d->name);
	if (tree_lines(t, path, is_model, NULL, &s, NULL) || strncmp(s, "Model:", 6))
		return false;
	s += 6;
	s += strspn(s, " \t");
	if (!*s || *s == '\n')
		return false;
	tree_clean(d->title, sizeof(d->title), s, strcspn(s, "\n"));
	return true;
}

static void name_by_table(const struct gpus *table, struct device *d)
{
	for (size_t i = 0; i < table->count; i++)
		if (!strcmp(table->gpus[i].pci, d->name) && *table->gpus[i].name)
			tree_clean(d->title, sizeof(d->title), table->gpus[i].name,
				   strlen(table->gpus[i].name));
}

int gpu_names_read(struct machine *m)
{
	struct gpus table = { 0 };
	const char *data;
	size_t length;

	/* What the table has wrong, 'peerdma bar1' reports. */
	if (!tree_is_live(m->tree) && !tree_read(m->tree, GPUS_PATH, &data, &length) &&
	    gpus_parse_tsv(data, length, &table) == -ENOMEM)
		return -ENOMEM;
	for (unsigned int i = 0; i < m->count; i++) {
		struct device *d = &m->devices[i];

		if (d->kind == DEVICE_GPU && !has_name(d) && !name_by_nvidia(m->tree, d))
			name_by_table(&table, d);
	}
	gpus_free(&table);
	return 0;
}
