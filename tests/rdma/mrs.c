// SPDX-License-Identifier: MIT
/*
 * mrs.c - every operation on an MR, at either end: bytes arrive, bounds hold, and are errors that programs expect.
 *
 *	mrs ADAPTER host|dmabuf|export|peer|managed
 *
 * Run with LD_PRELOAD=libpeerdma-verbs.so.0: Debian's provider has no dma-bufs.
 */
#include <sys/mman.h>

#include "memory.h"
#include "pair.h"

#define SIZE (1UL << 20)

static struct pair p;
static struct memory subject, host;
static struct ibv_mr *subject_mr, *host_mr;
static unsigned char expected[SIZE], seen[SIZE];

static void random_bytes(unsigned char *bytes, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		bytes[i] = (unsigned char)rand();
}

/* Between them, length bytes at these offsets; what is done, who is local. */
static enum ibv_wc_status rdma(enum ibv_wr_opcode opcode, int subject_is_local, size_t at, size_t host_at, size_t length)
{
	struct request r = { .opcode = opcode, .length = (uint32_t)length };

	if (subject_is_local) {
		r.local = subject_mr;
		r.local_addr = subject.addr + at;
		r.remote_addr = host.addr + host_at;
		r.rkey = host_mr->rkey;
	} else {
		r.local = host_mr;
		r.local_addr = host.addr + host_at;
		r.remote_addr = subject.addr + at;
		r.rkey = subject_mr->rkey;
	}
	return pair_do(&p, &r);
}

/* The subject is written, or read, and nothing beside. */
static void moves(enum ibv_wr_opcode opcode, int subject_is_local, int writes_subject, const char *what)
{
	const size_t ats[] = { 0, 4096, 1, 4093, 100003 }, lengths[] = { SIZE, 65536, 1, 9000, 300007 };
	unsigned int i;

	for (i = 0; i < sizeof(ats) / sizeof(*ats); i++) {
		const struct memory *from = writes_subject ? &host : &subject, *to = writes_subject ? &subject : &host;
		size_t host_at = lengths[i] == SIZE ? 0 : 77, at = ats[i];
		size_t from_at = writes_subject ? host_at : at, to_at = writes_subject ? at : host_at;

		random_bytes(expected, SIZE);
		memory_write(from, 0, expected, SIZE);
		memory_fill(to, 0x11);
		if (rdma(opcode, subject_is_local, at, host_at, lengths[i]) != IBV_WC_SUCCESS)
			break;
		memory_read(to, 0, seen, SIZE);
		if (memcmp(seen + to_at, expected + from_at, lengths[i]) ||
		    (to_at && seen[to_at - 1] != 0x11) || (to_at + lengths[i] < SIZE && seen[to_at + lengths[i]] != 0x11))
			break;
	}
	CHECK(i == sizeof(ats) / sizeof(*ats), "%s", what);
}

static void sends(int subject_sends)
{
	const struct memory *from = subject_sends ? &subject : &host, *to = subject_sends ? &host : &subject;
	const struct ibv_mr *from_mr = subject_sends ? subject_mr : host_mr, *to_mr = subject_sends ? host_mr : subject_mr;
	struct request r = { .opcode = IBV_WR_SEND, .local = from_mr, .local_addr = from->addr + 3, .length = 100001 };
	struct ibv_wc wc;
	int sent, received;

	random_bytes(expected, SIZE);
	memory_write(from, 0, expected, SIZE);
	memory_fill(to, 0);
	pair_receive(&p, 1, to_mr, to->addr + 5, 200000);
	sent = pair_do(&p, &r) == IBV_WC_SUCCESS;
	received = pair_wait(&p, 1, &wc) == IBV_WC_SUCCESS && wc.byte_len == r.length;
	memory_read(to, 0, seen, SIZE);
	CHECK(sent && received && !memcmp(seen + 5, expected + 3, r.length), "%s", subject_sends ? "send from it" : "receive into it");
}

static uint64_t value_at(const struct memory *m, size_t at)
{
	uint64_t value;

	memory_read(m, at, &value, sizeof(value));
	return value;
}

static void atomics(void)
{
	struct request r = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .local = host_mr, .local_addr = host.addr, .length = 8,
			     .remote_addr = subject.addr + 4096 - 8, .rkey = subject_mr->rkey, .compare_add = 5 };
	uint64_t start = 0xfffffffful;
	int ok;

	memory_write(&subject, 4096 - 8, &start, sizeof(start));
	ok = pair_do(&p, &r) == IBV_WC_SUCCESS;
	CHECK(ok && value_at(&subject, 4096 - 8) == start + 5 && value_at(&host, 0) == start, "fetch and add");
	r.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	r.compare_add = start + 5;
	r.swap = 42;
	ok = pair_do(&p, &r) == IBV_WC_SUCCESS;
	CHECK(ok && value_at(&subject, 4096 - 8) == 42 && value_at(&host, 0) == start + 5, "compare and swap");
	r.swap = 43;
	ok = pair_do(&p, &r) == IBV_WC_SUCCESS;
	CHECK(ok && value_at(&subject, 4096 - 8) == 42 && value_at(&host, 0) == 42, "compare and do not swap");
	/* The other way round: the old value lands in it. */
	memory_write(&host, 64, &start, sizeof(start));
	r = (struct request){ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .local = subject_mr, .local_addr = subject.addr + 24, .length = 8,
			      .remote_addr = host.addr + 64, .rkey = host_mr->rkey, .compare_add = 1 };
	ok = pair_do(&p, &r) == IBV_WC_SUCCESS;
	CHECK(ok && value_at(&subject, 24) == start && value_at(&host, 64) == start + 1, "an atomic's result lands in it");
	r = (struct request){ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .local = host_mr, .local_addr = host.addr, .length = 8,
			      .remote_addr = subject.addr + 4, .rkey = subject_mr->rkey, .compare_add = 1 };
	CHECK(pair_post(&p, 0, &r) == EINVAL, "an atomic that is not aligned is refused");
}

#define PART 4000

static void bounds(void)
{
	struct request r = { .opcode = IBV_WR_RDMA_WRITE, .local = host_mr, .local_addr = host.addr, .length = 2,
			     .remote_addr = subject.addr + SIZE - 1, .rkey = subject_mr->rkey };
	struct ibv_mr *part;
	int status;

	CHECK(pair_do(&p, &r) == IBV_WC_REM_ACCESS_ERR, "a write over its end is a remote access error");
	pair_connect(&p);
	r.remote_addr = subject.addr;
	r.rkey ^= 1;
	CHECK(pair_do(&p, &r) == IBV_WC_REM_ACCESS_ERR, "so is one with a wrong key");
	pair_connect(&p);
	/* Not whole pages: behind its end is memory that it could reach. */
	part = memory_try_register(&subject, p.pd, 8192, PART);
	MUST(part, "a part cannot be registered");
	memory_fill(&subject, 0);
	r = (struct request){ .opcode = IBV_WR_RDMA_WRITE, .local = host_mr, .local_addr = host.addr, .length = PART,
			      .remote_addr = subject.addr + 8192, .rkey = part->rkey };
	random_bytes(expected, PART);
	memory_write(&host, 0, expected, PART);
	pair_do(&p, &r);
	memory_read(&subject, 0, seen, SIZE);
	CHECK(!memcmp(seen + 8192, expected, PART) && !seen[8191] && !seen[8192 + PART], "a part of it by itself");
	r.length = PART + 1;
	CHECK(pair_do(&p, &r) == IBV_WC_REM_ACCESS_ERR, "and no more than the part");
	pair_connect(&p);
	/* The adapter's own end, which no key of a request protects. */
	r = (struct request){ .opcode = IBV_WR_RDMA_WRITE, .local = part, .local_addr = subject.addr + 8192 + PART - 96, .length = 97,
			      .remote_addr = host.addr, .rkey = host_mr->rkey };
	/* Newer rxe calls it another local error, where the memory is the host's. */
	status = pair_do(&p, &r);
	CHECK(status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_QP_OP_ERR, "a write from behind it is a local error");
	pair_connect(&p);
	memory_fill(&subject, 0);
	r.opcode = IBV_WR_RDMA_READ;
	CHECK(pair_do(&p, &r) == IBV_WC_LOC_PROT_ERR, "so is a read to behind it");
	memory_read(&subject, 0, seen, SIZE);
	CHECK(!seen[8192 + PART], "which writes nothing there");
	pair_connect(&p);
	MUST(!ibv_dereg_mr(part), "ibv_dereg_mr");
}

static void refusals(void)
{
	CHECK(!memory_try_register(&subject, p.pd, 0, SIZE + 4096), "more than there is: refused");
	if (subject.kind != MEMORY_DMABUF && subject.kind != MEMORY_EXPORT)
		return;
	CHECK(!ibv_reg_dmabuf_mr(p.pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE), "a file that is no dma-buf: refused");
	CHECK(!ibv_reg_dmabuf_mr(p.pd, 0, 4096, 0, 999, IBV_ACCESS_LOCAL_WRITE), "no file: refused");
	CHECK(!memory_try_register(&subject, p.pd, ~0UL - 4095, 4096), "an offset far behind it: refused");
}

/* How many areas of its own addresses the kernel has mapped to devices. */
static int mappings(void)
{
	FILE *file = fopen("/proc/vmallocinfo", "r");
	char line[512];
	int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += !!strstr(line, " ioremap");
	MUST(file && !fclose(file), "/proc/vmallocinfo");
	return n;
}

/*
 * What a mapping takes is not charged, so further regions of the same memory must not have their own.  More than
 * seven DMA mappings of a page at once would be an error to a debug kernel (CONFIG_DMA_API_DEBUG).
 */
static void mapped_once(void)
{
	struct ibv_mr *mrs[5];
	int before = mappings(), i;

	for (i = 0; i < 5; i++) {
		mrs[i] = memory_try_register(&subject, p.pd, 0, SIZE);
		MUST(mrs[i], "registering it once more");
	}
	CHECK(mappings() == before, "further regions of it take no mapping of the kernel's");
	for (i = 0; i < 5; i++)
		MUST(!ibv_dereg_mr(mrs[i]), "ibv_dereg_mr");
}

/* The same 2 MiB again and again: what counts is the number of pages. */
static void over_a_gigabyte(void)
{
	const size_t piece = 2UL << 20, size = (1UL << 30) + piece;
	char *start = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = memfd_create("mrs", MFD_CLOEXEC);
	struct ibv_mr *mr;
	size_t at;

	MUST(start != MAP_FAILED && fd >= 0 && !ftruncate(fd, (off_t)piece), "a gigabyte of addresses");
	for (at = 0; at < size; at += piece)
		MUST(mmap(start + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED, "mmap");
	mr = ibv_reg_mr(p.pd, start, size, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr != NULL, "more than a gigabyte");
	MUST(!mr || !ibv_dereg_mr(mr), "ibv_dereg_mr");
	munmap(start, size);
	close(fd);
}

int main(int argc, char **argv)
{
	MUST(argc == 3, "usage: mrs ADAPTER host|dmabuf|export|peer|managed");
	setvbuf(stdout, NULL, _IOLBF, 0);
	memory_alloc(&host, MEMORY_HOST, SIZE);
	memory_alloc(&subject, memory_kind(argv[2]), SIZE);
	pair_open(&p, argv[1], 1);
	host_mr = memory_register(&host, p.pd);
	subject_mr = memory_register(&subject, p.pd);

	moves(IBV_WR_RDMA_WRITE, 0, 1, "write to it");
	moves(IBV_WR_RDMA_WRITE, 1, 0, "write from it");
	moves(IBV_WR_RDMA_READ, 0, 0, "read from it");
	moves(IBV_WR_RDMA_READ, 1, 1, "read into it");
	sends(1);
	sends(0);
	atomics();
	bounds();
	if (subject.kind != MEMORY_HOST) {
		refusals();
		mapped_once();
	} else {
		over_a_gigabyte();
	}

	MUST(!ibv_dereg_mr(subject_mr) && !ibv_dereg_mr(host_mr), "ibv_dereg_mr");
	pair_close(&p);
	memory_release(&subject);
	memory_free(&subject);
	return check_end(NULL);
}
