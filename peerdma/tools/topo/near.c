// SPDX-License-Identifier: MIT
/* near.c - see near.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "near.h"

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

const char *near_why_not(const struct rdma_port *p, char buf[96])
{
	if (*p->state && strcmp(p->state, "ACTIVE"))
		snprintf(buf, 96, "its state is %s", p->state);
	else if (*p->layer && strcmp(p->layer, "InfiniBand") && strcmp(p->layer, "Ethernet"))
		snprintf(buf, 96, "its link layer is %s, not InfiniBand or Ethernet", p->layer);
	else if (p->name[strspn(p->name, PLAIN)])
		/* People give the lists to a shell, and a comma ends a name in them. */
		snprintf(buf, 96, "its name has characters that no list can have");
	else
		return NULL;
	return buf;
}

/* ---- the nearest ---- */

static enum near_level level_of(const struct rdma_ports *ports, unsigned int device)
{
	enum near_level level = NEAR_ANY;
	char buf[96];

	for (size_t i = 0; i < ports->count; i++) {
		if (ports->ports[i].device != device)
			continue;
		if (!near_why_not(&ports->ports[i], buf))
			return NEAR_USABLE;
		level = NEAR_RDMA;
	}
	return level;
}

static void take(const struct machine *m, unsigned int device, struct near *near)
{
	int meet;
	enum path_class path = path_between(m, near->gpu, device, &meet);

	if (near->count && path > near->path)
		return;
	if (path < near->path)
		near->count = 0;
	near->path = path;
	near->adapters[near->count++] = device;
}

int nears_read(const struct machine *m, struct nears *out)
{
	unsigned int adapters[SHOWN_MAX], count = 0;
	enum near_level levels[SHOWN_MAX];

	memset(out, 0, sizeof(*out));
	out->m = m;
	out->level = NEAR_ANY;
	if (rdma_ports_read(m, &out->ports))
		return -ENOMEM;
	for (unsigned int i = 0; i < m->shown_count; i++) {
		if (m->devices[m->shown[i]].kind != DEVICE_NIC)
			continue;
		levels[count] = level_of(&out->ports, m->shown[i]);
		out->level = levels[count] < out->level ? levels[count] : out->level;
		adapters[count++] = m->shown[i];
	}
	out->of = calloc(m->shown_count + 1, sizeof(*out->of));
	if (!out->of) {
		nears_free(out);
		return -ENOMEM;
	}
	for (unsigned int i = 0; count && i < m->shown_count; i++) {
		struct near *near = &out->of[out->count];

		if (m->devices[m->shown[i]].kind != DEVICE_GPU)
			continue;
		*near = (struct near){ .gpu = m->shown[i], .path = PATH_UNKNOWN };
		for (unsigned int k = 0; k < count; k++)
			if (levels[k] <= out->level)
				take(m, adapters[k], near);
		out->count++;
	}
	return 0;
}

void nears_free(struct nears *n)
{
	rdma_ports_free(&n->ports);
	free(n->of);
	memset(n, 0, sizeof(*n));
}

/* ---- lists ---- */

static bool uses(const struct near *near, const struct rdma_port *p)
{
	char buf[96];

	for (unsigned int i = 0; i < near->count; i++)
		if (near->adapters[i] == p->device)
			return !near_why_not(p, buf);
	return false;
}

static bool any_uses(const struct nears *n, const struct rdma_port *p)
{
	for (unsigned int i = 0; i < n->count; i++)
		if (uses(&n->of[i], p))
			return true;
	return false;
}

bool near_leaves_out(const struct nears *n, const struct near *near, const struct rdma_port *p)
{
	char buf[96];
	int meet;

	return near_why_not(p, buf) &&
	       path_between(n->m, near->gpu, p->device, &meet) <= near->path;
}

/* near NULL: of all GPUs. */
static unsigned int list(const struct nears *n, const struct near *near, const char *before,
			 FILE *to)
{
	unsigned int count = 0;

	for (size_t i = 0; i < n->ports.count; i++) {
		const struct rdma_port *p = &n->ports.ports[i];

		if (!(near ? uses(near, p) : any_uses(n, p)))
			continue;
		if (to)
			fprintf(to, "%s%s:%u", count ? "," : before, p->name, p->number);
		count++;
	}
	return count;
}

unsigned int near_ucx(const struct nears *n, const struct near *near, FILE *to)
{
	return list(n, near, "", to);
}

unsigned int near_nccl(const struct nears *n, FILE *to)
{
	return list(n, NULL, "=", to);
}

bool near_states_known(const struct nears *n)
{
	for (size_t i = 0; i < n->ports.count; i++)
		if (!*n->ports.ports[i].state && any_uses(n, &n->ports.ports[i]))
			return false;
	return true;
}
