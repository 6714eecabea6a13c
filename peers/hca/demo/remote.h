/* SPDX-License-Identifier: MIT */
/*
 * remote.h - side B does what side A asks for: one order and one answer at a time, over a stream socket.  Both are the
 * same program on the same kind of machine, so that structures go over it as they are.
 */
#ifndef HCA_DEMO_REMOTE_H
#define HCA_DEMO_REMOTE_H

#include "side.h"

enum order_what {
	ORDER_HELLO,
	ORDER_QUEUE,	/* a new queue pair, and connect it to address */
	ORDER_REGISTER,	/* GPU memory, zeroed, in one of the ways */
	ORDER_ARRIVED,	/* all bytes are there: copy them to the GPU if they are staged, and count */
	ORDER_DIGEST,
	ORDER_FREE,	/* the GPU's memory, and take and mark as much anew */
	ORDER_LOOK,	/* whether the mark has changed */
	ORDER_END,	/* what ORDER_REGISTER made is given back */
	ORDER_COUNT,
	ORDER_BYE,
};

struct order {
	uint32_t what;
	uint32_t way;
	uint32_t ignore_stop;	/* FREE: the adapter does not stop, for which the demonstration must fail */
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
		uint64_t copied;	/* ARRIVED: by the GPU, to or from host memory, since REGISTER */
		char digest[DIGEST_HEX];
		struct {		/* FREE */
			uint64_t free_ns;
			uint32_t unmapped;	/* of the IOMMU, when the free returned; where it translates */
			uint32_t same;		/* what was taken anew is where the freed memory was */
		};
		uint64_t changed;	/* LOOK: bytes */
		struct counts counts;
	};
};

/* Does what is asked for until ORDER_BYE, or until the other end is gone. */
void remote_serve(struct side *s, int fd);

/* False and why: the other end's, or that it is gone. */
bool remote_ask(int fd, const struct order *order, struct answer *answer, struct why *why);
/* The two halves of it, and whether the second one would not wait. */
bool remote_order(int fd, const struct order *order, struct why *why);
bool remote_answer(int fd, struct answer *answer, struct why *why);
bool remote_answered(int fd);

/* The socket: listens for one client, or connects, for half a minute. -1 and why. */
int remote_listen(const char *port, struct why *why);
int remote_connect(const char *host, const char *port, struct why *why);

/* Side A fills it for itself, too. */
void remote_hello(struct side *s, struct answer *a);

#endif
