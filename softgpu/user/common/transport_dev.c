// SPDX-License-Identifier: MIT
/* transport_dev.c - the transport over /dev/softgpuN. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport.h"

/* Open files by index, -1 when closed.  Written by open and in a forked child only. */
/* Before the first is open, too: a child may be forked then, and forgets them. */
static int fds[SOFTGPU_MAX_GPUS] = { [0 ... SOFTGPU_MAX_GPUS - 1] = -1 };

static int dev_open(unsigned int index[SOFTGPU_MAX_GPUS])
{
	char path[32];
	int n = 0, err = 0;

	for (unsigned int i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		snprintf(path, sizeof(path), "/dev/softgpu%u", i);
		/* exec must not carry an address space over to another program */
		fds[i] = open(path, O_RDWR | O_CLOEXEC);
		if (fds[i] >= 0) {
			index[n++] = i;
			continue;
		}
		/* indexes may have gaps once a GPU was removed */
		if (errno == ENOENT || errno == ENXIO || errno == ENODEV)
			continue;
		err = -errno;
		sgu_log("cannot open %s: %s (is this user allowed to read and write it?)",
			path, strerror(errno));
	}
	return n ? n : err;
}

static int dev_call(unsigned int index, unsigned long cmd, void *arg)
{
	int ret;

	/* a signal that does not kill must not end a wait */
	do {
		ret = ioctl(fds[index], cmd, arg);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : 0;
}

static int dev_show(unsigned int index, void *addr, size_t length)
{
	void *p = mmap(addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds[index], (off_t)(uintptr_t)addr);

	return p == MAP_FAILED ? -errno : 0;
}

static int dev_host(unsigned int index, void *addr, size_t length, uint64_t kind)
{
	void *p = mmap(addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds[index], (off_t)kind);

	return p == MAP_FAILED ? -errno : 0;
}

static int dev_write_combined(unsigned int index, void *addr, size_t length)
{
	return dev_host(index, addr, length, SOFTGPU_MMAP_WRITE_COMBINED);
}

static int dev_managed(unsigned int index, void *addr, size_t length)
{
	return dev_host(index, addr, length, SOFTGPU_MMAP_MANAGED);
}

/*
 * The parent's GPU memory goes when its open files do, so the child must not
 * keep them open.
 */
static void dev_forget(void)
{
	for (unsigned int i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

const struct sgu_transport sgu_transport_dev = {
	.name = "/dev/softgpu",
	.shared = 1,
	.open = dev_open,
	.call = dev_call,
	.show = dev_show,
	.write_combined = dev_write_combined,
	.managed = dev_managed,
	.forget = dev_forget,
};
