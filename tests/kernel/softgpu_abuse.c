// SPDX-License-Identifier: MIT
/* softgpu_abuse.c - files in the wrong hands, mappings, loads from device addresses. */
#include <sys/socket.h>
#include "sgraw.h"

/* -1 and errno, or 0. */
static int map_file(int fd, off_t offset, int prot, int flags)
{
	void *p = mmap(NULL, PAGE64, prot, flags, fd, offset);

	return p == MAP_FAILED ? -1 : munmap(p, PAGE64);
}

/* ---- foreign files ---- */

static void uses_a_foreign_file(void *arg)
{
	const struct gpu *g = arg;
	struct softgpu_info info;
	uint64_t va;

	EXPECT(sg_info(g->fd, &info), EPERM);
	EXPECT(sg_alloc(g->fd, g->ctx, PAGE64, &va), EPERM);
	EXPECT(ioctl(g->fd, SOFTGPU_IOC(0xff), &info) ? errno : 0, EPERM);
	FAILS(EPERM, map_file(g->fd, 0, PROT_NONE, MAP_SHARED));
}

static void inherited(struct gpu *g)
{
	struct softgpu_info info;

	CHECK(in_child(uses_a_foreign_file, g), "the child did not end well");
	EXPECT(sg_info(g->fd, &info), 0);
}

struct post {
	int ends[2];
};

/* Opens a file, sends it, and is gone before it is used. */
static void sends_its_file(void *arg)
{
	struct post *p = arg;
	struct gpu g = gpu_up(0);
	uint64_t va;

	EXPECT(sg_alloc(g.fd, g.ctx, 4 * PAGE64, &va), 0);
	pass(p->ends[1], g.fd);
}

static void passed_over_a_socket(struct gpu *g)
{
	struct softgpu_info info;
	struct gpu foreign;
	struct post p;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, p.ends));
	CHECK(in_child(sends_its_file, &p), "the child did not end well");
	foreign.fd = receive(p.ends[0]);
	foreign.ctx = 1;
	uses_a_foreign_file(&foreign);
	/* Its memory lives as long as the file. */
	MUST(!sg_info(g->fd, &info));
	CHECK(info.vram_free + 4 * PAGE64 <= info.vram_total, "freed already");
	close(foreign.fd);
	close(p.ends[0]);
	close(p.ends[1]);
}

/* The next program of the same process has nothing to do with this one's file. */
static void kept_over_exec(void *unused)
{
	struct gpu g = gpu_up(0);
	char number[12];

	snprintf(number, sizeof(number), "%d", g.fd);
	MUST(!fcntl(g.fd, F_SETFD, 0));
	execl("/proc/self/exe", "softgpu_uapi_test", number, NULL);
	MUST(!"exec");
}

int after_exec(int fd)
{
	struct gpu g = { .fd = fd, .ctx = 1 };

	uses_a_foreign_file(&g);
	FAILS(EBUSY, sg_open(0));
	close(fd);
	fd = sg_open(0);
	CHECK(fd >= 0);
	return check_end("after exec");
}

static void exec_in_child(struct gpu *g)
{
	CHECK(in_child(kept_over_exec, NULL), "see above");
}

/* ---- mappings ---- */

static void mappings(struct gpu *g)
{
	static const int prots[] = { PROT_READ, PROT_WRITE, PROT_EXEC, PROT_READ | PROT_WRITE };

	for (size_t i = 0; i < 4; i++)
		FAILS(EINVAL, map_file(g->fd, 0, prots[i], MAP_SHARED));
	/* Nothing stands at address 0, so there is nothing to show. */
	FAILS(EINVAL, map_file(g->fd, 0, PROT_NONE, MAP_PRIVATE));
	FAILS(EINVAL, map_file(g->fd, 0, PROT_NONE, MAP_SHARED));
	FAILS(EINVAL, map_file(g->fd, 4096, PROT_NONE, MAP_SHARED));
}

/* Memory of the driver's making belongs to the program, whatever becomes of the file. */
static char *memory_of(off_t what, size_t length)
{
	int fd = sg_open(0);
	char *p;

	FAILS(EINVAL, map_file(fd, what, PROT_READ, MAP_PRIVATE));
	FAILS(EINVAL, map_file(fd, what, PROT_READ | PROT_EXEC, MAP_SHARED));
	p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, what);
	MUST(p != MAP_FAILED);
	close(fd);
	CHECK(!p[0] && !p[length - 1], "not zeroed");
	FAILS(EACCES, mprotect(p, PAGE64, PROT_EXEC));
	CHECK(mremap(p, length, 2 * length, MREMAP_MAYMOVE) == MAP_FAILED, "it grew");
	return p;
}

#define WC	((off_t)SOFTGPU_MMAP_WRITE_COMBINED)

static void sets(void *byte)
{
	*(char *)byte = 1;
}

/* Write-combined host memory. */
static void host_pages(struct gpu *g)
{
	char *p = memory_of(WC, PAGE64);

	CHECK(in_child(sets, p + 1) && p[1] == 1, "a child does not share it");
	EXPECT(sg_copy(g->fd, g->ctx, PTR(p), PTR(p) + 4096, 4096, SOFTGPU_OP_SYNC), 0);
	MUST(!munmap(p, 4096) && !munmap(p + 4096, PAGE64 - 4096));
}

#define MANAGED	((off_t)SOFTGPU_MMAP_MANAGED)

/* Managed memory: as long as it was asked for. */
static void managed_memory(struct gpu *g)
{
	char *p = memory_of(MANAGED, 4 * PAGE64);

	FAILS(EINVAL, map_file(g->fd, MANAGED + 4096, PROT_READ, MAP_SHARED));
	p[4 * PAGE64 - 1] = 1;
	EXPECT(sg_copy(g->fd, g->ctx, PTR(p), PTR(p) + 4 * PAGE64 - 1, 1, SOFTGPU_OP_SYNC), 0);
	CHECK(p[0] == 1, "not copied");
	MUST(!munmap(p + PAGE64, 3 * PAGE64) && !munmap(p, PAGE64));
}

static int signal_at(uint64_t va)
{
	return signal_of_read((void *)(uintptr_t)va);
}

static void cpu_load_faults(struct gpu *g)
{
	int pipe_fds[2], mem;
	uint64_t va;
	ssize_t n;
	char byte;

	MUST(!sg_alloc(g->fd, g->ctx, 2 * PAGE64, &va));
	EXPECT(signal_at(va), SIGSEGV);
	EXPECT(signal_of_write((void *)(uintptr_t)(va + PAGE64 + 7), 1), SIGSEGV);
	CHECK(signal_at(g->window + (8ULL << 30)) == SIGSEGV, "unallocated, in the window");
	/* By way of the kernel, too. */
	MUST(!pipe(pipe_fds));
	FAILS(EFAULT, write(pipe_fds[1], (void *)(uintptr_t)va, 16));
	mem = open("/proc/self/mem", O_RDONLY);
	/* By force Linux puts a page of zeros there, as at any reserved address, or, lately, refuses; programs still reach nothing. */
	n = pread(mem, &byte, 1, (off_t)va);
	CHECK(n == 1 ? !byte : n == -1 && errno == EIO, "/proc/self/mem: %zd, %d", n, errno);
	CHECK(signal_at(va) == SIGSEGV, "load, after the kernel's");
	close(mem);
	/* Nor does locking all memory bring anything there. */
	WORKS(mlockall(MCL_CURRENT | MCL_FUTURE));
	CHECK(signal_at(va) == SIGSEGV, "load, locked");
	munlockall();
}

const struct gpu_case abuse_cases[] = {
	{ "a file inherited over fork", inherited },
	{ "a file passed over a socket", passed_over_a_socket },
	{ "a file kept over exec", exec_in_child },
	{ "mappings", mappings },
	{ "host memory of the driver's", host_pages },
	{ "managed memory of the driver's", managed_memory },
	{ "a CPU load from a device address faults", cpu_load_faults },
	{ }
};
