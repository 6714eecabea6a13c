// SPDX-License-Identifier: MIT
/*
 * live_bad_disk.c - peerdma_file.h where the disk fails: what POSIX promises of read(2) and write(2), directly and copied.
 *
 *	live_bad_disk bad DISK		a read of the sector at 32 MiB fails, and a write of the one at 40 MiB (vm/run --nvme bad)
 *	live_bad_disk full FOLDER	a file system, which the test fills
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cuda_calls.h"
#include "peerdma_file.h"
#include "checks.h"

#define MIB		(1UL << 20)
#define PIECE		65536UL
#define BAD_READ	(32 * MIB)
#define BAD_WRITE	(40 * MIB)

static struct cuda_calls cu;
static struct peerdma *ctx;
static struct peerdma_cache *cache;
static char *gpu;		/* 1 MiB of the GPU's memory */
static int read_error, write_error;

static struct peerdma_file *open_file(int fd, unsigned int flags)
{
	struct peerdma_file *file = NULL;

	CHECK(!peerdma_file_open(cache, fd, flags, &file), "the file is prepared: %s", peerdma_last_error());
	return file;
}

static struct peerdma_file_counters counted(struct peerdma_file *file)
{
	struct peerdma_file_counters c = { .size = sizeof(c) };

	CHECK(!peerdma_file_counters(file, &c), "the file's counters");
	return c;
}

static void gpu_set(char byte, size_t length)
{
	CHECK(!cu.cuMemsetD8_v2((gpu_ptr)(uintptr_t)gpu, (unsigned char)byte, length), "GPU memory is filled");
}

static bool gpu_is(char byte, size_t length)
{
	static char back[MIB];

	return !cu.cuMemcpyDtoH_v2(back, (gpu_ptr)(uintptr_t)gpu, length) && back[0] == byte && !memcmp(back, back + 1, length - 1);
}

/* ---- a disk with bad sectors ---- */

/*
 * What a program gets that transfers the same without the page cache between the disk and host memory: from an NVMe drive that
 * says "unrecovered read error" it is ENODATA.
 */
static int error_of(bool write)
{
	int error = write ? write_error : read_error;

	CHECK(error == ENODATA || error == EIO, "the disk's own error: %s", strerror(error));
	return error;
}

static void learn_errors(const char *disk)
{
	int fd = open(disk, O_RDWR | O_DIRECT | O_CLOEXEC);
	char *host = aligned_alloc(4096, PIECE);

	memset(host, 0, PIECE);
	read_error = pread(fd, host, PIECE, BAD_READ) < 0 ? errno : 0;
	write_error = pwrite(fd, host, PIECE, BAD_WRITE) < 0 ? errno : 0;
	printf("the disk's errors: %s, %s\n", strerror(read_error), strerror(write_error));
	free(host);
	close(fd);
}

/* A transfer that fails: with which error, that the error says so, and that it is counted nowhere. */
static void fails(struct peerdma_file *file, bool write, void *memory, size_t length, uint64_t offset, int error)
{
	struct peerdma_file_counters before = counted(file), after;
	ssize_t n = write ? peerdma_file_write(file, memory, length, offset) : peerdma_file_read(file, memory, length, offset);

	CHECK(n == -error, "%s of %zu bytes at %llu: %zd", write ? "write" : "read", length, (unsigned long long)offset, n);
	CHECK(strstr(peerdma_last_error(), strerror(error)), "and says: %s", peerdma_last_error());
	after = counted(file);
	CHECK(before.direct == after.direct && before.copied == after.copied && before.host == after.host, "nothing is counted");
}

/* A transfer of more than the disk takes at once may be cut short before the bad sector: then the next one fails. */
static void fails_or_ends_before(struct peerdma_file *file, uint64_t from)
{
	ssize_t n = peerdma_file_read(file, gpu, MIB, from);

	if (n == -error_of(false))
		return;
	CHECK(n > 0 && from + (uint64_t)n <= BAD_READ && gpu_is(0, (size_t)n), "what precedes the bad sector: %zd", n);
	for (; n > 0 && from < BAD_READ; n = peerdma_file_read(file, gpu, MIB, from))
		from += (uint64_t)n;
	CHECK(n == -error_of(false), "and then: %zd", n);
}

static void directly(int disk)
{
	struct peerdma_file *file = open_file(disk, PEERDMA_FILE_DIRECT_ONLY);

	fails(file, false, gpu, PIECE, BAD_READ, error_of(false));
	fails(file, true, gpu, PIECE, BAD_WRITE, error_of(true));
	fails_or_ends_before(file, BAD_READ - MIB / 2);
	/* Beside it all is well, and the other direction is, too. */
	gpu_set('x', MIB);
	EXPECT(peerdma_file_read(file, gpu, PIECE, BAD_READ - PIECE), (long long)PIECE);
	CHECK(gpu_is(0, PIECE), "the disk's zeros");
	EXPECT(peerdma_file_read(file, gpu, PIECE, BAD_WRITE), (long long)PIECE);
	EXPECT(peerdma_file_write(file, gpu, PIECE, BAD_READ), (long long)PIECE);
	CHECK(counted(file).direct == 3 * PIECE, "and counted");
	peerdma_file_close(file);
}

/* What is not aligned is copied: read through the page cache, and written to it, where only fsync() learns of the error. */
static void copied(int disk)
{
	struct peerdma_file *file = open_file(disk, 0);
	char *host = aligned_alloc(4096, PIECE);

	fails(file, false, gpu + 1, 1000, BAD_READ + 3, EIO);
	fails(file, false, host, PIECE, BAD_READ, error_of(false));
	EXPECT(peerdma_file_read(file, gpu + 1, 1000, BAD_READ - PIECE + 3), 1000);
	EXPECT(peerdma_file_write(file, gpu + 1, 1000, BAD_WRITE + 3), 1000);
	CHECK(fsync(disk) < 0 && errno == EIO, "fsync() reports it: %s", strerror(errno));
	peerdma_file_close(file);
	free(host);
}

/* Each operation of a queue has its own error, and the others have none. */
static void queued(int disk, uint32_t flags)
{
	struct peerdma_file *file = open_file(disk, 0);
	struct peerdma_file_io io[5] = {
		{ .offset = BAD_READ - PIECE, .length = PIECE },
		{ .offset = BAD_READ, .length = PIECE },
		{ .offset = BAD_READ + PIECE, .length = PIECE },
		{ .offset = BAD_READ + 3, .length = 1000 },
		{ .offset = BAD_WRITE, .length = PIECE, .flags = PEERDMA_FILE_WRITE },
	};
	const long long want[5] = { PIECE, -error_of(false), PIECE, -EIO, -error_of(true) };
	struct peerdma_file_io *ios[5], *done[5];
	struct peerdma_file_queue *queue = NULL;

	CHECK(!peerdma_file_queue_open(5, flags, &queue) && !queue->why == !flags, "a queue: %s", peerdma_last_error());
	gpu_set('q', MIB);
	for (size_t i = 0; i < 5; i++) {
		io[i].size = sizeof(io[i]);
		io[i].file = file;
		io[i].ptr = gpu + 2 * i * PIECE + (i == 3 ? 1 : 0);
		ios[i] = &io[i];
	}
	EXPECT(peerdma_file_submit(queue, ios, 5), 0);
	EXPECT(peerdma_file_wait(queue, done, 5, 5, -1), 5);
	for (size_t i = 0; i < 5; i++)
		EXPECT(io[i].result, want[i]);
	CHECK(counted(file).direct == 2 * PIECE && !counted(file).copied, "what was transferred is counted");
	peerdma_file_queue_close(queue);
	peerdma_file_close(file);
}

/* ---- a disk that is full ---- */

static int make_file(const char *folder)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/bad_disk.XXXXXX", folder);
	fd = mkostemp(path, O_CLOEXEC);
	CHECK(fd >= 0, "%s: a file (%s)", path, strerror(errno));
	unlink(path);
	return fd;
}

/* All but 1 MiB of the room is taken.  How much a file system has for its own use, it does not say. */
static int take_room(const char *folder)
{
	int fd = make_file(folder);
	off_t size = 0;

	for (off_t step = 64 * MIB; step >= (off_t)MIB; step /= 2) {
		while (!posix_fallocate(fd, size, step))
			size += step;
	}
	CHECK(size > (off_t)MIB && !ftruncate(fd, size - (off_t)MIB), "room is taken");
	return fd;
}

/* Each write is of all or of a part; then one fails.  What was reported written is in the file. */
static void fill(const char *folder, size_t piece, size_t at)
{
	int room = take_room(folder), fd = make_file(folder);
	struct peerdma_file *file = open_file(fd, 0);
	struct peerdma_file_counters c;
	static char back[8 * MIB];
	uint64_t done = 0;
	ssize_t n;

	gpu_set('f', MIB);
	while ((n = peerdma_file_write(file, gpu + at, piece, done)) > 0 && done < sizeof(back) - MIB)
		done += (uint64_t)n;
	EXPECT(n, -ENOSPC);
	CHECK(strstr(peerdma_last_error(), "No space left on device"), "it says: %s", peerdma_last_error());
	c = counted(file);
	CHECK(done && c.direct + c.copied == done, "%llu bytes were written, %llu counted", (unsigned long long)done,
	      (unsigned long long)(c.direct + c.copied));
	CHECK(!fsync(fd) && pread(fd, back, sizeof(back), 0) >= (ssize_t)done && back[0] == 'f' && !memcmp(back, back + 1, done - 1),
	      "and they are there");
	/* With room again it goes on. */
	close(room);
	EXPECT(peerdma_file_write(file, gpu + at, piece, done), (long long)piece);
	peerdma_file_close(file);
	close(fd);
}

/* A limit of the process: the part that fits, then EFBIG, as write(2) has it. */
static void too_big(const char *folder)
{
	struct rlimit was, limit;
	int fd = make_file(folder);
	struct peerdma_file *file = open_file(fd, 0);

	signal(SIGXFSZ, SIG_IGN);
	CHECK(!getrlimit(RLIMIT_FSIZE, &was), "the limit");
	limit = (struct rlimit){ 2 * PIECE, was.rlim_max };
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit), "a limit");
	EXPECT(peerdma_file_write(file, gpu, PIECE, PIECE), (long long)PIECE);
	EXPECT(peerdma_file_write(file, gpu, PIECE, 2 * PIECE), -EFBIG);
	EXPECT(peerdma_file_write(file, gpu + 1, 1000, 2 * PIECE), -EFBIG);
	EXPECT(peerdma_file_write(file, gpu, 2 * PIECE, PIECE), (long long)PIECE);
	CHECK(!setrlimit(RLIMIT_FSIZE, &was), "no limit");
	peerdma_file_close(file);
	close(fd);
}

int main(int argc, char **argv)
{
	void *context;
	gpu_ptr memory;

	if (argc != 3 || (strcmp(argv[1], "bad") && strcmp(argv[1], "full"))) {
		fprintf(stderr, "usage: live_bad_disk bad DISK|full FOLDER\n");
		return 2;
	}
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context) ||
	    cu.cuMemAlloc_v2(&memory, MIB)) {
		fprintf(stderr, "no CUDA\n");
		return 1;
	}
	gpu = (char *)(uintptr_t)memory;
	CHECK(!peerdma_open(&ctx, 0) && !peerdma_cache_open(ctx, NULL, &cache), "a cache: %s", peerdma_last_error());
	if (!strcmp(argv[1], "bad")) {
		int disk = open(argv[2], O_RDWR | O_CLOEXEC);

		CHECK(disk >= 0, "%s: %s", argv[2], strerror(errno));
		learn_errors(argv[2]);
		directly(disk);
		queued(disk, 0);
		queued(disk, PEERDMA_FILE_QUEUE_THREADS);
		copied(disk);
		close(disk);
	} else {
		fill(argv[2], 3 * PIECE, 0);
		fill(argv[2], 100000, 1);
		too_big(argv[2]);
	}
	cu.cuMemFree_v2(memory);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	return check_end("a bad disk");
}
