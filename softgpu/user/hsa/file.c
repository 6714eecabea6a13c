// SPDX-License-Identifier: MIT
/* file.c - see file.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "uncancelled.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

int hsa_file_key(uint64_t key[2])
{
	SGU_UNCANCELLED;

	return getrandom(key, 2 * sizeof(key[0]), 0) == 2 * sizeof(key[0]) ? 0 : -EIO;
}

void hsa_file_name(char name[HSA_FILE_NAME], const char *kind, const uint64_t key[2], uint32_t pid)
{
	snprintf(name, HSA_FILE_NAME, "%s-%016" PRIx64 "%016" PRIx64 "-%" PRIu32, kind, key[0],
		 key[1], pid);
}

int hsa_file_make(const char *name, size_t size)
{
	SGU_UNCANCELLED;
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* Checks the name of a descriptor's file in /proc. */
static int check_name(int fd, const char *name)
{
	char path[40], is[2 * HSA_FILE_NAME], wanted[2 * HSA_FILE_NAME];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", name);
	n = readlink(path, is, sizeof(is));
	if (n < 0)
		return -errno;
	return n == (ssize_t)strlen(wanted) && !memcmp(is, wanted, (size_t)n) ? 0 : -ENOENT;
}

/*
 * A handle may contain any descriptor of any process. So check the file's name before opening the
 * file, because open() could block or have a side effect.
 */
int hsa_file_open(uint32_t pid, uint32_t fd, const char *name, size_t *size)
{
	SGU_UNCANCELLED;
	char path[64];
	struct stat st;
	int seen, file, err, seals;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRIu32, pid, fd);
	seen = open(path, O_PATH | O_CLOEXEC);
	if (seen < 0)
		return -errno;
	err = check_name(seen, name);
	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", seen);
	file = err ? err : open(path, O_RDWR | O_CLOEXEC);
	if (!err && file < 0)
		file = -errno;
	close(seen);
	if (file < 0)
		return file;
	/*
	 * A file with this name that can shrink was not made by this library, and could raise
	 * SIGBUS.
	 */
	seals = fcntl(file, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(file, &st)) {
		close(file);
		return -EINVAL;
	}
	*size = (size_t)st.st_size;
	return file;
}

void hsa_file_close(int fd)
{
	SGU_UNCANCELLED;

	close(fd);
}

hsa_status_t hsa_file_status(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM ?
		       HSA_STATUS_ERROR_OUT_OF_RESOURCES :
		       HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

void *hsa_file_map(int fd, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, size, MADV_DONTFORK);
	return at;
}
