// SPDX-License-Identifier: MIT
/*
 * sys.c - the system calls of libpeerdma. Only these functions convert errno to -errno. Tests
 * replace them with a simulated kernel.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

int sys_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int sys_close(int fd)
{
	return close(fd) ? -errno : 0;
}

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	do
		ret = ioctl(fd, request, arg);
	while (ret < 0 && errno == EINTR);	/* an interrupted call has changed nothing */
	return ret < 0 ? -errno : ret;
}

int sys_mmap(int fd, uint64_t offset, size_t length, int prot, void **addr)
{
	void *p = mmap(NULL, length, prot, MAP_SHARED, fd, (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	*addr = p;
	return 0;
}

int sys_mmap_at(int fd, uint64_t offset, size_t length, int prot, void *addr)
{
	void *p = mmap(addr, length, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
	int ret = p == MAP_FAILED ? -errno : 0;

	/* A failed MAP_FIXED may have removed the old mapping. Reserve the addresses again. */
	if (ret)
		mmap(addr, length, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return ret;
}

int sys_munmap(void *addr, size_t length)
{
	return munmap(addr, length) ? -errno : 0;
}

int sys_dont_fork(void *addr, size_t length)
{
	return madvise(addr, length, MADV_DONTFORK) ? -errno : 0;
}

int sys_read(int fd, void *buf, size_t length)
{
	ssize_t ret = read(fd, buf, length);

	return ret < 0 ? -errno : (int)ret;
}

int sys_poll_in(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int ret = poll(&pfd, 1, timeout_ms);

	return ret < 0 ? -errno : ret;
}

uint64_t sys_memlock_limit(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	struct rlimit limit;

	if (!syscall(SYS_capget, &header, data) && data[0].effective & 1U << CAP_IPC_LOCK)
		return UINT64_MAX;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}
