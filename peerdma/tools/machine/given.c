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

/* The first namespace of processes has always this number: PROC_PID_INIT_INO of Linux. */
#define FIRST_PID_NAMESPACE	"pid:[4026531836]"

/* containerd leaves no file, nor has each pod a service account. */
static bool has_own_processes(struct tree *t)
{
	const char *target;

	return !tree_link(t, "/proc/self/ns/pid", &target) && !strncmp(target, "pid:[", 5) &&
	       strcmp(target, FIRST_PID_NAMESPACE);
}

bool in_container(struct tree *t)
{
	static const char *const signs[] = {
		"/.dockerenv", "/run/.containerenv", "/run/systemd/container", "/.singularity.d",
		"/run/secrets/kubernetes.io", "/var/run/secrets/kubernetes.io",
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (tree_exists(t, signs[i]))
			return true;
	}
	return has_own_processes(t);
}

/* "Device Minor: \t 3".  -1: not known. */
static int nvidia_minor(struct tree *t, const struct device *d)
{
	char word[16];
	uint64_t n;

	return nvidia_information(t, d, "Device Minor", word, sizeof(word)) &&
	       text_u64(word, strlen(word), &n) && n < 4096 ? (int)n : -1;
}

static bool node_exists(struct tree *t, const char *path)
{
	struct tree_node node;

	return !tree_node(t, path, &node);
}

/* NVIDIA's container runtime shows the folders of the GPUs that it gives, a bare /proc those of all. */
static bool nvidia_given(struct tree *t, const struct device *d)
{
	const char *names;
	char path[64];

	if (tree_list(t, NVIDIA_GPUS, &names) || !*names)
		return true;
	snprintf(path, sizeof(path), "/dev/nvidia%d", d->minor);
	return d->minor >= 0 && node_exists(t, path);
}

/* By a render node, as the kernel's graphics drivers (amdgpu, xe) make one; softgpu has a node of its own, too. */
static bool has_node(struct tree *t, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s%.32s",
		 strncmp(name, "renderD", 7) ? "/dev/" : "/dev/dri/", name);
	return node_exists(t, path);
}

static bool drm_given(struct tree *t, const struct device *d)
{
	bool softgpu = device_is_softgpu(d);
	const char *names;
	char path[128];

	snprintf(path, sizeof(path), PCI_DEVICES "%s/%s", d->name, softgpu ? "softgpu" : "drm");
	if (tree_list(t, path, &names) || !*names)
		return true;
	for (; *names; names = tree_next(names)) {
		if ((softgpu || !strncmp(names, "renderD", 7)) && has_node(t, names))
			return true;
	}
	return false;
}

static bool rdma_given(const struct machine *m, const struct rdma_name *r)
{
	char path[64];

	/* Finding a node's number takes as long as there are devices. */
	if (!m->container)
		return true;
	snprintf(path, sizeof(path), "/dev/infiniband/uverbs%d", rdma_uverbs(m->tree, r->name));
	return node_exists(m->tree, path);
}

/* One that has no RDMA device is used by its network device. */
static bool adapter_given(const struct machine *m, const struct device *d)
{
	bool any = false;

	for (unsigned int i = 0; i < m->rdma_count; i++) {
		if (m->rdma[i].function != (int)(d - m->devices))
			continue;
		if (m->rdma[i].given)
			return true;
		any = true;
	}
	return !any && d->rdma == RDMA_NONE;
}

void given_read(struct machine *m)
{
	for (unsigned int i = 0; i < m->rdma_count; i++)
		m->rdma[i].given = rdma_given(m, &m->rdma[i]);
	for (unsigned int i = 0; i < m->count; i++) {
		struct device *d = &m->devices[i];

		d->minor = d->kind == DEVICE_GPU && d->vendor == 0x10de ?
			nvidia_minor(m->tree, d) : -1;
		d->given = true;
		if (m->container && d->kind == DEVICE_GPU)
			d->given = d->vendor == 0x10de ? nvidia_given(m->tree, d) :
				drm_given(m->tree, d);
		else if (m->container && d->kind == DEVICE_NIC)
			d->given = adapter_given(m, d);
	}
}
