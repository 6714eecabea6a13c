// SPDX-License-Identifier: MIT
/*
 * strangers.c - a command works while another user, without rights, abuses /dev/peerdma and
 * the GPU; and when that user's processes have died, nothing of theirs is left.
 *
 *	strangers mob|hoard UID COMMAND [ARGUMENT...]
 *
 * mob: processes, their children and threads do at random all that a program can do with
 * pins, views, dma-bufs and descriptors; files go over sockets, stay in children and across
 * exec; every now and then a process is killed. hoard: one takes as much as it gets of
 * everything, and keeps it.  The command is run as the user UID.
 */
#include <linux/dma-buf.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "peerdma_test_gpu.h"
#include "peerdma_test_users.h"

#define NOBODY		4321	/* and the next one */
#define WORKERS		6
#define THREADS		3
#define NFILES		8
#define NBUFS		16
#define NPINS		64
#define NVIEWS		16
#define NGPU		6
#define HOST_PAGES	64
#define ROOM		(4 * MIB)	/* of one view */

/* ---- what a process has ---- */

static struct {
	int file;
	uint32_t handle;
	size_t length;
} pins[NPINS];
static int files[NFILES], bufs[NBUFS], mesh[2];
static char *host, *arena;
static size_t viewed[NVIEWS];
static uint64_t gpu[NGPU];
static bool has_gpu;
static volatile long *steps;	/* of all processes */

static char *view_at(unsigned int i)
{
	return arena + i * ROOM;
}

/* Accesses by the CPU, some of which fault. */
static void touch(volatile char *at, size_t length, bool write)
{
	for (size_t i = 0; i < length; i += PAGE)
		if (write ? signal_of_write(at + i, 1) : signal_of_read(at + i))
			break;
}

/* ---- descriptors ---- */

static void send_away(int socket, int fd)
{
	char c = 0, control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int take_in(int socket)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(socket, &m, MSG_DONTWAIT) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static void keep(int *at, int fd)
{
	int before = *at;

	*at = fd;
	if (before > 2)
		close(before);
}

static void descriptors(void)
{
	int *file = &files[r(NFILES)], *buf = &bufs[r(NBUFS)], fd;
	struct peerdma_info i = { .size = sizeof(i) };

	switch (r(8)) {
	case 0:
		keep(file, open("/dev/peerdma", O_RDWR | O_NONBLOCK | (r(2) ? O_CLOEXEC : 0)));
		break;
	case 1:
		if (*file > 2 && files[0] > 2)
			dup2(files[0], *file);
		break;
	case 2:
		keep(r(2) ? file : buf, -1);
		break;
	case 3:
		send_away(mesh[r(2)], r(4) ? *file : mesh[r(2)]);
		break;
	case 4:
		send_away(mesh[r(2)], *buf);
		break;
	case 5:
		fd = take_in(mesh[r(2)]);
		/* A file of the bridge's, or what may be a dma-buf. */
		if (fd >= 0)
			keep(ioctl(fd, PEERDMA_INFO, &i) ? buf : file, fd);
		break;
	default: {
		char event[4 * sizeof(struct peerdma_event)];
		struct pollfd p = { .fd = *file, .events = POLLIN };

		if (poll(&p, 1, 0) == 1)
			(void)!read(*file, r(4) ? event : NULL, r(sizeof(event) + 1));
	}
	}
}

/* ---- pins, and what is made from them ---- */

static void remember(int file, uint32_t handle, size_t length)
{
	unsigned int i = r(NPINS);

	pins[i].file = file;
	pins[i].handle = handle;
	pins[i].length = length;
}

static void pins_of_all_kinds(void)
{
	struct peerdma_pin_args a = { .size = sizeof(a), .addr = (uintptr_t)(host) + r(HOST_PAGES * PAGE), .length = 1 + r(16 * PAGE) };
	struct peerdma_pin_dmabuf_args d = { .size = sizeof(d), .fd = bufs[r(NBUFS)], .offset = r(2) * r(GPU_PAGE) };
	int file = files[r(NFILES)];

	switch (r(6)) {
	case 0:
		a.flags = r(64);
		break;
	case 1:
		a.addr = (uintptr_t)(view_at(r(NVIEWS)));
		break;
	case 2:
		if (!ioctl(file, PEERDMA_PIN_DMABUF_FD, &d))
			remember(file, d.handle, d.pinned_length);
		return;
	case 3:
	case 4:
		if (has_gpu) {
			a.addr = gpu[r(NGPU)] + r(2) * r(GPU_PAGE);
			a.flags = r(4) ? PEERDMA_PIN_DEVICE : PEERDMA_PIN_PERSISTENT;
		}
		break;
	}
	if (!ioctl(file, PEERDMA_PIN, &a))
		remember(file, a.handle, a.pinned_length);
}

static void ends(void)
{
	unsigned int i = r(NPINS);
	struct peerdma_handle_args h = { .size = sizeof(h), .handle = r(8) ? pins[i].handle : r(100) };
	unsigned long long va;

	if (has_gpu && !r(4)) {
		i = r(NGPU);
		va = gpu[i];
		gpu[i] = 0;
		if (va)
			cu.MemFree(va);
		if (!cu.MemAlloc(&va, GPU_PAGE << r(3)))
			gpu[i] = va;
		return;
	}
	ioctl(pins[i].file, r(8) ? PEERDMA_UNPIN : PEERDMA_UNMAP, &h);
}

static void exports(void)
{
	unsigned int i = r(NPINS);
	struct peerdma_export_args a = { .size = sizeof(a), .handle = pins[i].handle, .length = r(3) ? 0 : r(4) * PAGE };
	struct dma_buf_sync sync = { .flags = r(8) };

	if (!r(3))
		ioctl(bufs[r(NBUFS)], DMA_BUF_IOCTL_SYNC, &sync);
	else if (!ioctl(pins[i].file, PEERDMA_EXPORT, &a))
		keep(&bufs[r(NBUFS)], a.fd);
}

/* Any call, with any struct. */
static void nonsense(void)
{
	uint32_t a[128];

	for (unsigned int i = 0; i < 128; i++)
		a[i] = r(3) ? r(64) : r(1U << 31) << r(3);
	a[0] = r(sizeof(a));
	a[1] = pins[r(NPINS)].handle;
	ioctl(files[r(NFILES)], PEERDMA_IOC(r(10)), r(8) ? (void *)a : view_at(r(NVIEWS)));
}

static void views(void)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE, MADV_HUGEPAGE,
				      MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE };
	unsigned int i = r(NVIEWS), j = r(NVIEWS), k = r(NPINS);
	char *at = view_at(i), *to = view_at(j), byte = 1;
	struct iovec from = { &byte, 1 }, into = { at, 1 };
	size_t length = pins[k].length < MIB ? pins[k].length : MIB;
	int advised = advice[r(sizeof(advice) / sizeof(advice[0]))];

	switch (r(9)) {
	case 0:
	case 1:
	case 2:
		if (mmap(at, length, PROT_READ | (r(4) ? PROT_WRITE : 0), MAP_FIXED | MAP_SHARED | (r(2) ? MAP_POPULATE : 0),
			 r(3) ? pins[k].file : bufs[r(NBUFS)], r(3) ? PEERDMA_MMAP_PIN(pins[k].handle) : r(3) * PAGE) != MAP_FAILED)
			viewed[i] = length;
		break;
	case 3:
		mmap(at + r(8) * PAGE, (1 + r(16)) * PAGE, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		break;
	case 4:
		if (viewed[i] && mremap(at, viewed[i], viewed[i] * (1 + r(2)), MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
			mmap(at, viewed[i], PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		break;
	case 5:
		madvise(r(2) ? at : host + r(HOST_PAGES - 8) * PAGE, 8 * PAGE, advised);
		break;
	case 6:
		mprotect(at, PAGE, r(8));
		process_vm_writev(getpid(), &from, 1, &into, 1, 0);
		break;
	case 7:
		mmap(host + r(HOST_PAGES - 4) * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_FIXED | MAP_ANONYMOUS | (r(2) ? MAP_PRIVATE : MAP_SHARED), -1, 0);
		break;
	default:
		touch(at, viewed[i] < GPU_PAGE ? viewed[i] : GPU_PAGE, r(2));
	}
}

static void (*const doings[])(void) = { descriptors, descriptors, pins_of_all_kinds, pins_of_all_kinds, ends, exports, views, views,
					nonsense };

static void *thread(void *seed)
{
	random_state = (uintptr_t)seed | 1;
	for (;;) {
		doings[r(sizeof(doings) / sizeof(doings[0]))]();
		__atomic_add_fetch(steps, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* ---- processes ---- */

static char *self;

static void begin_threads(bool forked)
{
	pthread_t t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (forked)
		has_gpu = false;	/* CUDA does not survive a fork */
	if (forked && !r(3))
		unshare(CLONE_NEWUSER);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_create(&t, NULL, thread, (void *)(uintptr_t)(random_state + i));
}

/* A process with children, and theirs, that have its files; ends in a second or so, or is killed. */
static _Noreturn void process(void)
{
	unsigned int generation = 0;

	begin_threads(false);
	for (unsigned int child = 0; child < 4 && generation < 2; child++) {
		pid_t pid;

		usleep(r(200000));
		pid = fork();
		if (!pid) {
			if (!r(3))
				execl(self, self, "sleep", NULL);
			random_state += child + 1;
			generation++;
			child = 0;
			begin_threads(true);
		} else if (pid > 0 && r(2)) {
			usleep(r(100000));
			kill(pid, SIGKILL);
		}
	}
	usleep(r(500000));
	_exit(0);
}

static _Noreturn void worker(unsigned int n)
{
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, mesh));
	for (unsigned int round = 0;; round++) {
		pid_t pid = fork();

		if (!pid) {
			random_state = (uint64_t)(n + 1) << 32 | (round + 1);
			host = anonymous(HOST_PAGES * PAGE);
			arena = mmap(NULL, (NVIEWS + 1) * ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			has_gpu = r(2) && !nvidia_open();
			process();
		}
		if (round % 3 == 2) {
			usleep(300000);
			kill(pid, SIGKILL);
		}
		while (waitpid(-1, NULL, pid > 0 ? 0 : WNOHANG) > 0)
			;
	}
}

static _Noreturn int mob(int peer, void *arg)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (unsigned int i = 0; i < WORKERS; i++) {
		if (!fork()) {
			may_lock(8 * MIB);
			become(NOBODY + i % 2, 0);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			worker(i);
		}
	}
	while (__atomic_load_n(steps, __ATOMIC_RELAXED) < 5000)
		usleep(10000);
	say(peer);
	for (;;)
		pause();
}

/* As many as it gets of everything; a few pages each, of a GPU's too. */
static _Noreturn int hoard(int peer, void *arg)
{
	struct rlimit limit = { 65536, 65536 };
	struct peerdma_pin_args a, host_pin;
	struct peerdma_pin_dmabuf_args d = { .size = sizeof(d) };
	uint64_t va;
	int file, views = 0, exports = 0, pins = 0, host_pins = 0, imports = 0;

	setrlimit(RLIMIT_NOFILE, &limit);
	may_lock(8 * MIB);
	become(NOBODY, 0);
	MUST(!nvidia_open());
	va = gpu_alloc(GPU_PAGE);
	/* Before the views have taken all the mappings that a process may have. */
	host = anonymous(PAGE);
	file = dev_open();
	MUST(!pin_va(file, va, GPU_PAGE, PEERDMA_PIN_DEVICE, &a));
	while (mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, PEERDMA_MMAP_PIN(a.handle)) != MAP_FAILED)
		views++;
	d.fd = export(file, a.handle, 0, 0);
	while (export(file, a.handle, 0, 0) >= 0 && exports < 4096)
		exports++;
	while (!pin_va(file, va, GPU_PAGE, PEERDMA_PIN_DEVICE, &a))
		pins++;
	while (!pin(file, host, PAGE, PEERDMA_PIN_HOST, &host_pin) && host_pins < 4096)
		host_pins++;
	while (!ioctl(file, PEERDMA_PIN_DMABUF_FD, &d))
		imports++;
	printf("one user holds %d views, %d dma-bufs, %d pins of a GPU's memory, %d of its own, %d of a dma-buf\n",
	       views, exports, pins, host_pins, imports);
	fflush(stdout);
	/* The parent hears nothing of a child that ends here, and fails. */
	MUST(views && exports && pins);
	say(peer);
	for (;;)
		pause();
}

/* ---- the others ---- */

static int command(void *arg)
{
	char **argv = arg;
	uid_t uid = strtoul(argv[0], NULL, 10);

	if (uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		return 126;
	execvp(argv[1], argv + 1);
	return 127;
}

/* Descriptors in messages that no process can receive any more are found when a socket is closed. */
static void collect_sockets(void)
{
	int ends[2];

	for (int i = 0; i < 3; i++) {
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
		close(ends[0]);
		close(ends[1]);
		usleep(100000);
	}
}

/* By their status: what changed its user is root's in /proc. */
static bool any_process_of(uid_t uid)
{
	char path[300];
	bool found = false;
	DIR *proc = opendir("/proc");
	const struct dirent *e;

	CHECK(proc);
	while (proc && !found && (e = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%s/status", e->d_name);
		found = strtol(e->d_name, NULL, 10) > 0 && line_number(path, "Uid") == uid;
	}
	if (proc)
		closedir(proc);
	return found;
}

/* Until they are gone: what they held in messages is collected behind that. */
static void kill_all_of(uid_t uid)
{
	pid_t pid = fork();

	if (!pid) {
		become(uid, 0);
		kill(-1, SIGKILL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	CHECK(UNTIL(!any_process_of(uid)));
}

int main(int argc, char **argv)
{
	struct process abuser;
	int code;

	if (argc == 2 && !strcmp(argv[1], "sleep")) {
		usleep(300000);
		return 0;
	}
	if (argc < 4)
		return 2;
	self = argv[0];
	steps = shared_memory(PAGE);
	abuser = begin(strcmp(argv[1], "mob") ? hoard : mob, NULL);
	CHECK(hear(abuser.peer));
	code = check_in_child(command, argv + 2);
	if (code)
		printf("beside a %s, %s ends with %d\n", argv[1], argv[3], code);
	if (*steps)
		printf("%ld steps of the mob\n", *steps);
	CHECK(is_alive(&abuser));
	kill(abuser.pid, SIGKILL);
	finish(&abuser);
	for (uid_t uid = NOBODY; uid < NOBODY + 2; uid++)
		kill_all_of(uid);
	collect_sockets();
	CHECK(nothing_left(NOBODY) && nothing_left(NOBODY + 1));
	return check_end("strangers") || code;
}
