// SPDX-License-Identifier: MIT
/* pair.c - see pair.h. */
#include <dirent.h>

#include "now.h"
#include "pair.h"

#define DEPTH 64

static struct ibv_context *open_device(const char *name)
{
	int n, i;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *device = NULL;

	for (i = 0; list && i < n && !device; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			device = ibv_open_device(list[i]);
	MUST(device, "no adapter %s", name ? name : "");
	ibv_free_device_list(list);
	return device;
}

/* An IPv4 address as a GID: it is the net device's own, and its packets come back. */
static void find_gid(struct pair *p)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_port_attr port;
	int i;

	MUST(!ibv_query_port(p->device, 1, &port), "ibv_query_port");
	MUST(port.state == IBV_PORT_ACTIVE, "the port is not active");
	p->mtu = port.active_mtu;
	for (i = 0; i < port.gid_tbl_len; i++)
		if (!ibv_query_gid(p->device, 1, i, &p->gid) && !memcmp(p->gid.raw, mapped, sizeof(mapped))) {
			p->gid_index = i;
			return;
		}
	die("the net device has no IPv4 address");
}

static void create_qp(struct pair *p, int which)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = p->cq[which], .recv_cq = p->cq[which], .srq = which ? p->srq : NULL, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2 },
	};

	p->qp[which] = ibv_create_qp(p->pd, &attr);
	MUST(p->qp[which], "ibv_create_qp");
}

int pair_modify(struct pair *p, int which, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .qp_access_flags = p->access,
		.path_mtu = p->mtu, .dest_qp_num = p->qp[!which]->qp_num, .max_dest_rd_atomic = p->dest_rd_atomic, .min_rnr_timer = p->min_rnr_timer,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = p->gid, .sgid_index = p->gid_index, .hop_limit = 1 } },
		.timeout = p->timeout, .retry_cnt = p->retry_cnt, .rnr_retry = 7, .max_rd_atomic = 16,
		.rq_psn = p->psn[!which], .sq_psn = p->psn[which],
	};
	static const int masks[] = {
		[IBV_QPS_RESET] = IBV_QP_STATE,
		[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		[IBV_QPS_SQD] = IBV_QP_STATE,
		[IBV_QPS_ERR] = IBV_QP_STATE,
	};

	return ibv_modify_qp(p->qp[which], &attr, masks[state]);
}

static void modify(struct pair *p, int which, enum ibv_qp_state state)
{
	errno = pair_modify(p, which, state);
	MUST(!errno, "ibv_modify_qp to state %d", state);
}

/* New ones: packets of the old ones that are still on their way find no queue pair. */
void pair_connect(struct pair *p)
{
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 2; i++)
		MUST(!p->qp[i] || !ibv_destroy_qp(p->qp[i]), "ibv_destroy_qp");
	for (i = 0; i < 2; i++) {
		while (ibv_poll_cq(p->cq[i], 1, &wc) > 0)
			;
		create_qp(p, i);
	}
	for (i = 0; i < 2; i++)
		modify(p, i, IBV_QPS_INIT);
	for (i = 0; i < 2; i++)
		modify(p, i, IBV_QPS_RTR);
	for (i = 0; i < 2; i++)
		modify(p, i, IBV_QPS_RTS);
}

void pair_open(struct pair *p, const char *name, int srq)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 2 } };
	int i;

	*p = (struct pair){ .timeout = 14, .retry_cnt = 7, .min_rnr_timer = 1, .dest_rd_atomic = 16 };
	p->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	p->device = open_device(name);
	find_gid(p);
	p->pd = ibv_alloc_pd(p->device);
	MUST(p->pd, "ibv_alloc_pd");
	for (i = 0; i < 2; i++) {
		p->cq[i] = ibv_create_cq(p->device, 4 * DEPTH, NULL, NULL, 0);
		MUST(p->cq[i], "ibv_create_cq");
	}
	if (srq) {
		p->srq = ibv_create_srq(p->pd, &attr);
		MUST(p->srq, "ibv_create_srq");
	}
	pair_connect(p);
}

void pair_close(struct pair *p)
{
	int i;

	for (i = 0; i < 2; i++)
		MUST((!p->qp[i] || !ibv_destroy_qp(p->qp[i])) && !ibv_destroy_cq(p->cq[i]), "destroying the queues");
	MUST((!p->srq || !ibv_destroy_srq(p->srq)) && !ibv_dealloc_pd(p->pd) && !ibv_close_device(p->device), "closing the adapter");
}

int pair_post(struct pair *p, int which, const struct request *r)
{
	struct ibv_sge sge = { .addr = r->local_addr, .length = r->length, .lkey = r->local->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = r->id, .sg_list = &sge, .num_sge = 1, .opcode = r->opcode };

	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = r->remote_addr;
		wr.wr.atomic.rkey = r->rkey;
		wr.wr.atomic.compare_add = r->compare_add;
		wr.wr.atomic.swap = r->swap;
	} else {
		wr.wr.rdma.remote_addr = r->remote_addr;
		wr.wr.rdma.rkey = r->rkey;
	}
	return ibv_post_send(p->qp[which], &wr, &bad);
}

void pair_receive(struct pair *p, int which, const struct ibv_mr *mr, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	errno = which && p->srq ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qp[which], &wr, &bad);
	MUST(!errno, "posting a receive");
}

long pair_packets(const struct pair *p)
{
	char path[128];
	FILE *file;
	long n;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/rcvd_pkts", ibv_get_device_name(p->device->device));
	file = fopen(path, "r");
	MUST(file && fscanf(file, "%ld", &n) == 1, "%s", path);
	fclose(file);
	return n;
}

/* What the adapter has counted, if not 0.  Printed twice, it shows whether packets still move, and of which kind. */
static void print_counters(const struct pair *p)
{
	char path[128], value[32], *dir;
	struct dirent *entry;
	DIR *d;
	FILE *f;

	if (asprintf(&dir, "/sys/class/infiniband/%s/ports/1/hw_counters", ibv_get_device_name(p->device->device)) < 0)
		return;
	d = opendir(dir);
	while (d && (entry = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%.40s", dir, entry->d_name);
		f = fopen(path, "r");
		if (f && fgets(value, sizeof(value), f) && strcmp(value, "0\n"))
			printf("\t%s %s", entry->d_name, value);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	free(dir);
	fflush(stdout);
}

enum ibv_wc_status pair_wait(struct pair *p, int which, struct ibv_wc *wc)
{
	const struct timespec a_while = { .tv_nsec = 100000 };
	double begin = now();
	struct ibv_wc own;
	int n, slow = 0;

	if (!wc)
		wc = &own;
	while (!(n = ibv_poll_cq(p->cq[which], 1, wc))) {
		if (now() - begin > (slow ? 10 : 5)) {
			printf("no completion of queue pair %d in %s seconds; the adapter's counters:\n", which, slow ? "ten" : "five");
			print_counters(p);
			MUST(!slow++, "no completion of queue pair %d in ten seconds", which);
		}
		nanosleep(&a_while, NULL);
	}
	MUST(n >= 0, "ibv_poll_cq");
	if (slow)
		printf("a completion of queue pair %d came after %.0f s\n", which, now() - begin);
	return wc->status;
}

enum ibv_wc_status pair_do(struct pair *p, const struct request *r)
{
	errno = pair_post(p, 0, r);
	MUST(!errno, "posting a request");
	return pair_wait(p, 0, NULL);
}
