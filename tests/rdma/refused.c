// SPDX-License-Identifier: MIT
/*
 * refused.c - what a program without rights may not register, and by which errno it learns that.
 *
 *	refused ADAPTER peer|nobody|files	GPU addresses, where a peer-memory client is there, or none; dma-bufs
 *
 * It becomes user 1000 first.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/cuda_calls.h"
#include "memory.h"
#include "pair.h"

#define MIB (1UL << 20)
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct pair p;
static int failures;

/* error: of the registration; 0: it succeeds. */
static void result(const char *what, struct ibv_mr *mr, int error)
{
	int got = mr ? 0 : errno;

	if (got != error) {
		printf("not ok: %s: %s, expected %s\n", what, strerror(got), strerror(error));
		failures++;
	}
	if (mr && ibv_dereg_mr(mr))
		die("ibv_dereg_mr");
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

	if (ibv_query_device_ex(p.device, NULL, &attr))
		die("ibv_query_device_ex");
	return attr.odp_caps.general_caps & IBV_ODP_SUPPORT ? 0 : EOPNOTSUPP;
}

static void addresses(int peer)
{
	struct memory a, b, host;
	pid_t child;
	int status;

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
	reg_by_kernel("on demand", a.addr, RW | IBV_ACCESS_ON_DEMAND, EINVAL, EOPNOTSUPP);
	if (pages_on_demand()) {
		printf("there is paging on demand\n");
		reg("the host's memory on demand", host.addr, MIB, RW | IBV_ACCESS_ON_DEMAND, 0);
	}
	reg("remote write without local write", a.addr, a.size, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	reg("relaxed ordering", a.addr, a.size, RW | IBV_ACCESS_RELAXED_ORDERING, peer ? 0 : EFAULT);
	reg("windows", a.addr, a.size, RW | IBV_ACCESS_MW_BIND, peer ? 0 : EFAULT);
	reg_by_kernel("from address 0", a.addr, RW | IBV_ACCESS_ZERO_BASED, peer ? 0 : EFAULT, EOPNOTSUPP);
	reg_by_kernel("huge pages", a.addr, RW | IBV_ACCESS_HUGETLB, peer ? 0 : EFAULT, EOPNOTSUPP);
	reg("the kernel's addresses", 0xffff888000000000UL, 4096, RW, EFAULT);
	fflush(stdout);
	child = fork();
	if (!child) {
		failures = 0;
		reg("the parent's GPU memory", a.addr, a.size, RW, EFAULT);
		fflush(stdout);
		_exit(!!failures);
	}
	if (waitpid(child, &status, 0) != child || status)
		failures++;
	memory_free(&a);
	reg("freed", a.addr, a.size, RW, EFAULT);
	if (b.addr == a.addr + a.size)
		reg("half of it freed", a.addr, 2 * a.size, RW, EFAULT);
	if (a.addr == b.addr + b.size)
		reg("half of it freed", b.addr, 2 * b.size, RW, EFAULT);
	memory_free(&b);
	memory_free(&host);
}

static void dmabuf(const char *what, int fd, uint64_t offset, size_t size, uint64_t iova, int access, int error)
{
	errno = 0;
	result(what, ibv_reg_dmabuf_mr(p.pd, offset, size, iova, fd, access), error);
}

static void files(void)
{
	struct memory m;
	int fd = (int)syscall(SYS_memfd_create, "x", 0), ends[2];

	if (fd < 0 || ftruncate(fd, MIB) || pipe(ends))
		die("files");
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
	dmabuf("wrapping addresses", fd, 0, MIB, -4096UL, RW, 0);
	dmabuf("on demand", fd, 0, MIB, 0, RW | IBV_ACCESS_ON_DEMAND, EINVAL);
	dmabuf("windows", fd, 0, MIB, 0, RW | IBV_ACCESS_MW_BIND, EINVAL);
	dmabuf("remote write without local write", fd, 0, MIB, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	memory_free(&m);
	close(fd);
	memory_alloc(&m, MEMORY_EXPORT, 4 * MIB);
	fd = memory_export(&m);
	memory_free(&m);
	dmabuf("a dma-buf whose memory was freed", fd, 0, MIB, 0, RW, ESTALE);
	close(fd);
	memory_release(&m);
}

/* A window on a region of another protection domain, which is another's as a rule. */
static void window(void)
{
	struct ibv_pd *other = ibv_alloc_pd(p.device);
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct memory host;
	struct ibv_mw_bind bind = { .wr_id = 7, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	enum ibv_wc_status status;

	memory_alloc(&host, MEMORY_HOST, MIB);
	mr = ibv_reg_mr(other, (void *)(uintptr_t)host.addr, MIB, RW | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_1);
	if (!mr || !mw)
		die("window");
	/* The library compares the domains; the kernel must, too. */
	mr->pd = p.pd;
	bind.bind_info = (struct ibv_mw_bind_info){ .mr = mr, .addr = host.addr, .length = MIB, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	errno = ibv_bind_mw(p.qp[0], mw, &bind);
	if (errno)
		die("ibv_bind_mw");
	status = pair_wait(&p, 0, &wc);
	if (status == IBV_WC_SUCCESS) {
		printf("not ok: a window on a region of another protection domain\n");
		failures++;
	}
	mr->pd = other;
	if (ibv_dealloc_mw(mw) || ibv_dereg_mr(mr) || ibv_dealloc_pd(other))
		die("window's end");
	pair_connect(&p);
	memory_free(&host);
}

/* ---- work requests, which the program writes into memory that it shares with the kernel ---- */

#define OURS 0x5e0f5e0f5e0f5e0fUL

static struct forged {
	uint32_t opcode;
	uint64_t pointer;	/* where the kernel's own requests have one */
} *forged;

/* In the send queue, as rdma_user_rxe.h has them: wr_id, reserved, opcode, send_flags, immediate, and what depends on the opcode. */
static void forge(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[400];
	uint64_t *at, *end;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "uverbs") || sscanf(line, "%lx-%lx", (unsigned long *)&at, (unsigned long *)&end) != 2)
			continue;
		for (; at < end - 4; at++)
			if (*at == OURS) {
				((uint32_t *)at)[3] = forged->opcode;
				at[3] = forged->pointer;
				forged = NULL;
				fclose(maps);
				return;
			}
	}
	die("no request in the send queue");
}

/* The provider's doorbell. */
ssize_t write(int fd, const void *buffer, size_t size)
{
	if (forged && p.device && fd == p.device->cmd_fd)
		forge();
	return syscall(SYS_write, fd, buffer, size);
}

static void requests(void)
{
	struct forged all[] = { { 0x20, 0x4141414141414141 }, { 0x7ffffff0, 0 }, { 0xfffffff0, 0 } };
	struct memory host;
	struct ibv_mr *mr;
	size_t i;

	memory_alloc(&host, MEMORY_HOST, MIB);
	mr = memory_register(&host, p.pd);
	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct request r = { .opcode = IBV_WR_RDMA_WRITE, .local = mr, .local_addr = host.addr, .length = 8,
				     .remote_addr = host.addr, .rkey = mr->rkey, .id = OURS };

		forged = &all[i];
		if (pair_do(&p, &r) == IBV_WC_SUCCESS || forged) {
			printf("not ok: request of kind %#x\n", all[i].opcode);
			failures++;
		}
		pair_connect(&p);
	}
	if (ibv_dereg_mr(mr))
		die("ibv_dereg_mr");
	memory_free(&host);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: refused ADAPTER peer|nobody|files");
	if (setgid(1000) || setuid(1000))
		die("setuid");
	pair_open(&p, argv[1], 0);
	if (!strcmp(argv[2], "files")) {
		files();
	} else {
		addresses(!strcmp(argv[2], "peer"));
		window();
		requests();
	}
	pair_close(&p);
	printf("%d failures\n", failures);
	return !!failures;
}
