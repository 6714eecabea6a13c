/* SPDX-License-Identifier: MIT */
/*
 * own_fd.h - descriptors that the library keeps open.
 *
 * A program may close all descriptors, as a daemon does, and then get the same numbers for its own
 * files. So the library uses a kept number only while it still refers to the same file. If a thread
 * closes and reopens the number between the check and the use, this is not detected.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * memfds, pipes, sockets and dma-bufs have an inode each. All eventfds and epolls share one inode,
 * as do all opens of one device.
 */
struct own_fd {
	int fd;			/* -1: none */
	uint64_t device, inode;
};

#define OWN_FD_NONE ((struct own_fd) { .fd = -1 })

/* Records the file of fd, which may be -1. */
struct own_fd own_fd(int fd);
bool own_fd_still(const struct own_fd *f);
/*
 * Closes the descriptor if it still is the same file, and sets *f to OWN_FD_NONE. Is no
 * cancellation point if close() is none.
 */
void own_fd_close(struct own_fd *f);
