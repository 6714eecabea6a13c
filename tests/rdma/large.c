// SPDX-License-Identifier: MIT
/*
 * large.c - one long message at a time between two machines: its bytes are right, and hardly more packets are sent than it
 * has. A read may end in the middle: the side that is read from destroys its queue pair, or is killed.
 *
 *	large ADAPTER KIND MIB END		the one side: is read from and written to
 *	large ADAPTER KIND MIB END MACHINE	the other
 *
 * KIND is of the memory at both sides, see memory.h. END: whole; read, which is no more than that; lossy, where the net device
 * drops packets, and those of requests may be sent again; destroy or kill.
 */
#include "memory.h"
#include "now.h"
#include "two.h"

#define MIB (1UL << 20)
#define PACKET 1024UL		/* as with an Ethernet's usual MTU, so the most packets */
#define NO_TIMEOUT 0		/* a packet that is lost is not asked for again, and one that is late is not either */
#define FOUR_SECONDS 20		/* where packets are lost on purpose, or a queue pair ends */
#define LIMIT 60		/* seconds for a message, on a machine with other things to do */

static struct two two;
static struct memory memory;
static uint64_t *words;
static size_t size;

/* The port's, since the adapter is there. */
static unsigned long counter(const char *adapter, const char *name)
{
	unsigned long value;
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", adapter, name);
	file = fopen(path, "r");
	MUST(file && fscanf(file, "%lu", &value) == 1, "%s", path);
	fclose(file);
	return value;
}

static uint64_t word(unsigned int seed, size_t at)
{
	return (at + seed) * 0x9e3779b97f4a7c15ULL;
}

static void fill(unsigned int seed)
{
	size_t i;

	for (i = 0; i < size / sizeof(*words); i++)
		words[i] = word(seed, i);
	memory_write(&memory, 0, words, size);
}

static void is_right(const char *what, unsigned int seed)
{
	size_t i;

	memory_read(&memory, 0, words, size);
	for (i = 0; i < size / sizeof(*words); i++)
		MUST(words[i] == word(seed, i), "%s: byte %zu of %zu is wrong", what, i * sizeof(*words), size);
}

static void receive(void)
{
	struct ibv_sge sge = { .addr = memory.addr, .length = (uint32_t)size, .lkey = two.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	errno = ibv_post_recv(two.qp, &wr, &bad);
	MUST(!errno, "posting a receive");
}

static void post(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = memory.addr, .length = (uint32_t)size, .lkey = two.mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode,
					.wr.rdma = { .remote_addr = two.other.addr, .rkey = two.other.rkey } };

	errno = ibv_post_send(two.qp, &wr, &bad);
	MUST(!errno, "posting a request");
}

static void complete(const char *what)
{
	const struct timespec a_while = { .tv_nsec = 1000000 };
	double end = now() + LIMIT;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(two.pair.cq[0], 1, &wc))) {
		MUST(now() <= end, "%s of %zu MiB: not completed after %d s", what, size / MIB, LIMIT);
		nanosleep(&a_while, NULL);
	}
	MUST(n >= 0 && wc.status == IBV_WC_SUCCESS, "%s: %s", what, n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
}

/* One message. The requesting side, asks, prints and judges. */
static void message(const char *adapter, const char *what, enum ibv_wr_opcode opcode, unsigned int seed, int asks, int lossy)
{
	unsigned long before, sent, others, needed = size / PACKET;
	int gives = asks == (opcode != IBV_WR_RDMA_READ);
	double begin;
	char ready = 'r';

	fill(gives ? seed : ~seed);
	if (!asks && opcode == IBV_WR_SEND)
		receive();
	before = counter(adapter, "sent_pkts");
	two_swap(&two, &ready, &ready, 1);
	begin = now();
	if (asks)
		post(opcode);
	if (asks || opcode == IBV_WR_SEND)
		complete(what);
	two_swap(&two, &ready, &ready, 1);
	sent = counter(adapter, "sent_pkts") - before;
	two_swap(&two, &sent, &others, sizeof(sent));
	if (!gives)
		is_right(what, seed);
	if (!asks)
		return;
	printf("%s of %zu MiB: %lu packets of the %lu needed, %.2f s\n", what, size / MIB, sent + others, needed, now() - begin);
	MUST(lossy || sent + others <= needed + needed / 5, "%s: %lu packets are sent, and %lu are needed", what, sent + others, needed);
}

/* A read that is under way when the side that is read from ends. */
static void cut(const char *adapter, const char *end, int asks)
{
	unsigned long before = counter(adapter, "sent_pkts");
	const struct timespec a_while = { .tv_nsec = 1000000 };
	double begin;
	char ready = 'r';

	two_swap(&two, &ready, &ready, 1);
	if (asks) {
		post(IBV_WR_RDMA_READ);
		/* Also where the other side is killed. */
		MUST(read(two.tcp, &ready, 1) >= 0, "waiting for the other side");
		return;
	}
	while (counter(adapter, "sent_pkts") - before < 32)
		nanosleep(&a_while, NULL);
	if (!strcmp(end, "kill"))
		raise(SIGKILL);
	begin = now();
	MUST(!ibv_destroy_qp(two.qp), "destroying the queue pair");
	two.qp = NULL;
	/* What is in the net device's queue is sent, not what the read has left. */
	printf("a queue pair in the middle of a read is destroyed in %.2f s\n", now() - begin);
	MUST(now() - begin <= 10, "destroying the queue pair waits for the read");
}

int main(int argc, char **argv)
{
	const char *machine = argc == 6 ? argv[5] : NULL;
	const char *adapter = argv[1], *end = argc > 4 ? argv[4] : NULL;
	int lossy = end && !strcmp(end, "lossy");

	MUST(argc == 5 || argc == 6, "usage: large ADAPTER KIND MIB END [MACHINE]");
	size = strtoul(argv[3], NULL, 10) * MIB;
	words = malloc(size);
	MUST(words, "no memory");
	memory_alloc(&memory, memory_kind(argv[2]), size);
	pair_open(&two.pair, adapter, 0);
	two.mr = memory_register(&memory, two.pair.pd);
	two_meet(&two, machine);
	two_connect(&two, memory.addr, 4, IBV_MTU_1024, strcmp(end, "whole") ? FOUR_SECONDS : NO_TIMEOUT);
	if (!strcmp(end, "destroy") || !strcmp(end, "kill")) {
		cut(adapter, end, !!machine);
	} else {
		message(adapter, "read", IBV_WR_RDMA_READ, 1, !!machine, 0);
		if (strcmp(end, "read")) {
			message(adapter, "write", IBV_WR_RDMA_WRITE, 2, !!machine, lossy);
			message(adapter, "send", IBV_WR_SEND, 3, !!machine, lossy);
		}
	}
	MUST((!two.qp || !ibv_destroy_qp(two.qp)) && !ibv_dereg_mr(two.mr), "ending");
	pair_close(&two.pair);
	memory_release(&memory);
	memory_free(&memory);
	free(words);
	close(two.tcp);
	return 0;
}
