// SPDX-License-Identifier: MIT
/* file.c - memfds that processes share. */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/memory.h"
#include "ipc.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int ipc_file_make(const char *name, size_t size, bool fixed, int *fd, void **addr)
{
	unsigned int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL |
			     (fixed ? F_SEAL_FUTURE_WRITE : 0);
	int file, ret;
	void *p;

	/*
	 * Kernels before 6.3 do not know MFD_NOEXEC_SEAL. Later kernels log a warning without it.
	 */
	file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (file < 0 && errno == EINVAL)
		file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (file < 0) {
		ret = -errno;
		return fail(ret, "memfd_create: %s", error_words(ret));
	}
	ret = file_may_have(size);
	if (!ret && ftruncate(file, (off_t)size))
		ret = -errno;
	if (ret)
		goto close;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (p == MAP_FAILED) {
		ret = ipc_mmap_error();
		goto close;
	}
	if (fcntl(file, F_ADD_SEALS, seals)) {
		ret = -errno;
		munmap(p, size);
		goto close;
	}
	*fd = file;
	*addr = p;
	return 0;
close:
	close(file);
	return fail(ret, "cannot create a shared file of %zu bytes: %s", size, error_words(ret));
}

bool ipc_descriptors_left(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != EMFILE && errno != ENFILE);
}

int ipc_file_map(int fd, size_t size, bool write, void **addr)
{
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS), ret;
	struct stat st;
	void *p;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size < 0 ||
	    (uint64_t)st.st_size < size)
		return fail(-EPROTO,
			    "the exporter sent a file that is too small, or that can be shortened; "
			    "use one release of libpeerdma on both sides");
	p = mmap(NULL, size, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		ret = ipc_mmap_error();
		return fail(ret, "mmap of %zu bytes that the exporter shares: %s", size,
			    error_words(ret));
	}
	*addr = p;
	return 0;
}

void ipc_not_inherited(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}
