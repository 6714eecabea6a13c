// SPDX-License-Identifier: MIT
/*
 * forged.c - a program says, by the index that it shares with the adapter, that there are always more receive requests.  The
 * kernel ends them when the queue pair fails or goes, and must come to an end itself.
 *
 *	forged ADAPTER ROUNDS
 *
 * It becomes user 1000 first.  Where the kernel does not come to an end, neither does this.
 */
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>

#include "memory.h"
#include "now.h"
#include "pair.h"
#include "queues.h"

#define ID 0x5e0f5e0f5e0f5e0fUL
#define LIMIT 20.0		/* seconds for a call that needs some milliseconds */

static struct pair p;
static struct ibv_device_attr limits;
static struct ibv_cq *cq;
static struct rxe_queue_buf *queue, *completions;
static int forging, forged;
static unsigned long flushed;
static uint32_t most;		/* completed while one call was under way */

/* The kernel works on the processor of the thread that calls it, and must not keep the other one from forging. */
static void on_processor(unsigned int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number, &set);
	MUST(!sched_setaffinity(0, sizeof(set), &set), "processor %u", number);
}

/* The queue is full, however many the kernel has taken, and there is always room for their completions. */
static void *forge(void *unused)
{
	volatile struct rxe_queue_buf *q = queue, *done = completions;
	uint32_t last = done->producer_index, at;

	on_processor(1);
	while (__atomic_load_n(&forging, __ATOMIC_RELAXED)) {
		q->producer_index = (q->consumer_index + q->index_mask) & q->index_mask;
		at = done->producer_index;
		done->consumer_index = at;
		flushed += (at - last) & done->index_mask;
		last = at;
		__atomic_store_n(&forged, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* As many receive requests as the adapter has: the longer the kernel is at it, the surer it meets a new index. */
static struct ibv_qp *create(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp;

	init.cap.max_recv_wr = (uint32_t)limits.max_qp_wr - 1;
	qp = ibv_create_qp(p.pd, &init);
	MUST(qp, "ibv_create_qp");
	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	MUST(!errno, "ibv_modify_qp");
	return qp;
}

/* Not by ibv_destroy_qp(), which unmaps the queue under the thread that forges. */
static void destroy(const struct ibv_qp *qp)
{
	struct ib_uverbs_destroy_qp_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_destroy_qp cmd;
	} c = {
		.header = { IB_USER_VERBS_CMD_DESTROY_QP, sizeof(c) / 4, sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .qp_handle = qp->handle },
	};

	MUST(write(p.device->cmd_fd, &c, sizeof(c)) == (ssize_t)sizeof(c), "destroying the queue pair");
}

static void within_the_limit(double since, const char *what)
{
	MUST(now() - since <= LIMIT, "%s takes %.1f s", what, now() - since);
}

/* The completion queue is the mapping that has a completion's wr_id, when the queue of the request has gone. */
static void find_completions(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = ID };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = create();

	errno = ibv_post_recv(qp, &wr, &bad) ?: ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	MUST(!errno, "failing a queue pair");
	usleep(50000);
	errno = ibv_destroy_qp(qp);
	MUST(!errno, "ibv_destroy_qp");
	queue_find(ID, &completions);
	completions->consumer_index = completions->producer_index;
	memset(completions->data, 0, sizeof(struct ib_uverbs_wc));
}

/* In the error state, requests that are there are completed; in the reset state, they are dropped. */
static void one_round(enum ibv_qp_state state)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = ID };
	struct ibv_qp_attr attr = { .qp_state = state };
	struct ibv_qp *qp = create();
	uint32_t before, at_once;
	pthread_t thread;
	double began;

	errno = ibv_post_recv(qp, &wr, &bad);
	MUST(!errno, "posting a receive");
	queue_find(ID, &queue);
	forging = 1;
	forged = 0;
	MUST(!pthread_create(&thread, NULL, forge, NULL), "pthread_create");
	while (!__atomic_load_n(&forged, __ATOMIC_ACQUIRE))
		usleep(1000);
	began = now();
	before = completions->producer_index;
	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	MUST(!errno, "ibv_modify_qp to state %d", state);
	at_once = (completions->producer_index - before) & completions->index_mask;
	if (at_once > most)
		most = at_once;
	within_the_limit(began, state == IBV_QPS_ERR ? "the error state" : "the reset state");
	usleep(20000);
	destroy(qp);
	within_the_limit(began, "destroying the queue pair");
	__atomic_store_n(&forging, 0, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	int i, rounds;

	MUST(argc == 3, "usage: forged ADAPTER ROUNDS");
	rounds = atoi(argv[2]);
	on_processor(0);
	MUST(!setgid(1000) && !setuid(1000), "setuid");
	pair_open(&p, argv[1], 0);
	MUST(!ibv_query_device(p.device, &limits), "ibv_query_device");
	cq = ibv_create_cq(p.device, limits.max_cqe, NULL, NULL, 0);
	MUST(cq, "ibv_create_cq");
	find_completions();
	for (i = 0; i < rounds; i++)
		one_round(i % 2 ? IBV_QPS_RESET : IBV_QPS_ERR);
	MUST(!ibv_destroy_cq(cq), "ibv_destroy_cq");
	pair_close(&p);
	printf("%d rounds, %lu requests flushed that were never posted, at most %u in one call\n", rounds, flushed, most);
	if (most >= (uint32_t)limits.max_qp_wr) {
		printf("not ok: more than a queue has\n");
		return 1;
	}
	/* Else nothing was forged in time. */
	return flushed > (unsigned long)rounds ? 0 : 1;
}
