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

/* A container has the nodes of what it was given; a job's device cgroup forbids those of other jobs. */
enum given { NOT_GIVEN, REFUSED, GIVEN };

static enum given node_given(struct tree *t, const char *path)
{
	struct tree_node node;

	return tree_node(t, path, &node) ? NOT_GIVEN : node.refused ? REFUSED : GIVEN;
}

/* Outside of a container what has no node may get one yet. */
static enum given outside(const struct machine *m, enum given g)
{
	return g == NOT_GIVEN && !m->container ? GIVEN : g;
}

/* NVIDIA's container runtime shows the folders of the GPUs that it gives, a bare /proc those of all. */
static enum given nvidia_given(struct tree *t, const struct device *d, char path[32])
{
	const char *names;

	if (tree_list(t, NVIDIA_GPUS, &names) || !*names)
		return GIVEN;
	snprintf(path, 32, "/dev/nvidia%d", d->minor);
	return d->minor < 0 ? NOT_GIVEN : node_given(t, path);
}

/* By a render node, as the kernel's graphics drivers (amdgpu, xe) make one; softgpu has a node of its own, too. */
static enum given drm_given(struct tree *t, const struct device *d, char path[32])
{
	bool softgpu = device_is_softgpu(d);
	enum given best = NOT_GIVEN;
	const char *names;
	char folder[128];

	snprintf(folder, sizeof(folder), PCI_DEVICES "%s/%s", d->name, softgpu ? "softgpu" : "drm");
	if (tree_list(t, folder, &names) || !*names)
		return GIVEN;
	for (; *names && best != GIVEN; names = tree_next(names)) {
		bool render = !strncmp(names, "renderD", 7);
		enum given g;

		if (!softgpu && !render)
			continue;
		snprintf(path, 32, "/dev/%s%.16s", render ? "dri/" : "", names);
		g = node_given(t, path);
		best = g > best ? g : best;
	}
	return best;
}

static enum given rdma_given(const struct machine *m, const struct rdma_name *r, char path[32])
{
	snprintf(path, 32, "/dev/infiniband/uverbs%d", r->uverbs);
	return outside(m, r->uverbs < 0 ? NOT_GIVEN : node_given(m->tree, path));
}

static void set(struct device *d, enum given g, const char *path)
{
	d->given = g == GIVEN;
	snprintf(d->refused, sizeof(d->refused), "%s", g == REFUSED ? path : "");
}

static void adapters_given(struct machine *m)
{
	char path[32];

	/* One that has no RDMA device is used by its network device. */
	for (unsigned int i = 0; i < m->count; i++)
		m->devices[i].given = m->devices[i].kind != DEVICE_NIC || !m->container ||
			m->devices[i].rdma == RDMA_NONE;
	for (unsigned int i = 0; i < m->rdma_count; i++) {
		if (m->rdma[i].function >= 0)
			m->devices[m->rdma[i].function].given = false;
	}
	/* Of several that an adapter has, one is enough. */
	for (unsigned int i = 0; i < m->rdma_count; i++) {
		struct rdma_name *r = &m->rdma[i];
		struct device *d = r->function < 0 ? NULL : &m->devices[r->function];
		enum given g = rdma_given(m, r, path);

		r->given = g == GIVEN;
		if (d && !d->given)
			set(d, g, path);
	}
}

static void gpu_given(struct machine *m, struct device *d)
{
	char path[32] = "";
	enum given g;

	if (d->vendor == 0x10de)
		d->minor = nvidia_minor(m->tree, d);
	g = d->vendor == 0x10de ? nvidia_given(m->tree, d, path) : drm_given(m->tree, d, path);
	set(d, outside(m, g), path);
}

void given_read(struct machine *m)
{
	adapters_given(m);
	for (unsigned int i = 0; i < m->count; i++) {
		m->devices[i].minor = -1;
		if (m->devices[i].kind == DEVICE_GPU)
			gpu_given(m, &m->devices[i]);
	}
}
