/* SPDX-License-Identifier: MIT */
/* queues.h - the queues of work requests that a program shares with the adapter, as librxe has mapped them. */
#pragma once

#include <rdma/rdma_user_rxe.h>
#include <infiniband/verbs.h>
#include <stdint.h>

/* The work request with this wr_id, and, unless NULL, the queue that it is in; else the program ends. */
void *queue_find(uint64_t id, struct rxe_queue_buf **queue);

/*
 * Posts a completed request of this queue pair again, as `forge' changes it.  The adapter finds it forged or not at all, whatever it
 * is doing: it may look at the queue without being notified, for instance when a packet was sent.
 */
void queue_forge(const struct ibv_qp *qp, uint64_t id, void (*forge)(struct rxe_send_wqe *wqe));
