// SPDX-License-Identifier: MIT
/* rdma_ports.c - reads ports of RDMA devices from sysfs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma_ports.h"
#include "base/tool.h"

#define PORTS_OF_ONE	16

static struct rdma_port *add(struct rdma_ports *all)
{
	struct rdma_port *bigger = reallocarray(all->ports, all->count + 1, sizeof(*bigger));

	if (!bigger)
		return NULL;
	all->ports = bigger;
	memset(&bigger[all->count], 0, sizeof(*bigger));
	return &bigger[all->count++];
}

static int read_port(struct tree *t, unsigned int device, const char *name, unsigned int number,
		     struct rdma_ports *out)
{
	struct rdma_port *p = add(out);
	char path[192], word[40];

	if (!p)
		return -ENOMEM;
	p->device = device;
	p->number = number;
	tree_clean(p->name, sizeof(p->name), name, strlen(name));
	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/ports/%u/state", name, number);
	/* "4: ACTIVE" */
	if (!tree_word(t, path, word, sizeof(word)) && strstr(word, ": "))
		snprintf(p->state, sizeof(p->state), "%.31s", strstr(word, ": ") + 2);
	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/ports/%u/link_layer", name, number);
	tree_word(t, path, p->layer, sizeof(p->layer));
	return 0;
}

static int read_ports(struct tree *t, unsigned int device, const char *name,
		      struct rdma_ports *out)
{
	const char *numbers = "";
	unsigned int found = 0;
	char path[128];
	uint64_t n;
	int ret = 0;

	snprintf(path, sizeof(path), RDMA_DEVICES "/%s/ports", name);
	if (tree_list(t, path, &numbers) == -ENOMEM)
		return -ENOMEM;
	for (; !ret && *numbers && found < PORTS_OF_ONE; numbers = tree_next(numbers)) {
		if (!text_u64(numbers, strlen(numbers), &n) || !n || n > 255)
			continue;
		ret = read_port(t, device, name, (unsigned int)n, out);
		found++;
	}
	return found ? ret : read_port(t, device, name, 1, out);
}

int rdma_ports_read(const struct machine *m, struct rdma_ports *out)
{
	int ret = 0;

	memset(out, 0, sizeof(*out));
	for (unsigned int i = 0; i < m->shown_count; i++) {
		for (unsigned int n = 0; !ret && n < m->rdma_count; n++) {
			if (m->rdma[n].function == (int)m->shown[i] && m->rdma[n].given)
				ret = read_ports(m->tree, m->shown[i], m->rdma[n].name, out);
		}
	}
	if (ret)
		rdma_ports_free(out);
	return ret;
}

void rdma_ports_free(struct rdma_ports *ports)
{
	free(ports->ports);
	memset(ports, 0, sizeof(*ports));
}
