// SPDX-License-Identifier: MIT
/*
 * pair_facts.c - see pair_facts.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters.h"
#include "gpu_modes.h"
#include "pair_facts.h"
#include "paths.h"
#include "base/tool.h"

static void port_path(const struct rail *r, const char *file, char out[192])
{
	snprintf(out, 192, RDMA_DEVICES "/%s/ports/%s/%s", r->device, r->port, file);
}

bool rail_is_roce(const struct rail *r)
{
	return !strcmp(r->layer, "Ethernet");
}

bool rail_is_down(const struct rail *r)
{
	return !*r->device || (r->ports_known && !r->active);
}

/* ---- one port -------------------------------------------------------------------- */

static bool is_active(struct doctor *d, const struct rail *r, const char *port)
{
	char path[192], word[16];

	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/ports/%.8s/state", r->device, port);
	return !tree_word(d->tree, path, word, sizeof(word)) && *word == '4';
}

static void read_ports(struct doctor *d, struct rail *r)
{
	const char *ports;
	char path[128];

	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/ports", r->device);
	if (tree_list(d->tree, path, &ports))
		return;
	for (; *ports; ports = tree_next(ports)) {
		bool active = is_active(d, r, ports);

		r->ports_known = true;
		if (!*r->port || (active && !r->active))
			snprintf(r->port, sizeof(r->port), "%.8s", ports);
		r->active += active;
	}
}

static void read_layer(struct doctor *d, struct rail *r)
{
	char path[192], type[32];

	port_path(r, "link_layer", path);
	if (tree_word(d->tree, path, r->layer, sizeof(r->layer) - 8))
		return;
	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/node_type", r->device);
	/* "4: RNIC": RDMA over TCP, which RoCE does not understand. */
	if (!tree_word(d->tree, path, type, sizeof(type)) && *type == '4')
		strcat(r->layer, ", iWARP");
}

/* "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)" */
static void read_rate(struct doctor *d, struct rail *r)
{
	char path[192], *end;
	double gbit;

	port_path(r, "rate", path);
	if (tree_word(d->tree, path, r->rate, sizeof(r->rate)))
		return;
	gbit = strtod(r->rate, &end);
	if (end != r->rate && !strncmp(end, " Gb/sec", 7) && gbit > 0 && gbit < 100000)
		r->rate_mbit = (unsigned int)(gbit * 1000 + 0.5);
}

/* ---- its network interface ---------------------------------------------------------- */

/* The function's own, under any bond or VLAN: it has the queues. */
static void own_interface(struct doctor *d, const struct rail *r, char out[32])
{
	const char *names;
	char path[128];

	*out = 0;
	if (r->nic >= 0) {
		snprintf(path, sizeof(path), PCI_DEVICES "%s/net",
			 d->machine->devices[r->nic].name);
		if (!tree_list(d->tree, path, &names) && *names)
			tree_clean(out, 32, names, strlen(names));
		return;
	}
	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/parent", r->device);
	tree_word(d->tree, path, out, 32);
}

static void read_interface(struct doctor *d, struct rail *r, const char *own)
{
	char path[192];
	int64_t n;

	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/ports/%s/gid_attrs/ndevs/%u", r->device,
		 r->port, r->v2_count ? r->v2[0].index : 0);
	if (tree_word(d->tree, path, r->net, sizeof(r->net)) || !*r->net || strchr(r->net, '/'))
		snprintf(r->net, sizeof(r->net), "%s", own);
	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", r->net);
	if (*r->net && !tree_number(d->tree, path, &n) && n > 0 && n < 1 << 20)
		r->mtu = (unsigned int)n;
}

static int dcb(struct doctor *d, const char *object, const char *interface, const char **data)
{
	const char *const argv[] = { "dcb", "-j", object, "show", "dev", interface, NULL };
	char name[64];

	snprintf(name, sizeof(name), "dcb-%s-%s", object, interface);
	return tree_command(d->tree, name, argv, data, NULL);
}

/* {"pfc_cap":8,...,"prio_pfc":[false,false,false,true,false,false,false,false],...} */
static int parse_pfc(const char *data)
{
	static const char key[] = "\"prio_pfc\":";
	const char *s = strstr(data, key);
	int bits = 0;

	s = s ? s + strlen(key) : "";
	s += strspn(s, " \n\t");
	if (*s++ != '[')
		return PFC_UNKNOWN;
	for (int i = 0; i < 8; i++) {
		bool on;

		s += strspn(s, " \n\t");
		on = !strncmp(s, "true", 4);
		if (!on && strncmp(s, "false", 5))
			return PFC_UNKNOWN;
		bits |= on << i;
		s += on ? 4 : 5;
		s += strspn(s, " \n\t");
		if (*s++ != (i < 7 ? ',' : ']'))
			return PFC_UNKNOWN;
	}
	return bits;
}

/* {"order":["dscp","pcp"]} as "dscp pcp"; without any, the port trusts nothing. */
static void parse_trust(const char *data, char out[32])
{
	static const char key[] = "\"order\":";
	const char *s = strstr(data, key), *end;
	size_t used = 0;

	s = s ? strchr(s + strlen(key), '[') : NULL;
	end = s ? strchr(s, ']') : NULL;
	if (!end)
		return;
	for (s++; s < end && used < 30; s++) {
		if (*s >= 'a' && *s <= 'z')
			out[used++] = *s;
		else if (*s == ',')
			out[used++] = ' ';
	}
	out[used] = 0;
	if (!used)
		snprintf(out, 32, "nothing");
}

static void read_priorities(struct doctor *d, struct rail *r, const char *own)
{
	const char *data;

	if (!*own || strchr(own, '/'))
		return;
	if (!dcb(d, "pfc", own, &data))
		r->pfc = parse_pfc(data);
	if (!dcb(d, "apptrust", own, &data))
		parse_trust(data, r->trust);
}

/* ---- one rail ---------------------------------------------------------------------- */

/* Of several RDMA devices that an adapter has, the first. */
static void find_device(struct doctor *d, struct rail *r)
{
	const char *names;
	char path[128];

	if (r->nic < 0)
		return;
	snprintf(path, sizeof(path), PCI_DEVICES "%s/infiniband", d->machine->devices[r->nic].name);
	if (!tree_list(d->tree, path, &names) && *names)
		tree_clean(r->device, sizeof(r->device), names, strlen(names));
}

static void name_rail(const struct doctor *d, struct rail *r)
{
	const struct device *gpu = r->gpu < 0 ? NULL : &d->machine->devices[r->gpu];
	const struct device *nic = r->nic < 0 ? NULL : &d->machine->devices[r->nic];

	snprintf(r->name, sizeof(r->name), "%s%s%s%s%s%s", gpu ? gpu->label : "",
		 gpu ? " and " : "", nic ? nic->label : r->device, nic && *r->device ? " (" : "",
		 nic ? r->device : "", nic && *r->device ? ")" : "");
}

static enum answer answer_of(enum way_state s)
{
	return s >= STATE_SLOW ? ANSWER_YES : s == STATE_UNKNOWN ? ANSWER_UNKNOWN : ANSWER_NO;
}

static void read_ways(const struct doctor *d, struct rail *r)
{
	for (unsigned int i = 0; r->gpu >= 0 && i < d->paths->count; i++) {
		const struct path *p = &d->paths->paths[i];

		if ((int)p->gpu != r->gpu || p->peer != r->nic)
			continue;
		r->dmabuf = answer_of(p->ways[WAY_DMABUF].state);
		r->peermem = answer_of(p->ways[WAY_PEERMEM].state);
	}
}

static void read_rail(struct doctor *d, struct rail *r)
{
	struct adapter a;
	char path[160], own[32];

	r->pfc = PFC_UNKNOWN;
	find_device(d, r);
	name_rail(d, r);
	if (r->nic >= 0)
		snprintf(r->adapter, sizeof(r->adapter), "%s", d->machine->devices[r->nic].title);
	read_ways(d, r);
	if (!*r->device || strchr(r->device, '/'))
		return;
	adapter_read(d, r->device, &a);
	snprintf(r->driver, sizeof(r->driver), "%s", a.driver);
	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/fw_ver", r->device);
	tree_word(d->tree, path, r->firmware, sizeof(r->firmware));
	read_ports(d, r);
	read_layer(d, r);
	read_rate(d, r);
	own_interface(d, r, own);
	if (rail_is_roce(r)) {
		rail_gids(d, r);
		read_priorities(d, r, own);
	}
	read_interface(d, r, own);
}

/* ---- all of them ------------------------------------------------------------------- */

static bool is_adapter(const struct doctor *d, unsigned int i)
{
	const struct device *x = &d->machine->devices[i];

	return x->kind == DEVICE_NIC && x->rdma != RDMA_NONE && device_concerned(d, i);
}

static unsigned int rank_of(const struct doctor *d, unsigned int nic)
{
	unsigned int rank = 0;

	for (unsigned int i = 0; i < d->machine->shown_count && d->machine->shown[i] != nic; i++)
		rank += is_adapter(d, d->machine->shown[i]);
	return rank;
}

static bool is_taken(const struct node *n, int nic)
{
	for (unsigned int i = 0; i < n->count; i++) {
		if (n->rails[i].nic == nic)
			return true;
	}
	return false;
}

static void add_with_gpus(struct node *n, const struct doctor *d)
{
	for (unsigned int i = 0; i < d->pair_count; i++) {
		const struct pair *p = &d->pairs[i];

		if (!is_adapter(d, p->b) || d->machine->devices[p->a].kind != DEVICE_GPU)
			continue;
		n->distinct += !is_taken(n, (int)p->b);
		n->rails[n->count++] = (struct rail){ .gpu = (int)p->a, .nic = (int)p->b,
						      .rank = rank_of(d, p->b) };
	}
	n->with_gpu = n->count;
}

/* RDMA devices of no PCI function are rails, too: rxe on any network interface. */
static void add_software(struct node *n, struct doctor *d)
{
	const char *names;
	struct adapter a;

	if (tree_list(d->tree, RDMA_DEVICES, &names))
		return;
	for (; *names && n->count < 2 * SHOWN_MAX; names = tree_next(names)) {
		struct rail *r = &n->rails[n->count];

		adapter_read(d, names, &a);
		if (a.function)
			continue;
		*r = (struct rail){ .gpu = -1, .nic = -1, .rank = n->adapters++ };
		tree_clean(r->device, sizeof(r->device), names, strlen(names));
		n->count++;
	}
}

static void add_others(struct node *n, struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->shown_count; i++) {
		unsigned int nic = d->machine->shown[i];

		n->gpus += path_of_gpu(d, nic);
		if (!is_adapter(d, nic))
			continue;
		if (!is_taken(n, (int)nic))
			n->rails[n->count++] = (struct rail){ .gpu = -1,
							      .nic = (int)nic,
							      .rank = n->adapters };
		n->adapters++;
	}
	add_software(n, d);
}

/* ---- the machine -------------------------------------------------------------------- */

/* "libnccl.so.2 -> libnccl.so.2.21.5": the number that the file has. */
static void library(struct doctor *d, const char *name, char out[48])
{
	static const char *const folders[] = { "/usr/lib/x86_64-linux-gnu",
					       "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
					       "/usr/lib", "/usr/local/lib" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *target, *number;
		char path[96];

		snprintf(path, sizeof(path), "%s/%s", folders[i], name);
		if (tree_link(d->tree, path, &target))
			continue;
		number = strstr(target, ".so.");
		if (number)
			tree_clean(out, 48, number + 4, strlen(number + 4));
		return;
	}
}

static void read_kind(struct doctor *d, char out[96])
{
	const struct machine *m = d->machine;
	bool hidden = m->confidential || tree_exists(d->tree, "/sys/class/misc/sev-guest");
	const char *modes = "";
	unsigned int on = 0;

	if (!tree_read(d->tree, GPU_MODES_PATH, &modes, NULL))
		gpu_mode(modes, "all", GPU_CONFIDENTIAL, &on);
	snprintf(out, 96, "%s%s%s%s", hidden ? "confidential " : "",
		 m->virtual ? "virtual machine" : "bare metal", m->container ? ", container" : "",
		 on ? ", confidential GPUs" : "");
}

static void read_rdma_stack(struct doctor *d, char out[80])
{
	char version[64];

	if (!tree_word(d->tree, "/sys/module/mlx5_core/version", version, sizeof(version)))
		snprintf(out, 80, "vendor's, %s", version);
	else
		snprintf(out, 80, module_loaded(d, "ib_core") ? "the kernel's own" : "none");
}

static void read_software(struct node *n, struct doctor *d)
{
	struct driver_release release;

	read_kind(d, n->kind);
	snprintf(n->kernel, sizeof(n->kernel), "%s", d->machine->release);
	nvidia_release(d, &release);
	if (release.known)
		snprintf(n->gpu_driver, sizeof(n->gpu_driver), "%s, %s", release.text,
			 release.opened ? "open" : "proprietary");
	else
		tree_word(d->tree, "/sys/module/amdgpu/version", n->gpu_driver,
			  sizeof(n->gpu_driver));
	read_rdma_stack(d, n->rdma);
	library(d, "libibverbs.so.1", n->verbs);
	library(d, "libnccl.so.2", n->nccl);
	for (unsigned int i = 0; i < d->machine->shown_count && !*n->gpu; i++) {
		if (path_of_gpu(d, d->machine->shown[i]))
			snprintf(n->gpu, sizeof(n->gpu), "%s",
				 d->machine->devices[d->machine->shown[i]].title);
	}
}

int node_read(struct node *n, struct doctor *d)
{
	memset(n, 0, sizeof(*n));
	n->rails = calloc(2 * SHOWN_MAX, sizeof(n->rails[0]));
	if (!n->rails)
		return -ENOMEM;
	gid_kinds_remember(d);
	add_with_gpus(n, d);
	add_others(n, d);
	for (unsigned int i = 0; i < n->count; i++)
		read_rail(d, &n->rails[i]);
	read_software(n, d);
	return 0;
}

void node_free(struct node *n)
{
	free(n->rails);
	n->rails = NULL;
}
