// SPDX-License-Identifier: MIT
/*
 * hostile.c - the other end of a connection is no adapter: it sends requests that no adapter would make, repeats them when their
 * right has gone, and answers what was not asked.  The kernel stays well, no memory is read without a right, and no request
 * succeeds or fails by an answer that is not its own.
 *
 *	hostile ADAPTER NETDEV		NETDEV: where the adapter's packets arrive, such as the other end of a veth pair
 *
 * The adapter has an IPv4 address that ends in 1; the other end is the address with a 2.  Run as root.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <sys/socket.h>

#include "memory.h"
#include "pair.h"

#define SIZE 65536UL
#define PORT 4791
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define FLUSH_GLOBAL 0x100	/* as the kernel's; older headers of libibverbs do not have it */

/* Opcodes of packets. */
enum {
	SEND_ONLY = 0x04, WRITE_ONLY = 0x0a, READ_REQUEST = 0x0c, READ_FIRST = 0x0d, READ_MIDDLE = 0x0e, READ_LAST = 0x0f,
	READ_ONLY = 0x10, ACKNOWLEDGE = 0x11, ATOMIC_ACKNOWLEDGE = 0x12, FLUSH = 0x1c, DATAGRAM = 0x64
};

/* Syndromes of acknowledgements. */
enum { ACK = 0x1f, NAK_INVALID = 0x61, NAK_ACCESS = 0x62, NAK_OPERATION = 0x63 };

struct frame {
	struct ether_header ether;
	struct iphdr ip;
	struct udphdr udp;
	uint8_t opcode, flags;
	uint16_t pkey;
	uint32_t qpn, psn;
	uint8_t more[2048];
} __attribute__((packed));

struct reth {
	uint64_t addr;
	uint32_t key, length;
} __attribute__((packed));

static struct pair p;
static struct memory here, there;
static struct ibv_mr *local, *remote;
static int wire;
static uint8_t macs[2][6];	/* of NETDEV, and of the adapter's net device */
static uint32_t mtu;

/* ---- packets ---- */

static uint32_t crc(uint32_t state, const void *data, size_t length)
{
	const uint8_t *at = data;
	int bit;

	while (length--)
		for (state ^= *at++, bit = 0; bit < 8; bit++)
			state = state >> 1 ^ (state & 1 ? 0xedb88320 : 0);
	return state;
}

static uint16_t checksum(const void *data, size_t length)
{
	const uint8_t *at = data;
	uint32_t sum = 0;
	size_t i;

	for (i = 0; i < length; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* The invariant CRC: of the headers, with ones where they may change on the way. */
static uint32_t icrc(const struct frame *f, size_t more)
{
	struct frame masked = *f;

	masked.ip.ttl = 0xff;
	masked.ip.tos = 0xff;
	masked.ip.check = 0xffff;
	masked.udp.check = 0xffff;
	masked.qpn |= htonl(0xff000000);
	return ~crc(crc(0xdebb20e3, &masked.ip, sizeof(masked.ip) + sizeof(masked.udp) + 12), f->more, more);
}

/* To queue pair `which', as from the other one; more: headers and payload. */
static void transmit(int which, uint8_t opcode, uint32_t psn, const void *more, size_t length)
{
	struct frame f = { .opcode = opcode, .pkey = 0xffff, .qpn = htonl(p.qp[which]->qp_num), .psn = htonl(0x80000000 | (psn & 0xffffff)) };
	uint32_t sum;

	memcpy(f.ether.ether_dhost, macs[1], 6);
	memcpy(f.ether.ether_shost, macs[0], 6);
	f.ether.ether_type = htons(ETHERTYPE_IP);
	memcpy(f.more, more, length);
	f.ip = (struct iphdr){ .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP };
	memcpy(&f.ip.saddr, p.gid.raw + 12, 4);
	f.ip.daddr = f.ip.saddr ^ htonl(1 ^ 2);
	f.ip.tot_len = htons((uint16_t)(20 + 8 + 12 + length + 4));
	f.ip.check = checksum(&f.ip, sizeof(f.ip));
	f.udp.source = htons(0xc000);
	f.udp.dest = htons(PORT);
	f.udp.len = htons((uint16_t)(8 + 12 + length + 4));
	sum = icrc(&f, length);
	memcpy(f.more + length, &sum, 4);
	MUST(send(wire, &f, offsetof(struct frame, more) + length + 4, 0) >= 0, "sending a packet");
}

/* The adapter's next packet, within so many milliseconds; 0: none, else its opcode, and where more begins. */
static int received(int ms, struct frame *f, uint32_t *psn)
{
	struct pollfd fd = { .fd = wire, .events = POLLIN };
	struct timespec t;
	long end, now;

	clock_gettime(CLOCK_MONOTONIC, &t);
	end = t.tv_sec * 1000 + t.tv_nsec / 1000000 + ms;
	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = t.tv_sec * 1000 + t.tv_nsec / 1000000;
		if (now >= end || poll(&fd, 1, (int)(end - now)) <= 0)
			return 0;
		if (recv(wire, f, sizeof(*f), 0) <= 0 || memcmp(f->ether.ether_shost, macs[1], 6) ||
		    f->ether.ether_type != htons(ETHERTYPE_IP) || f->ip.protocol != IPPROTO_UDP || f->udp.dest != htons(PORT))
			continue;
		*psn = ntohl(f->psn) & 0xffffff;
		return f->opcode;
	}
}

/* The next answer's opcode, or 0; *syndrome: of its AETH. */
static int answer(int *syndrome, uint32_t *psn, void *data, size_t length)
{
	struct frame f;
	int opcode = received(300, &f, psn);

	*syndrome = opcode ? f.more[0] : 0;
	if (opcode == READ_ONLY && data)
		memcpy(data, f.more + 4, length);
	return opcode;
}

static void nothing_waits(void)
{
	struct frame f;
	uint32_t psn;

	while (received(20, &f, &psn))
		;
}

static void connect_again(void)
{
	pair_connect(&p);
	nothing_waits();
}

static struct reth reth(uint64_t addr, uint32_t key, uint32_t length)
{
	return (struct reth){ .addr = htobe64(addr), .key = htonl(key), .length = htonl(length) };
}

static void ask_to_read(uint32_t psn, uint64_t addr, uint32_t key, uint32_t length)
{
	struct reth r = reth(addr, key, length);

	transmit(1, READ_REQUEST, psn, &r, sizeof(r));
}

static void must_read(const char *what, uint32_t psn, uint64_t addr, uint32_t key, uint64_t value)
{
	uint64_t seen = 0;
	uint32_t at;
	int syndrome, opcode;

	ask_to_read(psn, addr, key, sizeof(seen));
	opcode = answer(&syndrome, &at, &seen, sizeof(seen));
	CHECK(opcode == READ_ONLY && at == psn && seen == value, "%s: answer %#x of packet %#x, syndrome %#x, %#llx", what, opcode, at, syndrome, (unsigned long long)seen);
}

/* The answer is a NAK, or there is none. */
static void must_not_read(const char *what, uint32_t psn, uint64_t addr, uint32_t key, uint32_t length)
{
	uint32_t at;
	int syndrome, opcode;

	ask_to_read(psn, addr, key, length);
	opcode = answer(&syndrome, &at, NULL, 0);
	CHECK(!opcode || (opcode == ACKNOWLEDGE && syndrome == NAK_ACCESS), "%s: answer %#x, syndrome %#x", what, opcode, syndrome);
}

/* ---- requests ---- */

/* A write whose header names no bytes, and no memory, has some. */
static void write_of_nothing(void)
{
	struct {
		struct reth r;
		uint64_t bytes;
	} more = { .r = reth(there.addr, remote->rkey, 0) };
	uint32_t psn;
	int syndrome, opcode;

	connect_again();
	transmit(1, WRITE_ONLY, 0, &more, sizeof(more));
	opcode = answer(&syndrome, &psn, NULL, 0);
	CHECK(opcode == ACKNOWLEDGE && syndrome == NAK_INVALID, "a write of no bytes that has some: answer %#x, syndrome %#x", opcode, syndrome);
}

static void bind_to(int which, struct ibv_mw *mw, struct ibv_mr *mr, uint32_t rkey, unsigned int access)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW,
					.bind_mw = { .mw = mw, .rkey = rkey, .bind_info = { .mr = mr, .addr = there.addr + 64, .length = 64,
											    .mw_access_flags = access } } };

	errno = ibv_post_send(p.qp[which], &wr, &bad);
	MUST(!errno && pair_wait(&p, which, NULL) == IBV_WC_SUCCESS, "binding a window");
	mw->rkey = rkey;
}

static void unbind_from(int which, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey };

	errno = ibv_post_send(p.qp[which], &wr, &bad);
	MUST(!errno && pair_wait(&p, which, NULL) == IBV_WC_SUCCESS, "ending a window");
}

/* A request that was answered is repeated, when its window is another queue pair's, with the same key. */
static void anothers_window(void)
{
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint64_t value = 0x5eed5eed;
	uint32_t key;

	connect_again();
	mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)there.addr, SIZE, ALL | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
	MUST(mr && mw, "a window");
	memory_write(&there, 64, &value, sizeof(value));
	key = ibv_inc_rkey(mw->rkey);
	bind_to(1, mw, mr, key, IBV_ACCESS_REMOTE_READ);
	must_read("a read by a window", 0, there.addr + 64, key, value);
	must_read("a read by a window, repeated", 0, there.addr + 64, key, value);
	unbind_from(1, key);
	bind_to(0, mw, mr, key, IBV_ACCESS_REMOTE_READ);
	must_not_read("a read by what is another queue pair's window by now", 0, there.addr + 64, key, sizeof(value));
	connect_again();
	MUST(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr), "a window's end");
}

/* Addresses in it begin at zero. */
static void zero_based_window(void)
{
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint64_t value = 0x5eed0000;
	uint32_t key;

	connect_again();
	mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)there.addr, SIZE, ALL | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
	MUST(mr && mw, "a window");
	memory_write(&there, 64 + 8, &value, sizeof(value));
	key = ibv_inc_rkey(mw->rkey);
	bind_to(1, mw, mr, key, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
	must_read("a read by a window that begins at zero", 0, 8, key, value);
	must_read("a read by a window that begins at zero, repeated", 0, 8, key, value);
	must_read("again", 0, 8, key, value);
	connect_again();
	MUST(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr), "a window's end");
}

/* A request that was answered is repeated, when the region may not be read any more. */
static void another_right(void)
{
	struct ibv_mr *mr;
	uint64_t value = 0x5eed5eed5eed;
	int error;

	connect_again();
	mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)there.addr, SIZE, ALL);
	MUST(mr, "ibv_reg_mr");
	memory_write(&there, 0, &value, sizeof(value));
	must_read("a read", 0, there.addr, mr->rkey, value);
	error = memory_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, p.pd, 0, SIZE, IBV_ACCESS_LOCAL_WRITE);
	if (error) {
		printf("regions cannot be registered again: %s\n", strerror(error));
	} else {
		must_not_read("a read of what may not be read any more", 0, there.addr, mr->rkey, sizeof(value));
		connect_again();
	}
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
}

/* Since Linux 6.3. False: not there. */
static int flush(uint32_t psn, uint64_t addr, uint32_t key, uint32_t length, int region, int *opcode, int *syndrome)
{
	struct {
		uint32_t feth;
		struct reth r;
	} __attribute__((packed)) more = { .feth = htonl(1 | (region ? 0x10U : 0)), .r = reth(addr, key, length) };
	uint32_t at;

	transmit(1, FLUSH, psn, &more, sizeof(more));
	*opcode = answer(syndrome, &at, NULL, 0);
	return *opcode != 0;
}

static void flushes(void)
{
	struct ibv_pd *other = ibv_alloc_pd(p.device);
	struct ibv_mr *mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)there.addr, SIZE, ALL | FLUSH_GLOBAL);
	struct ibv_mr *secret = other ? ibv_reg_mr(other, (void *)(uintptr_t)here.addr, SIZE, IBV_ACCESS_LOCAL_WRITE) : NULL;
	uint64_t value = 0x5eed;
	int opcode, syndrome;

	if (!mr || !secret) {
		printf("no flushes: %s\n", strerror(errno));
		goto out;
	}
	p.access = ALL | FLUSH_GLOBAL;
	connect_again();
	CHECK(flush(0, there.addr, mr->rkey, 64, 0, &opcode, &syndrome), "a flush has no answer");
	CHECK(flush(0, there.addr, mr->rkey, 64, 0, &opcode, &syndrome) && opcode == READ_ONLY, "a flush, repeated: answer %#x, syndrome %#x", opcode, syndrome);
	/* What is kept of a request must not be taken for a request of another kind. */
	p.dest_rd_atomic = 1;
	connect_again();
	memory_write(&there, 0, &value, sizeof(value));
	must_read("a read before a flush", 0, there.addr, mr->rkey, value);
	flush(1, (uint64_t)0x80000000 << 32 | secret->rkey, mr->rkey, 1, 1, &opcode, &syndrome);
	must_not_read("a read of another protection domain", 0, here.addr, secret->rkey, 8);
	/* The adapter may keep no request. */
	p.dest_rd_atomic = 0;
	connect_again();
	CHECK(flush(0, there.addr, mr->rkey, 64, 0, &opcode, &syndrome) && opcode == ACKNOWLEDGE && syndrome == NAK_INVALID, "a flush where none is allowed: answer %#x, syndrome %#x", opcode, syndrome);
	p.dest_rd_atomic = 16;
	p.access = ALL;
	connect_again();
out:
	MUST((!mr || !ibv_dereg_mr(mr)) && (!secret || !ibv_dereg_mr(secret)) && (!other || !ibv_dealloc_pd(other)), "the end of flushes");
}

/* The address that the kernel makes of this one. */
static struct in6_addr link_local(const uint8_t *mac)
{
	return (struct in6_addr){ .s6_addr = { 0xfe, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] } };
}

/* A datagram to the queue pair of connection managers, over IPv6, whose UDP header says that it has no length, or its length. */
static void datagram(int has_length)
{
	struct {
		struct ether_header ether;
		struct ip6_hdr ip;
		struct udphdr udp;
		uint8_t opcode, flags;
		uint16_t pkey;
		uint32_t qpn, psn, qkey, from;
		uint8_t bytes[24];
		uint32_t icrc;
	} __attribute__((packed)) f = { .opcode = DATAGRAM, .pkey = 0xffff, .qpn = htonl(1), .qkey = htonl(0x80010000), .from = htonl(1),
	      .bytes = { 1 /* the version that the kernel knows */ } }, masked;
	struct {
		struct in6_addr from, to;
		uint32_t length, protocol;
		uint8_t all[sizeof(f) - offsetof(typeof(f), udp)];
	} sum;

	memcpy(f.ether.ether_dhost, macs[1], 6);
	memcpy(f.ether.ether_shost, macs[0], 6);
	f.ether.ether_type = htons(ETHERTYPE_IPV6);
	f.ip.ip6_flow = htonl(6U << 28);
	f.ip.ip6_plen = htons(sizeof(sum.all));
	f.ip.ip6_nxt = IPPROTO_UDP;
	f.ip.ip6_hlim = 64;
	f.ip.ip6_src = link_local(macs[0]);
	f.ip.ip6_dst = link_local(macs[1]);
	f.udp.source = htons(0xc000);
	f.udp.dest = htons(PORT);
	f.udp.len = has_length ? htons(sizeof(sum.all)) : 0;
	masked = f;
	memset(&masked.ip.ip6_flow, 0xff, 4);
	*(uint8_t *)&masked.ip = 0x6f;
	masked.ip.ip6_hlim = 0xff;
	masked.udp.check = 0xffff;
	masked.qpn |= htonl(0xff000000);
	f.icrc = ~crc(0xdebb20e3, &masked.ip, sizeof(f) - sizeof(f.ether) - sizeof(f.icrc));
	sum.from = f.ip.ip6_src;
	sum.to = f.ip.ip6_dst;
	sum.length = htonl(sizeof(sum.all));
	sum.protocol = htonl(IPPROTO_UDP);
	memcpy(sum.all, &f.udp, sizeof(sum.all));
	f.udp.check = checksum(&sum, sizeof(sum));
	MUST(send(wire, &f, sizeof(f), 0) == sizeof(f), "sending a packet");
	usleep(20000);
}

/* An adapter that computes with such a length reads far behind the packet, which only a kernel with KASAN notices. */
static void datagram_of_nothing(void)
{
	long before = pair_packets(&p);
	int i;

	/* The address is not used before the kernel has asked whether another machine has it. */
	for (i = 0; i < 200 && pair_packets(&p) == before; i++)
		datagram(1);
	CHECK(pair_packets(&p) != before, "a datagram does not arrive");
	before = pair_packets(&p);
	for (i = 0; i < 10; i++)
		datagram(0);
	CHECK(pair_packets(&p) == before, "a datagram without a length arrives");
}

/* ---- answers ---- */

static void acknowledge(uint32_t psn, uint8_t syndrome)
{
	uint8_t aeth[4] = { syndrome };

	transmit(0, ACKNOWLEDGE, psn, aeth, sizeof(aeth));
}

static void post(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct request r = { .opcode = opcode, .local = local, .local_addr = here.addr, .length = length,
			     .remote_addr = there.addr, .rkey = remote->rkey };

	MUST(!pair_post(&p, 0, &r), "posting a request");
}

/* Whether queue pair 0 has a completion within so many milliseconds. */
static int completes(int ms, enum ibv_wc_status *status)
{
	struct ibv_wc wc;

	while (ms--) {
		if (ibv_poll_cq(p.cq[0], 1, &wc)) {
			*status = wc.status;
			return 1;
		}
		usleep(1000);
	}
	return 0;
}

static void not_completed(const char *what)
{
	struct ibv_wc wc;

	usleep(30000);
	CHECK(!ibv_poll_cq(p.cq[0], 1, &wc), "a message is completed by %s: %s", what, ibv_wc_status_str(wc.status));
}

/* Answers to what was not sent, as late ones of an earlier connection are. */
static void others_answers(void)
{
	static const struct {
		const char *what;
		uint32_t psn;	/* the message's is 0x1000 */
		uint8_t syndrome;
	} all[] = {
		{ "an acknowledgement of a packet that was not sent", 0x1001, ACK },
		{ "an acknowledgement of a packet far behind it", 0x70000, ACK },
		{ "a NAK of a packet that was not sent", 0x1001, NAK_OPERATION },
		{ "a NAK of a packet far behind it", 0x70000, NAK_ACCESS },
		{ "a NAK of a packet before it", 0xfff, NAK_OPERATION },
	};
	struct frame f;
	uint32_t psn;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		p.psn[0] = 0x1000;
		connect_again();
		/* What arrives before a request must not wait for it. */
		acknowledge(all[i].psn, all[i].syndrome);
		usleep(10000);
		post(IBV_WR_SEND, 8);
		MUST(received(1000, &f, &psn) == SEND_ONLY && psn == 0x1000, "no message");
		acknowledge(all[i].psn, all[i].syndrome);
		not_completed(all[i].what);
		acknowledge(0x1000, ACK);
		CHECK(pair_wait(&p, 0, NULL) == IBV_WC_SUCCESS, "a message after %s: not completed", all[i].what);
	}
	p.psn[0] = 0;
}

/* The NAK of a packet of a request that is being repeated is its own. */
static void own_answer(void)
{
	enum ibv_wc_status status;
	struct frame f;
	uint32_t psn, i, last = 0;

	p.timeout = 10;		/* 4 ms */
	connect_again();
	post(IBV_WR_RDMA_WRITE, 4 * mtu);
	/* A slow kernel begins again before it has sent the last packet, whose NAK would then be no answer. */
	for (i = 0; i < 12 || !last; i++) {
		MUST(received(1000, &f, &psn), "no write");
		last |= psn == 3;
	}
	acknowledge(3, NAK_ACCESS);
	status = pair_wait(&p, 0, NULL);
	CHECK(status == IBV_WC_REM_ACCESS_ERR, "a write whose last packet is refused: %s", ibv_wc_status_str(status));
	p.timeout = 14;
}

/*
 * A request that is being repeated is acknowledged as a whole.  The rest of it is not sent any more, and nothing with a packet
 * number behind it, which the other end would take for a part of the next request.
 */
static void late_answer(void)
{
	uint32_t psn = 0, last = SIZE / mtu - 1;
	enum ibv_wc_status status;
	struct frame f;
	int i, seen;

	for (i = 0; i < 20; i++) {
		connect_again();
		post(IBV_WR_RDMA_WRITE, SIZE);
		/* All of it, and the beginning of its repetition. */
		for (seen = 0; !seen || psn; seen |= psn == last)
			MUST(received(1000, &f, &psn), "no write");
		acknowledge(last, ACK);
		status = pair_wait(&p, 0, NULL);
		CHECK(status == IBV_WC_SUCCESS, "a write that is acknowledged while it is repeated: %s", ibv_wc_status_str(status));
		while (received(20, &f, &psn))
			CHECK(psn <= last, "a write that is acknowledged while it is repeated: a packet behind its last one");
	}
}

/* Answers to a read of four packets that make no sense: they begin in the middle, are of another kind, end too early or not at all. */
static void wrong_answers(void)
{
	static const struct {
		const char *what;
		int packets;
		struct {
			uint8_t opcode;
			uint8_t header;	/* bytes before the data */
			uint32_t data;	/* bytes; 0: as many as a packet may have */
		} packet[4];
	} all[] = {
		{ "that begins in the middle", 1, { { READ_MIDDLE, 0, 0 }, } },
		{ "of an atomic", 1, { { ATOMIC_ACKNOWLEDGE, 4, 8 }, } },
		{ "with too few bytes", 1, { { READ_ONLY, 4, 8 }, } },
		{ "that ends early", 2, { { READ_FIRST, 4, 0 }, { READ_LAST, 4, 0 }, } },
		{ "without an end", 4, { { READ_FIRST, 4, 0 }, { READ_MIDDLE, 0, 0 }, { READ_MIDDLE, 0, 0 }, { READ_MIDDLE, 0, 0 } } },
		{ "with too many bytes", 4, { { READ_FIRST, 4, 0 }, { READ_MIDDLE, 0, 0 }, { READ_MIDDLE, 0, 0 }, { READ_LAST, 4, 1028 } } },
	};
	uint8_t *bytes = calloc(1, 4 + mtu + 4);
	enum ibv_wc_status status;
	struct frame f;
	uint32_t psn, n;
	size_t i;
	int k;

	MUST(bytes, "no memory");
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		connect_again();
		post(IBV_WR_RDMA_READ, 4 * mtu);
		MUST(received(1000, &f, &psn) == READ_REQUEST, "no read");
		for (k = 0; k < all[i].packets; k++) {
			n = all[i].packet[k].data ? all[i].packet[k].data : mtu;
			transmit(0, all[i].packet[k].opcode, psn + (uint32_t)k, bytes, all[i].packet[k].header + n);
		}
		if (CHECK(completes(500, &status), "a read with an answer %s is not completed", all[i].what))
			CHECK(status != IBV_WC_SUCCESS, "a read with an answer %s succeeds", all[i].what);
	}
	free(bytes);
}

static void open_wire(const char *netdev)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)if_nametoindex(netdev) };
	socklen_t length = sizeof(at);

	wire = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
	if (wire < 0 || bind(wire, (struct sockaddr *)&at, sizeof(at)) || getsockname(wire, (struct sockaddr *)&at, &length))
		die("net device %s", netdev);
	memcpy(macs[0], at.sll_addr, 6);
}

/* The adapter's own packets have its address. */
static void find_the_adapter(void)
{
	struct frame f;
	int opcode;

	post(IBV_WR_SEND, 8);
	do {
		MUST(recv(wire, &f, sizeof(f), 0) >= 0, "no packet of the adapter");
		opcode = f.udp.dest == htons(PORT) ? f.opcode : 0;
	} while (opcode != SEND_ONLY);
	memcpy(macs[1], f.ether.ether_shost, 6);
}

static const struct check_test tests[] = {
	TEST(write_of_nothing), TEST(anothers_window), TEST(zero_based_window), TEST(another_right), TEST(flushes),
	TEST(datagram_of_nothing), TEST(others_answers), TEST(own_answer), TEST(late_answer), TEST(wrong_answers),
};

int main(int argc, char **argv)
{
	int ret;

	MUST(argc == 3, "usage: hostile ADAPTER NETDEV");
	setvbuf(stdout, NULL, _IOLBF, 0);
	pair_open(&p, argv[1], 0);
	open_wire(argv[2]);
	p.gid.raw[15] ^= 1 ^ 2;
	mtu = 128U << p.mtu;
	memory_alloc(&here, MEMORY_HOST, SIZE);
	memory_alloc(&there, MEMORY_HOST, SIZE);
	local = memory_register(&here, p.pd);
	remote = memory_register(&there, p.pd);
	pair_connect(&p);
	find_the_adapter();
	ret = check_run(tests, CHECK_COUNT(tests), 0, NULL);
	MUST(!ibv_dereg_mr(local) && !ibv_dereg_mr(remote), "ibv_dereg_mr");
	pair_close(&p);
	memory_free(&here);
	memory_free(&there);
	close(wire);
	return ret;
}
