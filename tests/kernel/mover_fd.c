// SPDX-License-Identifier: MIT
/*
 * mover_fd.c - runs a command that inherits a dma-buf of dmabuf_mover.ko.
 *
 *	mover_fd LENGTH COMMAND...
 *
 * The environment has MOVER_FD, its descriptor, and MOVER_CONTROL, its control file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "dmabuf_mover.h"

int main(int argc, char **argv)
{
	struct mover_create c = { .size = sizeof(c) };
	char text[64];
	int mover = open("/dev/dmabuf_mover", O_RDWR | O_CLOEXEC);

	if (argc < 3 || mover < 0) {
		perror("mover_fd LENGTH COMMAND...: /dev/dmabuf_mover");
		return 2;
	}
	c.length = strtoull(argv[1], NULL, 0);
	if (ioctl(mover, MOVER_CREATE, &c)) {
		perror("mover_fd: MOVER_CREATE");
		return 2;
	}
	fcntl(c.fd, F_SETFD, 0);
	snprintf(text, sizeof(text), "%d", c.fd);
	setenv("MOVER_FD", text, 1);
	snprintf(text, sizeof(text), "/sys/kernel/debug/dmabuf_mover/%u", c.number);
	setenv("MOVER_CONTROL", text, 1);
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 2;
}
