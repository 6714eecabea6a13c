// SPDX-License-Identifier: MIT
/*
 * check_adapter.c - which of a GPU's memory does each RDMA device take: as a dma-buf, as peer memory, or none?
 */
#include <stdio.h>

#include "adapters.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_apart(d, 0) && any_of_kind(d, DEVICE_NIC);
}

static bool is_concerned(const struct doctor *d, const struct adapter *a)
{
	if (!a->function)
		return !d->chosen;
	return a->given && device_concerned(d, (unsigned int)(a->function - d->machine->devices));
}

static void subject(const struct adapter *a, char out[160])
{
	snprintf(out, 160, "%s%s%s%s", a->function && *a->function->label ? a->function->label : "",
		 a->function && *a->function->label ? " " : "", a->name,
		 a->software ? " (software)" : "");
}

/* A program's device that reaches host memory is no fault. */
static enum verdict verdict(const struct adapter *a, enum answer dmabuf, enum answer peer)
{
	if (dmabuf == ANSWER_YES || peer == ANSWER_YES || (a->software && !a->function))
		return VERDICT_OK;
	return dmabuf == ANSWER_UNKNOWN || peer == ANSWER_UNKNOWN ? VERDICT_UNKNOWN :
	       VERDICT_BROKEN;
}

static void one(struct doctor *d, const struct adapter *a)
{
	struct adapter_answer dmabuf, peer;
	char words[160];
	struct finding *f;

	adapter_dmabuf(d, a, &dmabuf);
	adapter_peer(d, a, &peer);
	subject(a, words);
	f = say(d, verdict(a, dmabuf.answer, peer.answer), "%s", words);
	f->ways = WAYS_RDMA;
	f->device = a->function ? (int)(a->function - d->machine->devices) : NO_DEVICE;
	evidence(d, f, "driver", "%s%s", *a->driver ? a->driver : "not known",
		 a->software ? ": software, its figures say nothing "
		 "about hardware" : "");
	evidence(d, f, "dma-buf", "%s: %s (%s)", answer_word(dmabuf.answer), dmabuf.why,
		 dmabuf.source);
	evidence(d, f, "peer memory", "%s: %s (%s)", answer_word(peer.answer), peer.why,
		 peer.source);
	if (dmabuf.answer == ANSWER_YES && peer.answer == ANSWER_YES)
		return;
	if (dmabuf.answer == ANSWER_YES) {
		consequence(d, f, "programs register a GPU's memory by ibv_reg_dmabuf_mr(); ibv_reg_mr() of its address %s",
			    peer.answer == ANSWER_NO ? "fails" : "may fail");
		if (peer.remedy)
			remedy(d, f, "for ibv_reg_mr() of a GPU's address: %s", peer.remedy);
	} else if (peer.answer == ANSWER_YES) {
		consequence(d, f, "programs register a GPU's memory by ibv_reg_mr() of its address; ibv_reg_dmabuf_mr() %s",
			    dmabuf.answer == ANSWER_NO ? "fails" : "may fail");
		if (dmabuf.remedy)
			remedy(d, f, "for ibv_reg_dmabuf_mr(): %s", dmabuf.remedy);
	} else {
		consequence(d, f,
			    f->verdict == VERDICT_UNKNOWN ?
			    "not known whether it can register GPU memory" :
			    "it cannot register GPU memory: programs fail, or go through a copy in host memory (staging)");
		if (peer.remedy || dmabuf.remedy)
			remedy(d, f, "%s", peer.remedy ? peer.remedy : dmabuf.remedy);
	}
}

static void run(struct doctor *d)
{
	const char *names, *s;
	struct adapter a;

	if (tree_list(d->tree, INFINIBAND, &names))
		return;
	for (s = names; *s; s = tree_next(s)) {
		adapter_read(d, s, &a);
		if (is_concerned(d, &a))
			one(d, &a);
	}
}

const struct check check_adapter = { "adapter", "GPU memory that an RDMA device takes", applies,
				     run };
