// SPDX-License-Identifier: MIT
/*
 * given.c - which GPUs and adapters are this machine's to use.  A container sees all of its host's
 * in sysfs; those that it was given have their device nodes in it.
 */
#include <stdio.h>
#include <string.h>

#include "base/tool.h"
#include "machine.h"

#define NVIDIA_GPUS	"/proc/driver/nvidia/gpus"

bool in_container(struct tree *t)
{
	static const char *const signs[] = {
		"/.dockerenv", "/run/.containerenv", "/run/systemd/container",
		"/run/secrets/kubernetes.io", "/var/run/secrets/kubernetes.io",
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (tree_exists(t, signs[i]))
			return true;
	}
	return false;
}

static bool minor_line(const char *line, size_t length, void *arg)
{
	(void)arg;
	return length > 13 && !strncmp(line, "Device Minor:", 13);
}

/* "Device Minor: \t 3".  -1: not known. */
static int nvidia_minor(struct tree *t, const struct device *d)
{
	const char *data;
	char path[96];
	uint64_t n;

	snprintf(path, sizeof(path), NVIDIA_GPUS "/%s/information", d->name);
	if (tree_lines(t, path, minor_line, NULL, &data, NULL) || strncmp(data, "Device Minor:", 13))
		return -1;
	data += 13;
	data += strspn(data, " \t");
	return text_u64(data, strcspn(data, "\n"), &n) && n < 4096 ? (int)n : -1;
}

static bool node_exists(struct tree *t, const char *path)
{
	struct tree_node node;

	return !tree_node(t, path, &node);
}

static bool gpu_given(struct tree *t, const struct device *d)
{
	const char *names;
	char path[64];

	if (d->vendor != 0x10de || tree_list(t, NVIDIA_GPUS, &names) || !*names)
		return true;
	snprintf(path, sizeof(path), "/dev/nvidia%d", d->minor);
	return d->minor >= 0 && node_exists(t, path);
}

static bool adapter_given(const struct machine *m, const struct device *d)
{
	char path[64];
	bool any = false;

	for (unsigned int i = 0; i < m->rdma_count; i++) {
		if (m->rdma[i].function != (int)(d - m->devices))
			continue;
		snprintf(path, sizeof(path), "/dev/infiniband/uverbs%d", rdma_uverbs(m->tree, m->rdma[i].name));
		if (node_exists(m->tree, path))
			return true;
		any = true;
	}
	return !any && d->rdma == RDMA_NONE;
}

void given_read(const struct machine *m, struct device *d)
{
	d->minor = d->kind == DEVICE_GPU && d->vendor == 0x10de ? nvidia_minor(m->tree, d) : -1;
	d->given = !m->container || (d->kind == DEVICE_GPU ? gpu_given(m->tree, d) :
				     d->kind == DEVICE_NIC ? adapter_given(m, d) : true);
}
