// SPDX-License-Identifier: MIT
/* topo_near.c - the adapters nearest to each GPU, as text and in JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "topo.h"

/* "NIC0 (mlx5_0)": the RDMA devices; without any all that it is known as. */
static void put_adapter(const struct nears *n, unsigned int device)
{
	const struct device *d = &n->m->devices[device];
	const char *name = NULL;

	printf("%s", d->label);
	for (size_t i = 0; i < n->ports.count; i++) {
		const struct rdma_port *p = &n->ports.ports[i];

		if (p->device != device || (name && !strcmp(name, p->name)))
			continue;
		printf("%s%s", name ? ", " : " (", p->name);
		name = p->name;
	}
	if (!name && *d->known_as)
		printf(" (%s", d->known_as);
	if (name || *d->known_as)
		putchar(')');
}

static void put_gpu(const struct nears *n, const struct near *near)
{
	char why[96];

	printf("%s  %-4s ", n->m->devices[near->gpu].label, path_name(near->path));
	for (unsigned int i = 0; i < near->count; i++) {
		printf("%s", i ? ", " : "");
		put_adapter(n, near->adapters[i]);
	}
	putchar('\n');
	for (size_t i = 0; i < n->ports.count; i++) {
		const struct rdma_port *p = &n->ports.ports[i];

		if (near_leaves_out(n, near, p))
			printf("      left out: %s (%s), port %u: %s\n",
			       n->m->devices[p->device].label, p->name, p->number,
			       near_why_not(p, why));
	}
	if (near_ucx(n, near, NULL)) {
		printf("      export UCX_NET_DEVICES=");
		near_ucx(n, near, stdout);
		putchar('\n');
	}
}

void topo_near(const struct nears *n)
{
	if (!n->count)
		return;
	puts("\nNearest network adapters:\n");
	for (unsigned int i = 0; i < n->count; i++)
		put_gpu(n, &n->of[i]);
	if (near_nccl(n, NULL)) {
		/* In quotes: zsh would look for a program where "=" begins a word. */
		printf("all GPUs\n      export NCCL_IB_HCA='");
		near_nccl(n, stdout);
		puts("'");
	}
	if (n->level == NEAR_RDMA)
		puts("\nNo adapter has a usable RDMA port.");
	if (n->level == NEAR_ANY)
		puts("\nNo adapter has an RDMA device.");
	if (!near_states_known(n))
		puts("\nThe states of these adapters' ports are not known: some may be down.");
}

/* ---- JSON ---- */

/* near NULL: NCCL's. */
static void json_list(struct json_object *o, const char *key, const struct nears *n,
		      const struct near *near)
{
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);
	unsigned int count = to && near ? near_ucx(n, near, to) : to ? near_nccl(n, to) : 0;

	if (!to || fclose(to)) {
		warn("out of memory");
		exit(EXIT_ERROR);
	}
	json_text(o, key, count ? text : NULL);
	free(text);
}

static void json_gpu(struct json_object *o, const struct nears *n, const struct near *near)
{
	struct json_object *adapters, *array, *out;
	char why[96];

	json_text(o, "gpu", n->m->devices[near->gpu].label);
	json_text(o, "path", path_name(near->path));
	adapters = json_array_in(o, "adapters");
	for (unsigned int i = 0; i < near->count; i++)
		json_append_text(adapters, n->m->devices[near->adapters[i]].label);
	json_list(o, "ucx_net_devices", n, near);
	array = json_array_in(o, "left_out");
	for (size_t i = 0; i < n->ports.count; i++) {
		const struct rdma_port *p = &n->ports.ports[i];

		if (!near_leaves_out(n, near, p))
			continue;
		out = json_append(array);
		json_text(out, "adapter", n->m->devices[p->device].label);
		json_text(out, "device", p->name);
		json_number(out, "port", p->number);
		json_text(out, "why", near_why_not(p, why));
	}
}

void topo_json_near(struct json_object *o, const struct nears *n)
{
	struct json_object *array = json_array_in(o, "nearest");

	for (unsigned int i = 0; i < n->count; i++)
		json_gpu(json_append(array), n, &n->of[i]);
	json_list(o, "nccl_ib_hca", n, NULL);
	if (near_nccl(n, NULL))
		json_truth(o, "port_states_known", near_states_known(n));
	else
		json_null(o, "port_states_known");
}
