/* SPDX-License-Identifier: MIT */
/*
 * remote.h - side B executes side A's orders: one order and one answer at a time, over a
 * stream socket.  Both sides are the same program on the same kind of machine, so structs
 * are sent as they are.
 */
#ifndef HCA_DEMO_REMOTE_H
#define HCA_DEMO_REMOTE_H

#include "side.h"

enum order_what {
	ORDER_HELLO,
	ORDER_QUEUE,	/* a new queue pair, and connect it to address */
	ORDER_REGISTER,	/* GPU memory, zeroed, in one of the ways */
	ORDER_ARRIVED,	/* all bytes have arrived: copy staged bytes to the GPU, and count */
	ORDER_DIGEST,
	ORDER_FREE,	/* free the GPU memory, allocate as much again and mark it */
	ORDER_LOOK,	/* check whether the mark has changed */
	ORDER_END,	/* free what ORDER_REGISTER has made */
	ORDER_COUNT,
	ORDER_BYE,
};

struct order {
	uint32_t what;
	uint32_t way;
	uint32_t ignore_stop;	/* FREE: the adapter is not stopped: must fail */
	uint64_t length;
	struct address address;
};

struct answer {
	uint32_t ok;
	char why[256];
	union {
		struct {		/* HELLO */
			char host[32], gpu[20], adapter[32], adapter_pci[32];
			uint32_t translates;
		};
		struct address address;	/* QUEUE */
		struct {		/* REGISTER */
			struct translation translation;
			uint64_t base;
			uint32_t rkey;
		};
		uint64_t copied;	/* ARRIVED: bytes that the GPU copied since REGISTER */
		char digest[DIGEST_HEX];
		struct {		/* FREE */
			uint64_t free_ns;
			uint32_t unmapped;	/* the IOMMU had no translation any more */
			uint32_t same;		/* new memory has the freed memory's address */
		};
		uint64_t changed;	/* LOOK: bytes */
		struct counts counts;
	};
};

/* Executes orders until ORDER_BYE, or until the connection is closed. */
void remote_serve(struct side *s, int fd);

/*
 * Sends an order and receives its answer.  False: why has side B's reason, or says that it
 * is gone.
 */
bool remote_ask(int fd, const struct order *order, struct answer *answer, struct why *why);
/* The two halves of remote_ask(), and whether an answer can be received without waiting. */
bool remote_order(int fd, const struct order *order, struct why *why);
bool remote_answer(int fd, struct answer *answer, struct why *why);
bool remote_answered(int fd);

/* Returns a socket: listens for one client, or tries to connect for half a minute.  -1 and why. */
int remote_listen(const char *port, struct why *why);
int remote_connect(const char *host, const char *port, struct why *why);

/* Side A calls this for itself, too. */
void remote_hello(struct side *s, struct answer *a);

#endif
