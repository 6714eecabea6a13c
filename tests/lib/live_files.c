// SPDX-License-Identifier: MIT
/*
 * live_files.c - peerdma_file.h on a real file system: what is in the file and in GPU memory is compared with a naive model
 * after each random transfer; and how the bytes went.
 *
 *	live_files direct|copied FOLDER|DISK
 *
 * direct: the disk of FOLDER is expected to transfer aligned parts to GPU memory itself.  copied: it cannot.
 * DISK: a block device, which is overwritten: only what threads write side by side.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_calls.h"
#include "peerdma_file.h"
#include "checks.h"

#define LENGTH	(1UL << 20)
#define ROUNDS	400
#define ALIGN	4096UL		/* enough for any disk */

static struct cuda_calls cu;
static struct peerdma *ctx;
static struct peerdma_cache *cache;
static bool direct;
static char folder[256];

static void *pointer(gpu_ptr p)
{
	return (void *)(uintptr_t)p;
}

static struct peerdma_file_counters counted(struct peerdma_file *file)
{
	struct peerdma_file_counters c = { .size = sizeof(c) };

	CHECK(!peerdma_file_counters(file, &c), "the file's counters");
	return c;
}

/* A file without a name. */
static int make_file(void)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/live_files.XXXXXX", folder);
	fd = mkostemp(path, O_CLOEXEC);
	CHECK(fd >= 0, "%s: a file (%s)", path, strerror(errno));
	unlink(path);
	return fd;
}

static struct peerdma_file *open_file(int fd, unsigned int flags)
{
	struct peerdma_file *file = NULL;

	CHECK(!peerdma_file_open(cache, fd, flags, &file), "the file is prepared: %s", peerdma_last_error());
	return file;
}

/* ---- the model ---- */

struct model {
	unsigned char file[2 * LENGTH], memory[LENGTH];
	size_t size;
};
static struct model model;

static void model_read(size_t at, size_t length, size_t offset, ssize_t n)
{
	size_t can = offset < model.size ? model.size - offset : 0;

	can = can < length ? can : length;
	EXPECT(n, (long long)can);
	if (n > 0)
		memcpy(model.memory + at, model.file + offset, (size_t)n);
}

static void model_write(size_t at, size_t length, size_t offset, ssize_t n)
{
	EXPECT(n, (long long)length);
	if (offset > model.size)
		memset(model.file + model.size, 0, offset - model.size);
	memcpy(model.file + offset, model.memory + at, length);
	if (offset + length > model.size)
		model.size = offset + length;
}

static void compare(gpu_ptr gpu, int fd)
{
	static unsigned char bytes[2 * LENGTH];
	ssize_t n;

	CHECK(!cu.cuMemcpyDtoH_v2(bytes, gpu, LENGTH) && !memcmp(bytes, model.memory, LENGTH), "GPU memory has what the model has");
	n = pread(fd, bytes, sizeof(bytes), 0);
	CHECK(n == (ssize_t)model.size && !memcmp(bytes, model.file, model.size), "so has the file (%zd bytes, %zu)", n, model.size);
}

/* Often aligned, often not, and short or long. */
static size_t some(uint64_t *seed, size_t max)
{
	size_t n = below(seed, 4) ? below(seed, max) : below(seed, 5000);

	return below(seed, 2) ? n / ALIGN * ALIGN : n;
}

static void random_transfers(void)
{
	uint64_t seed = 20261129;
	struct peerdma_file *file;
	struct peerdma_file_counters c;
	uint64_t moved = 0;
	gpu_ptr gpu;
	int fd = make_file();

	file = open_file(fd, 0);
	CHECK(!cu.cuMemAlloc_v2(&gpu, LENGTH), "GPU memory");
	for (size_t i = 0; i < LENGTH; i++)
		model.memory[i] = (unsigned char)below(&seed, 256);
	model.size = 0;
	CHECK(!cu.cuMemcpyHtoD_v2(gpu, model.memory, LENGTH), "its content");
	for (int round = 0; round < ROUNDS && !check_counts.failures; round++) {
		size_t at = some(&seed, LENGTH - 1), offset = some(&seed, LENGTH), length = some(&seed, LENGTH - 1);
		bool write = below(&seed, 2);
		ssize_t n;

		length = length > LENGTH - at ? LENGTH - at : length;
		if (!length)
			continue;
		n = write ? peerdma_file_write(file, pointer(gpu + at), length, offset) :
			    peerdma_file_read(file, pointer(gpu + at), length, offset);
		if (write)
			model_write(at, length, offset, n);
		else
			model_read(at, length, offset, n);
		moved += n > 0 ? (uint64_t)n : 0;
		if (round % 8 == 0)
			compare(gpu, fd);
	}
	compare(gpu, fd);
	c = counted(file);
	CHECK(c.direct + c.copied == moved && !c.host, "each byte is counted once: %llu and %llu of %llu", (unsigned long long)c.direct,
	      (unsigned long long)c.copied, (unsigned long long)moved);
	CHECK(direct ? c.direct > moved / 8 : !c.direct, "%s: %llu of %llu bytes: %s", direct ? "some directly" : "none directly",
	      (unsigned long long)c.direct, (unsigned long long)moved, c.why);
	CHECK(c.why[0], "why others were copied");
	peerdma_file_close(file);
	cu.cuMemFree_v2(gpu);
	close(fd);
}

/* ---- the ways ---- */

static void aligned(void)
{
	struct peerdma_file_counters c;
	struct peerdma_file *file, *only;
	gpu_ptr gpu;
	int fd = make_file();

	CHECK(!cu.cuMemAlloc_v2(&gpu, LENGTH) && !cu.cuMemsetD8_v2(gpu, 'a', LENGTH), "GPU memory");
	file = open_file(fd, 0);
	only = open_file(fd, PEERDMA_FILE_DIRECT_ONLY);
	EXPECT(peerdma_file_write(file, pointer(gpu), LENGTH, 0), (long long)LENGTH);
	EXPECT(peerdma_file_read(file, pointer(gpu), LENGTH, 0), (long long)LENGTH);
	EXPECT(peerdma_file_read(file, pointer(gpu), LENGTH, LENGTH), 0);
	c = counted(file);
	CHECK(direct ? c.direct == 2 * LENGTH && !c.copied && !c.why[0] : !c.direct && c.copied == 2 * LENGTH && c.why[0],
	      "aligned transfers: %llu directly, %llu copied; %s", (unsigned long long)c.direct, (unsigned long long)c.copied, c.why);
	if (direct) {
		EXPECT(peerdma_file_read(only, pointer(gpu), LENGTH, 0), (long long)LENGTH);
		EXPECT(peerdma_file_read(only, pointer(gpu), 100, 0), -EOPNOTSUPP);
		CHECK(strstr(peerdma_last_error(), "not aligned"), "the reason: %s", peerdma_last_error());
	} else {
		EXPECT(peerdma_file_read(only, pointer(gpu), LENGTH, 0), -EOPNOTSUPP);
	}
	peerdma_file_close(only);
	peerdma_file_close(file);
	close(fd);
	cu.cuMemFree_v2(gpu);
}

/* A descriptor with O_DIRECT is taken, too. */
static void by_direct_descriptor(void)
{
	struct peerdma_file *file;
	char path[300];
	gpu_ptr gpu;
	int fd;

	snprintf(path, sizeof(path), "%s/live_files.XXXXXX", folder);
	fd = mkostemp(path, O_DIRECT);
	unlink(path);
	if (fd < 0) {
		CHECK(errno == EINVAL && !direct, "a file without O_DIRECT");
		printf("%s: no O_DIRECT there\n", folder);
		return;
	}
	CHECK(!cu.cuMemAlloc_v2(&gpu, LENGTH), "GPU memory");
	file = open_file(fd, 0);
	EXPECT(peerdma_file_write(file, pointer(gpu + 5), 1000, 3), 1000);
	EXPECT(peerdma_file_read(file, pointer(gpu + 5), 1003, 0), 1003);
	peerdma_file_close(file);
	close(fd);
	cu.cuMemFree_v2(gpu);
}

static void host_memory(void)
{
	struct peerdma_file_counters c;
	unsigned char *bytes = aligned_alloc(ALIGN, 2 * ALIGN);
	int fd = make_file();
	struct peerdma_file *file = open_file(fd, 0);

	memset(bytes, 'h', 2 * ALIGN);
	EXPECT(peerdma_file_write(file, bytes, 2 * ALIGN, 0), (long long)(2 * ALIGN));
	EXPECT(peerdma_file_write(file, bytes, 7, 2 * ALIGN), 7);
	memset(bytes, 0, 2 * ALIGN);
	EXPECT(peerdma_file_read(file, bytes, 2 * ALIGN, 7), (long long)(2 * ALIGN));
	CHECK(bytes[0] == 'h' && bytes[2 * ALIGN - 1] == 'h', "the same");
	c = counted(file);
	CHECK(c.host == 4 * ALIGN + 7 && !c.direct && !c.copied, "counted as the host's");
	peerdma_file_close(file);
	close(fd);
	free(bytes);
}

/* ---- what goes wrong ---- */

static void freed(void)
{
	int fd = make_file();
	struct peerdma_file *file = open_file(fd, 0);
	gpu_ptr gpu;

	CHECK(!cu.cuMemAlloc_v2(&gpu, LENGTH), "GPU memory");
	EXPECT(peerdma_file_write(file, pointer(gpu), LENGTH, 0), (long long)LENGTH);
	cu.cuMemFree_v2(gpu);
	CHECK(peerdma_file_read(file, pointer(gpu), LENGTH, 0) < 0, "freed memory is not read into: %s", peerdma_last_error());
	/* Memory at the same address is other memory. */
	CHECK(!cu.cuMemAlloc_v2(&gpu, LENGTH) && !cu.cuMemsetD8_v2(gpu, 'n', LENGTH), "new memory");
	EXPECT(peerdma_file_write(file, pointer(gpu), LENGTH, 0), (long long)LENGTH);
	static unsigned char bytes[LENGTH];

	CHECK(pread(fd, bytes, LENGTH, 0) == (ssize_t)LENGTH && bytes[0] == 'n' && bytes[LENGTH - 1] == 'n', "with its own bytes");
	cu.cuMemFree_v2(gpu);
	peerdma_file_close(file);
	close(fd);
}

static void wrong(void)
{
	struct peerdma_file_counters c = { .size = 4 };
	struct peerdma_file *file = NULL, *only;
	int fd = make_file(), ends[2], reading;
	char byte, path[64];
	gpu_ptr gpu;

	EXPECT(peerdma_file_open(cache, -1, 0, &file), -EBADF);
	EXPECT(peerdma_file_open(cache, fd, 2, &file), -EINVAL);
	EXPECT(peerdma_file_open(NULL, fd, 0, &file), -EINVAL);
	CHECK(!pipe(ends), "a pipe");
	EXPECT(peerdma_file_open(cache, ends[0], 0, &file), -ENOTSUP);
	close(ends[0]);
	close(ends[1]);
	file = open_file(fd, 0);
	/* The caller's descriptor may go. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reading = open(path, O_RDONLY);
	close(fd);
	CHECK(!cu.cuMemAlloc_v2(&gpu, LENGTH), "GPU memory");
	EXPECT(peerdma_file_write(file, pointer(gpu), ALIGN, 0), (long long)ALIGN);
	EXPECT(peerdma_file_read(file, pointer(gpu), 0, 0), -EINVAL);
	EXPECT(peerdma_file_read(file, pointer(gpu), LENGTH, UINT64_MAX - 5), -EINVAL);
	EXPECT(peerdma_file_read(file, NULL, LENGTH, 0), -EINVAL);
	EXPECT(peerdma_file_read(NULL, &byte, 1, 0), -EINVAL);
	CHECK(peerdma_file_read(file, pointer(gpu), 16 * LENGTH, 0) < 0, "more than the allocation: %s", peerdma_last_error());
	EXPECT(peerdma_file_counters(file, &c), -EINVAL);
	only = open_file(reading, 0);
	EXPECT(peerdma_file_write(only, pointer(gpu), ALIGN, 0), -EBADF);
	EXPECT(peerdma_file_read(only, pointer(gpu), ALIGN, 0), (long long)ALIGN);
	peerdma_file_close(only);
	close(reading);
	peerdma_file_close(file);
	peerdma_file_close(NULL);
	cu.cuMemFree_v2(gpu);
}

/* ---- threads ---- */

static struct peerdma_file *shared;

static void *thread(void *arg)
{
	size_t number = (size_t)arg;
	unsigned char bytes[ALIGN];
	gpu_ptr gpu;
	void *context;

	if (cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
		return "a context";
	for (int i = 0; i < 50; i++) {
		if (cu.cuMemAlloc_v2(&gpu, 65536) || cu.cuMemsetD8_v2(gpu, (unsigned char)(number + 1), 65536))
			return "GPU memory";
		if (peerdma_file_write(shared, pointer(gpu), 65536, number * 65536) != 65536 ||
		    cu.cuMemsetD8_v2(gpu, 0, 65536) ||
		    peerdma_file_read(shared, pointer(gpu), 65536, number * 65536) != 65536)
			return "a transfer";
		if (cu.cuMemcpyDtoH_v2(bytes, gpu + 61440, ALIGN) || bytes[0] != number + 1 || bytes[ALIGN - 1] != number + 1)
			return "its bytes";
		cu.cuMemFree_v2(gpu);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t of[4];
	void *failed;
	int fd = make_file();

	shared = open_file(fd, 0);
	for (size_t i = 0; i < 4; i++)
		CHECK(!pthread_create(&of[i], NULL, thread, (void *)i), "a thread");
	for (size_t i = 0; i < 4; i++) {
		CHECK(!pthread_join(of[i], &failed) && !failed, "thread %zu: %s", i, failed ? (char *)failed : "");
	}
	peerdma_file_close(shared);
	close(fd);
}

/* ---- threads that write side by side: what each writes is what is there, whatever the others do ---- */

#define CHUNK	5000UL		/* neither a page nor a block */
#define CHUNKS	64UL

static void *writer(void *arg)
{
	size_t number = (size_t)arg;
	void *context;
	gpu_ptr gpu;

	if (cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context) || cu.cuMemAlloc_v2(&gpu, 65536))
		return "GPU memory";
	for (size_t i = number; i < CHUNKS; i += 4) {
		if (cu.cuMemsetD8_v2(gpu, (unsigned char)(i + 1), 65536) ||
		    peerdma_file_write(shared, pointer(gpu + i * CHUNK % 4096), CHUNK, i * CHUNK) != (ssize_t)CHUNK)
			return "a write";
	}
	cu.cuMemFree_v2(gpu);
	return NULL;
}

static void side_by_side(int fd)
{
	static unsigned char bytes[CHUNKS * CHUNK];
	pthread_t of[4];
	void *failed;

	shared = open_file(fd, 0);
	for (int round = 0; round < 3; round++) {
		memset(bytes, 0, sizeof(bytes));
		CHECK(pwrite(fd, bytes, sizeof(bytes), 0) == sizeof(bytes), "zeros");
		for (size_t i = 0; i < 4; i++)
			CHECK(!pthread_create(&of[i], NULL, writer, (void *)i), "a thread");
		for (size_t i = 0; i < 4; i++)
			CHECK(!pthread_join(of[i], &failed) && !failed, "thread %zu: %s", i, failed ? (char *)failed : "");
		CHECK(pread(fd, bytes, sizeof(bytes), 0) == sizeof(bytes), "back");
		for (size_t i = 0; i < sizeof(bytes); i++) {
			if (bytes[i] != i / CHUNK + 1) {
				CHECK(false, "round %d: byte %zu is %u", round, i, bytes[i]);
				break;
			}
		}
	}
	peerdma_file_close(shared);
	close(fd);
}

int main(int argc, char **argv)
{
	struct stat st;
	void *context;

	if (argc != 3 || (strcmp(argv[1], "direct") && strcmp(argv[1], "copied"))) {
		fprintf(stderr, "usage: live_files direct|copied FOLDER|DISK\n");
		return 2;
	}
	direct = !strcmp(argv[1], "direct");
	snprintf(folder, sizeof(folder), "%s", argv[2]);
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context)) {
		fprintf(stderr, "no CUDA\n");
		return 1;
	}
	CHECK(!peerdma_open(&ctx, 0) && !peerdma_cache_open(ctx, NULL, &cache), "a cache: %s", peerdma_last_error());
	if (!stat(folder, &st) && S_ISBLK(st.st_mode)) {
		side_by_side(open(folder, O_RDWR | O_CLOEXEC));
		return check_end("files");
	}
	random_transfers();
	aligned();
	by_direct_descriptor();
	host_memory();
	freed();
	wrong();
	threads();
	side_by_side(make_file());
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	return check_end("files");
}
