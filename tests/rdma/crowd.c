// SPDX-License-Identifier: MIT
/*
 * crowd.c - a program has more regions of one dma-buf than the adapter has workers, each waits to be mapped again, and the
 * exporter takes its time for each.  Another program's dma-buf is mapped again all the same, as soon as it is needed.
 *
 *	SLOW_FD=... SLOW_CONTROL=... mover_fd LENGTH crowd ADAPTER
 *
 * The slow dma-buf is another mover_fd's.
 */
#include <fcntl.h>

#include "memory.h"
#include "now.h"
#include "pair.h"

#define REGIONS 1200
#define SOON 5.0	/* seconds */
#define LENGTH 4096UL

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	MUST(value, "usage: SLOW_FD=... SLOW_CONTROL=... mover_fd LENGTH crowd ADAPTER");
	return value;
}

static void command(const char *control, const char *text)
{
	int fd = open(variable(control), O_WRONLY | O_CLOEXEC);

	MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", control, text);
	close(fd);
}

/* Unlike a reliable connection, an unreliable one goes on with its next message if one finds its memory moved. */
static struct ibv_qp *unreliable(struct pair *p)
{
	struct ibv_qp_init_attr init = { .send_cq = p->cq[0], .recv_cq = p->cq[0], .qp_type = IBV_QPT_UC,
					 .cap = { .max_send_wr = REGIONS, .max_send_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = p->mtu, .dest_qp_num = p->qp[1]->qp_num,
				    .ah_attr = { .is_global = 1, .port_num = 1,
						 .grh = { .dgid = p->gid, .sgid_index = (uint8_t)p->gid_index, .hop_limit = 1 } } };
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("an unreliable queue pair");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN))
		die("an unreliable queue pair that receives");
	attr.qp_state = IBV_QPS_RTS;
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "an unreliable queue pair that sends");
	return qp;
}

static struct ibv_mr *register_it(struct pair *p, int fd)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(p->pd, 0, LENGTH, 0, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	MUST(mr, "a dma-buf cannot be registered");
	return mr;
}

/* Needs every region, again and again, until it is killed. */
__attribute__((noreturn)) static void crowd(const char *adapter, int ready)
{
	int fd = atoi(variable("SLOW_FD")), i;
	struct ibv_mr *mrs[REGIONS];
	struct ibv_qp *qp;
	struct pair p;

	pair_open(&p, adapter, 0);
	for (i = 0; i < REGIONS; i++)
		mrs[i] = register_it(&p, fd);
	qp = unreliable(&p);
	command("SLOW_CONTROL", "delay 300");
	command("SLOW_CONTROL", "move");
	for (;; usleep(300000)) {
		for (i = 0; i < REGIONS; i++) {
			struct ibv_sge sge = { .length = 8, .lkey = mrs[i]->lkey };
			struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };

			if (ibv_post_send(qp, &wr, &bad))
				break;
		}
		MUST(!ready || write(ready, "", 1) == 1, "pipe");
		ready = 0;
	}
}

int main(int argc, char **argv)
{
	struct request r = { .opcode = IBV_WR_RDMA_WRITE, .length = 8 };
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	double begin, took;
	int up[2];
	struct pair p;
	pid_t child;
	char c;

	MUST(argc == 2 && !pipe(up), "usage: SLOW_FD=... SLOW_CONTROL=... mover_fd LENGTH crowd ADAPTER");
	child = fork();
	if (!child)
		crowd(argv[1], up[1]);
	close(up[1]);
	MUST(read(up[0], &c, 1) == 1, "the crowd has ended");
	pair_open(&p, argv[1], 0);
	r.local = register_it(&p, atoi(variable("MOVER_FD")));
	r.rkey = r.local->rkey;
	command("MOVER_CONTROL", "move");
	begin = now();
	MUST(!pair_post(&p, 0, &r), "posting a write");
	while (now() - begin < 10 * SOON && !ibv_poll_cq(p.cq[0], 1, &wc))
		usleep(1000);
	took = now() - begin;
	MUST(took > SOON || wc.status == IBV_WC_SUCCESS, "a write to memory that has moved: %s", ibv_wc_status_str(wc.status));
	printf("%.1f s for a write to memory that has moved, beside %d regions of a slow exporter\n", took, REGIONS);
	command("SLOW_CONTROL", "delay 0");
	MUST(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child, "the crowd");
	MUST(!ibv_dereg_mr((struct ibv_mr *)(uintptr_t)r.local), "ibv_dereg_mr");
	pair_close(&p);
	return took > SOON;
}
