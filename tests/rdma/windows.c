// SPDX-License-Identifier: MIT
/*
 * windows.c - memory windows on a registration: a window opens its part of the memory with the rights that it was bound with,
 * no more, and no longer than the memory is there.
 *
 *	windows ADAPTER host|peer
 *
 * A dma-buf has none: the kernel refuses IBV_ACCESS_MW_BIND there (refused.c).
 */
#include "memory.h"
#include "pair.h"

#define SIZE (1UL << 20)
#define AT 65536UL		/* where the window begins, and its length */
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITE IBV_ACCESS_REMOTE_WRITE
#define READ (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define OLD 0x11		/* in the subject before a request */
#define SENT 0x77		/* what requests carry */

static const char *type;
static struct pair p;
static struct memory subject, host;
static struct ibv_mr *subject_mr, *host_mr;
static unsigned char seen[SIZE];

static void say_type(void)
{
	printf("\twith windows of %s\n", type);
}

/* ---- binding, by the queue pair that requests arrive at ---- */

/* The window's key, if it is bound, is the one in mw->rkey. */
static enum ibv_wc_status bind(struct ibv_mw *mw, struct ibv_mr *mr, size_t at, size_t length, unsigned int access)
{
	struct ibv_mw_bind_info info = { .mr = mr, .addr = subject.addr + at, .length = length, .mw_access_flags = access };
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	enum ibv_wc_status status;

	if (mw->type == IBV_MW_TYPE_1) {
		errno = ibv_bind_mw(p.qp[1], mw, &bind);
	} else {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = info;
		errno = ibv_post_send(p.qp[1], &wr, &bad);
	}
	MUST(!errno, "posting a bind");
	status = pair_wait(&p, 1, NULL);
	if (status == IBV_WC_SUCCESS && mw->type == IBV_MW_TYPE_2)
		mw->rkey = wr.bind_mw.rkey;
	return status;
}

/* By one of the queue pairs; of type 2. */
static enum ibv_wc_status invalidate(int which, const struct ibv_mw *mw)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey };

	errno = ibv_post_send(p.qp[which], &wr, &bad);
	MUST(!errno, "posting an invalidation");
	return pair_wait(&p, which, NULL);
}

static struct ibv_mw *window(enum ibv_mw_type of)
{
	struct ibv_mw *mw = ibv_alloc_mw(p.pd, of);

	MUST(mw, "ibv_alloc_mw");
	return mw;
}

/* ---- requests by a key ---- */

static enum ibv_wc_status by_key(uint32_t key, enum ibv_wr_opcode opcode, size_t at, size_t length)
{
	struct request r = { .opcode = opcode, .local = host_mr, .local_addr = host.addr, .length = (uint32_t)length,
			     .remote_addr = subject.addr + at, .rkey = key, .compare_add = 1 };

	return pair_do(&p, &r);
}

/* Is all of the subject as it was, but for length bytes at this offset, which were sent? */
static int written(size_t at, size_t length)
{
	size_t i;

	memory_read(&subject, 0, seen, SIZE);
	for (i = 0; i < SIZE; i++)
		if (seen[i] != (i >= at && i - at < length ? SENT : OLD))
			return 0;
	return 1;
}

static void works(uint32_t key, enum ibv_wr_opcode opcode, size_t at, size_t length, const char *what)
{
	memory_fill(&subject, OLD);
	memory_fill(&host, SENT);
	CHECK(by_key(key, opcode, at, length) == IBV_WC_SUCCESS, "%s", what);
	if (opcode == IBV_WR_RDMA_WRITE)
		CHECK(written(at, length), "and writes there, and nowhere else");
}

/* The queue pairs are new afterwards: a window of type 2 is bound no more. */
static void fails(uint32_t key, enum ibv_wr_opcode opcode, size_t at, size_t length, const char *what)
{
	memory_fill(&subject, OLD);
	memory_fill(&host, SENT);
	CHECK(by_key(key, opcode, at, length) == IBV_WC_REM_ACCESS_ERR && written(0, 0), "%s", what);
	memory_read(&host, 0, seen, SIZE);
	CHECK(seen[0] == SENT && seen[SIZE - 1] == SENT, "and brings nothing back");
	pair_connect(&p);
}

/* ---- what is tested ---- */

/* Each failure costs the queue pairs, and with them what a window of type 2 is bound to: so one window for each. */
static void never(enum ibv_mw_type of, unsigned int access, enum ibv_wr_opcode opcode, size_t at, size_t length, const char *what)
{
	struct ibv_mw *mw = window(of);

	CHECK(bind(mw, subject_mr, AT, AT, access) == IBV_WC_SUCCESS, "binds");
	fails(mw->rkey, opcode, at, length, what);
	MUST(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
}

static void parts(enum ibv_mw_type of)
{
	struct ibv_mw *mw = window(of);
	uint32_t old;

	fails(mw->rkey, IBV_WR_RDMA_WRITE, AT, 8, "a window that was never bound opens nothing");
	CHECK(bind(mw, subject_mr, AT, AT, WRITE) == IBV_WC_SUCCESS, "binds");
	works(mw->rkey, IBV_WR_RDMA_WRITE, AT, AT, "all of it is written");
	works(mw->rkey, IBV_WR_RDMA_WRITE, AT + 4093, 9000, "a part of it is written");
	works(mw->rkey, IBV_WR_RDMA_WRITE, 2 * AT - 1, 1, "its last byte is written");
	old = mw->rkey;
	if (of == IBV_MW_TYPE_1) {
		CHECK(bind(mw, subject_mr, 2 * AT, 8, READ) == IBV_WC_SUCCESS, "binds again, elsewhere");
		CHECK(mw->rkey != old, "with another key");
		works(mw->rkey, IBV_WR_RDMA_READ, 2 * AT, 8, "reads there");
		works(mw->rkey, IBV_WR_ATOMIC_FETCH_AND_ADD, 2 * AT, 8, "adds there");
		fails(old, IBV_WR_RDMA_WRITE, AT, 8, "its last key opens nothing");
		CHECK(bind(mw, subject_mr, 0, 0, 0) == IBV_WC_SUCCESS, "is closed");
	} else {
		CHECK(invalidate(1, mw) == IBV_WC_SUCCESS, "is invalidated");
	}
	fails(mw->rkey, IBV_WR_RDMA_WRITE, AT, 8, "opens nothing then");
	MUST(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");

	never(of, WRITE, IBV_WR_RDMA_READ, AT, 8, "a window to write opens nothing to read");
	never(of, WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD, AT, 8, "or to add");
	never(of, READ, IBV_WR_RDMA_WRITE, AT, 8, "a window to read opens nothing to write");
	never(of, WRITE, IBV_WR_RDMA_WRITE, AT - 1, 1, "not the byte before it");
	never(of, WRITE, IBV_WR_RDMA_WRITE, 2 * AT, 1, "not the byte behind it");
	never(of, WRITE, IBV_WR_RDMA_WRITE, AT, AT + 1, "not one byte more than it has");
	never(of, WRITE, IBV_WR_RDMA_WRITE, 0, SIZE, "not all of the memory");
	never(of, READ, IBV_WR_RDMA_READ, AT - 1, 8, "nothing is read before it");
	never(of, READ, IBV_WR_RDMA_READ, AT, 2 * AT, "or behind it");
	never(of, READ, IBV_WR_ATOMIC_FETCH_AND_ADD, 2 * AT, 8, "nothing is added behind it");
	never(of, WRITE, IBV_WR_RDMA_WRITE, SIZE, 8, "nothing behind the memory itself");
}

static void wrong_binds(enum ibv_mw_type of)
{
	struct ibv_mr *without = memory_register(&subject, p.pd);
	struct ibv_mw *mw = window(of);

	CHECK(bind(mw, without, AT, AT, WRITE) == IBV_WC_MW_BIND_ERR, "no window on a region that was not registered for any");
	pair_connect(&p);
	CHECK(bind(mw, subject_mr, SIZE - 8, 16, WRITE) == IBV_WC_MW_BIND_ERR, "no window over the end of its region");
	pair_connect(&p);
	if (of == IBV_MW_TYPE_2) {
		CHECK(invalidate(1, mw) == IBV_WC_LOC_QP_OP_ERR, "what was never bound is not invalidated");
		pair_connect(&p);
		CHECK(bind(mw, subject_mr, AT, AT, WRITE) == IBV_WC_SUCCESS, "binds");
		CHECK(invalidate(0, mw) == IBV_WC_LOC_QP_OP_ERR, "nor is it by another queue pair than its own");
		pair_connect(&p);
	}
	MUST(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(without), "ending a window");
}

/* The region stays until its windows have gone. */
static void ends(enum ibv_mw_type of)
{
	struct ibv_mw *mw = window(of);
	struct ibv_mr *mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)subject.addr, SIZE, ALL | IBV_ACCESS_MW_BIND);

	MUST(mr, "ibv_reg_mr");
	CHECK(bind(mw, mr, AT, AT, WRITE) == IBV_WC_SUCCESS, "binds");
	CHECK(ibv_dereg_mr(mr) == EINVAL, "a region with a window is not deregistered");
	works(mw->rkey, IBV_WR_RDMA_WRITE, AT, AT, "and the window is as before");
	/* What is bound to a queue pair ends with it. */
	if (of == IBV_MW_TYPE_2)
		pair_connect(&p);
	else if (ibv_dealloc_mw(mw))
		die("ibv_dealloc_mw");
	CHECK(!ibv_dereg_mr(mr), "it is without one");
	MUST(of != IBV_MW_TYPE_2 || !ibv_dealloc_mw(mw), "ibv_dealloc_mw");
}

/* What comes to the place of the freed memory is another's. */
static void freed(enum ibv_mw_type of)
{
	struct ibv_mw *mw = window(of);
	struct memory first, next;
	struct ibv_mr *mr;

	memory_alloc(&first, subject.kind, SIZE);
	mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)first.addr, SIZE, ALL | IBV_ACCESS_MW_BIND);
	MUST(mr, "ibv_reg_mr");
	next = subject;
	subject = first;
	CHECK(bind(mw, mr, AT, AT, WRITE) == IBV_WC_SUCCESS, "binds");
	works(mw->rkey, IBV_WR_RDMA_WRITE, AT, AT, "it is written");
	memory_free(&first);
	memory_alloc(&subject, first.kind, SIZE);
	CHECK(subject.addr == first.addr, "the next memory is in its place");
	fails(mw->rkey, IBV_WR_RDMA_WRITE, AT, 8, "a window on memory that was freed opens nothing");
	memory_free(&subject);
	subject = next;
	MUST(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr), "ending a window");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum ibv_mw_type type;
	} types[] = { { "type 1", IBV_MW_TYPE_1 }, { "type 2", IBV_MW_TYPE_2 } };
	size_t i;

	MUST(argc == 3, "usage: windows ADAPTER host|peer");
	memory_alloc(&host, MEMORY_HOST, SIZE);
	memory_alloc(&subject, memory_kind(argv[2]), SIZE);
	pair_open(&p, argv[1], 0);
	host_mr = memory_register(&host, p.pd);
	subject_mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)subject.addr, SIZE, ALL | IBV_ACCESS_MW_BIND);
	MUST(subject_mr, "registering memory for windows");
	check_says = say_type;
	for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
		type = types[i].name;
		parts(types[i].type);
		wrong_binds(types[i].type);
		ends(types[i].type);
		if (subject.kind != MEMORY_HOST)
			freed(types[i].type);
	}
	MUST(!ibv_dereg_mr(subject_mr) && !ibv_dereg_mr(host_mr), "ibv_dereg_mr");
	pair_close(&p);
	memory_free(&subject);
	memory_free(&host);
	return check_end(NULL);
}
