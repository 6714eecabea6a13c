// SPDX-License-Identifier: MIT
/*
 * wire.c - many requests under way between two machines whose wire loses, repeats and delays packets, or whose answers come
 * later than the requester waits for them: each request is done once, in order, with all its bytes.  What a request that is
 * completed was about is deregistered at once.
 *
 *	wire ADAPTER KIND TIMEOUT REQUESTS		the one side: listens on TCP port 18600
 *	wire ADAPTER KIND TIMEOUT REQUESTS MACHINE	the other
 *
 * KIND is of the memory at both sides, see memory.h; TIMEOUT is ibv_qp_attr's: the adapter waits 4 us << TIMEOUT for an answer.
 */
#include "memory.h"
#include "two.h"

#define SLOT 65536UL
#define SLOTS 32UL
#define SIZE ((SLOTS + 1) * SLOT)	/* and one slot that is read, and added to */
#define COUNTER (SLOTS * SLOT + SLOT / 2)

/* What both sides know of request n. */
enum what { SENT, WRITTEN, READ, ADDED };

static struct two two;
static struct memory memory, landing;	/* landing: the client's, for what it reads */
static struct ibv_mr *mrs[SLOTS];	/* the other's, each for its request */
static unsigned char bytes[SLOT], seen[SLOT];

static enum what what_of(unsigned int n)
{
	return n % 7 == 3 ? ADDED : n % 5 == 2 ? READ : n % 2 ? WRITTEN : SENT;
}

static uint32_t length_of(unsigned int n)
{
	return what_of(n) == ADDED ? 8 : n % 3 ? (uint32_t)(1 + n * 7919 % SLOT) : (uint32_t)SLOT;
}

static void fill(unsigned int n)
{
	uint32_t word = n * 2654435761U + 1, *at = (uint32_t *)(void *)bytes;
	size_t i;

	for (i = 0; i < SLOT / sizeof(*at); i++, word = word * 1664525 + 1013904223)
		at[i] = word;
}

static void complete(unsigned int n, struct ibv_wc *wc)
{
	enum ibv_wc_status status = pair_wait(&two.pair, 0, wc);

	MUST(status == IBV_WC_SUCCESS, "request %u: %s", n, ibv_wc_status_str(status));
	MUST(wc->wr_id == n, "request %llu is completed, not %u", (unsigned long long)wc->wr_id, n);
}

static void is_right(unsigned int n, const struct memory *m, size_t at, unsigned int pattern, uint32_t length)
{
	uint32_t i;

	fill(pattern);
	memory_read(m, at, seen, SLOT);
	for (i = 0; i < length && seen[i] == bytes[i]; i++)
		;
	MUST(i >= length, "request %u of %u bytes: byte %u is %#x, not %#x", n, length, i, seen[i], bytes[i]);
}

/* ---- the side that requests arrive at ---- */

static void receive(unsigned int n)
{
	struct ibv_sge sge = { .addr = memory.addr + n % SLOTS * SLOT, .length = SLOT, .lkey = two.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	errno = ibv_post_recv(two.qp, &wr, &bad);
	MUST(!errno, "posting a receive");
}

static int takes_a_receive(unsigned int n)
{
	return what_of(n) == SENT || what_of(n) == WRITTEN;
}

/* The next request from n on that takes one. */
static unsigned int next(unsigned int n)
{
	while (!takes_a_receive(n))
		n++;
	return n;
}

static void serve(unsigned int requests)
{
	unsigned int n, posted = 0, waiting = 0, number = 0;
	uint64_t added = 0, expected = 0, zero = 0;
	char ready = 'r';

	fill(~0U);
	memory_write(&memory, SLOTS * SLOT, bytes, SLOT / 2);
	memory_write(&memory, COUNTER, &zero, sizeof(zero));
	two_swap(&two, &ready, &ready, 1);
	for (n = 0; n < requests; n++) {
		struct ibv_wc wc;

		/* Fewer than there could be: requests meet a queue that is empty, too. */
		for (; waiting < SLOTS / 4; waiting++, posted++) {
			posted = next(posted);
			receive(posted);
		}
		expected += what_of(n) == ADDED;
		if (!takes_a_receive(n))
			continue;
		complete(n, &wc);
		waiting--;
		number++;
		MUST(wc.byte_len == length_of(n), "request %u has %u bytes, not %u", n, wc.byte_len, length_of(n));
		is_right(n, &memory, n % SLOTS * SLOT, n, length_of(n));
	}
	two_swap(&two, &ready, &ready, 1);
	memory_read(&memory, COUNTER, &added, sizeof(added));
	MUST(added == expected, "%llu times added, not %llu", (unsigned long long)added, (unsigned long long)expected);
	printf("%u messages received, %llu times added to\n", number, (unsigned long long)added);
}

/* ---- the side that makes them ---- */

static void post(unsigned int n)
{
	static const enum ibv_wr_opcode opcodes[] = { [SENT] = IBV_WR_SEND, [WRITTEN] = IBV_WR_RDMA_WRITE_WITH_IMM,
						      [READ] = IBV_WR_RDMA_READ, [ADDED] = IBV_WR_ATOMIC_FETCH_AND_ADD };
	enum what what = what_of(n);
	size_t at = n % SLOTS * SLOT;
	int comes_in = what == READ || what == ADDED;
	struct memory *local = comes_in ? &landing : &memory;
	struct ibv_sge sge = { .addr = local->addr + at, .length = length_of(n) };
	struct ibv_send_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = opcodes[what] };

	if (what == READ && sge.length > SLOT / 2)
		sge.length = SLOT / 2;
	if (what == ADDED) {
		wr.wr.atomic.remote_addr = two.other.addr + COUNTER;
		wr.wr.atomic.rkey = two.other.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = two.other.addr + (what == READ ? SLOTS * SLOT : at);
		wr.wr.rdma.rkey = two.other.rkey;
	}
	if (!comes_in) {
		fill(n);
		memory_write(&memory, at, bytes, SLOT);
	}
	mrs[n % SLOTS] = memory_try_register(local, two.pair.pd, at, SLOT);
	MUST(mrs[n % SLOTS], "registering memory for request %u", n);
	sge.lkey = mrs[n % SLOTS]->lkey;
	errno = ibv_post_send(two.qp, &wr, &bad);
	MUST(!errno, "posting request %u", n);
}

/*
 * How many requests, request n being the oldest: many, and one, in turns.  Where there is one, an answer that is repeated is for
 * its own last packet.
 */
static unsigned int under_way(unsigned int n)
{
	return n / SLOTS % 2 ? 1 : SLOTS / 4;
}

static void request(unsigned int requests)
{
	unsigned int n, posted = 0;
	uint64_t added = 0, value;
	struct ibv_wc wc;
	char ready = 'r';

	two_swap(&two, &ready, &ready, 1);
	for (n = 0; n < requests; n++) {
		size_t at = n % SLOTS * SLOT;
		uint32_t length = length_of(n);

		/* The receiver's slots are as many: it has looked at one before the next message comes there. */
		for (; posted < requests && posted - n < under_way(n); posted++)
			post(posted);
		complete(n, &wc);
		MUST(!ibv_dereg_mr(mrs[n % SLOTS]), "deregistering memory of request %u", n);
		if (what_of(n) == READ)
			is_right(n, &landing, at, ~0U, length > SLOT / 2 ? (uint32_t)(SLOT / 2) : length);
		if (what_of(n) != ADDED)
			continue;
		memory_read(&landing, at, &value, sizeof(value));
		MUST(value == added++, "request %u adds to %llu, not %llu", n, (unsigned long long)value, (unsigned long long)added - 1);
	}
	two_swap(&two, &ready, &ready, 1);
	printf("%u requests\n", requests);
}

int main(int argc, char **argv)
{
	const char *machine = argc == 6 ? argv[5] : NULL;
	unsigned int requests;

	MUST(argc == 5 || argc == 6, "usage: wire ADAPTER KIND TIMEOUT REQUESTS [MACHINE]");
	requests = (unsigned int)atoi(argv[4]);
	memory_alloc(&memory, memory_kind(argv[2]), SIZE);
	memory_alloc(&landing, memory_kind(argv[2]), SIZE);
	pair_open(&two.pair, argv[1], 0);
	two.mr = memory_register(&memory, two.pair.pd);
	two_meet(&two, machine);
	two_connect(&two, memory.addr, SLOTS, two.pair.mtu, atoi(argv[3]));
	if (machine)
		request(requests);
	else
		serve(requests);
	MUST(!ibv_destroy_qp(two.qp) && !ibv_dereg_mr(two.mr), "ending");
	pair_close(&two.pair);
	memory_release(&memory);
	memory_release(&landing);
	memory_free(&memory);
	memory_free(&landing);
	close(two.tcp);
	return 0;
}
