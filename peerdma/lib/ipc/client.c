// SPDX-License-Identifier: MIT
/*
 * client.c - asks an exporter. The exporter's address contains 128 random bits, so that no later
 * process has the same address by chance. The kernel reports the user of the process that listens
 * there, so that a process of another user that took the address is detected.
 */
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc.h"

#define TIMEOUT_MS 10000

static int ended(const struct ipc_name *name)
{
	return fail(-EOWNERDEAD, "no process answers for the exporter (pid %u): it has ended, or is in another network namespace "
		    "(another container)", name->pid);
}

static int slow(const struct ipc_name *name)
{
	return fail(-ETIMEDOUT, "the exporter (pid %u) did not answer within %d s: it is stopped, or out of file descriptors",
		    name->pid, TIMEOUT_MS / 1000);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int connect_to(const struct ipc_name *name, int64_t until, struct own_fd *conn)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(cred);
	struct sockaddr_un address;
	socklen_t length = ipc_address(&name->process, &address);
	struct own_fd made;
	int fd = ipc_socket(), ret;

	made = own_fd(fd);
	if (fd < 0)
		return fail(fd, "socket: %s", error_words(fd));
	/* EAGAIN: its queue of connections is full. */
	while (connect(fd, (struct sockaddr *)&address, length)) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN) {
			ret = errno == ECONNREFUSED || errno == ENOENT ? ended(name) : errno == EPERM || errno == EACCES ?
			      fail(-EACCES, "connect: %s; a security module keeps this process from the exporter (pid %u)",
				   strerror(errno), name->pid) : fail(-errno, "connect: %s", strerror(errno));
			goto close;
		}
		if (now_ms() >= until) {
			ret = slow(name);
			goto close;
		}
		poll(NULL, 0, 1);
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) || cred.uid != name->uid) {
		ret = fail(-EACCES, "a process of user %d answers for the exporter, but the handle is of user %u: it is not the "
			   "exporter", (int)cred.uid, name->uid);
		goto close;
	}
	*conn = made;
	return 0;
close:
	ipc_close_socket(&made);
	return ret;
}

static int refused(const struct ipc_name *name, int error)
{
	switch (error) {
	case -EACCES:
		return fail(-EACCES, "the exporter (pid %u, user %u) does not let user %u open it; export it with "
			    "PEERDMA_IPC_ANY_USER, or open it as that user", name->pid, name->uid, (unsigned int)geteuid());
	case -EKEYREJECTED:
		return fail(-EKEYREJECTED, "the key in the handle is not that of anything that pid %u exports; "
			    "get the handle from the exporter", name->pid);
	case -ESTALE:
		return fail(-ESTALE, "the exporter (pid %u) has freed it, or ended the export; get a new handle", name->pid);
	case -EBUSY:
		return fail(-EBUSY, "the exporter (pid %u) has reached its limit of connections, of this user or in all; try again later",
			    name->pid);
	case -ENOMEM:
		return fail(-ENOMEM, "the exporter (pid %u) is out of memory", name->pid);
	default:
		return fail(-EPROTO, "the exporter (pid %u) answered in another format; use one release of libpeerdma on both sides",
			    name->pid);
	}
}

static int await(const struct ipc_name *name, int fd, int64_t until, struct ipc_reply *reply, int fds[IPC_FDS])
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = until - now_ms();
		int n = ipc_receive(fd, reply, sizeof(*reply), fds, IPC_FDS, NULL);

		if (n == -EMFILE)
			return fail(-EMFILE, "%s", error_words(-EMFILE));
		if (n == -ECONNRESET)
			continue;	/* said once, and an answer may be there */
		if (!n)
			return ended(name);
		if (n == -EPROTO || (n > 0 && reply->magic != IPC_MESSAGE_MAGIC))
			return refused(name, -EPROTO);
		if (n > 0)
			return reply->error ? refused(name, reply->error) : 0;
		if (n != -EAGAIN)
			return fail(n, "the connection to the exporter failed: %s", strerror(-n));
		if (left <= 0)
			return slow(name);
		poll(&p, 1, (int)left);
	}
}

void ipc_close_fds(const struct ipc_name *name, int fds[IPC_FDS])
{
	for (int i = 0; i < IPC_FDS; i++) {
		if (fds[i] < 0)
			continue;
		if (name->uid == geteuid())
			close(fds[i]);
		else
			ipc_close_async(&fds[i], 1);
		fds[i] = -1;
	}
}

static int ask(const struct ipc_name *name, enum ipc_op op, unsigned int open, struct ipc_reply *reply, int fds[IPC_FDS],
	       struct own_fd *conn)
{
	struct ipc_request q = {
		.magic = IPC_MESSAGE_MAGIC, .op = op, .slot = name->slot, .open = open, .generation = name->generation,
	};
	int64_t until = now_ms() + TIMEOUT_MS;
	int ret = conn->fd < 0 ? connect_to(name, until, conn) : 0;

	memcpy(q.key, name->key, IPC_KEY);
	memset(reply, 0, sizeof(*reply));
	fds[0] = fds[1] = -1;
	if (ret)
		return ret;
	ret = ipc_send(conn->fd, &q, sizeof(q), NULL, 0);
	/* An exporter that has no room says so, and hangs up before it is asked. */
	if (ret && ret != -EPIPE && ret != -ECONNRESET)
		return fail(ret == -EAGAIN ? -ETIMEDOUT : ret, "the connection to the exporter failed: %s", strerror(-ret));
	ret = await(name, conn->fd, until, reply, fds);
	if (ret)
		ipc_close_fds(name, fds);
	return ret;
}

int ipc_ended(uint32_t attempt, int ret, int error)
{
	/* Where it could not be asked, it is not known to have ended. */
	if (ret != -ESTALE && ret != -EOWNERDEAD && ret != -EACCES)
		ret = 0;
	attempt_end(attempt, ret);
	return ret ? ret : error;
}

int ipc_request(const struct ipc_name *name, enum ipc_op op, unsigned int open, struct ipc_reply *reply, int fds[IPC_FDS],
	    struct own_fd *conn)
{
	bool fresh = conn->fd < 0;
	int ret = ask(name, op, open, reply, fds, conn);

	/* An exporter hangs up on a process that was stopped for a while before it asked.  If it has ended, no connection is made. */
	if (ret != -EOWNERDEAD || !fresh || conn->fd < 0)
		return ret;
	ipc_hang_up(conn, name->uid);
	return ask(name, op, open, reply, fds, conn);
}
