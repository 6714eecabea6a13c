// SPDX-License-Identifier: MIT
/*
 * pair_end.c - see pair_end.h.
 */
#include <stdio.h>
#include <string.h>

#include "pair_end.h"

const char *end_word(enum end_memory memory)
{
	static const char *const words[] = { "host", "dma-buf", "peer-memory" };

	return words[memory];
}

static bool fail(struct pair_end *e, const char *why)
{
	snprintf(e->why, sizeof(e->why), "%s", why);
	return false;
}

bool end_open(struct pair_end *e, const char *device, const char *gpu, int gid_index)
{
	struct device named = { 0 };

	*e = (struct pair_end){ .is_open = true };
	if (!probe_begin(&e->probe))
		return fail(e, "out of memory");
	if (!rdma_open_apart(&e->rdma, device, gid_index))
		return fail(e, e->rdma.why);
	if (!gpu)
		return true;
	snprintf(named.name, sizeof(named.name), "%s", gpu);
	e->has_gpu = probe_open_gpu(&e->probe, &named);
	return e->has_gpu || fail(e, e->probe.why);
}

static void forget(struct pair_end *e)
{
	rdma_unregister(&e->rdma, (struct verbs_mr *)e->own.mr);
	e->own.mr = NULL;
}

void end_close(struct pair_end *e)
{
	if (!e->is_open)
		return;
	forget(e);
	if (e->has_gpu)
		probe_close_gpu(&e->probe);
	rdma_close(&e->rdma);
	probe_end(&e->probe);
	*e = (struct pair_end){ 0 };
}

bool end_use(struct pair_end *e, enum end_memory memory)
{
	struct probe *p = &e->probe;

	forget(e);
	if (memory != END_HOST && !e->has_gpu)
		return fail(e, "no GPU was opened");
	e->memory = memory;
	e->own.addr = memory == END_HOST ? (uintptr_t)p->got : p->memory;
	e->own.mr = memory == END_HOST ? rdma_register(&e->rdma, p->room, PROBE_ROOM) :
		    memory == END_DMABUF ? probe_nic_dmabuf(p, &e->rdma) :
		    rdma_register(&e->rdma, (void *)(uintptr_t)p->memory, PROBE_MEMORY);
	return e->own.mr || fail(e, e->rdma.why);
}

bool end_offer(struct pair_end *e, struct rdma_end *own)
{
	return rdma_offer(&e->rdma, own) || fail(e, e->rdma.why);
}

bool end_meet(struct pair_end *e, const struct rdma_end *other, uint64_t addr, uint32_t rkey)
{
	e->key = (struct verbs_mr){ .rkey = rkey };
	e->other = (struct rdma_place){ &e->key, addr };
	if (!e->rdma.qp)
		return fail(e, "no queue pair was offered");
	return rdma_meet(&e->rdma, other) || fail(e, e->rdma.why);
}

/* Of host memory `got' is what is sent and received; of a GPU's it holds what CUDA copies. */
bool end_fill(struct pair_end *e, unsigned int salt)
{
	struct probe *p = &e->probe;

	probe_fill(p->got, salt);
	if (e->memory == END_HOST)
		return true;
	return probe_did(p, p->cuda.to_gpu(p->memory, p->got, PROBE_LENGTH), "cuMemcpyHtoD") ||
	       fail(e, p->why);
}

bool end_check(struct pair_end *e, unsigned int salt, unsigned int *wrong, unsigned int *first)
{
	struct probe *p = &e->probe;

	*first = 0;
	probe_fill(p->sent, salt);
	if (e->memory != END_HOST) {
		memset(p->got, 0, PROBE_LENGTH);
		if (!probe_did(p, p->cuda.to_host(p->got, p->memory, PROBE_LENGTH), "cuMemcpyDtoH"))
			return fail(e, p->why);
	}
	*wrong = probe_differ(p, first);
	return true;
}

bool end_carry(struct pair_end *e, bool by_read)
{
	if (!e->own.mr || !e->other.mr)
		return fail(e, "no memory was registered, or none of the other end");
	return rdma_carry(&e->rdma, by_read ? e->own : e->other, by_read ? e->other : e->own,
			  PROBE_LENGTH, by_read) ||
	       fail(e, e->rdma.why);
}
