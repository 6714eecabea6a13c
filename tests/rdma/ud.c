// SPDX-License-Identifier: MIT
/*
 * ud.c - datagrams out of memory and into it: their bytes arrive behind the 40 of the routing header, and nothing beside;
 * the header has the receiver's address where the completion says; memory that was freed is neither sent nor written; and no
 * program chooses the address that a datagram comes from.
 *
 *	ud ADAPTER host|dmabuf|export|peer
 */
#include <sys/socket.h>

#include "memory.h"
#include "pair.h"
#include "queues.h"

#define SIZE 65536UL
#define HEADER 40UL
#define QKEY 0x1234
#define OLD 0x11
#define OURS 0x77
#define SECRET 0x55

static struct pair p;		/* its adapter, protection domain and completion queues */
static struct ibv_qp *qp[2];
static struct ibv_ah *ah;
static struct memory subject, host;
static struct ibv_mr *subject_mr, *host_mr;
static unsigned char expected[SIZE], seen[SIZE];

/* ---- two queue pairs ---- */

static void modify(int which, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .qkey = QKEY };

	errno = ibv_modify_qp(qp[which], &attr, IBV_QP_STATE | mask);
	MUST(!errno, "ibv_modify_qp to state %d", state);
}

static void up(int which)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = p.cq[which], .recv_cq = p.cq[which], .qp_type = IBV_QPT_UD, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 },
	};
	struct ibv_wc wc;

	MUST(!qp[which] || !ibv_destroy_qp(qp[which]), "ibv_destroy_qp");
	while (ibv_poll_cq(p.cq[which], 1, &wc) > 0)
		;
	qp[which] = ibv_create_qp(p.pd, &attr);
	MUST(qp[which], "ibv_create_qp");
	modify(which, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(which, IBV_QPS_RTR, 0);
	modify(which, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

static void connect_to_itself(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1,
				    .grh = { .dgid = p.gid, .sgid_index = (uint8_t)p.gid_index, .hop_limit = 1 } };

	up(0);
	up(1);
	ah = ibv_create_ah(p.pd, &attr);
	MUST(ah, "ibv_create_ah");
}

/* The first GID is the link-local one. */
static void connect_over_ipv6(void)
{
	MUST(!ibv_destroy_ah(ah) && !ibv_query_gid(p.device, 1, 0, &p.gid) && p.gid.raw[0] == 0xfe, "the first GID is not link-local");
	p.gid_index = 0;
	connect_to_itself();
}

/* ---- a datagram ---- */

static void receive(const struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr *bad, wr = { .sg_list = (struct ibv_sge *)sge, .num_sge = n };

	errno = ibv_post_recv(qp[1], &wr, &bad);
	MUST(!errno, "posting a receive");
}

static enum ibv_wc_status send_as(uint64_t id, const struct ibv_sge *sge, int n)
{
	struct ibv_send_wr *bad, wr = { .wr_id = id, .sg_list = (struct ibv_sge *)sge, .num_sge = n, .opcode = IBV_WR_SEND_WITH_IMM,
					.imm_data = 0x61626364, .wr.ud = { .ah = ah, .remote_qpn = qp[1]->qp_num, .remote_qkey = QKEY } };

	errno = ibv_post_send(qp[0], &wr, &bad);
	MUST(!errno, "posting a datagram");
	return pair_wait(&p, 0, NULL);
}

static enum ibv_wc_status send_from(const struct ibv_sge *sge, int n)
{
	return send_as(0, sge, n);
}

static struct ibv_sge part(const struct memory *m, const struct ibv_mr *mr, size_t at, size_t length)
{
	return (struct ibv_sge){ .addr = m->addr + at, .length = (uint32_t)length, .lkey = mr->lkey };
}

static void random_bytes(void)
{
	size_t i;

	for (i = 0; i < SIZE; i++)
		expected[i] = (unsigned char)rand();
}

/* Is `to` as it was, but for these bytes? */
static int arrived(const struct memory *to, size_t at, const unsigned char *bytes, size_t length)
{
	size_t i;

	memory_read(to, 0, seen, SIZE);
	for (i = 0; i < SIZE; i++)
		if (i >= at && i - at < length ? seen[i] != bytes[i - at] : seen[i] != OLD)
			return 0;
	return 1;
}

/*
 * Whom it is for, as UCX looks at it: verbs have no field for the header's kind, so it takes ConnectX's, the three low bits
 * of the service level: 1 for IPv6, 2 for IPv4, whose 20 bytes are the last of the header's 40.
 */
static int is_ours(const unsigned char *header, const struct ibv_wc *wc)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	int v4 = !memcmp(p.gid.raw, mapped, sizeof(mapped));
	size_t length = v4 ? 4 : sizeof(p.gid);

	return wc->wc_flags & IBV_WC_GRH && (wc->sl & 7) == (v4 ? 2 : 1) &&
	       !memcmp(header + HEADER - length, p.gid.raw + sizeof(p.gid) - length, length);
}

/* A datagram out of the middle of one into the middle of the other. */
static void datagram(int subject_sends, const char *what)
{
	static const size_t lengths[] = { 1, 64, 1000, 4096 };
	const struct memory *from = subject_sends ? &subject : &host, *to = subject_sends ? &host : &subject;
	const struct ibv_mr *from_mr = subject_sends ? subject_mr : host_mr, *to_mr = subject_sends ? host_mr : subject_mr;
	const size_t largest = 128UL << p.mtu;
	int ours = 1;
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		size_t length = lengths[i] > largest ? largest : lengths[i];
		struct ibv_sge out = part(from, from_mr, 4093, length), in = part(to, to_mr, 8191, HEADER + length);
		struct ibv_wc wc;

		random_bytes();
		memory_write(from, 0, expected, SIZE);
		memory_fill(to, OLD);
		receive(&in, 1);
		if (send_from(&out, 1) != IBV_WC_SUCCESS || pair_wait(&p, 1, &wc) != IBV_WC_SUCCESS ||
		    wc.byte_len != HEADER + length || !(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data != 0x61626364)
			break;
		memory_read(to, 8191, expected + 4093 - HEADER, HEADER);
		ours &= is_ours(expected + 4093 - HEADER, &wc);
		if (!arrived(to, 8191, expected + 4093 - HEADER, HEADER + length))
			break;
	}
	CHECK(i == sizeof(lengths) / sizeof(*lengths), "%s", what);
	CHECK(ours, "its header says whom it is for");
}

/* The header into one, the bytes into the other; and bytes out of both. */
static void gathered(void)
{
	struct ibv_sge out[] = { part(&host, host_mr, 0, 100), part(&subject, subject_mr, 0, 200) };
	struct ibv_sge in[] = { part(&host, host_mr, SIZE / 2, HEADER), part(&subject, subject_mr, SIZE / 2, 300) };
	struct ibv_wc wc;
	int ok;

	random_bytes();
	memory_write(&host, 0, expected, 100);
	memory_write(&subject, 0, expected + 100, 200);
	receive(in, 2);
	ok = send_from(out, 2) == IBV_WC_SUCCESS && pair_wait(&p, 1, &wc) == IBV_WC_SUCCESS && wc.byte_len == HEADER + 300;
	memory_read(&subject, SIZE / 2, seen, 300);
	CHECK(ok && !memcmp(seen, expected, 300), "gathered from both, scattered to both");
}

/* ---- memory that is freed ---- */

static struct memory freed, next;
static struct ibv_mr *freed_mr;

static void free_it(void)
{
	memory_alloc(&freed, subject.kind, SIZE);
	freed_mr = memory_register(&freed, p.pd);
	memory_fill(&freed, OURS);
	memory_free(&freed);
	memory_alloc(&next, subject.kind, SIZE);
	memory_fill(&next, SECRET);
	CHECK(next.addr == freed.addr, "the next memory is in its place");
}

static void end_it(void)
{
	MUST(!ibv_dereg_mr(freed_mr), "ibv_dereg_mr");
	memory_release(&freed);
	memory_free(&next);
}

static int has_only(const struct memory *m, unsigned char byte)
{
	size_t i;

	memory_read(m, 0, seen, SIZE);
	for (i = 0; i < SIZE && seen[i] == byte; i++)
		;
	return i == SIZE;
}

/*
 * A dma-buf may have moved, as far as the adapter knows: it asks the exporter when the first datagram finds no memory, and until it
 * knows, datagrams are lost.
 */
static int send_until_refused(const struct ibv_sge *sge)
{
	enum ibv_wc_status status = send_from(sge, 1);
	int lost;

	for (lost = 0; subject.kind == MEMORY_EXPORT && status == IBV_WC_SUCCESS && lost < 1000; lost++) {
		usleep(10000);
		status = send_from(sge, 1);
	}
	return status == IBV_WC_LOC_PROT_ERR && (lost || subject.kind != MEMORY_EXPORT);
}

static void sent_after_the_free(void)
{
	struct ibv_sge out = part(&freed, freed_mr, 0, 1000), in = part(&host, host_mr, 0, HEADER + 1000);

	memory_fill(&host, OLD);
	receive(&in, 1);
	CHECK(send_until_refused(&out), "what was freed is not sent: a local protection error");
	usleep(50000);
	CHECK(has_only(&host, OLD), "and nothing arrives");
	up(0);
	up(1);
}

static void received_after_the_free(void)
{
	struct ibv_sge out = part(&host, host_mr, 0, 1000), in = part(&freed, freed_mr, 0, HEADER + 1000);
	enum ibv_wc_status status;

	memory_fill(&host, OURS);
	receive(&in, 1);
	CHECK(send_from(&out, 1) == IBV_WC_SUCCESS, "a datagram is sent, whatever comes of it");
	status = pair_wait(&p, 1, NULL);
	printf("receive into freed memory: %s\n", ibv_wc_status_str(status));
	CHECK(status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_LOC_PROT_ERR, "its receive is a local error");
	CHECK(has_only(&next, SECRET), "and the next memory is not written");
	up(0);
	up(1);
}

#define FORGED 0x466f7267656421UL

static void forge_source(struct rxe_send_wqe *wqe)
{
	struct rxe_av av = { .port_num = 1, .network_type = RXE_NETWORK_TYPE_IPV6, .grh.hop_limit = 1 };
	struct in6_addr address = { .s6_addr = { 0xfe, 0x80, [14] = 0xba, [15] = 0xd } };

	memcpy(av.grh.dgid.raw, p.gid.raw, sizeof(av.grh.dgid.raw));
	av.dgid_addr._sockaddr_in6.sin6_family = AF_INET6;
	memcpy(&av.dgid_addr._sockaddr_in6.sin6_addr, p.gid.raw, sizeof(p.gid.raw));
	av.sgid_addr._sockaddr_in6.sin6_family = AF_INET6;
	av.sgid_addr._sockaddr_in6.sin6_addr = address;
	wqe->wr.wr.ud.av = av;
	wqe->wr.wr.ud.ah_num = 0;
}

/*
 * A request of the program's own making, which names no address handle, but addresses of its choice; old providers' requests
 * do so.  Last, because the queue pair fails.
 */
static void forged_address(void)
{
	struct ibv_sge sge = part(&host, host_mr, 0, 64);

	CHECK(send_as(FORGED, &sge, 1) == IBV_WC_SUCCESS, "a datagram before the forged one");
	queue_forge(qp[0], FORGED, forge_source);
	CHECK(pair_wait(&p, 0, NULL) == IBV_WC_LOC_QP_OP_ERR, "a forged source address: refused");
}

int main(int argc, char **argv)
{
	MUST(argc == 3, "usage: ud ADAPTER host|dmabuf|export|peer");
	memory_alloc(&host, MEMORY_HOST, SIZE);
	memory_alloc(&subject, memory_kind(argv[2]), SIZE);
	pair_open(&p, argv[1], 0);
	host_mr = memory_register(&host, p.pd);
	subject_mr = memory_register(&subject, p.pd);
	connect_to_itself();

	datagram(1, "sent from it");
	datagram(0, "received into it");
	gathered();
	if (subject.kind == MEMORY_PEER || subject.kind == MEMORY_EXPORT) {
		free_it();
		sent_after_the_free();
		received_after_the_free();
		end_it();
	}

	connect_over_ipv6();
	datagram(1, "sent from it, over IPv6");
	datagram(0, "received into it, over IPv6");
	forged_address();

	MUST(!ibv_destroy_ah(ah) && !ibv_destroy_qp(qp[0]) && !ibv_destroy_qp(qp[1]), "destroying the queues");
	MUST(!ibv_dereg_mr(subject_mr) && !ibv_dereg_mr(host_mr), "ibv_dereg_mr");
	pair_close(&p);
	memory_release(&subject);
	memory_free(&subject);
	memory_free(&host);
	return check_end(NULL);
}
