// SPDX-License-Identifier: MIT
/* view_doors_calls.c - system calls that use or keep the pages behind an address: see view_doors.h */
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "view_doors.h"

/* Newer than Debian 12's headers. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL	102
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif
#define WP_ASYNC		(1 << 15)	/* UFFD_FEATURE_WP_ASYNC */

static char buffer[16384] __attribute__((aligned(4096)));
static int disk, uprobe_errno[2];

/* The view is as it was: readable and writable. */
static void still_works(char *view)
{
	CHECK(signal_of_read(view) == 0 && view[0] == OWNED && view[VIEW_LENGTH - 1] == OWNED);
	CHECK(signal_of_write(view, OWNED) == 0);
}

/* ---- the process's own memory, as seen by others ---- */

static void process_vm(char *view)
{
	struct iovec far = { view, 16 }, near = { buffer, 16 };

	FAILS(EFAULT, process_vm_readv(getpid(), &near, 1, &far, 1, 0));
	FAILS(EFAULT, process_vm_writev(getpid(), &near, 1, &far, 1, 0));
	still_works(view);
}

static void proc_mem(char *view)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0 && pread(fd, buffer, 16, (off_t)(uintptr_t)buffer) == 16);
	FAILS(EIO, pread(fd, buffer, 16, (off_t)(uintptr_t)view));
	FAILS(EIO, pwrite(fd, buffer, 16, (off_t)(uintptr_t)view));
	close(fd);
	still_works(view);
}

static int trace(void *view)
{
	pid_t parent = getppid();

	CHECK(!ptrace(PTRACE_ATTACH, parent, NULL, NULL) && waitpid(parent, NULL, __WALL) == parent);
	errno = 0;
	CHECK(ptrace(PTRACE_PEEKDATA, parent, buffer, NULL) != -1 || !errno);
	FAILS(EIO, ptrace(PTRACE_PEEKDATA, parent, view, NULL));
	FAILS(EIO, ptrace(PTRACE_POKEDATA, parent, view, NULL));
	CHECK(!ptrace(PTRACE_DETACH, parent, NULL, NULL));
	return 0;
}

static void traced(char *view)
{
	CHECK(check_in_child(trace, view) == 0);
	still_works(view);
}

/* ---- calls that hold pages while a device or another file uses them ---- */

static void spliced(char *view)
{
	struct iovec part = { view, PAGE };
	int ends[2];

	CHECK(!pipe(ends));
	NO_PAGES(vmsplice(ends[1], &part, 1, 0));
	NO_PAGES(vmsplice(ends[1], &part, 1, SPLICE_F_GIFT));
	close(ends[0]);
	close(ends[1]);
	still_works(view);
}

static void direct(char *view)
{
	CHECK(pread(disk, buffer, PAGE, 0) == (ssize_t)PAGE);
	NO_PAGES(pread(disk, view, PAGE, 0));
	NO_PAGES(pwrite(disk, view, PAGE, 0));
	still_works(view);
}

static void registered(char *view)
{
	struct io_uring_params params = { 0 };
	int ring = (int)syscall(SYS_io_uring_setup, 4, &params);
	struct iovec part = { buffer, PAGE };

	CHECK(ring >= 0);
	WORKS(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &part, 1));
	WORKS(syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0));
	part.iov_base = view;
	NO_PAGES(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &part, 1));
	close(ring);
	still_works(view);
}

static void zerocopy(char *view)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;

	CHECK(s >= 0 && !setsockopt(s, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)));
	CHECK(sendto(s, buffer, PAGE, MSG_ZEROCOPY, (struct sockaddr *)&to, sizeof(to)) == (ssize_t)PAGE);
	NO_PAGES(sendto(s, view, PAGE, MSG_ZEROCOPY, (struct sockaddr *)&to, sizeof(to)));
	close(s);
	still_works(view);
}

/* ---- watching and moving pages ---- */

/* With WP_ASYNC, kernels since 6.7 watch other memory than their own, too, but no driver's. */
static void watch(char *view, uint64_t features)
{
	static const uint64_t modes[] = { UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER_MODE_WP, UFFDIO_REGISTER_MODE_MINOR };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API, .features = features };

	CHECK(fd >= 0);
	if (ioctl(fd, UFFDIO_API, &api)) {
		CHECK(features);
	} else {
		for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
			struct uffdio_register r = { .range = { (uintptr_t)view, VIEW_LENGTH }, .mode = modes[i] };

			FAILS(EINVAL, ioctl(fd, UFFDIO_REGISTER, &r));
		}
	}
	close(fd);
}

static void faulted(char *view)
{
	watch(view, 0);
	watch(view, WP_ASYNC);
	still_works(view);
}

static const char *no_probes(void)
{
	return access("/sys/bus/event_source/devices/uprobe", F_OK) ? "this kernel has no uprobes" : NULL;
}

static int probe(const char *path)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .uprobe_path = (uintptr_t)path };
	int fd;

	attr.type = (uint32_t)file_number("/sys/bus/event_source/devices/uprobe/type");
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? errno : 0;
}

/* Only root may; it has tried. */
static void probed(char *view)
{
	CHECK(uprobe_errno[0] == 0 && uprobe_errno[1] == EINVAL);
	still_works(view);
}

static void moved_pages(char *view)
{
	unsigned long nodes = 1;
	void *page = view;
	int node = 0, status = 0;

	WORKS(syscall(SYS_move_pages, 0, 1UL, &page, &node, &status, MPOL_MF_MOVE));
	CHECK(status < 0);
	WORKS(syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0));
	CHECK(status < 0);
	WORKS(syscall(SYS_mbind, view, VIEW_LENGTH, MPOL_BIND, &nodes, 64UL, MPOL_MF_MOVE));
	still_works(view);
}

/* What walks over page tables takes no entry of the view for a page. */
static void walked(char *view)
{
	static const char *const tables[] = { "smaps", "numa_maps", "pagemap", "smaps_rollup" };
	static const char *const clear[] = { "1", "3", "4" };
	char path[64];
	unsigned char in[VIEW_LENGTH / 4096];
	int fd;

	for (size_t i = 0; i < 3; i++)
		must_write(clear[i], "/proc/self/clear_refs");
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "/proc/self/%s", tables[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		CHECK(fd >= 0);
		if (i == 2)
			CHECK(pread(fd, buffer, 256, (off_t)((uintptr_t)view / PAGE * 8)) == 256);
		else
			while (read(fd, buffer, sizeof(buffer)) > 0)
				;
		close(fd);
	}
	WORKS(mincore(view, VIEW_LENGTH, in));
	still_works(view);
}

/* ---- the area ---- */

static const struct {
	int advice, error;	/* -1: either way */
} advices[] = {
	{ MADV_DONTNEED, 0 }, { MADV_FREE, EINVAL }, { MADV_REMOVE, -1 }, { MADV_DODUMP, EINVAL },
	{ MADV_DONTDUMP, 0 }, { MADV_WIPEONFORK, EINVAL }, { MADV_MERGEABLE, -1 }, { MADV_HUGEPAGE, -1 },
	{ MADV_COLLAPSE, EINVAL }, { MADV_COLD, 0 }, { MADV_PAGEOUT, 0 }, { MADV_WILLNEED, -1 },
	{ MADV_POPULATE_READ, 0 }, { MADV_POPULATE_WRITE, 0 }, { MADV_GUARD_INSTALL, EINVAL }, { MADV_DONTFORK, 0 },
};

static void advised(char *view)
{
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		int error = madvise(view, VIEW_LENGTH, advices[i].advice) ? errno : 0;

		CHECK(advices[i].error < 0 || error == advices[i].error, "madvise %d: %s", advices[i].advice, strerror(error));
		still_works(view);
	}
	WORKS(mlock(view, VIEW_LENGTH));
	still_works(view);
}

/* Neither frames for all (pf), nor for callers that ask for device memory (io); no copies, no dump. */
static void flags(char *view)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512], *end;
	bool in = false, seen = false;

	CHECK(f);
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from = strtoul(line, &end, 16);

		if (*end == '-')
			in = from == (uintptr_t)view;
		else if (in && !strncmp(line, "VmFlags:", 8)) {
			seen = true;
			CHECK(strstr(line, " mm ") && strstr(line, " de ") && strstr(line, " dd ") && strstr(line, " dc "));
			CHECK(!strstr(line, " pf ") && !strstr(line, " io "));
		}
	}
	CHECK(seen);
	if (f)
		fclose(f);
}

static char *elsewhere;

static void moved(char *view)
{
	char *to = mmap(NULL, 2 * VIEW_LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(to != MAP_FAILED);
	/* Longer, twice, or with the old place left to fill: no. */
	CHECK(mremap(view, VIEW_LENGTH, 2 * VIEW_LENGTH, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
	CHECK(mremap(view, 0, VIEW_LENGTH, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
	CHECK(mremap(view, VIEW_LENGTH, VIEW_LENGTH, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) == MAP_FAILED && errno == EINVAL);
	/* A part elsewhere; the split is two areas of one view. */
	elsewhere = mremap(view + VIEW_LENGTH / 2, VIEW_LENGTH / 2, VIEW_LENGTH / 2, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	CHECK(elsewhere == to && elsewhere[0] == OWNED && view[0] == OWNED);
	/* The caller unmaps the view as a whole: the rest of it stays with the first half. */
	elsewhere[0] = OWNED;
	CHECK(mmap(view + VIEW_LENGTH / 2, VIEW_LENGTH / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	      view + VIEW_LENGTH / 2);
}

static void moved_after(char *view)
{
	CHECK(signal_of_read(elsewhere) == SIGBUS && signal_of_write(elsewhere, OWNED) == SIGBUS);
	CHECK(!munmap(elsewhere, VIEW_LENGTH / 2));
}

/* ---- children ---- */

static struct process child;
static bool inherits;

/* Touches the view each time that it is asked to. */
static int touches(int peer, void *view)
{
	char c;

	while (hear(peer)) {
		c = (char)signal_of_read(view);
		CHECK(write(peer, &c, 1) == 1);
	}
	return 0;
}

static int child_gets(void)
{
	char c = 0;

	say(child.peer);
	CHECK(read(child.peer, &c, 1) == 1);
	return c;
}

/* Linux 7.2 refuses that a view be inherited. */
static void inherited(char *view)
{
	inherits = !madvise(view, VIEW_LENGTH, MADV_DOFORK);
	CHECK(inherits || errno == EINVAL);
	child = begin(touches, view);
	CHECK(child_gets() == (inherits ? 0 : SIGSEGV));
	still_works(view);
}

static void inherited_after(char *view)
{
	CHECK(child_gets() == (inherits ? SIGBUS : SIGSEGV));
	CHECK(finish(&child) == 0);
}

/* ---- as root ---- */

void doors_of_calls_prepare(const char *path)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	WORKS(ioctl(s, SIOCSIFFLAGS, &lo));
	close(s);
	disk = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	CHECK(disk >= 0);
	/* A file that may have a probe, and one with views. */
	uprobe_errno[0] = probe("/bin/true");
	uprobe_errno[1] = probe("/dev/peerdma");
}

const struct door doors_of_calls[] = {
	{ "flags of the area", NULL, flags, NULL },
	{ "process_vm_readv, process_vm_writev", NULL, process_vm, NULL },
	{ "/proc/PID/mem", NULL, proc_mem, NULL },
	{ "ptrace", NULL, traced, NULL },
	{ "vmsplice", NULL, spliced, NULL },
	{ "O_DIRECT", NULL, direct, NULL },
	{ "io_uring's buffers", NULL, registered, NULL },
	{ "MSG_ZEROCOPY", NULL, zerocopy, NULL },
	{ "userfaultfd", NULL, faulted, NULL },
	{ "uprobes", no_probes, probed, NULL },
	{ "move_pages, mbind", NULL, moved_pages, NULL },
	{ "walks over page tables", NULL, walked, NULL },
	{ "madvise, mlock", NULL, advised, NULL },
	{ "mremap", NULL, moved, moved_after },
	{ "fork", NULL, inherited, inherited_after },
	{ }
};
