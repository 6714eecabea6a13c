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
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory.h"
#include "pair.h"

#define PORT "18600"
#define SLOT 65536UL
#define SLOTS 32UL
#define SIZE ((SLOTS + 1) * SLOT)	/* and one slot that is read, and added to */
#define COUNTER (SLOTS * SLOT + SLOT / 2)

/* What both sides know of request n. */
enum what { SENT, WRITTEN, READ, ADDED };

static struct pair p;		/* its adapter, protection domain and a completion queue */
static struct ibv_qp *qp;
static struct memory memory, landing;	/* landing: the client's, for what it reads */
static struct ibv_mr *mr;		/* all of memory, of the side that requests arrive at */
static struct ibv_mr *mrs[SLOTS];	/* the other's, each for its request */
static unsigned char bytes[SLOT], seen[SLOT];
static int peer;		/* the TCP connection */
static struct end {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
} own, other;

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

/* ---- the two sides meet ---- */

static void meet(const char *machine)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = machine ? 0 : AI_PASSIVE }, *found;
	int fd, on = 1, err = getaddrinfo(machine, PORT, &hints, &found);

	if (err)
		die("%s: %s", machine, gai_strerror(err));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (machine) {
		while (connect(fd, found->ai_addr, found->ai_addrlen)) {
			close(fd);
			usleep(100000);
			fd = socket(AF_INET, SOCK_STREAM, 0);
		}
		peer = fd;
	} else {
		if (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 1))
			die("listening");
		peer = accept(fd, NULL, NULL);
		close(fd);
	}
	freeaddrinfo(found);
	if (peer < 0)
		die("no other side");
}

static void swap(const void *mine, void *its, size_t size)
{
	if (write(peer, mine, size) != (ssize_t)size || recv(peer, its, size, MSG_WAITALL) != (ssize_t)size)
		die("the other side has gone");
}

static void modify(enum ibv_qp_state state, int mask, int timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .path_mtu = p.mtu, .dest_qp_num = other.qpn, .max_dest_rd_atomic = 16,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = other.gid, .sgid_index = (uint8_t)p.gid_index, .hop_limit = 1 } },
		.timeout = (uint8_t)timeout, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16,
	};

	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
	if (errno)
		die("ibv_modify_qp to state %d", state);
}

static void connect_qps(int timeout)
{
	struct ibv_qp_init_attr init = { .send_cq = p.cq[0], .recv_cq = p.cq[0], .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					 .cap = { .max_send_wr = SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1 } };

	qp = ibv_create_qp(p.pd, &init);
	if (!qp)
		die("ibv_create_qp");
	own = (struct end){ .gid = p.gid, .addr = memory.addr, .qpn = qp->qp_num, .rkey = mr->rkey };
	swap(&own, &other, sizeof(own));
	modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0);
	modify(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
	       IBV_QP_MIN_RNR_TIMER, 0);
	modify(IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, timeout);
}

static void complete(unsigned int n, struct ibv_wc *wc)
{
	enum ibv_wc_status status = pair_wait(&p, 0, wc);

	if (status != IBV_WC_SUCCESS)
		die("request %u: %s", n, ibv_wc_status_str(status));
	if (wc->wr_id != n)
		die("request %llu is completed, not %u", (unsigned long long)wc->wr_id, n);
}

static void is_right(unsigned int n, const struct memory *m, size_t at, unsigned int pattern, uint32_t length)
{
	uint32_t i;

	fill(pattern);
	memory_read(m, at, seen, SLOT);
	for (i = 0; i < length && seen[i] == bytes[i]; i++)
		;
	if (i < length)
		die("request %u of %u bytes: byte %u is %#x, not %#x", n, length, i, seen[i], bytes[i]);
}

/* ---- the side that requests arrive at ---- */

static void receive(unsigned int n)
{
	struct ibv_sge sge = { .addr = memory.addr + n % SLOTS * SLOT, .length = SLOT, .lkey = mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	errno = ibv_post_recv(qp, &wr, &bad);
	if (errno)
		die("posting a receive");
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
	swap(&ready, &ready, 1);
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
		if (wc.byte_len != length_of(n))
			die("request %u has %u bytes, not %u", n, wc.byte_len, length_of(n));
		is_right(n, &memory, n % SLOTS * SLOT, n, length_of(n));
	}
	swap(&ready, &ready, 1);
	memory_read(&memory, COUNTER, &added, sizeof(added));
	if (added != expected)
		die("%llu times added, not %llu", (unsigned long long)added, (unsigned long long)expected);
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
		wr.wr.atomic.remote_addr = other.addr + COUNTER;
		wr.wr.atomic.rkey = other.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = other.addr + (what == READ ? SLOTS * SLOT : at);
		wr.wr.rdma.rkey = other.rkey;
	}
	if (!comes_in) {
		fill(n);
		memory_write(&memory, at, bytes, SLOT);
	}
	mrs[n % SLOTS] = memory_try_register(local, p.pd, at, SLOT);
	if (!mrs[n % SLOTS])
		die("registering memory for request %u", n);
	sge.lkey = mrs[n % SLOTS]->lkey;
	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		die("posting request %u", n);
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

	swap(&ready, &ready, 1);
	for (n = 0; n < requests; n++) {
		size_t at = n % SLOTS * SLOT;
		uint32_t length = length_of(n);

		/* The receiver's slots are as many: it has looked at one before the next message comes there. */
		for (; posted < requests && posted - n < under_way(n); posted++)
			post(posted);
		complete(n, &wc);
		if (ibv_dereg_mr(mrs[n % SLOTS]))
			die("deregistering memory of request %u", n);
		if (what_of(n) == READ)
			is_right(n, &landing, at, ~0U, length > SLOT / 2 ? (uint32_t)(SLOT / 2) : length);
		if (what_of(n) != ADDED)
			continue;
		memory_read(&landing, at, &value, sizeof(value));
		if (value != added++)
			die("request %u adds to %llu, not %llu", n, (unsigned long long)value, (unsigned long long)added - 1);
	}
	swap(&ready, &ready, 1);
	printf("%u requests\n", requests);
}

int main(int argc, char **argv)
{
	const char *machine = argc == 6 ? argv[5] : NULL;
	unsigned int requests;

	if (argc != 5 && argc != 6)
		die("usage: wire ADAPTER KIND TIMEOUT REQUESTS [MACHINE]");
	requests = (unsigned int)atoi(argv[4]);
	memory_alloc(&memory, memory_kind(argv[2]), SIZE);
	memory_alloc(&landing, memory_kind(argv[2]), SIZE);
	pair_open(&p, argv[1], 0);
	mr = memory_register(&memory, p.pd);
	meet(machine);
	connect_qps(atoi(argv[3]));
	if (machine)
		request(requests);
	else
		serve(requests);
	if (ibv_destroy_qp(qp) || ibv_dereg_mr(mr))
		die("ending");
	pair_close(&p);
	memory_release(&memory);
	memory_release(&landing);
	memory_free(&memory);
	memory_free(&landing);
	close(peer);
	return 0;
}
