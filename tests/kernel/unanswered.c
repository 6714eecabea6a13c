// SPDX-License-Identifier: MIT
/* unanswered.c - see unanswered.h */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unanswered.h"

#define FILE_NODE	2	/* the root is FUSE_ROOT_ID, 1 */
#define REQUEST_ROOM	(128 * 1024)

/* ---- the server ---- */

struct server {
	int fd;
	size_t length;		/* of the file */
	volatile uint32_t *reads;
};

static void reply(const struct server *s, uint64_t unique, int error, void *body, size_t size)
{
	struct fuse_out_header out = { .len = sizeof(out) + size, .error = -error, .unique = unique };
	struct iovec parts[] = { { &out, sizeof(out) }, { body, size } };

	if (writev(s->fd, parts, 2) < 0 && errno != ENOENT)
		_exit(1);
}

static struct fuse_attr attributes(const struct server *s, uint64_t node)
{
	struct fuse_attr a = { .ino = node, .nlink = 1, .uid = getuid(), .gid = getgid(), .blksize = 4096 };

	a.mode = node == FILE_NODE ? S_IFREG | 0600 : S_IFDIR | 0700;
	a.size = node == FILE_NODE ? s->length : 0;
	return a;
}

static void answer(const struct server *s, const struct fuse_in_header *in)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096 };
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = 3600 };
	struct fuse_attr_out attr = { .attr_valid = 3600 };
	struct fuse_open_out opened = { .fh = 1 };

	switch (in->opcode) {
	case FUSE_INIT:
		reply(s, in->unique, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		entry.attr = attributes(s, FILE_NODE);
		reply(s, in->unique, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		attr.attr = attributes(s, in->nodeid);
		reply(s, in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		reply(s, in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		__atomic_fetch_add(s->reads, 1, __ATOMIC_SEQ_CST);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		reply(s, in->unique, 0, NULL, 0);
		break;
	default:
		reply(s, in->unique, EOPNOTSUPP, NULL, 0);
	}
}

static void serve(const struct server *s)
{
	static char request[REQUEST_ROOM] __attribute__((aligned(8)));

	for (;;) {
		if (read(s->fd, request, sizeof(request)) > 0)
			answer(s, (struct fuse_in_header *)request);
		else if (errno != EINTR && errno != EAGAIN && errno != ENOENT)
			_exit(0);
	}
}

/* ---- the process that maps ---- */

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* A user namespace in which the process keeps its ids and may mount. */
static int enter_namespaces(void)
{
	char users[64], groups[64];
	int err;

	snprintf(users, sizeof(users), "%u %u 1", getuid(), getuid());
	snprintf(groups, sizeof(groups), "%u %u 1", getgid(), getgid());
	/* After a change of user ids the process may not write its own maps else. */
	if (prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return -errno;
	err = write_file("/proc/self/setgroups", "deny");
	if (!err)
		err = write_file("/proc/self/uid_map", users);
	return err ? err : write_file("/proc/self/gid_map", groups);
}

static int start(struct unanswered *u, size_t length, volatile uint32_t *reads)
{
	struct server s = { .length = length, .reads = reads };
	char options[128];
	int err = 0;

	s.fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (s.fd < 0)
		return -errno;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", s.fd, getuid(), getgid());
	if (mount("unanswered", u->mount, "fuse", MS_NOSUID | MS_NODEV, options)) {
		err = -errno;
		goto close;
	}
	u->server = fork();
	if (!u->server)
		serve(&s);
	if (u->server < 0)
		err = -errno;
close:
	/* The server's is the only one then: when it dies, the kernel ends the file system. */
	close(s.fd);
	return err;
}

static int map(struct unanswered *u, size_t length)
{
	char path[64];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/file", u->mount);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Private: newer kernels refuse to pin a file's shared pages for long. */
	u->memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (u->memory == MAP_FAILED)
		err = -errno;
	close(fd);
	return err;
}

volatile uint32_t *unanswered_counter(void)
{
	void *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return counter == MAP_FAILED ? NULL : counter;
}

int unanswered_begin(struct unanswered *u, size_t length, volatile uint32_t *reads)
{
	int err;

	memset(u, 0, sizeof(*u));
	strcpy(u->mount, "/tmp/unanswered-XXXXXX");
	if (!mkdtemp(u->mount))
		return -errno;
	err = enter_namespaces();
	if (!err)
		err = start(u, length, reads);
	if (!err)
		err = map(u, length);
	if (err)
		unanswered_end(u);
	return err;
}

void unanswered_end(struct unanswered *u)
{
	if (u->server > 0) {
		kill(u->server, SIGKILL);
		waitpid(u->server, NULL, 0);
	}
	umount2(u->mount, MNT_DETACH);
	rmdir(u->mount);
	u->server = 0;
}
