// SPDX-License-Identifier: MIT
/* softgpu_abuse.c - files in the wrong hands, mappings, loads from device addresses. */
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "softgpu_uapi_test.h"

/* ---- foreign files ---- */

static void uses_a_foreign_file(void *arg)
{
	const struct gpu *g = arg;
	struct softgpu_info info;
	uint64_t va;

	EXPECT(sg_info(g->fd, &info), EPERM);
	EXPECT(sg_alloc(g->fd, g->ctx, PAGE64, &va), EPERM);
	EXPECT(ioctl(g->fd, SOFTGPU_IOC(0xff), &info) ? errno : 0, EPERM);
	CHECK(mmap(NULL, PAGE64, PROT_NONE, MAP_SHARED, g->fd, 0) == MAP_FAILED && errno == EPERM,
	      "%d", errno);
}

static void inherited(struct gpu *g)
{
	struct softgpu_info info;

	CHECK(in_child(uses_a_foreign_file, g), "the child did not end well");
	EXPECT(sg_info(g->fd, &info), 0);
}

void send_fd(int socket, int fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { "x", 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space,
			      .msg_controllen = sizeof(control.space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	NEED(sendmsg(socket, &msg, 0) == 1);
}

int receive_fd(int socket)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space,
			      .msg_controllen = sizeof(control.space) };
	int fd;

	NEED(recvmsg(socket, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
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
	send_fd(p->ends[1], g.fd);
}

static void passed_over_a_socket(struct gpu *g)
{
	struct softgpu_info info;
	struct gpu foreign;
	struct post p;

	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, p.ends));
	CHECK(in_child(sends_its_file, &p), "the child did not end well");
	foreign.fd = receive_fd(p.ends[0]);
	foreign.ctx = 1;
	uses_a_foreign_file(&foreign);
	/* Its memory lives as long as the file. */
	NEED(!sg_info(g->fd, &info));
	CHECK(info.vram_free + 4 * PAGE64 <= info.vram_total, "freed already");
	close(foreign.fd);
	close(p.ends[0]);
	close(p.ends[1]);
}

/* The next program of the same process has nothing to do with this one's file. */
static void kept_over_exec(struct gpu *g)
{
	char number[12];

	snprintf(number, sizeof(number), "%d", g->fd);
	NEED(!fcntl(g->fd, F_SETFD, 0));
	execl("/proc/self/exe", "softgpu_uapi_test", number, NULL);
	NEED(!"exec");
}

int after_exec(int fd)
{
	struct gpu g = { .fd = fd, .ctx = 1 };

	uses_a_foreign_file(&g);
	CHECK(sg_open(0) == -1 && errno == EBUSY, "%d", errno);
	close(fd);
	fd = sg_open(0);
	CHECK(fd >= 0, "%d", errno);
	return test_end("after exec");
}

/* The parent of what exec'ed looks at its exit code. */
static void exec_in_child(struct gpu *g)
{
	int status;
	pid_t pid = fork();

	(void)g;
	NEED(pid >= 0);
	if (!pid) {
		struct gpu own = gpu_up(0);

		kept_over_exec(&own);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);
}

/* ---- mappings ---- */

static void mappings(struct gpu *g)
{
	static const int prots[] = { PROT_READ, PROT_WRITE, PROT_EXEC, PROT_READ | PROT_WRITE };
	size_t i;

	for (i = 0; i < 4; i++)
		CHECK(mmap(NULL, PAGE64, prots[i], MAP_SHARED, g->fd, 0) == MAP_FAILED &&
		      errno == EINVAL, "protection %d: %d", prots[i], errno);
	/* Nothing stands at address 0, so there is nothing to show. */
	CHECK(mmap(NULL, PAGE64, PROT_NONE, MAP_PRIVATE, g->fd, 0) == MAP_FAILED && errno == EINVAL,
	      "private: %d", errno);
	CHECK(mmap(NULL, PAGE64, PROT_NONE, MAP_SHARED, g->fd, 0) == MAP_FAILED && errno == EINVAL,
	      "shared: %d", errno);
	CHECK(mmap(NULL, PAGE64, PROT_NONE, MAP_SHARED, g->fd, 4096) == MAP_FAILED &&
	      errno == EINVAL, "offset: %d", errno);
}

#define WC	((off_t)SOFTGPU_MMAP_WRITE_COMBINED)

/* Write-combined host memory: the program's own, whatever becomes of the file. */
static void host_memory(struct gpu *g)
{
	int fd = sg_open(0), status;
	char *p;
	pid_t pid;

	CHECK(mmap(NULL, PAGE64, PROT_READ, MAP_PRIVATE, fd, WC) == MAP_FAILED && errno == EINVAL, "private: %d", errno);
	CHECK(mmap(NULL, PAGE64, PROT_READ | PROT_EXEC, MAP_SHARED, fd, WC) == MAP_FAILED && errno == EINVAL,
	      "executable: %d", errno);
	p = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, WC);
	NEED(p != MAP_FAILED);
	close(fd);
	CHECK(!p[0] && !p[PAGE64 - 1], "not zeroed");
	CHECK(mprotect(p, PAGE64, PROT_EXEC) && errno == EACCES, "mprotect: %d", errno);
	CHECK(mremap(p, PAGE64, 2 * PAGE64, MREMAP_MAYMOVE) == MAP_FAILED, "it grew");
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		p[1] = 1;
		_exit(0);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(!status && p[1] == 1, "a child does not share it");
	EXPECT(sg_copy(g->fd, g->ctx, PTR(p), PTR(p) + 4096, 4096, SOFTGPU_OP_SYNC), 0);
	NEED(!munmap(p, 4096) && !munmap(p + 4096, PAGE64 - 4096));
}

#define MANAGED	((off_t)SOFTGPU_MMAP_MANAGED)

/* Managed memory: as long as it was asked for, and as little the file's. */
static void managed_memory(struct gpu *g)
{
	int fd = sg_open(0);
	char *p;

	CHECK(mmap(NULL, PAGE64, PROT_READ, MAP_PRIVATE, fd, MANAGED) == MAP_FAILED && errno == EINVAL, "private: %d",
	      errno);
	CHECK(mmap(NULL, PAGE64, PROT_READ | PROT_EXEC, MAP_SHARED, fd, MANAGED) == MAP_FAILED && errno == EINVAL,
	      "executable: %d", errno);
	CHECK(mmap(NULL, PAGE64, PROT_READ, MAP_SHARED, fd, MANAGED + 4096) == MAP_FAILED && errno == EINVAL,
	      "beside it: %d", errno);
	p = mmap(NULL, 4 * PAGE64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, MANAGED);
	NEED(p != MAP_FAILED);
	close(fd);
	CHECK(!p[0] && !p[4 * PAGE64 - 1], "not zeroed");
	p[4 * PAGE64 - 1] = 1;
	CHECK(mprotect(p, PAGE64, PROT_EXEC) && errno == EACCES, "mprotect: %d", errno);
	CHECK(mremap(p, 4 * PAGE64, 8 * PAGE64, MREMAP_MAYMOVE) == MAP_FAILED, "it grew");
	EXPECT(sg_copy(g->fd, g->ctx, PTR(p), PTR(p) + 4 * PAGE64 - 1, 1, SOFTGPU_OP_SYNC), 0);
	CHECK(p[0] == 1, "not copied");
	NEED(!munmap(p + PAGE64, 3 * PAGE64) && !munmap(p, PAGE64));
}

static sigjmp_buf fault_return;
static void *volatile fault_address;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	fault_address = info->si_addr;
	siglongjmp(fault_return, sig);
}

/* The signal that touching an address gives. */
static int touch(uint64_t va, bool write)
{
	volatile char *p = (volatile char *)(uintptr_t)va;
	int sig = sigsetjmp(fault_return, 1);

	if (sig)
		return sig;
	if (write)
		*p = 1;
	else
		(void)*p;
	return 0;
}

static void cpu_load_faults(struct gpu *g)
{
	struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	int pipe_fds[2], mem;
	uint64_t va;
	ssize_t n;
	char byte;

	NEED(!sigaction(SIGSEGV, &act, NULL) && !sigaction(SIGBUS, &act, NULL));
	NEED(!sg_alloc(g->fd, g->ctx, 2 * PAGE64, &va));
	CHECK(touch(va, false) == SIGSEGV && PTR(fault_address) == va, "load");
	CHECK(touch(va + PAGE64 + 7, true) == SIGSEGV, "store");
	CHECK(touch(g->window + (8ULL << 30), false) == SIGSEGV, "unallocated, in the window");
	/* By way of the kernel, too. */
	NEED(!pipe(pipe_fds));
	CHECK(write(pipe_fds[1], (void *)(uintptr_t)va, 16) == -1 && errno == EFAULT, "write(2): %d",
	      errno);
	mem = open("/proc/self/mem", O_RDONLY);
	/* By force Linux puts a page of zeros there, as at any reserved address, or, lately, refuses; programs still reach nothing. */
	n = pread(mem, &byte, 1, (off_t)va);
	CHECK(n == 1 ? !byte : n == -1 && errno == EIO, "/proc/self/mem: %zd, %d", n, errno);
	CHECK(touch(va, false) == SIGSEGV, "load, after the kernel's");
	close(mem);
	/* Nor does locking all memory bring anything there. */
	CHECK(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall: %d", errno);
	CHECK(touch(va, false) == SIGSEGV, "load, locked");
	munlockall();
}

const struct test_case abuse_cases[] = {
	{ "a file inherited over fork", inherited },
	{ "a file passed over a socket", passed_over_a_socket },
	{ "a file kept over exec", exec_in_child },
	{ "mappings", mappings },
	{ "host memory of the driver's", host_memory },
	{ "managed memory of the driver's", managed_memory },
	{ "a CPU load from a device address faults", cpu_load_faults },
	{ NULL, NULL }
};
