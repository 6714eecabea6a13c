// SPDX-License-Identifier: MIT
/*
 * own_fd.c - see own_fd.h.
 *
 * Calls fstat() by syscall(). The thread sanitizer intercepts the C library's fstat(), and reports
 * a race if the program has closed the descriptor.
 */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "own_fd.h"

struct own_fd own_fd(int fd)
{
	struct own_fd f = { .fd = fd };
	struct stat st;

	if (fd >= 0 && !syscall(SYS_fstat, fd, &st)) {
		f.device = st.st_dev;
		f.inode = st.st_ino;
	}
	return f;
}

bool own_fd_still(const struct own_fd *f)
{
	struct own_fd now = own_fd(f->fd);

	return f->fd >= 0 && now.inode && now.inode == f->inode && now.device == f->device;
}

void own_fd_close(struct own_fd *f)
{
	if (own_fd_still(f))
		close(f->fd);
	*f = OWN_FD_NONE;
}
