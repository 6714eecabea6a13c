// SPDX-License-Identifier: MIT
/*
 * gpu_rows.c - GPUs: BAR1 as their driver counts it (NVML), and what a software
 * GPU counts besides, in debugfs.  That has BAR1 too, where NVML is not there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "machine/gpus.h"
#include "top.h"

#define SOFTGPU_PATH	"/sys/kernel/debug/softgpu/%u/%s"
#define SOFTGPUS_MAX	64

static struct top_gpu *add(struct top_sample *s)
{
	struct top_gpu *bigger = realloc(s->gpus, (s->gpu_count + 1) * sizeof(*bigger));

	if (!bigger)
		return NULL;
	s->gpus = bigger;
	return memset(&bigger[s->gpu_count++], 0, sizeof(*bigger));
}

static int from_nvml(const struct tool *tool, struct top_sample *s, char why[256])
{
	struct gpus gpus;
	int ret = gpus_read(tool->root, &gpus);

	if (ret) {
		snprintf(why, 256, "%s", gpus.why);
		return ret == -ENOMEM ? ret : 0;
	}
	*why = 0;
	for (size_t i = 0; i < gpus.count; i++) {
		struct gpu *from = &gpus.gpus[i];
		struct top_gpu *g = add(s);

		if (!g) {
			ret = -ENOMEM;
			break;
		}
		g->index = from->index;
		memcpy(g->pci, from->pci, sizeof(g->pci));
		g->name = from->name;
		g->uuid = from->uuid;
		from->name = from->uuid = NULL;
		g->has_bar1 = from->has_bar1;
		g->total = from->total;
		g->used = from->used;
	}
	gpus_free(&gpus);
	return ret;
}

static int softgpu_file(const struct tool *tool, unsigned int n, const char *name, char **data)
{
	char path[64];
	size_t length;

	snprintf(path, sizeof(path), SOFTGPU_PATH, n, name);
	return file_read(tool->root, path, data, &length);
}

static struct top_gpu *find(struct top_sample *s, const char *uuid)
{
	for (size_t i = 0; i < s->gpu_count; i++) {
		if (*uuid && !strcmp(s->gpus[i].uuid, uuid))
			return &s->gpus[i];
	}
	return NULL;
}

static int new_softgpu(const struct tool *tool, unsigned int n, const char *info, const char *uuid,
		       struct top_sample *s)
{
	char memory[64], *bar1;
	struct top_gpu *g = add(s);

	if (!g)
		return -ENOMEM;
	g->index = n;
	g->name = strdup("softgpu");
	g->uuid = strdup(uuid);
	if (!g->name || !g->uuid)
		return -ENOMEM;
	if (top_word(info, "memory", memory, sizeof(memory)) && !pci_name(memory, g->pci))
		*g->pci = 0;
	if (!softgpu_file(tool, n, "bar1", &bar1)) {
		g->has_bar1 = top_number(bar1, "total", &g->total) &&
			top_number(bar1, "used", &g->used);
		free(bar1);
	}
	return 0;
}

static int from_softgpu(const struct tool *tool, unsigned int n, const char *info,
			struct top_sample *s)
{
	static const struct {
		const char *name;
		enum top_counter counter;
	} names[] = { { "revocations", TOP_REVOCATIONS }, { "copies", TOP_COPIES },
		      { "bytes_copied", TOP_COPIED } };
	struct top_gpu *g;
	char uuid[96] = "";
	uint64_t value;

	top_word(info, "uuid", uuid, sizeof(uuid));
	g = find(s, uuid);
	if (!g) {
		int ret = new_softgpu(tool, n, info, uuid, s);

		if (ret)
			return ret;
		g = &s->gpus[s->gpu_count - 1];
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (top_number(info, names[i].name, &value))
			top_count(&g->counts, names[i].counter, value);
	}
	return 0;
}

int top_read_gpus(const struct tool *tool, struct top_sample *s)
{
	char why[256], *info;
	int ret = from_nvml(tool, s, why);

	for (unsigned int n = 0; !ret && n < SOFTGPUS_MAX; n++) {
		ret = softgpu_file(tool, n, "info", &info);
		/* Numbers begin at 0 and have gaps only where one was removed. */
		if (ret) {
			ret = ret == -ENOMEM ? ret : 0;
			continue;
		}
		ret = from_softgpu(tool, n, info, s);
		free(info);
	}
	if (!ret && *why && !s->gpu_count)
		ret = top_missing(s, "GPUs and BAR1: %s", why);
	return ret;
}
