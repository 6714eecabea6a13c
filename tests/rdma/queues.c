// SPDX-License-Identifier: MIT
/* queues.c - see queues.h. */
#include <rdma/ib_user_verbs.h>

#include "pair.h"
#include "queues.h"

void *queue_find(uint64_t id, struct rxe_queue_buf **queue)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct rxe_queue_buf *begin;
	uint64_t *at, *end;
	char line[400];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "uverbs") || sscanf(line, "%lx-%lx", (unsigned long *)&begin, (unsigned long *)&end) != 2)
			continue;
		for (at = (uint64_t *)begin->data; at < end; at++)
			if (*at == id) {
				fclose(maps);
				if (queue)
					*queue = begin;
				return at;
			}
	}
	die("no request in the queue");
}

/* As librxe does. */
static void notify(const struct ibv_qp *qp)
{
	struct ib_uverbs_post_send_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_post_send cmd;
	} c = {
		.header = { IB_USER_VERBS_CMD_POST_SEND, sizeof(c) / 4, sizeof(resp) / 4 },
		.cmd = { .response = (uintptr_t)&resp, .qp_handle = qp->handle, .wqe_size = sizeof(struct ib_uverbs_send_wr) },
	};

	MUST(write(qp->context->cmd_fd, &c, sizeof(c)) == (ssize_t)sizeof(c), "notifying the adapter");
}

void queue_forge(const struct ibv_qp *qp, uint64_t id, void (*forge)(struct rxe_send_wqe *wqe))
{
	struct rxe_queue_buf *queue;
	const struct rxe_send_wqe *done = queue_find(id, &queue);
	uint32_t at = queue->producer_index & queue->index_mask;
	struct rxe_send_wqe *wqe = (void *)(queue->data + ((size_t)at << queue->log2_elem_size));

	/* As it was before the adapter took it. */
	memcpy(wqe, done, (size_t)1 << queue->log2_elem_size);
	wqe->status = 0;
	wqe->state = 0;
	wqe->mask = 0;
	wqe->first_psn = 0;
	wqe->last_psn = 0;
	wqe->ack_length = 0;
	wqe->has_rd_atomic = 0;
	wqe->ssn++;
	wqe->dma.resid = wqe->dma.length;
	wqe->dma.cur_sge = 0;
	wqe->dma.sge_offset = 0;
	forge(wqe);
	__atomic_store_n(&queue->producer_index, queue->producer_index + 1, __ATOMIC_RELEASE);
	notify(qp);
}
