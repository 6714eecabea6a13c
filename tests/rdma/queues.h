/* SPDX-License-Identifier: MIT */
/* queues.h - the queues of work requests that a program shares with the adapter, as librxe has mapped them. */
#ifndef QUEUES_H
#define QUEUES_H

#include <rdma/rdma_user_rxe.h>
#include <stdint.h>

/* The work request with this wr_id, and, unless NULL, the queue that it is in; else the program ends. */
void *queue_find(uint64_t id, struct rxe_queue_buf **queue);

#endif
