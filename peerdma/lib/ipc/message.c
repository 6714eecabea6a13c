// SPDX-License-Identifier: MIT
/* message.c - see message.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipc.h"

socklen_t ipc_address(const struct ipc_id *process, struct sockaddr_un *address)
{
	int n;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "peerdma-ipc/");
	for (size_t i = 0; i < sizeof(process->bytes); i++)
		n += snprintf(address->sun_path + 1 + n, sizeof(address->sun_path) - 1 - (size_t)n, "%02x", process->bytes[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int ipc_send(int sock, const void *message, size_t size, const int *fds, unsigned int n)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t ret;

	if (n) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do
		ret = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : 0;
}

#define RIGHTS_MOST 253		/* the kernel's own limit: of a message's descriptors none is dropped, which could wait as a close does */

/* All that came: more than n are closed. */
static bool take_fds(struct msghdr *msg, int *fds, unsigned int n)
{
	unsigned int got = 0, more = 0;
	int unwanted[RIGHTS_MOST];

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (got < n)
				fds[got++] = fd;
			else if (more < RIGHTS_MOST)
				unwanted[more++] = fd;
		}
	}
	if (more)
		ipc_close_async(unwanted, more);
	return more;
}

int ipc_receive(int sock, void *message, size_t size, int *fds, unsigned int n, bool *more)
{
	union {
		char bytes[CMSG_SPACE(RIGHTS_MOST * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = message, .iov_len = size };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control),
	};
	bool others;
	ssize_t ret;

	for (unsigned int i = 0; i < n; i++)
		fds[i] = -1;
	if (more)
		*more = false;
	do
		ret = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (ret < 0 && errno == EINTR);
	if (ret < 0)
		return -errno;
	others = take_fds(&msg, fds, n);
	if (more)
		*more = others;
	if (!ret)
		return 0;
	if (!(msg.msg_flags & MSG_CTRUNC) && !(msg.msg_flags & MSG_TRUNC) && (size_t)ret == size)
		return (int)ret;
	for (unsigned int i = 0; i < n; i++) {
		if (fds[i] >= 0)
			ipc_close_async(&fds[i], 1);
		fds[i] = -1;
	}
	/* Where this process may have no more descriptors the kernel drops them. */
	return msg.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
}
