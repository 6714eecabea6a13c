// SPDX-License-Identifier: MIT
/*
 * handles.c - handles of memory and signals: changed, forged, and in the hands of another user.
 *
 * usage: handles TEST
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "other.h"
#include "util.h"

#define MIB (1UL << 20)

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static void handles(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = MIB, .offset = 4096, .fill = 7), s = ASK(&o, OTHER_SIGNAL, .value = 1);
	struct peerdma_ipc_handle h = { { 0 } };
	struct peerdma_ipc_memory *m = NULL, *cached = NULL;
	struct peerdma_ipc_signal *signal;
	/* Fields, by their place in the handle: what a forger with the right checksum gets. */
	static const struct {
		const char *what;
		int at;
		int error;
	} forged[] = {
		{ "format", 8, -EPROTO }, { "a signal's", 10, -EINVAL }, { "reserved", 12, -EINVAL }, { "boot", 16, -EREMOTE },
		{ "process", 40, -EOWNERDEAD }, { "key", 48, -EKEYREJECTED }, { "key's end", 63, -EKEYREJECTED },
		{ "user", 64, -EACCES }, { "slot", 72, -EKEYREJECTED }, { "slot past the end", 74, -EINVAL },
		{ "reserved", 76, -EINVAL }, { "generation", 81, -EKEYREJECTED }, { "range", 91, -EINVAL }, { "length", 99, -EINVAL },
		{ "length wraps", 103, -EINVAL }, { "reserved", 104, -EINVAL }, { "reserved", 119, -EINVAL },
	};
	int wrong = 0, ret;

	CHECK(!a.ret && !s.ret, "something to open");
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(h); i++) {
			for (int bit = 0; bit < 8; bit++) {
				h = a.handle;
				h.bytes[i] ^= (unsigned char)(1 << bit);
				wrong += OPEN(&h, &m) != -EINVAL;
			}
		}
		CHECK(!wrong, "every bit of a handle turned round: -EINVAL (%s)", round ? "opened before" : "not opened yet");
		for (size_t size = 0; size < sizeof(h); size++)
			wrong += peerdma_ipc_open(&a.handle, size, 0, &m) != -EINVAL;
		wrong += peerdma_ipc_open(&a.handle, sizeof(h) + 1, 0, &m) != -EINVAL;
		CHECK(!wrong, "every other length: -EINVAL");
		for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
			h = a.handle;
			h.bytes[forged[i].at] ^= forged[i].at == 10 ? 3 : 0x80;
			handle_sign(&h);
			ret = OPEN(&h, &m);
			CHECK(ret == forged[i].error, "forged, %s: %d", forged[i].what, ret);
		}
		if (!round)
			CHECK(!OPEN(&a.handle, &cached), "the true one opens");
	}
	CHECK(peerdma_ipc_open(NULL, 0, 0, &m) == -EINVAL, "no handle");
	CHECK(peerdma_ipc_open(&a.handle, sizeof(h), 1, &m) == -EINVAL, "unknown flags");
	CHECK(peerdma_ipc_open(&a.handle, sizeof(h), 0, NULL) == -EINVAL, "nowhere to put it");
	CHECK(OPEN(&s.handle, &m) == -EINVAL, "a signal is no memory");
	CHECK(peerdma_ipc_signal_open(&a.handle, sizeof(h), &signal) == -EINVAL, "memory is no signal");
	CHECK(peerdma_ipc_unexport(&a.handle) == -EINVAL, "another's export is not taken back");
	CHECK(peerdma_ipc_valid(cached), "nothing of this ended what is open");
	peerdma_ipc_close(cached);
	other_end(&o, SIGKILL);
}

/* A process of another user, with and without leave. */
static void users(void)
{
	struct other o, stranger;
	struct other_answer a, b, c;

	if (getuid()) {
		printf("skipped: only root can be another user\n");
		exit(77);
	}
	o = other_make(1000);
	stranger = other_make(1001);
	a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 4);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(!a.ret && b.ret == -EACCES, "another user: %d", b.ret);
	ASK(&o, OTHER_FREE);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(b.ret == -EACCES, "also of what was freed: it learns no more: %d", b.ret);
	a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 6, .flags = PEERDMA_IPC_ANY_USER);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(!a.ret && !b.ret && b.value == 6, "with leave and the key: %d", b.ret);
	c = a;
	c.handle.bytes[50] ^= 1;
	handle_sign(&c.handle);
	b = ASK(&stranger, OTHER_OPEN, .handle = c.handle);
	CHECK(b.ret == -EKEYREJECTED, "a guess, where it is open: %d", b.ret);
	other_end(&stranger, SIGKILL);
	stranger = other_make(1001);
	b = ASK(&stranger, OTHER_OPEN, .handle = c.handle);
	CHECK(b.ret == -EACCES, "a guess: %d", b.ret);
	a = ASK(&o, OTHER_SIGNAL, .value = 3);
	b = ASK(&stranger, OTHER_OPEN_SIGNAL, .handle = a.handle);
	CHECK(!a.ret && b.ret == -EACCES, "a signal: %d", b.ret);
	a = ASK(&o, OTHER_SIGNAL, .value = 3, .flags = PEERDMA_IPC_ANY_USER);
	b = ASK(&stranger, OTHER_OPEN_SIGNAL, .handle = a.handle);
	CHECK(!a.ret && !b.ret && ASK(&stranger, OTHER_GET).value == 3, "with leave: %d", b.ret);
	ASK(&stranger, OTHER_SET, .value = 8);
	CHECK(!ASK(&o, OTHER_WAIT, .value = 8).ret, "and it works");
	other_end(&stranger, SIGKILL);
	other_end(&o, SIGKILL);
}

/* ---- a mapping that can only be read ---- */

static struct {
	_Atomic int exported;		/* 1: not yet */
	struct peerdma_ipc_handle handle;
	int opened, reopened, mapped, written;
} *shared;

static int received[2] = { -1, -1 };	/* descriptors that came, as a process that means harm keeps them */

/* The library's, too: it is the first of its name. */
ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = syscall(SYS_recvmsg, fd, msg, flags);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(msg) : NULL;
	int came[2];

	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(came))) {
		memcpy(came, CMSG_DATA(c), sizeof(came));
		for (int i = 0; i < 2; i++)
			received[i] = dup(came[i]);
	}
	return n;
}

static void open_to_write(void)
{
	struct peerdma_ipc_memory *m;
	char path[64];
	int fd;

	shared->opened = OPEN(&shared->handle, &m);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", received[1]);
	fd = open(path, O_RDWR);
	shared->reopened = fd < 0 ? -errno : 0;
	shared->mapped = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd < 0 ? received[1] : fd, 0) == MAP_FAILED ? -errno : 0;
	shared->written = pwrite(fd < 0 ? received[1] : fd, "x", 1, 0) < 0 ? -errno : 0;
}

/* A child as that user does it, and ends; or goes on until it is killed. */
static pid_t as(uid_t uid, void (*fn)(void *), void *arg, bool ends)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setgid(1000) || setuid(uid))
			_exit(1);
		fn(arg);
		while (!ends)
			pause();
		_exit(0);
	}
	if (ends)
		waitpid(pid, NULL, 0);
	return pid;
}

struct file {
	int fd;				/* -1: the exporter makes it */
	int seals;
	mode_t mode;
};

static void export_to_read(void *arg)
{
	struct file *f = arg;
	char *p;

	if (f->fd < 0)
		f->fd = memfd_create("to be read", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	p = ftruncate(f->fd, 4096) || fcntl(f->fd, F_ADD_SEALS, f->seals) || (f->mode && fchmod(f->fd, f->mode)) ? NULL :
	    mmap(NULL, 4096, PROT_READ, MAP_SHARED, f->fd, 0);
	shared->exported = peerdma_ipc_export(p, 4096, PEERDMA_IPC_ANY_USER | PEERDMA_IPC_I_UNEXPORT, &shared->handle);
}

static void attack(void *unused)
{
	open_to_write();
}

static int try_to_write(struct file f)
{
	pid_t exporter;

	shared->exported = 1;
	exporter = as(1000, export_to_read, &f, false);
	while (shared->exported == 1)
		usleep(1000);
	if (!shared->exported)
		as(1001, attack, NULL, true);
	kill(exporter, SIGKILL);
	waitpid(exporter, NULL, 0);
	return shared->exported;
}

static void read_only(void)
{
	int ret, roots;

	if (getuid()) {
		printf("skipped: only root can be another user\n");
		exit(77);
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 3; i++) {
		struct file f = { .fd = -1, .seals = F_SEAL_SHRINK | (i == 1 ? F_SEAL_FUTURE_WRITE : 0), .mode = i == 2 ? 0666 : 0 };

		ret = try_to_write(f);
		CHECK(!ret && !shared->opened, "%s: exported, and opened by another user", i == 1 ? "sealed" : i ? "mode 0666" : "mode 0777");
		CHECK(shared->reopened == -EACCES || (i == 1 && shared->written == -EPERM), "opening its file for writing: %d", shared->reopened);
		CHECK(shared->mapped && shared->written, "mapping it for writing: %d; writing: %d", shared->mapped, shared->written);
	}
	/* The group that both are of, too. */
	roots = memfd_create("root's", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(try_to_write((struct file) { .fd = roots, .seals = F_SEAL_SHRINK }) == -EOPNOTSUPP,
	      "a file of which the exporter cannot forbid others to write is not exported");
	fchmod(roots, 0644);
	CHECK(try_to_write((struct file) { .fd = roots, .seals = F_SEAL_SHRINK }) == -EOPNOTSUPP, "nor one that its owner may write, another user");
	roots = memfd_create("root's", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(!try_to_write((struct file) { .fd = roots, .seals = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE }) && !shared->opened &&
	      shared->mapped && shared->written, "unless it is sealed");
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "handles", handles }, { "users", users }, { "read-only", read_only },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
