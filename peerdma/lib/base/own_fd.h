/* SPDX-License-Identifier: MIT */
/*
 * own_fd.h - descriptors that the library keeps.
 *
 * A program may close all descriptors, as a daemon does, and then has files of its own under their numbers. So a number that
 * was kept is used only while it still is that file. A thread that closes and opens just between the check and the use is not
 * noticed.
 */
#ifndef BASE_OWN_FD_H
#define BASE_OWN_FD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Files in memory, pipes, sockets and dma-bufs have numbers (inodes) of their own. Eventfds and epolls share one, and opens of one
 * device, too.
 */
struct own_fd {
	int fd;			/* -1: none */
	uint64_t device, inode;
};

#define OWN_FD_NONE ((struct own_fd) { .fd = -1 })

/* What fd, which may be -1, is now. */
struct own_fd own_fd(int fd);
bool own_fd_still(const struct own_fd *f);
/* If it still is that; f is none from here on. No cancellation point where close() is none. */
void own_fd_close(struct own_fd *f);

#endif
