// SPDX-License-Identifier: MIT
/*
 * verbs.c - memory regions of an RDMA device in a registration cache: buffers are sent
 * again and again, and each is registered once.
 *
 *	cc verbs.c $(pkg-config --cflags --libs libpeerdma libibverbs)
 *	./verbs [DEVICE]
 *
 * Buffers in host memory, written by the device from one to the other: a queue pair that
 * is connected to itself. Any device does, a software one too: "rdma link add rxe0
 * type rxe netdev lo". Whoever frees memory tells the cache before.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <peerdma_cache.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUFFERS	4
#define LENGTH	65536UL
#define ROUNDS	1000

static struct ibv_context *device;
static struct ibv_pd *domain;
static struct ibv_cq *completions;
static struct ibv_qp *queue;
static struct peerdma_cache *cache;

/* ---- what the cache keeps: memory regions of this domain ---- */

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	(void)arg;
	out->handle = ibv_reg_mr(domain, (void *)(uintptr_t)addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return out->handle ? 0 : -errno;	/* -ENOMEM, for one: the cache makes room and tries again */
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	(void)addr;
	(void)length;
	ibv_dereg_mr(handle);
}

/* ---- a transfer ---- */

static int wait_for_completion(void)
{
	struct ibv_wc done;
	int n;

	do
		n = ibv_poll_cq(completions, 1, &done);
	while (!n);
	return n == 1 && done.status == IBV_WC_SUCCESS ? 0 : -1;
}

static int copy(char *to, char *from)
{
	struct peerdma_cached *holds[2];
	struct peerdma_range ranges[2] = { { (uintptr_t)from, LENGTH }, { (uintptr_t)to, LENGTH } };
	struct ibv_mr *source, *sink;
	struct ibv_send_wr *bad, write = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1 };
	struct ibv_sge part = { .addr = (uintptr_t)from, .length = LENGTH };
	int ret = peerdma_cache_get_many(cache, ranges, 2, holds);

	if (ret)
		return ret;
	source = holds[0]->registration;
	sink = holds[1]->registration;
	part.lkey = source->lkey;
	write.sg_list = &part;
	write.wr.rdma.remote_addr = (uintptr_t)to;
	write.wr.rdma.rkey = sink->rkey;
	ret = ibv_post_send(queue, &write, &bad) || wait_for_completion();
	peerdma_cache_put(cache, holds[0]);
	peerdma_cache_put(cache, holds[1]);
	return ret;
}

/* ---- the device ---- */

static int open_device(const char *name)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	for (int i = 0; all && all[i] && !device; i++) {
		if (!name || !strcmp(name, ibv_get_device_name(all[i])))
			device = ibv_open_device(all[i]);
	}
	if (all)
		ibv_free_device_list(all);
	return device ? 0 : -1;
}

/* The last address that the port has: on Ethernet, where there are several, that of IPv4. */
static int own_address(union ibv_gid *gid)
{
	union ibv_gid found, none = { .raw = { 0 } };
	int index = -1;

	for (int i = 0; i < 8 && !ibv_query_gid(device, 1, i, &found); i++) {
		if (memcmp(&found, &none, sizeof(none))) {
			*gid = found;
			index = i;
		}
	}
	return index;
}

static int connect_to_itself(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = completions, .recv_cq = completions, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_port_attr port;
	union ibv_gid gid;
	int index = own_address(&gid);

	queue = ibv_create_qp(domain, &init);
	if (!queue || ibv_query_port(device, 1, &port) ||
	    ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = queue->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = { .dlid = port.lid, .port_num = 1 },
	};
	if (index >= 0) {
		a.ah_attr.is_global = 1;
		a.ah_attr.grh.dgid = gid;
		a.ah_attr.grh.sgid_index = (uint8_t)index;
		a.ah_attr.grh.hop_limit = 1;
	}
	if (ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	return ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(int argc, char **argv)
{
	static const struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	char *buffers[BUFFERS];
	int wrong = 0, ended;

	if (open_device(argc > 1 ? argv[1] : NULL)) {
		fprintf(stderr, "verbs: no RDMA device%s%s\n", argc > 1 ? " " : "", argc > 1 ? argv[1] : "");
		return 77;
	}
	domain = ibv_alloc_pd(device);
	completions = ibv_create_cq(device, 4, NULL, NULL, 0);
	if (!domain || !completions || connect_to_itself() || peerdma_cache_create(&ops, NULL, NULL, &cache)) {
		perror("verbs: the device cannot be used");
		return 1;
	}
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i] = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (buffers[i] == MAP_FAILED)
			return 1;
	}
	for (int i = 0; i < ROUNDS && !wrong; i++) {
		char *from = buffers[i % BUFFERS], *to = buffers[(i + 1) % BUFFERS];

		memset(from, i, LENGTH);
		wrong = copy(to, from) || memcmp(to, from, LENGTH);
	}

	/* Memory regions keep the pages that they were made of: tell before they go. */
	ended = peerdma_cache_invalidate(cache, buffers[0], LENGTH);
	munmap(buffers[0], LENGTH);
	if (wrong || peerdma_cache_counters(cache, &c))
		goto failed;
	printf("%s: %d transfers, %llu memory regions made, %llu gets found one; %d ended with its memory\n",
	       ibv_get_device_name(device->device), ROUNDS, (unsigned long long)c.misses, (unsigned long long)c.hits, ended);
	peerdma_cache_close(cache);
	ibv_destroy_qp(queue);
	ibv_destroy_cq(completions);
	ibv_dealloc_pd(domain);
	ibv_close_device(device);
	return c.misses == BUFFERS && ended == 1 ? 0 : 1;
failed:
	fprintf(stderr, "verbs: a transfer failed: %s\n", *peerdma_last_error() ? peerdma_last_error() : "other bytes arrived");
	return 1;
}
