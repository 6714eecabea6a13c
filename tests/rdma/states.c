// SPDX-License-Identifier: MIT
/*
 * states.c - queue pairs that change their state, or begin again, while requests wait, fail or are repeated: each request is
 * completed once, and a queue pair that was reset is as good as a new one.
 *
 *	states ADAPTER SECONDS		SECONDS: how long queue pairs are reset while packets arrive
 */
#include <poll.h>
#include <pthread.h>

#include "memory.h"
#include "now.h"
#include "pair.h"

#define SIZE (1UL << 20)
#define MANY 32
#define A_SECOND 1000000

static struct pair p;
static struct memory here, there;	/* of queue pair 0, and what it reads and writes */
static struct ibv_mr *local, *remote;
static uint32_t mtu;			/* in bytes */

static void expect(const char *what, enum ibv_wc_status status, enum ibv_wc_status expected)
{
	CHECK(status == expected, "%s: %s, expected %s", what, ibv_wc_status_str(status), ibv_wc_status_str(expected));
}

static void no_more(const char *what, int which)
{
	struct ibv_wc wc;

	usleep(20000);
	CHECK(!ibv_poll_cq(p.cq[which], 1, &wc), "%s: one more completion, %s", what, ibv_wc_status_str(wc.status));
}

static struct request request(enum ibv_wr_opcode opcode, uint32_t length)
{
	return (struct request){ .opcode = opcode, .local = local, .local_addr = here.addr, .length = length,
				 .remote_addr = there.addr, .rkey = remote->rkey, .compare_add = 1 };
}

static enum ibv_wc_status operation(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct request r = request(opcode, length);

	return pair_do(&p, &r);
}

static void post(int which, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct request r = request(opcode, length);

	MUST(!pair_post(&p, which, &r), "posting a request");
}

/* Its second element has no valid key. */
static void post_half_bad(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge[2] = { { .addr = here.addr, .length = mtu, .lkey = local->lkey }, { .addr = here.addr, .length = mtu } };
	struct ibv_send_wr *bad, wr = { .sg_list = sge, .num_sge = 2, .opcode = opcode,
					.wr.rdma = { .remote_addr = there.addr, .rkey = remote->rkey } };

	MUST(!ibv_post_send(p.qp[0], &wr, &bad), "posting a request of two elements");
}

static void must_modify(int which, enum ibv_qp_state state)
{
	errno = pair_modify(&p, which, state);
	MUST(!errno, "queue pair %d to state %d", which, state);
}

/* The same queue pair again; the other one keeps its packet numbers. */
static void reset(int which)
{
	must_modify(which, IBV_QPS_RESET);
	must_modify(which, IBV_QPS_INIT);
	must_modify(which, IBV_QPS_RTR);
	must_modify(which, IBV_QPS_RTS);
}

static void reset_both(void)
{
	must_modify(0, IBV_QPS_RESET);
	reset(1);
	reset(0);
}

static void usual(void)
{
	p.timeout = 14;
	p.retry_cnt = 7;
	p.min_rnr_timer = 1;
	p.psn[0] = p.psn[1] = 0;
	pair_connect(&p);
}

/* ---- what was before a reset has no effect behind it ---- */

static void read_failed(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
	unsigned int i;

	for (i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		usual();
		post_half_bad(IBV_WR_RDMA_READ);
		expect("a read into memory without a key", pair_wait(&p, 0, NULL), IBV_WC_LOC_PROT_ERR);
		reset_both();
		expect("a request after a read that failed in its middle, and a reset", operation(ops[i], 8), IBV_WC_SUCCESS);
		no_more("after a read that failed", 0);
	}
}

static void waited(void)
{
	usual();
	p.min_rnr_timer = 26;	/* 82 ms */
	pair_connect(&p);
	post(0, IBV_WR_SEND, 8);
	usleep(10000);
	reset_both();
	expect("a write, where a message waited before a reset", operation(IBV_WR_RDMA_WRITE, 8), IBV_WC_SUCCESS);
	usleep(100000);
	expect("a write, when its timer has run out", operation(IBV_WR_RDMA_WRITE, 8), IBV_WC_SUCCESS);
	no_more("after a message that waited", 0);
}

/* ---- an error, and the end ---- */

/* Receive requests that are posted to a queue pair in error stay there: librxe does not tell the kernel of them. */
static void flushed(void)
{
	unsigned int i, error;

	usual();
	for (error = 0; error < 2; error++) {
		for (i = 0; i < MANY; i++) {
			post(0, IBV_WR_SEND, 8);
			if (!error)
				pair_receive(&p, 0, local, here.addr, 8);
		}
		if (!error)
			must_modify(0, IBV_QPS_ERR);
		for (i = 0; i < (error ? MANY : 2 * MANY); i++)
			expect("a request of a queue pair in error", pair_wait(&p, 0, NULL), IBV_WC_WR_FLUSH_ERR);
		no_more("a queue pair in error", 0);
	}
}

/* How many events of a type wait, and no others afterwards. */
static int events(enum ibv_event_type type)
{
	struct pollfd fd = { .fd = p.device->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int n = 0;

	while (poll(&fd, 1, 50) > 0 && !ibv_get_async_event(p.device, &event)) {
		n += event.event_type == type;
		ibv_ack_async_event(&event);
	}
	return n;
}

/* No receive request of the SRQ will be used any more; kernels before 6.5 report none. */
static int last_ones(void)
{
	return events(IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* A message whose first packet arrived, and took a receive request: this is the queue pair's, to the end. */
static void half_a_message(void)
{
	struct ibv_mr *mrs[2] = { local, remote };
	struct pair q;
	int i, n;

	usual();
	q = p;
	pair_open(&p, ibv_get_device_name(q.device->device), 1);
	local = memory_register(&here, p.pd);
	remote = memory_register(&there, p.pd);
	pair_receive(&p, 1, remote, there.addr, 2 * mtu);
	post_half_bad(IBV_WR_SEND);
	CHECK(pair_wait(&p, 0, NULL) != IBV_WC_SUCCESS, "a message from memory without a key: sent");
	usleep(100000);
	must_modify(1, IBV_QPS_ERR);
	expect("the receive request that half a message has arrived for", pair_wait(&p, 1, NULL), IBV_WC_WR_FLUSH_ERR);
	no_more("half a message", 1);
	for (i = 0; i < 10; i++) {
		must_modify(1, IBV_QPS_ERR);
		usleep(1000);
	}
	n = last_ones();
	CHECK(n <= 1, "a queue pair in error reports %d times that it was flushed", n);
	MUST(!ibv_dereg_mr(local) && !ibv_dereg_mr(remote), "ibv_dereg_mr");
	pair_close(&p);
	p = q;
	local = mrs[0];
	remote = mrs[1];
}

/* A request without an answer. */
static void destroyed(void)
{
	double begin;

	usual();
	must_modify(1, IBV_QPS_RESET);
	post(0, IBV_WR_RDMA_WRITE, 8);
	usleep(100000);
	begin = now();
	pair_connect(&p);
	CHECK(now() - begin <= 5, "destroying a queue pair that repeats a request took %.0f s", now() - begin);
}

/*
 * The completion queue of the receiving end is full: the queue pair fails, and lets go of the memory.  More completions without room
 * are no more events, which would take the kernel's memory until the program reads them.
 */
static void overflow(void)
{
	struct ibv_cq *large = p.cq[1], *small = ibv_create_cq(p.device, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	double begin;
	unsigned int i;
	int n;

	MUST(small, "ibv_create_cq");
	p.cq[1] = small;
	usual();
	for (i = 0; i < 8; i++)
		pair_receive(&p, 1, remote, there.addr, 8);
	for (i = 0; i < 8; i++)
		post(0, IBV_WR_RDMA_WRITE_WITH_IMM, 8);
	for (begin = now(); attr.qp_state != IBV_QPS_ERR && now() - begin < 10; usleep(1000))
		MUST(!ibv_query_qp(p.qp[1], &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	CHECK(attr.qp_state == IBV_QPS_ERR, "a full completion queue: no error");
	for (i = 0; i < 32; i++) {
		post(1, IBV_WR_RDMA_WRITE, 8);
		usleep(1000);
	}
	n = events(IBV_EVENT_CQ_ERR);
	CHECK(n == 1, "a full completion queue: %d events, expected one", n);
	begin = now();
	MUST(!ibv_dereg_mr(remote), "ibv_dereg_mr");
	CHECK(now() - begin <= 5, "a full completion queue: the memory is deregistered after %.0f s only", now() - begin);
	remote = memory_register(&there, p.pd);
	p.cq[1] = large;
	pair_connect(&p);
	MUST(!ibv_destroy_cq(small), "ibv_destroy_cq");
}

/* ---- waiting ---- */

/* An RNR NAK is an answer: the requester waits as long as it says, and that counts for rnr_retry alone. */
static void not_ready(void)
{
	usual();
	/* Less than min_rnr_timer, so that it would count; and more than a busy machine delays an answer. */
	p.timeout = 17;		/* 537 ms */
	p.retry_cnt = 2;
	p.min_rnr_timer = 0;	/* 655 ms */
	pair_connect(&p);
	post(0, IBV_WR_SEND, 8);
	usleep(2 * A_SECOND + A_SECOND / 2);
	pair_receive(&p, 1, remote, there.addr, 8);
	expect("a message to a receiver that was not ready for 2.5 s", pair_wait(&p, 0, NULL), IBV_WC_SUCCESS);
}

static void drained(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	double begin = now();
	unsigned int i;

	usual();
	/* The queue's entries are all used before. */
	for (i = 0; i < 200; i++)
		expect("a write", operation(IBV_WR_RDMA_WRITE, 8), IBV_WC_SUCCESS);
	must_modify(0, IBV_QPS_SQD);
	usleep(10000);
	post(0, IBV_WR_RDMA_WRITE, 8);
	post(0, IBV_WR_RDMA_WRITE, 8);
	/* No timer of the requests before may begin these. */
	usleep(A_SECOND / 4);
	no_more("a send queue that is drained", 0);
	while (ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE) && now() - begin < 10)
		usleep(1000);
	if (!CHECK(now() - begin < 10, "an idle send queue is not drained in ten seconds"))
		return;
	expect("a request that was posted while the send queue was drained", pair_wait(&p, 0, NULL), IBV_WC_SUCCESS);
	expect("another", pair_wait(&p, 0, NULL), IBV_WC_SUCCESS);
}

/* Posting many requests at once does not wait until they are done. */
static void many_at_once(void)
{
	struct ibv_sge sge = { .addr = here.addr, .length = SIZE, .lkey = local->lkey };
	struct ibv_send_wr wrs[MANY] = { 0 }, *bad;
	struct ibv_wc wc;
	int i, done = 0;

	usual();
	for (i = 0; i < MANY; i++)
		wrs[i] = (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
					       .next = i + 1 < MANY ? &wrs[i + 1] : NULL,
					       .wr.rdma = { .remote_addr = there.addr, .rkey = remote->rkey } };
	MUST(!ibv_post_send(p.qp[0], wrs, &bad), "posting many reads");
	while (ibv_poll_cq(p.cq[0], 1, &wc))
		done++;
	printf("%d of %d reads are done when they are posted\n", done, MANY);
	CHECK(done <= MANY / 2, "many reads at once: posting them waits for them");
	for (; done < MANY; done++)
		expect("a read of many", pair_wait(&p, 0, NULL), IBV_WC_SUCCESS);
}

/* ---- packet numbers ---- */

/* Each kind of request, with packets on both sides of the largest number. */
static void wrap(void)
{
	unsigned char *bytes = malloc(SIZE), *seen = malloc(SIZE);
	uint32_t before;
	size_t i;

	MUST(bytes && seen, "no memory");
	for (before = 0; before < 8; before++) {
		usual();
		p.psn[0] = p.psn[1] = 0x1000000 - before;
		p.psn[0] &= 0xffffff;
		p.psn[1] &= 0xffffff;
		pair_connect(&p);
		for (i = 0; i < 4 * mtu; i++)
			bytes[i] = (unsigned char)(i * 7 + i / 251 + before);
		memory_write(&here, 0, bytes, 4 * mtu);
		expect("a write around the largest packet number", operation(IBV_WR_RDMA_WRITE, 4 * mtu), IBV_WC_SUCCESS);
		memory_read(&there, 0, seen, 4 * mtu);
		CHECK(!memcmp(bytes, seen, 4 * mtu), "a write around the largest packet number: other bytes");
		memory_fill(&here, 0);
		expect("a read around the largest packet number", operation(IBV_WR_RDMA_READ, 4 * mtu), IBV_WC_SUCCESS);
		memory_read(&here, 0, seen, 4 * mtu);
		CHECK(!memcmp(bytes, seen, 4 * mtu), "a read around the largest packet number: other bytes");
		pair_receive(&p, 1, remote, there.addr, 4 * mtu);
		expect("a message around the largest packet number", operation(IBV_WR_SEND, 4 * mtu), IBV_WC_SUCCESS);
		expect("its receive request", pair_wait(&p, 1, NULL), IBV_WC_SUCCESS);
		expect("an atomic behind it", operation(IBV_WR_ATOMIC_FETCH_AND_ADD, 8), IBV_WC_SUCCESS);
	}
	free(bytes);
	free(seen);
}

/* A read, perhaps a request behind it, and then the read again with the same packet number, as if its answer were lost. */
static void again(const char *what, uint32_t length, uint32_t key, int behind)
{
	struct request r = request(IBV_WR_RDMA_READ, length);
	uint32_t value = 0x5eed0000 + length, seen = 0;

	usual();
	memory_write(&there, 0, &value, sizeof(value));
	r.rkey = key;
	expect(what, pair_do(&p, &r), IBV_WC_SUCCESS);
	if (behind >= 0)
		expect("a request behind it", operation(IBV_WR_RDMA_WRITE, (uint32_t)behind), IBV_WC_SUCCESS);
	memory_write(&there, 0, &value, sizeof(value));
	memory_fill(&here, 0);
	reset(0);
	errno = pair_post(&p, 0, &r);
	MUST(!errno, "posting a read");
	expect(what, pair_wait(&p, 0, NULL), IBV_WC_SUCCESS);
	memory_read(&here, 0, &seen, sizeof(seen));
	CHECK(!length || seen == value, "%s: %#x, not %#x", what, seen, value);
}

static void repeated(void)
{
	again("a read, repeated", 8, remote->rkey, -1);
	again("a read, repeated behind a write", 8, remote->rkey, 8);
	again("a read, repeated behind a write of no bytes", 8, remote->rkey, 0);
	again("a long read, repeated behind a write of no bytes", 4 * mtu, remote->rkey, 0);
	again("a read of no bytes, repeated", 0, remote->rkey, -1);
	again("a read of no bytes, repeated behind a write", 0, remote->rkey, 8);
	again("a read of no bytes without a key, repeated", 0, 0, -1);
	again("a read of no bytes without a key, repeated behind a write", 0, 0, 8);
}

/* ---- resets while packets arrive ---- */

static struct ibv_qp *uc[2];
static struct ibv_cq *uc_cq[2];
static pthread_mutex_t posting = PTHREAD_MUTEX_INITIALIZER;
static int running;

static void uc_modify(int which, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE,
		.path_mtu = IBV_MTU_256, .dest_qp_num = uc[!which]->qp_num,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = p.gid, .sgid_index = (uint8_t)p.gid_index, .hop_limit = 1 } },
	};
	static const int masks[] = {
		[IBV_QPS_RESET] = IBV_QP_STATE,
		[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
		[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN,
	};

	errno = ibv_modify_qp(uc[which], &attr, masks[state]);
	MUST(!errno, "ibv_modify_qp to state %d", state);
}

static void uc_reset(int which)
{
	/* A request that is posted while its queue is emptied may leave garbage in it, which is an error, as it should be. */
	pthread_mutex_lock(&posting);
	uc_modify(which, IBV_QPS_RESET);
	pthread_mutex_unlock(&posting);
	uc_modify(which, IBV_QPS_INIT);
	uc_modify(which, IBV_QPS_RTR);
	uc_modify(which, IBV_QPS_RTS);
}

/* Posts to both ends, while either is reset. */
static void *traffic(void *unused)
{
	struct ibv_sge to = { .addr = there.addr, .length = 4096, .lkey = remote->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &to, .num_sge = 1 };
	struct ibv_wc wc[16];
	unsigned int n = 0;

	while (__atomic_load_n(&running, __ATOMIC_RELAXED)) {
		struct ibv_sge sge = { .addr = here.addr, .length = 4096, .lkey = local->lkey };
		struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = n++ % 4 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
						.wr.rdma = { .remote_addr = there.addr, .rkey = remote->rkey } };

		pthread_mutex_lock(&posting);
		ibv_post_recv(uc[1], &recv, &bad_recv);
		ibv_post_send(uc[0], &wr, &bad);
		pthread_mutex_unlock(&posting);
		while (ibv_poll_cq(uc_cq[0], 16, wc) > 0)
			;
		while (ibv_poll_cq(uc_cq[1], 16, wc) > 0)
			;
	}
	return NULL;
}

static void reset_under_load(int which, unsigned int seconds)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_UC, .sq_sig_all = 1,
					 .cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 2, .max_recv_sge = 2 } };
	unsigned int rounds = 0;
	struct ibv_wc wc;
	pthread_t thread;
	double end;
	int i;

	for (i = 0; i < 2; i++) {
		uc_cq[i] = ibv_create_cq(p.device, 1024, NULL, NULL, 0);
		attr.send_cq = attr.recv_cq = uc_cq[i];
		uc[i] = uc_cq[i] ? ibv_create_qp(p.pd, &attr) : NULL;
		MUST(uc[i], "an unreliable connection");
	}
	uc_reset(0);
	uc_reset(1);
	running = 1;
	MUST(!pthread_create(&thread, NULL, traffic, NULL), "pthread_create");
	for (end = now() + seconds; now() < end; rounds++)
		uc_reset(which);
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("reset %s %u times under load\n", which ? "the receiving end" : "the sending end", rounds);
	/* What is posted now is done: nothing is left of what was before. */
	uc_reset(1);
	uc_reset(0);
	usleep(50000);
	for (i = 0; i < 2; i++)
		while (ibv_poll_cq(uc_cq[i], 1, &wc) > 0)
			;
	for (i = 0; i < 100; i++) {
		struct ibv_sge sge = { .addr = here.addr, .length = 4096, .lkey = local->lkey };
		struct ibv_send_wr *bad, wr = { .wr_id = 1000 + (uint64_t)i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
						.wr.rdma = { .remote_addr = there.addr, .rkey = remote->rkey } };

		errno = ibv_post_send(uc[0], &wr, &bad);
		MUST(!errno, "a write after the resets");
		for (end = now() + 10; !ibv_poll_cq(uc_cq[0], 1, &wc);)
			MUST(now() <= end, "a write after the resets is not completed");
		if (!CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1000 + (uint64_t)i, "a write after the resets: %s, of request %llu, not %d",
			   ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id, 1000 + i))
			break;
	}
	end = now();
	for (i = 0; i < 2; i++)
		MUST(!ibv_destroy_qp(uc[i]) && !ibv_destroy_cq(uc_cq[i]), "destroying the unreliable connection");
	CHECK(now() - end <= 5, "destroying a queue pair that was reset under load took %.0f s", now() - end);
}

static unsigned int seconds;

static void receiver_reset_under_load(void)
{
	usual();
	reset_under_load(1, seconds);
}

static void sender_reset_under_load(void)
{
	reset_under_load(0, seconds);
}

static const struct check_test tests[] = {
	TEST(read_failed), TEST(waited), TEST(flushed), TEST(half_a_message), TEST(destroyed), TEST(not_ready), TEST(drained),
	TEST(many_at_once), TEST(wrap), TEST(repeated), TEST(overflow), TEST(receiver_reset_under_load), TEST(sender_reset_under_load),
};

int main(int argc, char **argv)
{
	int ret;

	MUST(argc == 3, "usage: states ADAPTER SECONDS");
	setvbuf(stdout, NULL, _IOLBF, 0);
	pair_open(&p, argv[1], 0);
	mtu = 128U << p.mtu;
	memory_alloc(&here, MEMORY_HOST, SIZE);
	memory_alloc(&there, MEMORY_HOST, SIZE);
	local = memory_register(&here, p.pd);
	remote = memory_register(&there, p.pd);
	seconds = (unsigned int)atoi(argv[2]);
	ret = check_run(tests, CHECK_COUNT(tests), 0, NULL);
	MUST(!ibv_dereg_mr(local) && !ibv_dereg_mr(remote), "ibv_dereg_mr");
	pair_close(&p);
	memory_free(&here);
	memory_free(&there);
	return ret;
}
