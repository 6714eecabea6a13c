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

		char model[sizeof(d->title)];

		if (d->kind != DEVICE_GPU || has_name(d))
			continue;
		if (nvidia_information(m->tree, d, "Model", model, sizeof(model)))
			memcpy(d->title, model, sizeof(model));
		else
			name_by_table(&table, d);
	}
	gpus_free(&table);
	return 0;
}
