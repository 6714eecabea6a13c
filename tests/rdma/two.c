// SPDX-License-Identifier: MIT
/* two.c - see two.h. */
#include <netdb.h>
#include <sys/socket.h>

#include "two.h"

#define PORT "18600"

void two_meet(struct two *t, const char *machine)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = machine ? 0 : AI_PASSIVE }, *found;
	int fd, on = 1, err = getaddrinfo(machine, PORT, &hints, &found);

	MUST(!err, "%s: %s", machine, gai_strerror(err));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (machine) {
		while (connect(fd, found->ai_addr, found->ai_addrlen)) {
			close(fd);
			usleep(100000);
			fd = socket(AF_INET, SOCK_STREAM, 0);
		}
		t->tcp = fd;
	} else {
		MUST(!bind(fd, found->ai_addr, found->ai_addrlen) && !listen(fd, 1), "listening");
		t->tcp = accept(fd, NULL, NULL);
		close(fd);
	}
	freeaddrinfo(found);
	MUST(t->tcp >= 0, "no other side");
}

void two_swap(struct two *t, const void *mine, void *its, size_t size)
{
	if (write(t->tcp, mine, size) != (ssize_t)size || recv(t->tcp, its, size, MSG_WAITALL) != (ssize_t)size)
		die("the other side has gone");
}

static void modify(struct two *t, enum ibv_qp_state state, int mask, enum ibv_mtu mtu, int timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .path_mtu = mtu, .dest_qp_num = t->other.qpn, .max_dest_rd_atomic = 16,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = t->other.gid, .sgid_index = (uint8_t)t->pair.gid_index, .hop_limit = 1 } },
		.timeout = (uint8_t)timeout, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16,
	};

	errno = ibv_modify_qp(t->qp, &attr, IBV_QP_STATE | mask);
	MUST(!errno, "ibv_modify_qp to state %d", state);
}

void two_connect(struct two *t, uint64_t addr, uint32_t depth, enum ibv_mtu mtu, int timeout)
{
	struct ibv_cq *cq = t->pair.cq[0];
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					 .cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct two_end own = { .gid = t->pair.gid, .addr = addr, .rkey = t->mr->rkey };

	t->qp = ibv_create_qp(t->pair.pd, &init);
	MUST(t->qp, "ibv_create_qp");
	own.qpn = t->qp->qp_num;
	two_swap(t, &own, &t->other, sizeof(own));
	modify(t, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, mtu, 0);
	modify(t, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	       IBV_QP_MIN_RNR_TIMER, mtu, 0);
	modify(t, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, mtu,
	       timeout);
}
