// SPDX-License-Identifier: MIT
/*
 * pair.c - the facts of two machines beside each other.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

const char *pair_word(enum pair_verdict v)
{
	static const char *const words[] = { "same", "differs", "cannot tell", "slow", "broken" };

	return words[v];
}

/* ---- rows ------------------------------------------------------------------------ */

/* "" is not known. */
static struct pair_row *row(struct pair_table *t, const char *fact, const char *a, const char *b)
{
	struct pair_row *r = &t->rows[t->count++];

	r->fact = fact;
	snprintf(r->value[0], sizeof(r->value[0]), "%s", *a ? a : "not known");
	snprintf(r->value[1], sizeof(r->value[1]), "%s", *b ? b : "not known");
	r->verdict = !*a || !*b ? PAIR_UNKNOWN : strcmp(a, b) ? PAIR_DIFFERS : PAIR_SAME;
	return r;
}

static struct pair_row *row_numbers(struct pair_table *t, const char *fact, unsigned int a,
				    unsigned int b)
{
	char x[16], y[16];

	snprintf(x, sizeof(x), "%u", a);
	snprintf(y, sizeof(y), "%u", b);
	return row(t, fact, x, y);
}

__attribute__((format(printf, 4, 5))) static void so(struct pair_row *r, enum pair_verdict v,
						     const char *remedy, const char *consequence,
						     ...)
{
	va_list args;

	r->verdict = v;
	r->remedy = remedy;
	va_start(args, consequence);
	vsnprintf(r->consequence, sizeof(r->consequence), consequence, args);
	va_end(args);
}

/* A fact that neither machine has is no fact. */
static struct pair_row *row_if(struct pair_table *t, const char *fact, const char *a, const char *b)
{
	return *a || *b ? row(t, fact, a, b) : NULL;
}

/* What differs without a consequence that is certain. */
static void noted(struct pair_row *r, const char *remedy, const char *consequence)
{
	if (r && r->verdict == PAIR_DIFFERS)
		so(r, PAIR_DIFFERS, remedy, "%s", consequence);
}

/* The fact decides: if it is not known, the verdict is not. */
static void decides(struct pair_row *r, const char *remedy, const char *consequence)
{
	r->counts = true;
	if (r->verdict == PAIR_UNKNOWN)
		so(r, PAIR_UNKNOWN, remedy, "%s", consequence);
}

#define LOOK_AGAIN	"write both bundles anew with this release of peerdma, as root"

/* ---- the machines ------------------------------------------------------------------ */

static void compare_counts(struct pair_table *t, const struct node *a, const struct node *b)
{
	struct pair_row *r = row_numbers(t, "GPUs", a->gpus, b->gpus);

	if (r->verdict == PAIR_DIFFERS)
		so(r, PAIR_SLOW, "use as many GPUs on each machine",
		   "rings between the machines are uneven: some GPUs share a rail, or have no counterpart");
	r = row_numbers(t, "RDMA adapters", a->adapters, b->adapters);
	if (!a->adapters || !b->adapters)
		so(r, PAIR_BROKEN, "see 'peerdma doctor' on that machine",
		   "%s has no adapter with RDMA: data goes through TCP, or not at all", a->adapters ? "B" : b->adapters ? "A" : "neither");
	else if (r->verdict == PAIR_DIFFERS)
		so(r, PAIR_SLOW, "see 'lspci' and 'peerdma doctor' on the machine with fewer",
		   "the adapters that only one machine has are of no use between the two");
	r = row_numbers(t, "rails with a GPU", a->distinct, b->distinct);
	if (r->verdict == PAIR_DIFFERS)
		so(r, PAIR_SLOW, "see which GPUs share an adapter: 'peerdma topo'",
		   "the machine with more rails is as slow as the other: several of its GPUs' counterparts share an adapter");
}

static void ranks(const struct node *n, char out[96])
{
	size_t used = 0;

	*out = 0;
	for (unsigned int i = 0; i < n->with_gpu && used < 90; i++)
		used += (size_t)snprintf(out + used, 96 - used, "%s%u", i ? " " : "",
					 n->rails[i].rank);
	if (!n->with_gpu)
		strcpy(out, "none");
}

/* By their place among the adapters: names and addresses may be others. */
static void compare_assignment(struct pair_table *t, const struct node *a, const struct node *b)
{
	unsigned int n = a->with_gpu < b->with_gpu ? a->with_gpu : b->with_gpu, crossed = 0;
	char x[96], y[96];
	struct pair_row *r;

	if (!n)
		return;
	for (unsigned int i = 0; i < n; i++)
		crossed += a->rails[i].rank != b->rails[i].rank;
	ranks(a, x);
	ranks(b, y);
	r = row(t, "adapter of each GPU", x, y);
	/* How many there are, other rows say. */
	r->verdict = crossed ? PAIR_SLOW : PAIR_SAME;
	if (crossed)
		so(r, PAIR_SLOW, "cable by rail, or order GPUs (CUDA_VISIBLE_DEVICES) and adapters (NCCL_IB_HCA) alike",
		   "%u of %u GPUs have another adapter than their counterpart: where each rail has a switch of its own, their traffic crosses from one to another",
		   crossed, n);
}

static void compare_machines(struct pair_table *t, const struct node *a, const struct node *b)
{
	struct pair_row *r;

	compare_counts(t, a, b);
	compare_assignment(t, a, b);
	noted(row_if(t, "GPU", a->gpu, b->gpu), NULL, "the faster machine waits for the other");
	noted(row(t, "machine", a->kind, b->kind), NULL,
	      "devices of a virtual or confidential machine reach each other in other ways: see the rows of the rails, and 'peerdma doctor' there");
	noted(row_if(t, "kernel", a->kernel, b->kernel), NULL, "RDMA drivers come with the kernel: they may behave differently");
	noted(row_if(t, "GPU driver", a->gpu_driver, b->gpu_driver),
	      "install the same release on both", "ways of reaching GPU memory depend on it");
	noted(row_if(t, "RDMA stack", a->rdma, b->rdma), "install the same release on both",
	      "features and faults of the drivers differ");
	r = row_if(t, "libibverbs", a->verbs, b->verbs);
	noted(r, NULL, "providers of adapters come with it: they may behave differently");
	r = row_if(t, "NCCL", a->nccl, b->nccl);
	noted(r, "install the same release on both, or see that the program brings its own",
	      "NCCL refuses a communicator whose ranks have different releases");
}

/* ---- a rail ------------------------------------------------------------------------- */

static const char *side_word(bool a, bool b)
{
	return a && b ? "both sides" : a ? "A" : "B";
}

static const char *either_word(bool a, bool b)
{
	return a && b ? "either side" : side_word(a, b);
}

static void ports_text(const struct rail *r, char out[32])
{
	*out = 0;
	if (!*r->device)
		snprintf(out, 32, "no RDMA device");
	else if (r->ports_known)
		snprintf(out, 32, "%u", r->active);
}

/* False: nothing can be sent, and nothing else is worth comparing. */
static bool compare_ports(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	char x[32], y[32];
	struct pair_row *r;

	ports_text(a, x);
	ports_text(b, y);
	r = row(t, "active ports", x, y);
	decides(r, LOOK_AGAIN, "not known whether a port is up");
	if (rail_is_down(a) || rail_is_down(b)) {
		so(r, PAIR_BROKEN, "see 'peerdma doctor' on that machine: it says what the port waits for",
		   "nothing is sent on this rail: no port is up on %s", either_word(rail_is_down(a), rail_is_down(b)));
		return false;
	}
	if (r->verdict == PAIR_DIFFERS)
		so(r, PAIR_SLOW, "see cable, transceiver and the switch's port",
		   "the side with fewer ports sets the pace");
	return true;
}

/* false: the sides cannot talk. */
static bool compare_layer(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	struct pair_row *r = row(t, "link layer", a->layer, b->layer);

	decides(r, LOOK_AGAIN, "not known whether the sides speak the same protocol");
	if (r->verdict == PAIR_DIFFERS)
		so(r, PAIR_BROKEN, "set both ports alike (mlxconfig LINK_TYPE_P1), or pair other adapters (NCCL_IB_HCA)",
		   "the sides do not speak the same protocol: connections between them time out");
	return r->verdict != PAIR_BROKEN;
}

static void compare_rate(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	struct pair_row *r = row(t, "rate", a->rate, b->rate);

	decides(r, LOOK_AGAIN, "not known how fast the links are");
	if (r->verdict != PAIR_DIFFERS)
		return;
	if (a->rate_mbit == b->rate_mbit)
		so(r, PAIR_DIFFERS, NULL, "the same rate in other lanes");
	else
		so(r, PAIR_SLOW, "see cable, transceiver and the speed that is set on the slower port and its switch",
		   "the slower side sets the pace, and the faster one fills the switch's buffers");
}

/* The largest payload of RDMA that fits, with RoCE's headers. */
static unsigned int rdma_mtu(unsigned int mtu)
{
	unsigned int payload = 4096;

	while (payload > 256 && payload + 70 > mtu)
		payload /= 2;
	return payload;
}

static void compare_mtu(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	unsigned int x = rdma_mtu(a->mtu), y = rdma_mtu(b->mtu);
	char m[16] = "", n[16] = "";
	struct pair_row *r;

	if (a->mtu)
		snprintf(m, sizeof(m), "%u", a->mtu);
	if (b->mtu)
		snprintf(n, sizeof(n), "%u", b->mtu);
	if (!rail_is_roce(a)) {
		noted(row_if(t, "MTU of the interface", m, n), "set both alike: ip link set DEVICE mtu N",
		      "only TCP over the interface (IPoIB) uses it: a program's first messages may be lost, and it hangs before RDMA begins");
		return;
	}
	r = row(t, "MTU of the interface", m, n);
	decides(r, LOOK_AGAIN, "not known how large packets may be");
	if (r->verdict != PAIR_DIFFERS)
		return;
	if (x != y)
		so(r, PAIR_SLOW, "set both alike, and the switch's ports at least as large: ip link set DEVICE mtu 9000",
		   "RDMA packets carry %u bytes of %u; a program that does not ask both sides sends packets that are lost: it hangs", x < y ? x : y, x < y ? y : x);
	else
		so(r, PAIR_DIFFERS, "set both alike: ip link set DEVICE mtu N",
		   "RDMA packets carry %u bytes on both sides; large packets of other protocols may be lost", x);
}

/* ---- RoCE ---------------------------------------------------------------------------- */

static void gid_text(const struct rail *r, char out[96])
{
	const struct gid *g = rail_gid(r);

	*out = 0;
	if (!r->gids_known)
		return;
	if (!g)
		snprintf(out, 96, "none%s", r->gid_count ? ", RoCE v1 only" : "");
	else if (g->kind == GID_UNKNOWN)
		snprintf(out, 96, "index %u", g->index);
	else
		snprintf(out, 96, "index %u, %s", g->index, gid_kind_word(g->kind));
}

static void compare_gids(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	const struct gid *g = rail_gid(a), *h = rail_gid(b);
	struct pair_row *r;
	char x[96], y[96];

	gid_text(a, x);
	gid_text(b, y);
	r = row(t, "RoCE v2 GID", x, y);
	decides(r, LOOK_AGAIN, "not known which addresses RoCE has");
	if (!a->gids_known || !b->gids_known || (!g && !h && a->gid_count && b->gid_count))
		return;
	if (!g || !h)
		so(r, PAIR_BROKEN, "give the network interface there an address (ip address add), and see that cma_roce_mode and the driver permit RoCE v2",
		   "RoCE v2 has no address on %s: connections fail or time out", either_word(!g, !h));
	else if (g->kind == GID_UNKNOWN || h->kind == GID_UNKNOWN)
		so(r, PAIR_UNKNOWN, LOOK_AGAIN, "not known of which kind the addresses are");
	else if (g->kind != h->kind)
		so(r, PAIR_BROKEN, "give both interfaces addresses of the same kind, best of IPv4",
		   "programs choose addresses of different kinds (A: %s, B: %s): packets between them are lost",
		   gid_kind_word(g->kind), gid_kind_word(h->kind));
	else if (g->index != h->index)
		so(r, PAIR_DIFFERS, "leave NCCL_IB_GID_INDEX and its like unset, or set it on each machine",
		   "a program that is given one index for both machines takes a wrong address on one, and hangs");
}

static void pfc_text(int pfc, char out[32])
{
	size_t used = 0;

	*out = 0;
	if (pfc == PFC_UNKNOWN)
		return;
	for (int i = 0; i < 8; i++) {
		if (pfc >> i & 1)
			used += (size_t)snprintf(out + used, 32 - used, "%s%d", used ? " " : "", i);
	}
	if (!used)
		strcpy(out, "none");
}

static void compare_priorities(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	char x[32], y[32];
	struct pair_row *r;

	pfc_text(a->pfc, x);
	pfc_text(b->pfc, y);
	r = row(t, "priorities with PFC", x, y);
	/* Few drivers and images have what answers this: then it decides nothing. */
	if (r->verdict == PAIR_UNKNOWN)
		so(r, PAIR_UNKNOWN,
		   "install iproute2's dcb on both machines; where the driver does not answer it, see mlnx_qos -i DEVICE",
		   "not known whether packets are paused or dropped under load");
	if (r->verdict == PAIR_DIFFERS)
		so(r, PAIR_SLOW, "set both sides and the switch alike: dcb pfc set dev DEVICE prio-pfc ...",
		   "under load one side pauses where the other drops: packets are sent again, and throughput falls");
	r = row_if(t, "priorities are taken from", a->trust, b->trust);
	if (r && r->verdict == PAIR_DIFFERS)
		so(r, PAIR_SLOW, "set both sides and the switch alike: dcb apptrust set dev DEVICE order ..., or mlnx_qos --trust",
		   "the sides sort the same packets into different priorities: PFC does not protect them on one");
}

/* ---- the GPU's memory ------------------------------------------------------------------ */

static void ways_text(const struct rail *r, char out[64])
{
	bool dmabuf = r->dmabuf == ANSWER_YES, peermem = r->peermem == ANSWER_YES;

	*out = 0;
	if (dmabuf || peermem)
		snprintf(out, 64, "%s%s%s", dmabuf ? "dma-buf" : "", dmabuf && peermem ? ", " : "",
			 peermem ? "peer memory" : "");
	else if (r->dmabuf == ANSWER_NO && r->peermem == ANSWER_NO)
		snprintf(out, 64, "in no way");
}

static bool in_no_way(const struct rail *r)
{
	return r->dmabuf == ANSWER_NO && r->peermem == ANSWER_NO;
}

static void compare_ways(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	bool both = (a->dmabuf == ANSWER_YES && b->dmabuf == ANSWER_YES) ||
		(a->peermem == ANSWER_YES && b->peermem == ANSWER_YES);
	char x[64], y[64];
	struct pair_row *r;

	ways_text(a, x);
	ways_text(b, y);
	r = row(t, "the GPU's memory goes by", x, y);
	decides(r, "see 'peerdma doctor' on that machine", "not known whether the adapter takes the GPU's memory");
	if (in_no_way(a) || in_no_way(b))
		so(r, PAIR_BROKEN, "see 'peerdma doctor' on that machine: it says what is missing",
		   "the adapter takes the GPU's memory in no way on %s: data goes through host memory there, or not at all",
		   side_word(in_no_way(a), in_no_way(b)));
	else if (r->verdict == PAIR_DIFFERS)
		so(r, PAIR_DIFFERS, both ? NULL : "do not set a way for both machines (NCCL_DMABUF_ENABLE); or make one work on both",
		   "each side registers its memory in its own way, and the network does not see it%s",
		   both ? "" : "; but no way works on both");
}

static void compare_rail(struct pair_table *t, const struct rail *a, const struct rail *b)
{
	noted(row_if(t, "adapter", a->adapter, b->adapter), NULL, "another model may have other limits");
	if (a->gpu >= 0 && b->gpu >= 0)
		compare_ways(t, a, b);
	if (!compare_ports(t, a, b))
		return;
	noted(row_if(t, "driver", a->driver, b->driver), NULL, "drivers may behave differently");
	noted(row_if(t, "firmware", a->firmware, b->firmware), "install the same release on both",
	      "features, defaults (RoCE, congestion control) and faults may differ");
	if (!compare_layer(t, a, b))
		return;
	compare_rate(t, a, b);
	compare_mtu(t, a, b);
	if (!rail_is_roce(a) || !rail_is_roce(b))
		return;
	compare_gids(t, a, b);
	compare_priorities(t, a, b);
}

/*
 * Beside rails with GPUs, an adapter that is the nearest of none is a spare one: what keeps it from
 * working takes nothing but its bandwidth, and where it is connected on no side, nothing at all.
 */
static void weigh_spare(struct pair_table *t)
{
	bool idle = rail_is_down(t->rail[0]) && rail_is_down(t->rail[1]);

	for (unsigned int i = 0; i < t->count; i++) {
		struct pair_row *r = &t->rows[i];
		char text[sizeof(r->consequence)];

		if (r->verdict != PAIR_BROKEN)
			continue;
		strcpy(text, r->consequence);
		so(r, idle ? PAIR_SAME : PAIR_SLOW, idle ? NULL : r->remedy, "%.250s; no GPU has the adapter for its nearest", text);
	}
}

static enum pair_verdict worst(const struct pairing *p)
{
	enum pair_verdict v = PAIR_SAME;

	for (unsigned int i = 0; i < p->count; i++) {
		for (unsigned int k = 0; k < p->tables[i].count; k++) {
			const struct pair_row *r = &p->tables[i].rows[k];
			bool idle = r->verdict == PAIR_UNKNOWN && !r->counts;

			if (r->verdict > v && !idle)
				v = r->verdict;
			else if (idle && v == PAIR_SAME)
				v = PAIR_DIFFERS;
		}
	}
	return v;
}

static unsigned int fewer(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static void rails(struct pairing *p, unsigned int first_a, unsigned int first_b, unsigned int count,
		  bool spare)
{
	for (unsigned int i = 0; i < count; i++) {
		struct pair_table *t = &p->tables[p->count++];

		t->rail[0] = &p->side[0]->node.rails[first_a + i];
		t->rail[1] = &p->side[1]->node.rails[first_b + i];
		compare_rail(t, t->rail[0], t->rail[1]);
		if (spare)
			weigh_spare(t);
	}
}

int pair_run(struct pairing *p)
{
	const struct node *a = &p->side[0]->node, *b = &p->side[1]->node;
	unsigned int with_gpu = fewer(a->with_gpu, b->with_gpu);

	p->tables = calloc(1 + (size_t)fewer(a->count, b->count), sizeof(p->tables[0]));
	if (!p->tables)
		return -ENOMEM;
	compare_machines(&p->tables[p->count++], a, b);
	rails(p, 0, 0, with_gpu, false);
	rails(p, a->with_gpu, b->with_gpu, fewer(a->count - a->with_gpu, b->count - b->with_gpu),
	      with_gpu);
	p->verdict = worst(p);
	return 0;
}

void pair_free(struct pairing *p)
{
	free(p->tables);
}
