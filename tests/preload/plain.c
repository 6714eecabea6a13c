// SPDX-License-Identifier: MIT
/*
 * plain.c - a program of verbs and CUDA that knows nothing of peerdma: it registers GPU memory
 * by ibv_reg_mr() and lets the first RDMA device write it from buffer to buffer and read it back.
 *
 *	plain [ROUNDS]		registers for each round; exit code 77: no device
 *	plain read		registers memory that devices only read, and says what one reads there
 */
#include <cuda.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH	65536UL
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_context *device;
static struct ibv_pd *domain;
static struct ibv_cq *completions;
static struct ibv_qp *queue;

static int failed(const char *what)
{
	printf("plain: %s: %s\n", what, strerror(errno));
	return 1;
}

static int open_device(void)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	device = all && all[0] ? ibv_open_device(all[0]) : NULL;
	if (all)
		ibv_free_device_list(all);
	domain = device ? ibv_alloc_pd(device) : NULL;
	completions = device ? ibv_create_cq(device, 4, NULL, NULL, 0) : NULL;
	return domain && completions ? 0 : -1;
}

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
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	union ibv_gid gid;
	int index = own_address(&gid);

	queue = ibv_create_qp(domain, &init);
	if (!queue || index < 0 || ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = queue->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .port_num = 1, .is_global = 1, .grh = { .dgid = gid, .sgid_index = (uint8_t)index, .hop_limit = 1 } },
	};
	if (ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	return ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC);
}

static int transfer(enum ibv_wr_opcode opcode, CUdeviceptr here, const struct ibv_mr *mine, CUdeviceptr there, const struct ibv_mr *its)
{
	struct ibv_sge part = { .addr = here, .length = LENGTH, .lkey = mine->lkey };
	struct ibv_send_wr *bad, work = { .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &part, .num_sge = 1,
					  .wr.rdma = { .remote_addr = there, .rkey = its->rkey } };
	struct ibv_wc done;
	int n;

	if (ibv_post_send(queue, &work, &bad))
		return -1;
	do
		n = ibv_poll_cq(completions, 1, &done);
	while (!n);
	if (n != 1 || done.status != IBV_WC_SUCCESS)
		printf("plain: completion %d: %s\n", n, ibv_wc_status_str(done.status));
	return n == 1 && done.status == IBV_WC_SUCCESS ? 0 : -1;
}

static int filled(CUdeviceptr buffer, int byte)
{
	static char bytes[LENGTH];

	return !cuMemcpyDtoH(bytes, buffer, LENGTH) && bytes[0] == (char)byte && !memcmp(bytes, bytes + 1, LENGTH - 1);
}

static int round_of(CUdeviceptr a, CUdeviceptr b, int byte)
{
	struct ibv_mr *one = ibv_reg_mr(domain, (void *)(uintptr_t)a, LENGTH, ACCESS);
	struct ibv_mr *other = one ? ibv_reg_mr(domain, (void *)(uintptr_t)b, LENGTH, ACCESS) : NULL;

	if (!other)
		return failed("ibv_reg_mr of GPU memory");
	cuMemsetD8(a, (unsigned char)byte, LENGTH);
	cuMemsetD8(b, 0, LENGTH);
	if (transfer(IBV_WR_RDMA_WRITE, a, one, b, other) || !filled(b, byte))
		return failed("RDMA write");
	cuMemsetD8(b, (unsigned char)~byte, LENGTH);
	if (transfer(IBV_WR_RDMA_READ, a, one, b, other) || !filled(a, ~byte))
		return failed("RDMA read");
	if (ibv_dereg_mr(one))
		return failed("ibv_dereg_mr");
	/* Memory that devices only read: some kernels register other memory at the address (peerdma/lib/verbs/verbs_forced.h). */
	one = ibv_reg_mr(domain, (void *)(uintptr_t)a, LENGTH, 0);
	if (!one)
		return failed("ibv_reg_mr of GPU memory to be read");
	cuMemsetD8(b, 0, LENGTH);
	if (transfer(IBV_WR_RDMA_WRITE, a, one, b, other) || !filled(b, ~byte))
		return failed("RDMA write of memory that is only read");
	if (ibv_dereg_mr(one) || ibv_dereg_mr(other))
		return failed("ibv_dereg_mr");
	return 0;
}

/* Before Linux 6.2 this registers pages of zeros at the address: CUDA reserves it privately (verbs_forced.h). */
static int read_only(CUdeviceptr a)
{
	static unsigned char bytes[LENGTH];
	struct ibv_mr *one = ibv_reg_mr(domain, (void *)(uintptr_t)a, LENGTH, 0);
	struct ibv_mr *other = ibv_reg_mr(domain, bytes, LENGTH, ACCESS);

	if (!one || !other)
		return failed("ibv_reg_mr of GPU memory to be read");
	cuMemsetD8(a, 0x5a, LENGTH);
	memset(bytes, 0xff, LENGTH);
	if (cuCtxSynchronize() || transfer(IBV_WR_RDMA_WRITE, a, one, (uintptr_t)bytes, other))
		return failed("RDMA write of memory that is only read");
	printf("plain: the device read %s\n", bytes[0] == 0x5a ? "the GPU's bytes" : bytes[0] ? "something else" : "zeros");
	return ibv_dereg_mr(one) || ibv_dereg_mr(other);
}

int main(int argc, char **argv)
{
	bool read = argc > 1 && !strcmp(argv[1], "read");
	int rounds = read ? 0 : argc > 1 ? atoi(argv[1]) : 1;
	CUdeviceptr a, b;
	CUcontext context;

	if (open_device()) {
		printf("plain: no RDMA device\n");
		return 77;
	}
	if (connect_to_itself())
		return failed("a queue pair");
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuMemAlloc(&a, LENGTH) ||
	    cuMemAlloc(&b, LENGTH)) {
		printf("plain: no GPU\n");
		return 1;
	}
	if (read && read_only(a))
		return 1;
	for (int i = 0; i < rounds; i++) {
		if (round_of(a, b, i % 251 + 1))
			return 1;
	}
	cuMemFree(a);
	cuMemFree(b);
	if (ibv_destroy_qp(queue) || ibv_destroy_cq(completions) || ibv_dealloc_pd(domain) || ibv_close_device(device))
		return failed("what was made");
	if (!read)
		printf("plain: %d rounds, every byte right\n", rounds);
	return 0;
}
