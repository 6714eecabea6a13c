// SPDX-License-Identifier: MIT
/*
 * refused.c - what a program without rights may not register, and by which errno it learns that.
 *
 *	refused ADAPTER peer|nobody|files|no-function	GPU addresses, where a peer-memory client is there, or none; dma-bufs; both on an
 *							adapter that is no PCI function
 *	refused ADAPTER MEMORY.CURRENT			queues that this cgroup does not count: its file of that name
 *
 * It becomes user 1000 first.
 */
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "../lib/cuda_calls.h"
#include "memory.h"
#include "pair.h"
#include "peerdma.h"
#include "queues.h"

#define MIB (1UL << 20)
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct pair p;

/* error: of the registration; 0: it succeeds. */
static void result(const char *what, struct ibv_mr *mr, int error)
{
	int got = mr ? 0 : errno;

	CHECK(got == error, "%s: %s, expected %s", what, strerror(got), strerror(error));
	MUST(!mr || !ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void reg(const char *what, uint64_t addr, size_t size, int access, int error)
{
	errno = 0;
	result(what, ibv_reg_mr(p.pd, (void *)(uintptr_t)addr, size, access), error);
}

/* Kernels differ in what they support: this error, or that. */
static void reg_by_kernel(const char *what, uint64_t addr, int access, int error, int other)
{
	struct ibv_mr *mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)addr, MIB, access);

	result(what, mr, (mr ? 0 : errno) == other ? other : error);
}

static int pages_on_demand(void)
{
	struct ibv_device_attr_ex attr;

	MUST(!ibv_query_device_ex(p.device, NULL, &attr), "ibv_query_device_ex");
	return !!(attr.odp_caps.general_caps & IBV_ODP_SUPPORT);
}

/* ibv_advise_mr(), which Debian's librxe does not have.  7.2's rxe panics on it if the region has no paging on demand. */
static int advise(const struct ibv_mr *mr, enum ib_uverbs_advise_mr_advice advice, unsigned int flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 4096, .lkey = mr->lkey };
	const struct ib_uverbs_attr attrs[] = {
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE, .flags = UVERBS_ATTR_F_MANDATORY, .data_s64 = p.pd->handle },
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE, .len = 8, .flags = UVERBS_ATTR_F_MANDATORY, .data = advice },
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS, .len = 4, .flags = UVERBS_ATTR_F_MANDATORY, .data = flags },
		{ .attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST, .len = sizeof(sge), .flags = UVERBS_ATTR_F_MANDATORY, .data = (uintptr_t)&sge },
	};
	const struct ib_uverbs_ioctl_hdr header = {
		.length = sizeof(header) + sizeof(attrs), .object_id = UVERBS_OBJECT_MR, .method_id = UVERBS_METHOD_ADVISE_MR,
		.num_attrs = sizeof(attrs) / sizeof(*attrs), .driver_id = RDMA_DRIVER_RXE,
	};
	uint64_t call[(sizeof(header) + sizeof(attrs)) / sizeof(uint64_t)];

	memcpy(call, &header, sizeof(header));
	memcpy((char *)call + sizeof(header), attrs, sizeof(attrs));
	return ioctl(p.device->cmd_fd, RDMA_VERBS_IOCTL, call) ? errno : 0;
}

static void advice(struct memory *m, const char *what)
{
	struct ibv_mr *mr = memory_register(m, p.pd);
	int sync = advise(mr, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, IB_UVERBS_ADVISE_MR_FLAG_FLUSH);
	int later = advise(mr, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 0);

	printf("%s: advice: %s, %s\n", what, strerror(sync), strerror(later));
	CHECK(sync == EOPNOTSUPP || sync == EPROTONOSUPPORT, "there is no advice");
	CHECK(later == sync, "nor is there later");
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
}

/*
 * Of cuMemCreate() without gpuDirectRDMACapable: by_dmabuf: the dma-buf is registered, and with the preload the address, too;
 * or only the address is tried.
 */
static void incapable(int by_dmabuf)
{
	struct cuda_prop prop = { .type = 1, .location_type = 1 };
	struct memory m = { .kind = MEMORY_DMABUF, .size = 4 * MIB }, other;
	struct cuda_calls cuda = { 0 };
	unsigned long long handle;
	gpu_ptr at;
	int fd;

	memory_alloc(&other, MEMORY_DMABUF, MIB);
	MUST(cuda_calls_load(&cuda) && !cuda.cuMemCreate(&handle, m.size, &prop, 0) &&
	     !cuda.cuMemAddressReserve(&at, m.size, 0, 0, 0) && !cuda.cuMemMap(at, m.size, 0, handle, 0), "cuMemMap");
	m.addr = at;
	reg("memory without gpuDirectRDMACapable", m.addr, m.size, RW, by_dmabuf ? 0 : EFAULT);
	if (by_dmabuf) {
		fd = memory_export(&m);
		result("its dma-buf", ibv_reg_dmabuf_mr(p.pd, 0, m.size, m.addr, fd, RW), 0);
		close(fd);
	}
	MUST(!cuda.cuMemUnmap(at, m.size) && !cuda.cuMemRelease(handle) && !cuda.cuMemAddressFree(at, m.size), "cuMemUnmap");
	memory_free(&other);
}

/* There is GPU memory from start on and up to end, and none before and behind it. */
static void mixed(uint64_t start, uint64_t end, int peer)
{
	void *pages[2] = { (void *)(uintptr_t)(start - 4096), (void *)(uintptr_t)end };
	int i;

	for (i = 0; i < 2; i++)
		if (mmap(pages[i], 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != pages[i])
			die("host memory beside the GPU's");
	reg("host memory, and the GPU's behind it", start - 4096, 8192, RW, EFAULT);
	reg("GPU memory, and the host's behind it", end - 4096, 8192, RW, EFAULT);
	/* Kernels before 6.2 put pages of zeros in the place of GPU memory, if there is no client. */
	if (peer) {
		reg("host memory, and the GPU's behind it, only to be read", start - 4096, 8192, IBV_ACCESS_REMOTE_READ, EFAULT);
		reg("GPU memory, and the host's behind it, only to be read", end - 4096, 8192, IBV_ACCESS_REMOTE_READ, EFAULT);
	}
	for (i = 0; i < 2; i++)
		if (mmap(pages[i], 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != pages[i])
			die("the addresses beside the GPU's memory");
}

static int parents_memory(void *memory)
{
	const struct memory *m = memory;

	reg("the parent's GPU memory", m->addr, m->size, RW, EFAULT);
	return 0;
}

static void addresses(int peer)
{
	struct memory a, b, host;

	memory_alloc(&a, MEMORY_PEER, 4 * MIB);
	memory_alloc(&b, MEMORY_PEER, 4 * MIB);
	memory_alloc(&host, MEMORY_HOST, MIB);
	reg("GPU memory", a.addr, a.size, RW, peer ? 0 : EFAULT);
	reg("its last byte", a.addr + a.size - 1, 1, RW, peer ? 0 : EFAULT);
	reg("one byte more than there is", b.addr, b.size + 1, RW, EFAULT);
	reg("GPU memory, no bytes", a.addr, 0, RW, EINVAL);
	reg("to the end of the addresses", a.addr, -a.addr, RW, EINVAL);
	reg("wrapping", a.addr, -a.addr + 4096, RW, EINVAL);
	reg("2^62 bytes", a.addr, 1UL << 62, RW, EINVAL);
	CHECK(!pages_on_demand(), "no paging on demand");
	reg_by_kernel("on demand", a.addr, RW | IBV_ACCESS_ON_DEMAND, EINVAL, EOPNOTSUPP);
	reg_by_kernel("the host's memory on demand", host.addr, RW | IBV_ACCESS_ON_DEMAND, EINVAL, EOPNOTSUPP);
	advice(&host, "host memory");
	if (peer)
		advice(&a, "GPU memory");
	reg("remote write without local write", a.addr, a.size, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	reg("relaxed ordering", a.addr, a.size, RW | IBV_ACCESS_RELAXED_ORDERING, peer ? 0 : EFAULT);
	reg("windows", a.addr, a.size, RW | IBV_ACCESS_MW_BIND, peer ? 0 : EFAULT);
	reg_by_kernel("from address 0", a.addr, RW | IBV_ACCESS_ZERO_BASED, peer ? 0 : EFAULT, EOPNOTSUPP);
	reg_by_kernel("huge pages", a.addr, RW | IBV_ACCESS_HUGETLB, peer ? 0 : EFAULT, EOPNOTSUPP);
	reg("the kernel's addresses", 0xffff888000000000UL, 4096, RW, EFAULT);
	EXPECT(check_in_child(parents_memory, &a), 0);
	incapable(0);
	mixed(a.addr < b.addr ? a.addr : b.addr, (a.addr > b.addr ? a.addr : b.addr) + 4 * MIB, peer);
	memory_free(&a);
	reg("freed", a.addr, a.size, RW, EFAULT);
	MUST(b.addr == a.addr + a.size || a.addr == b.addr + b.size, "two allocations are no neighbours");
	reg("half of it freed", a.addr < b.addr ? a.addr : b.addr, 2 * a.size, RW, EFAULT);
	memory_alloc(&a, MEMORY_PEER, 4 * MIB);
	memory_free(&b);
	if (b.addr == a.addr + a.size || a.addr == b.addr + b.size)
		reg("the other half freed", a.addr < b.addr ? a.addr : b.addr, 2 * a.size, RW, EFAULT);
	memory_free(&a);
	memory_free(&host);
}

/* Pages that this process has pinned, in KiB. */
static long pinned(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kib = -1;

	while (f && kib < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %ld", &kib);
	MUST(kib >= 0, "VmPin");
	fclose(f);
	return kib;
}

/* Registered, it is no part of what the process has pinned. */
static void not_counted(const char *what, struct ibv_mr *mr, long before)
{
	CHECK(!mr || pinned() == before, "%s: %ld KiB are pinned, before %ld", what, pinned(), before);
	result(what, mr, 0);
}

static void soft_limit(rlim_t bytes)
{
	struct rlimit limit;

	MUST(!getrlimit(RLIMIT_MEMLOCK, &limit), "getrlimit");
	limit.rlim_cur = bytes;
	MUST(!setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit");
}

/* RLIMIT_MEMLOCK is about the host's memory: a program that may lock none, or a page only, registers the GPU's. */
static void no_memlock(int dmabufs)
{
	static const struct {
		rlim_t bytes;
		int error;
	} limits[] = { { 0, EPERM }, { 4096, ENOMEM } };
	struct memory gpu, host;
	struct rlimit old;
	struct ibv_mr *mr;
	long before;
	size_t i;
	int fd = -1;

	memory_alloc(&gpu, dmabufs ? MEMORY_DMABUF : MEMORY_PEER, 4 * MIB);
	memory_alloc(&host, MEMORY_HOST, MIB);
	if (dmabufs)
		fd = memory_export(&gpu);
	MUST(!getrlimit(RLIMIT_MEMLOCK, &old), "getrlimit");
	before = pinned();
	for (i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		soft_limit(limits[i].bytes);
		errno = 0;
		if (dmabufs)
			not_counted("a dma-buf, and no memory may be locked", ibv_reg_dmabuf_mr(p.pd, 0, gpu.size, 0, fd, RW), before);
		else
			not_counted("GPU memory, and no memory may be locked",
				    ibv_reg_mr(p.pd, (void *)(uintptr_t)gpu.addr, gpu.size, RW), before);
		reg("host memory, and none may be locked", host.addr, host.size, RW, limits[i].error);
	}
	soft_limit(old.rlim_cur);
	mr = ibv_reg_mr(p.pd, (void *)(uintptr_t)host.addr, host.size, RW);
	CHECK(!mr || pinned() >= before + (long)(host.size >> 10), "registered host memory does not count as pinned");
	result("host memory, and it may be locked", mr, 0);
	if (dmabufs)
		close(fd);
	memory_free(&gpu);
	memory_free(&host);
}

static long cgroup_bytes(const char *group)
{
	FILE *file = fopen(group, "r");
	long bytes;

	MUST(file && fscanf(file, "%ld", &bytes) == 1, "%s", group);
	fclose(file);
	return bytes;
}

/* The program's memory cgroup limits its queues, too. group: that cgroup's memory.current. */
static void queues_counted(const char *group)
{
	enum { QUEUES = 8, ENTRIES = 16000 };
	long before = cgroup_bytes(group), least = (long)QUEUES * ENTRIES * 64;
	struct ibv_cq *cq[QUEUES];
	int i;

	for (i = 0; i < QUEUES; i++) {
		cq[i] = ibv_create_cq(p.device, ENTRIES, NULL, NULL, 0);
		MUST(cq[i], "ibv_create_cq");
	}
	CHECK(cgroup_bytes(group) - before >= least, "%ld bytes of queues count as %ld", least, cgroup_bytes(group) - before);
	for (i = 0; i < QUEUES; i++)
		MUST(!ibv_destroy_cq(cq[i]), "ibv_destroy_cq");
}

/* A program that knows the key of one MR must not know those of the others. */
static void keys(void)
{
	struct ibv_mr *mrs[32];
	uint32_t least = ~0U, greatest = 0, i, n = sizeof(mrs) / sizeof(*mrs);
	struct memory host;

	memory_alloc(&host, MEMORY_HOST, 4096);
	for (i = 0; i < n; i++) {
		uint32_t index;

		mrs[i] = memory_register(&host, p.pd);
		index = mrs[i]->rkey >> 8;
		least = index < least ? index : least;
		greatest = index > greatest ? index : greatest;
	}
	CHECK(greatest - least >= 1000 * n, "keys are neighbours: %u MRs have indices from %u to %u", n, least, greatest);
	for (i = 0; i < n; i++)
		MUST(!ibv_dereg_mr(mrs[i]), "ibv_dereg_mr");
	memory_free(&host);
}

/* An adapter that is no PCI function.  The preload tries a dma-buf first, and returns its error. */
static void no_function(void)
{
	const char *preload = getenv("LD_PRELOAD");
	struct memory gpu, host;
	int fd;

	memory_alloc(&gpu, MEMORY_PEER, MIB);
	memory_alloc(&host, MEMORY_HOST, MIB);
	reg("GPU memory", gpu.addr, gpu.size, RW, preload ? EOPNOTSUPP : EFAULT);
	reg("host memory", host.addr, host.size, RW, 0);
	memory_free(&gpu);
	memory_free(&host);
	memory_alloc(&gpu, MEMORY_DMABUF, MIB);
	fd = memory_export(&gpu);
	errno = 0;
	result("a dma-buf", ibv_reg_dmabuf_mr(p.pd, 0, MIB, 0, fd, RW), EOPNOTSUPP);
	close(fd);
	memory_free(&gpu);
}

static void dmabuf(const char *what, int fd, uint64_t offset, size_t size, uint64_t iova, int access, int error)
{
	errno = 0;
	result(what, ibv_reg_dmabuf_mr(p.pd, offset, size, iova, fd, access), error);
}

/* A dma-buf that its exporter has opened for reading only. */
static void reading_only(void)
{
	static const int writing[] = { IBV_ACCESS_LOCAL_WRITE, RW, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC };
	struct peerdma_region *region;
	struct peerdma *ctx;
	struct memory m;
	size_t i;
	int fd;

	memory_alloc(&m, MEMORY_HOST, MIB);
	if (peerdma_open(&ctx, 0) ||
	    peerdma_pin(ctx, (void *)(uintptr_t)m.addr, MIB, PEERDMA_HOST | PEERDMA_READONLY, NULL, &region) ||
	    peerdma_export_dmabuf(region, 0, 0, &fd))
		die("a dma-buf for reading: %s", peerdma_last_error());
	for (i = 0; i < sizeof(writing) / sizeof(*writing); i++)
		dmabuf("a dma-buf for reading, to be written", fd, 0, MIB, 0, writing[i], EACCES);
	dmabuf("a dma-buf for reading", fd, 0, MIB, 0, IBV_ACCESS_REMOTE_READ, 0);
	close(fd);
	MUST(!peerdma_unpin(region), "peerdma_unpin");
	peerdma_close(ctx);
	memory_free(&m);
}

static void files(void)
{
	struct memory m;
	int fd = (int)syscall(SYS_memfd_create, "x", 0), ends[2];

	MUST(fd >= 0 && !ftruncate(fd, MIB) && !pipe(ends), "files");
	dmabuf("a memfd", fd, 0, MIB, 0, RW, EINVAL);
	dmabuf("a pipe", ends[0], 0, MIB, 0, RW, EINVAL);
	dmabuf("no file", -1, 0, MIB, 0, RW, EBADF);
	dmabuf("the adapter", p.device->cmd_fd, 0, MIB, 0, RW, EINVAL);
	memory_alloc(&m, MEMORY_DMABUF, 4 * MIB);
	fd = memory_export(&m);
	dmabuf("a dma-buf", fd, 0, 4 * MIB, 0, RW, 0);
	dmabuf("its last byte", fd, 4 * MIB - 1, 1, 0xfff, RW, 0);
	dmabuf("a byte more", fd, 0, 4 * MIB + 1, 0, RW, EINVAL);
	dmabuf("the byte behind", fd, 4 * MIB, 1, 0, RW, EINVAL);
	dmabuf("no bytes", fd, 0, 0, 0, RW, EINVAL);
	dmabuf("wrapping", fd, 4096, -4096UL, 4096, RW, EINVAL);
	dmabuf("other place in the page", fd, 1, 1, 0, RW, EINVAL);
	dmabuf("wrapping addresses", fd, 0, MIB, -4096UL, RW, EINVAL);
	dmabuf("addresses up to the last one", fd, 0, MIB, -MIB, RW, 0);
	dmabuf("on demand", fd, 0, MIB, 0, RW | IBV_ACCESS_ON_DEMAND, EINVAL);
	dmabuf("windows", fd, 0, MIB, 0, RW | IBV_ACCESS_MW_BIND, EINVAL);
	dmabuf("remote write without local write", fd, 0, MIB, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	advice(&m, "a dma-buf");
	memory_free(&m);
	close(fd);
	close(ends[0]);
	close(ends[1]);
	memory_alloc(&m, MEMORY_EXPORT, 4 * MIB);
	fd = memory_export(&m);
	memory_free(&m);
	dmabuf("a dma-buf whose memory was freed", fd, 0, MIB, 0, RW, ESTALE);
	close(fd);
	memory_release(&m);
	incapable(1);
	reading_only();
}

/* Of another protection domain, which is another program's as a rule; without bytes, a window of type 1 is closed. */
static void bind_strangers(const char *what, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t addr, uint64_t length)
{
	struct ibv_mw_bind bind = { .wr_id = 7, .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = mr, .addr = addr, .length = length,
						   .mw_access_flags = length ? IBV_ACCESS_REMOTE_WRITE : 0 } };
	struct ibv_pd *of_mw = mw->pd, *of_mr = mr->pd;
	uint32_t key = mw->rkey;

	/* The library compares the domains; the kernel must, too. */
	mw->pd = p.pd;
	mr->pd = p.pd;
	errno = ibv_bind_mw(p.qp[0], mw, &bind);
	MUST(!errno, "ibv_bind_mw");
	CHECK(pair_wait(&p, 0, NULL) == IBV_WC_MW_BIND_ERR, "%s", what);
	/* The library takes it for bound. */
	mw->rkey = key;
	mw->pd = of_mw;
	mr->pd = of_mr;
	pair_connect(&p);
}

static void window(void)
{
	struct ibv_pd *other = ibv_alloc_pd(p.device);
	struct ibv_mr *mr;
	struct ibv_mw *own, *theirs;
	struct memory host;

	memory_alloc(&host, MEMORY_HOST, MIB);
	mr = ibv_reg_mr(other, (void *)(uintptr_t)host.addr, MIB, RW | IBV_ACCESS_MW_BIND);
	own = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1);
	theirs = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	MUST(mr && own && theirs, "window");
	bind_strangers("a window on a region of another protection domain", own, mr, host.addr, MIB);
	bind_strangers("another protection domain's window", theirs, mr, host.addr, MIB);
	bind_strangers("the end of another protection domain's window", theirs, mr, 0, 0);
	MUST(!ibv_dealloc_mw(own) && !ibv_dealloc_mw(theirs) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(other), "window's end");
	memory_free(&host);
}

/* ---- work requests, which the program writes into memory that it shares with the kernel ---- */

#define OURS 0x5e0f5e0f5e0f5e0fUL

static void kernels_own(struct rxe_send_wqe *wqe)
{
	wqe->wr.opcode = 0x20;
	/* Where the kernel's own requests have a pointer. */
	wqe->wr.wr.rdma.remote_addr = 0x4141414141414141;
}

static void no_opcode(struct rxe_send_wqe *wqe)
{
	wqe->wr.opcode = 0x7ffffff0;
}

static void negative_opcode(struct rxe_send_wqe *wqe)
{
	wqe->wr.opcode = 0xfffffff0;
}

/* The kernel would copy from behind the queue. */
static void inline_and_long(struct rxe_send_wqe *wqe)
{
	wqe->wr.send_flags |= IBV_SEND_INLINE;
	wqe->dma.length = MIB;
	wqe->dma.resid = MIB;
}

static void many_elements(struct rxe_send_wqe *wqe)
{
	wqe->dma.num_sge = 0x10000000;
	wqe->dma.sge[0].length = 0;
}

/* An atomic write has eight bytes in the request. Older kernels do not have it. */
static void long_atomic_write(struct rxe_send_wqe *wqe)
{
	wqe->wr.opcode = 0xf;
	wqe->dma.length = 4096;
	wqe->dma.resid = 4096;
}

/* What the kernel keeps there for itself. The request is done as if it were not there. */
static void inline_elsewhere(struct rxe_send_wqe *wqe)
{
	wqe->wr.send_flags |= IBV_SEND_INLINE;
	wqe->dma.sge_offset = 0x40000000;
}

static void in_error(struct rxe_send_wqe *wqe)
{
	wqe->state = 4;
	wqe->status = IBV_WC_SUCCESS;
}

static void sent_long_ago(struct rxe_send_wqe *wqe)
{
	wqe->state = 2;
	wqe->mask = 0xffffffff;
	wqe->has_rd_atomic = 1;
	wqe->first_psn = 0x123456;
	wqe->last_psn = 0xffffff;
	wqe->dma.cur_sge = 1;
	wqe->dma.resid = 4;
}

static void many_more(struct rxe_send_wqe *wqe)
{
	struct rxe_queue_buf *q;

	queue_find(OURS, &q);
	q->producer_index |= 0x40000000;
}

static struct request a_write(const struct memory *host, const struct ibv_mr *mr)
{
	return (struct request){ .opcode = IBV_WR_RDMA_WRITE, .local = mr, .local_addr = host->addr, .length = 8,
				 .remote_addr = host->addr, .rkey = mr->rkey, .id = OURS };
}

static void requests(void)
{
	static const struct {
		const char *what;
		void (*forge)(struct rxe_send_wqe *wqe);
		int done;
	} all[] = {
		{ "of the kernel's kind", kernels_own, 0 }, { "of no kind", no_opcode, 0 }, { "of a negative kind", negative_opcode, 0 },
		{ "inline, of a MiB", inline_and_long, 0 }, { "of many elements", many_elements, 0 },
		{ "an atomic write of 4 KiB", long_atomic_write, 0 }, { "inline, elsewhere", inline_elsewhere, 1 },
		{ "in error", in_error, 1 }, { "sent long ago", sent_long_ago, 1 }, { "and a billion more", many_more, 1 },
	};
	struct memory host;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	size_t i;

	memory_alloc(&host, MEMORY_HOST, MIB);
	mr = memory_register(&host, p.pd);
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct request r = a_write(&host, mr);
		enum ibv_wc_status status;

		MUST(pair_do(&p, &r) == IBV_WC_SUCCESS, "a request that is not forged");
		queue_forge(p.qp[0], OURS, all[i].forge);
		status = pair_wait(&p, 0, NULL);
		CHECK((status == IBV_WC_SUCCESS) == all[i].done, "a request %s: %s", all[i].what, ibv_wc_status_str(status));
		usleep(2000);
		CHECK(!ibv_poll_cq(p.cq[0], 1, &wc), "a request %s: one more is completed", all[i].what);
		pair_connect(&p);
	}
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	memory_free(&host);
}

/* A message into a forged receive request: it begins at an element far behind the request. */
static void receives(int srq)
{
	struct memory host;
	struct ibv_mr *mr;
	struct ibv_sge sge = { .length = 8 };
	struct ibv_recv_wr *bad, wr = { .wr_id = OURS, .sg_list = &sge, .num_sge = 1 };
	struct rxe_recv_wqe *wqe;
	struct request r;
	struct pair q;
	enum ibv_wc_status status;

	pair_open(&q, ibv_get_device_name(p.device->device), srq);
	memory_alloc(&host, MEMORY_HOST, MIB);
	mr = memory_register(&host, q.pd);
	sge.addr = host.addr;
	sge.lkey = mr->lkey;
	errno = srq ? ibv_post_srq_recv(q.srq, &wr, &bad) : ibv_post_recv(q.qp[1], &wr, &bad);
	MUST(!errno, "posting a receive");
	wqe = queue_find(OURS, NULL);
	wqe->dma.cur_sge = 0x4000000;
	wqe->dma.sge_offset = 0xfffffff0;
	r = a_write(&host, mr);
	r.opcode = IBV_WR_SEND;
	status = pair_do(&q, &r);
	CHECK(status == IBV_WC_SUCCESS && pair_wait(&q, 1, NULL) == IBV_WC_SUCCESS, "a forged receive%s: %s", srq ? " of an SRQ" : "", ibv_wc_status_str(status));
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(&q);
	memory_free(&host);
}

/* A thread changes requests between two states, of which one is forged, while the kernel takes them. */
static struct rxe_queue_buf *queue;
static int changing;

static void *change(void *unused)
{
	uint32_t i;

	while (__atomic_load_n(&changing, __ATOMIC_RELAXED))
		for (i = 0; i <= queue->index_mask; i++) {
			volatile struct rxe_send_wqe *wqe = (void *)(queue->data + ((size_t)i << queue->log2_elem_size));

			if (wqe->wr.wr_id != OURS)
				continue;
			wqe->wr.send_flags ^= IBV_SEND_INLINE;
			wqe->dma.num_sge ^= 0x10000000;
			wqe->dma.length ^= MIB;
			wqe->dma.resid ^= MIB;
			wqe->dma.sge_offset ^= 0x40000000;
		}
	return NULL;
}

/* What comes of such requests is the program's affair; each is completed, and the kernel stays well. */
static void changed_requests(unsigned int rounds)
{
	struct memory host;
	struct ibv_mr *mr;
	pthread_t thread;
	unsigned int i;

	memory_alloc(&host, MEMORY_HOST, MIB);
	mr = memory_register(&host, p.pd);
	while (rounds--) {
		struct request r = a_write(&host, mr);

		MUST(pair_do(&p, &r) == IBV_WC_SUCCESS, "a request");
		queue_find(OURS, &queue);
		changing = 1;
		MUST(!pthread_create(&thread, NULL, change, NULL), "pthread_create");
		for (i = 0; i < 32; i++)
			MUST(!pair_post(&p, 0, &r), "posting a request");
		for (i = 0; i < 32; i++)
			pair_wait(&p, 0, NULL);
		__atomic_store_n(&changing, 0, __ATOMIC_RELAXED);
		pthread_join(thread, NULL);
		pair_connect(&p);
	}
	MUST(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	memory_free(&host);
}

int main(int argc, char **argv)
{
	MUST(argc == 3, "usage: refused ADAPTER peer|nobody|files|no-function|MEMORY.CURRENT");
	MUST(!setgid(1000) && !setuid(1000), "setuid");
	pair_open(&p, argv[1], 0);
	if (!strcmp(argv[2], "files")) {
		files();
		no_memlock(1);
	} else if (!strcmp(argv[2], "no-function")) {
		no_function();
	} else if (argv[2][0] == '/') {
		queues_counted(argv[2]);
	} else {
		addresses(!strcmp(argv[2], "peer"));
		if (!strcmp(argv[2], "peer"))
			no_memlock(0);
		keys();
		window();
		requests();
		receives(0);
		receives(1);
		changed_requests(100);
	}
	pair_close(&p);
	return check_end(NULL);
}
