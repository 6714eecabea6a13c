// SPDX-License-Identifier: MIT
/* transport_dev.c - the transport through /dev/softgpuN. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "transport.h"

#define PATH_LENGTH 32

/* Open files by index; -1: closed. Written only by dev_open() and in a forked child. */
/*
 * Initialized to -1, because a child may be forked, and may call dev_forget(), before the first
 * open.
 */
static int fds[SOFTGPU_MAX_GPUS] = { [0 ... SOFTGPU_MAX_GPUS - 1] = -1 };

static atomic_bool render_nodes_wanted;

void sgu_want_render_nodes(void)
{
	atomic_store(&render_nodes_wanted, true);
}

/*
 * Whether the node is this driver's: a real GPU's driver may have made one of this name. softgpu's
 * class in sysfs has its number.
 */
static bool is_ours(const char *path, unsigned int number)
{
	char name[64];
	struct stat st;
	unsigned int major_number, minor_number;
	bool ours;
	FILE *file;

	snprintf(name, sizeof(name), "/sys/class/softgpu/renderD%u/dev", number);
	if (stat(path, &st) || !S_ISCHR(st.st_mode))
		return false;
	file = fopen(name, "re");
	if (!file)
		return false;
	ours = fscanf(file, "%u:%u", &major_number, &minor_number) == 2 &&
	       st.st_rdev == makedev(major_number, minor_number);
	fclose(file);
	return ours;
}

/* Opens GPU i by the name that the library wants, and stores the path. */
static int open_gpu(unsigned int i, char path[PATH_LENGTH])
{
	int fd;

	if (atomic_load(&render_nodes_wanted)) {
		snprintf(path, PATH_LENGTH, "/dev/dri/renderD%u", SOFTGPU_RENDER_FIRST + i);
		/* a program started by exec must not inherit the address space */
		fd = is_ours(path, SOFTGPU_RENDER_FIRST + i) ? open(path, O_RDWR | O_CLOEXEC) : -1;
		if (fd >= 0)
			return fd;
	}
	snprintf(path, PATH_LENGTH, "/dev/softgpu%u", i);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int dev_open(unsigned int index[SOFTGPU_MAX_GPUS])
{
	char path[PATH_LENGTH];
	int n = 0, err = 0;

	for (unsigned int i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		fds[i] = open_gpu(i, path);
		if (fds[i] >= 0) {
			index[n++] = i;
			continue;
		}
		/* after a removal, indexes have gaps */
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

	/* a signal that does not kill the process must not end the wait */
	do {
		ret = ioctl(fds[index], cmd, arg);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : 0;
}

static int dev_show(unsigned int index, void *addr, size_t length)
{
	void *p = mmap(addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds[index],
		       (off_t)(uintptr_t)addr);

	return p == MAP_FAILED ? -errno : 0;
}

static int dev_host(unsigned int index, void *addr, size_t length, uint64_t kind)
{
	void *p = mmap(addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds[index],
		       (off_t)kind);

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
 * The driver frees the parent's GPU memory when the last descriptor of it is closed, so the child
 * must close its copies.
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
