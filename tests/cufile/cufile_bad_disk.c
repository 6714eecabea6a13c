// SPDX-License-Identifier: MIT
/*
 * cufile_bad_disk.c - cuFileRead() and cuFileWrite() where the disk fails: -1, and the file's own error in errno.
 *
 *	cufile_bad_disk DISK FOLDER
 *
 * DISK as for tests/lib/live_bad_disk.c; FOLDER: of a file system, which the test fills.
 */
#include <fcntl.h>

#include "../check.h"
#include "cufile.h"

#define MIB		(1UL << 20)
#define PIECE		65536UL
#define BAD_READ	(32 * MIB)
#define BAD_WRITE	(40 * MIB)

static CUdeviceptr gpu;
static char *memory;		/* gpu, as cuFile takes it */

static CUfileHandle_t handle(int fd)
{
	CUfileDescr_t d = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd };
	CUfileHandle_t fh = NULL;

	EXPECT(cuFileHandleRegister(&fh, &d).err, CU_FILE_SUCCESS);
	return fh;
}

static void bad_sectors(const char *disk)
{
	int fd = open(disk, O_RDWR | O_DIRECT | O_CLOEXEC);
	static char host[PIECE] __attribute__((aligned(4096)));
	CUfileHandle_t fh;
	int error;

	MUST(fd >= 0, "%s: %s", disk, strerror(errno));
	fh = handle(fd);
	/* As into host memory, without the page cache. */
	error = pread(fd, host, PIECE, BAD_READ) < 0 ? errno : 0;
	CHECK(error == ENODATA || error == EIO, "%s", strerror(error));
	FAILS(error, cuFileRead(fh, memory, PIECE, BAD_READ, 0));
	error = pwrite(fd, host, PIECE, BAD_WRITE) < 0 ? errno : 0;
	CHECK(error == ENODATA || error == EIO, "%s", strerror(error));
	FAILS(error, cuFileWrite(fh, memory, PIECE, BAD_WRITE, 0));
	EXPECT(cuFileRead(fh, memory, PIECE, BAD_WRITE, 0), PIECE);
	EXPECT(cuFileWrite(fh, memory, PIECE, BAD_READ, 0), PIECE);
	cuFileHandleDeregister(fh);
	close(fd);
}

static void full(const char *folder)
{
	char path[300], other[300];
	CUfileHandle_t fh;
	off_t room = 0, done = 0;
	ssize_t n = 0;
	int fd, taken;

	snprintf(path, sizeof(path), "%s/cufile.XXXXXX", folder);
	snprintf(other, sizeof(other), "%s/cufile.XXXXXX", folder);
	fd = mkostemp(path, O_DIRECT | O_CLOEXEC);
	MUST(fd >= 0, "%s: %s", path, strerror(errno));
	unlink(path);
	fh = handle(fd);
	taken = mkostemp(other, O_CLOEXEC);
	MUST(taken >= 0 && !unlink(other));
	while (!posix_fallocate(taken, room, 4 * MIB))
		room += 4 * MIB;
	/* So much is given back, and up to 4 MiB were left. */
	MUST(!ftruncate(taken, room - 8 * (off_t)MIB));
	while (done < 16 * (off_t)MIB && (n = cuFileWrite(fh, memory, MIB, done, 0)) > 0)
		done += n;
	CHECK(n == -1 && errno == ENOSPC, "%zd, %s", n, strerror(errno));
	CHECK(done >= 7 * (off_t)MIB && done <= 13 * (off_t)MIB, "%lld bytes", (long long)done);
	cuFileHandleDeregister(fh);
	close(taken);
	close(fd);
}

int main(int argc, char **argv)
{
	CUcontext context;

	MUST(argc == 3);
	MUST(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context) && !cuMemAlloc(&gpu, MIB));
	memory = (char *)(uintptr_t)gpu;
	EXPECT(cuFileDriverOpen().err, CU_FILE_SUCCESS);
	EXPECT(cuFileBufRegister(memory, MIB, 0).err, CU_FILE_SUCCESS);
	bad_sectors(argv[1]);
	full(argv[2]);
	EXPECT(cuFileBufDeregister(memory).err, CU_FILE_SUCCESS);
	EXPECT(cuFileDriverClose().err, CU_FILE_SUCCESS);
	cuMemFree(gpu);
	return check_end("cuFile and a bad disk");
}
