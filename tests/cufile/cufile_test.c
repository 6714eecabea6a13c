// SPDX-License-Identifier: MIT
/*
 * cufile_test.c - libcufile.so.0: data, batches, streams, and the answers to misuse, which are those of NVIDIA's libcufile 1.15.1 on
 * a machine with an H200 where a comment says so.
 *
 *	cufile_test FOLDER
 */
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <inttypes.h>

#include "../check.h"
#include "cufile.h"

#define LENGTH	(1UL << 20)
#define PIECES	16
#define PIECE	(LENGTH / PIECES)

#define STATUS(call, want)	EXPECT((call).err, want)

static const char *folder;
static CUdeviceptr gpu;
static char *memory;		/* gpu, as cuFile takes it */
static unsigned char bytes[LENGTH];

/* Names that clients' sources use though no function here takes them: cuda-python's bindings, built for the newest library. */
_Static_assert(CUFILE_PARAM_POSIX_POOL_SLAB_COUNT == 1 && CUFILE_PARAM_GPU_BOUNCE_BUFFER_SLAB_COUNT == 3 &&
	       sizeof(CUFileArrayConfigParameter_t) == sizeof(int), "parameters that are arrays");
_Static_assert(CUFILE_P2PDMA == 0 && CUFILE_NVIDIA_PEERMEM == 4 && sizeof(CUfileP2PFlags_t) == sizeof(int), "1.16's flags");
_Static_assert(CU_FILE_POSIX_IO_MODE == CU_FILE_VANILLA_POSIX_IO_MODE, "one flag, old and new name");
_Static_assert(CU_FILE_RDMA_REGISTER == 1 && CU_FILE_RDMA_RELAXED_ORDERING == 2, "flags of a buffer");

static int make_file(void)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/cufile.XXXXXX", folder);
	fd = mkostemp(path, O_CLOEXEC);
	MUST(fd >= 0, "%s: %s", path, strerror(errno));
	unlink(path);
	return fd;
}

static CUfileHandle_t handle(int fd)
{
	CUfileDescr_t d = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd };
	CUfileHandle_t fh = NULL;

	STATUS(cuFileHandleRegister(&fh, &d), CU_FILE_SUCCESS);
	return fh;
}

static void fill(unsigned char seed)
{
	for (size_t i = 0; i < LENGTH; i++)
		bytes[i] = (unsigned char)(seed + i + i / 4096);
	MUST(!cuMemcpyHtoD(gpu, bytes, LENGTH));
}

static bool memory_is(CUdeviceptr at, size_t length)
{
	static unsigned char back[LENGTH];

	return !cuMemcpyDtoH(back, at, length) && !memcmp(back, bytes, length);
}

static bool gpu_is_same(void)
{
	return memory_is(gpu, LENGTH);
}

static bool file_is_same(int fd)
{
	static unsigned char back[LENGTH];

	return pread(fd, back, LENGTH, 0) == (ssize_t)LENGTH && !memcmp(back, bytes, LENGTH);
}

/* ---- reads and writes ---- */

static void data(void)
{
	int fd = make_file();
	CUfileHandle_t fh = handle(fd);

	fill(1);
	EXPECT(cuFileWrite(fh, memory, LENGTH, 0, 0), LENGTH);
	CHECK(file_is_same(fd));
	MUST(!cuMemsetD8(gpu, 0, LENGTH));
	/* In pieces, by the offset in memory, with a buffer that is registered. */
	STATUS(cuFileBufRegister(memory, LENGTH, 0), CU_FILE_SUCCESS);
	for (size_t i = 0; i < PIECES; i++)
		EXPECT(cuFileRead(fh, memory, PIECE, (off_t)(i * PIECE), (off_t)(i * PIECE)), PIECE);
	CHECK(gpu_is_same());
	EXPECT(cuFileRead(fh, memory, LENGTH, LENGTH, 0), 0);
	EXPECT(cuFileRead(fh, memory, LENGTH, LENGTH - 1000, 0), 1000);
	EXPECT(cuFileRead(fh, memory, 0, 0, 0), 0);
	STATUS(cuFileBufDeregister(memory), CU_FILE_SUCCESS);
	cuFileHandleDeregister(fh);
	close(fd);
}

/* ---- misuse ---- */

/* Managed memory: transferred through the page cache, and not registered.  As on an H200's machine. */
static void managed(void)
{
	int fd = make_file();
	CUfileHandle_t fh = handle(fd);
	CUdeviceptr address;
	unsigned char *m;

	MUST(!cuMemAllocManaged(&address, 65536, CU_MEM_ATTACH_GLOBAL));
	m = (unsigned char *)(uintptr_t)address;
	STATUS(cuFileBufRegister(m, 65536, 0), CU_FILE_CUDA_MEMORY_TYPE_INVALID);
	memcpy(m, bytes, 65536);
	EXPECT(cuFileWrite(fh, m, 65536, 0, 0), 65536);
	EXPECT(cuFileWrite(fh, m, 100, 65536, 0), 100);
	memset(m, 0, 65536);
	EXPECT(cuFileRead(fh, m, 65536, 0, 0), 65536);
	CHECK(!memcmp(m, bytes, 65536));
	EXPECT(cuFileRead(fh, m, 8192, 65536, 7), 100);
	CHECK(!memcmp(m + 7, bytes, 100));
	EXPECT(cuFileRead(fh, m, 8192, 1 << 20, 0), 0);
	cuFileHandleDeregister(fh);
	EXPECT(cuFileRead(fh, m, 8192, 0, 0), -1);
	MUST(!cuMemFree(address));
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY);
	MUST(fd >= 0);
	fh = handle(fd);
	MUST(!cuMemAllocManaged(&address, 65536, CU_MEM_ATTACH_GLOBAL));
	errno = 0;
	EXPECT(cuFileWrite(fh, (void *)(uintptr_t)address, 4096, 0, 0), -1);
	EXPECT(errno, EBADF);
	EXPECT(cuFileRead(fh, (void *)(uintptr_t)address, 4, 0, 0), 4);
	CHECK(!memcmp((void *)(uintptr_t)address, "\177ELF", 4));
	MUST(!cuMemFree(address));
	cuFileHandleDeregister(fh);
	close(fd);
}

static void wrong_handles(void)
{
	CUfileDescr_t d = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = -1 };
	CUfileHandle_t fh, again;
	int fd = make_file(), ends[2];

	STATUS(cuFileHandleRegister(&fh, NULL), CU_FILE_INVALID_VALUE);
	STATUS(cuFileHandleRegister(NULL, &d), CU_FILE_INVALID_VALUE);
	STATUS(cuFileHandleRegister(&fh, &d), CU_FILE_INVALID_VALUE);
	MUST(!pipe(ends));
	d.handle.fd = ends[0];
	STATUS(cuFileHandleRegister(&fh, &d), CU_FILE_INVALID_FILE_TYPE);
	d.type = CU_FILE_HANDLE_TYPE_OPAQUE_WIN32;
	STATUS(cuFileHandleRegister(&fh, &d), CU_FILE_IO_NOT_SUPPORTED);
	fh = handle(fd);
	d = (CUfileDescr_t){ .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd };
	STATUS(cuFileHandleRegister(&again, &d), CU_FILE_HANDLE_ALREADY_REGISTERED);
	cuFileHandleDeregister(fh);
	/* A handle that was deregistered, twice, and one that never was: as on an H200's machine. */
	cuFileHandleDeregister(fh);
	errno = 0;
	EXPECT(cuFileRead(fh, memory, 4096, 0, 0), -1);
	EXPECT(errno, EINVAL);
	errno = 0;
	EXPECT(cuFileWrite((CUfileHandle_t)&d, memory, 4096, 0, 0), -1);
	EXPECT(errno, EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

static void wrong_buffers(void)
{
	static char host[4096];
	int fd = make_file();
	CUfileHandle_t fh = handle(fd);
	CUdeviceptr freed;

	/* As on an H200's machine. */
	STATUS(cuFileBufRegister(memory, 65536, 0), CU_FILE_SUCCESS);
	STATUS(cuFileBufRegister(memory, 65536, 0), CU_FILE_MEMORY_ALREADY_REGISTERED);
	STATUS(cuFileBufRegister(memory + 4096, 4096, 7), CU_FILE_SUCCESS);
	STATUS(cuFileBufRegister(host, sizeof(host), 0), CU_FILE_SUCCESS);
	STATUS(cuFileBufRegister(memory + 8192, 0, 0), CU_FILE_INVALID_VALUE);
	STATUS(cuFileBufRegister(memory + 8192, LENGTH, 0), CU_FILE_CUDA_POINTER_RANGE_ERROR);
	STATUS(cuFileBufDeregister(memory + 12288), CU_FILE_MEMORY_NOT_REGISTERED);
	/* Beyond what is registered; and before the beginning. */
	EXPECT(cuFileRead(fh, memory, 65537, 0, 0), -CU_FILE_INVALID_VALUE);
	EXPECT(cuFileRead(fh, memory, 1, 0, 65536), -CU_FILE_INVALID_VALUE);
	EXPECT(cuFileRead(fh, memory, 1, -1, 0), -CU_FILE_INVALID_VALUE);
	EXPECT(cuFileRead(fh, memory, 1, 0, -1), -CU_FILE_INVALID_VALUE);
	EXPECT(cuFileRead(fh, NULL, 1, 0, 0), -CU_FILE_INVALID_VALUE);
	STATUS(cuFileBufDeregister(memory), CU_FILE_SUCCESS);
	STATUS(cuFileBufDeregister(memory + 4096), CU_FILE_SUCCESS);
	STATUS(cuFileBufDeregister(host), CU_FILE_SUCCESS);
	STATUS(cuFileBufDeregister(host), CU_FILE_MEMORY_NOT_REGISTERED);
	/* Freed while it was registered. */
	MUST(!cuMemAlloc(&freed, 65536));
	STATUS(cuFileBufRegister((void *)(uintptr_t)freed, 65536, 0), CU_FILE_SUCCESS);
	EXPECT(cuFileWrite(fh, (void *)(uintptr_t)freed, 65536, 0, 0), 65536);
	MUST(!cuMemFree(freed));
	CHECK(cuFileRead(fh, (void *)(uintptr_t)freed, 65536, 0, 0) < 0);
	STATUS(cuFileBufDeregister((void *)(uintptr_t)freed), CU_FILE_SUCCESS);
	cuFileHandleDeregister(fh);
	close(fd);
}

/* ---- batches ---- */

static void batches(void)
{
	CUfileIOParams_t p[PIECES] = { 0 };
	CUfileIOEvents_t events[PIECES];
	CUfileBatchHandle_t batch = NULL;
	int fd = make_file(), seen[PIECES] = { 0 };
	CUfileHandle_t fh = handle(fd);
	struct timespec soon = { .tv_nsec = 1000000 };
	unsigned int n = PIECES, all = 0;

	fill(7);
	STATUS(cuFileBatchIOSetUp(&batch, 0), CU_FILE_INVALID_VALUE);
	STATUS(cuFileBatchIOSetUp(&batch, 100000), CU_FILE_INVALID_VALUE);
	STATUS(cuFileBatchIOSetUp(&batch, PIECES), CU_FILE_SUCCESS);
	for (unsigned int i = 0; i < PIECES; i++) {
		p[i].mode = CUFILE_BATCH;
		p[i].fh = fh;
		p[i].opcode = CUFILE_WRITE;
		p[i].cookie = &p[i];
		p[i].u.batch.devPtr_base = memory;
		p[i].u.batch.devPtr_offset = p[i].u.batch.file_offset = (off_t)(i * PIECE);
		p[i].u.batch.size = PIECE;
	}
	STATUS(cuFileBatchIOSubmit(batch, PIECES, p, 0), CU_FILE_SUCCESS);
	STATUS(cuFileBatchIOSubmit(batch, 1, p, 0), CU_FILE_BATCH_FULL);
	STATUS(cuFileBatchIOGetStatus(batch, PIECES + 1, &n, events, NULL), CU_FILE_INVALID_VALUE);
	while (all < PIECES) {
		n = PIECES;
		STATUS(cuFileBatchIOGetStatus(batch, 1, &n, events, NULL), CU_FILE_SUCCESS);
		for (unsigned int i = 0; i < n; i++) {
			CHECK(events[i].status == CUFILE_COMPLETE && events[i].ret == PIECE);
			seen[(CUfileIOParams_t *)events[i].cookie - p]++;
		}
		all += n;
	}
	for (unsigned int i = 0; i < PIECES; i++)
		EXPECT(seen[i], 1);
	CHECK(file_is_same(fd));
	/* Nothing is left: no wait. */
	n = PIECES;
	STATUS(cuFileBatchIOGetStatus(batch, 1, &n, events, &soon), CU_FILE_SUCCESS);
	EXPECT(n, 0);
	/* One that cannot be made is refused with all others: as on an H200's machine. */
	p[1].fh = p;
	STATUS(cuFileBatchIOSubmit(batch, 2, p, 0), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
	p[1].fh = fh;
	/* Cancelled: none is reported, made or not, and all places are free, as on an H200's machine. */
	STATUS(cuFileBatchIOSubmit(batch, PIECES, p, 0), CU_FILE_SUCCESS);
	STATUS(cuFileBatchIOCancel(batch), CU_FILE_SUCCESS);
	n = PIECES;
	STATUS(cuFileBatchIOGetStatus(batch, PIECES, &n, events, NULL), CU_FILE_SUCCESS);
	EXPECT(n, 0);
	/* What is submitted afterwards is made; what was cancelled before is not made after all. */
	STATUS(cuFileBatchIOSubmit(batch, PIECES - 1, p, 0), CU_FILE_SUCCESS);
	STATUS(cuFileBatchIOCancel(batch), CU_FILE_SUCCESS);
	STATUS(cuFileBatchIOSubmit(batch, 1, &p[PIECES - 1], 0), CU_FILE_SUCCESS);
	n = PIECES;
	STATUS(cuFileBatchIOGetStatus(batch, PIECES, &n, events, NULL), CU_FILE_SUCCESS);
	EXPECT(n, 1);
	CHECK(events[0].cookie == &p[PIECES - 1] && events[0].status == CUFILE_COMPLETE);
	/* Destroyed while they are being made. */
	STATUS(cuFileBatchIOSubmit(batch, PIECES, p, 0), CU_FILE_SUCCESS);
	cuFileBatchIODestroy(batch);
	cuFileBatchIODestroy(NULL);
	cuFileHandleDeregister(fh);
	close(fd);
}

/* One thread submits, another one asks. */
struct submitting {
	CUfileBatchHandle_t batch;
	CUfileHandle_t fh;
	CUcontext context;
};
#define SUBMISSIONS 200
#define AT_ONCE	    4

static void *submits(void *arg)
{
	const struct submitting *s = arg;
	CUfileIOParams_t p[AT_ONCE] = { 0 };
	CUfileError_t e;

	if (cuCtxSetCurrent(s->context))
		return "a context";
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		p[i].mode = CUFILE_BATCH;
		p[i].fh = s->fh;
		p[i].opcode = CUFILE_READ;
		p[i].u.batch.devPtr_base = memory;
		p[i].u.batch.devPtr_offset = p[i].u.batch.file_offset = (off_t)(i * PIECE);
		/* The last one has nothing to transfer. */
		p[i].u.batch.size = i < AT_ONCE - 1 ? 4096 : 0;
	}
	for (unsigned int i = 0; i < SUBMISSIONS; i++) {
		while ((e = cuFileBatchIOSubmit(s->batch, AT_ONCE, p, 0)).err == CU_FILE_BATCH_FULL)
			sched_yield();
		if (e.err)
			return "submit";
	}
	return NULL;
}

static void batch_of_two(CUcontext context)
{
	CUfileIOEvents_t events[3 * AT_ONCE];
	struct timespec soon = { .tv_nsec = 10000000 };
	int fd = make_file();
	struct submitting s = { .fh = handle(fd), .context = context };
	unsigned int n, all = 0, empty = 0;
	void *failed = NULL;
	pthread_t thread;

	fill(3);
	EXPECT(cuFileWrite(s.fh, memory, LENGTH, 0, 0), LENGTH);
	STATUS(cuFileBatchIOSetUp(&s.batch, 3 * AT_ONCE), CU_FILE_SUCCESS);
	MUST(!pthread_create(&thread, NULL, submits, &s));
	while (all < SUBMISSIONS * AT_ONCE && !check_counts.failures) {
		n = 3 * AT_ONCE;
		if (cuFileBatchIOGetStatus(s.batch, 1, &n, events, &soon).err)
			CHECK(!"GetStatus");
		if (!n)
			sched_yield();
		for (unsigned int i = 0; i < n; i++) {
			CHECK(events[i].status == CUFILE_COMPLETE && (events[i].ret == 4096 || !events[i].ret));
			empty += !events[i].ret;
		}
		all += n;
	}
	EXPECT(empty, SUBMISSIONS);
	MUST(!pthread_join(thread, &failed));
	CHECK(!failed);
	cuFileBatchIODestroy(s.batch);
	cuFileHandleDeregister(s.fh);
	close(fd);
}

/* ---- streams ---- */

static void streams(void)
{
	size_t size = LENGTH, half = LENGTH / 2;
	off_t zero = 0, middle = LENGTH / 2;
	ssize_t moved = -5, written = -5;
	int fd = make_file();
	CUfileHandle_t fh = handle(fd);
	CUstream stream;

	MUST(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	STATUS(cuFileStreamRegister(stream, 0xf), CU_FILE_SUCCESS);
	STATUS(cuFileStreamRegister(stream, 0x10), CU_FILE_INVALID_VALUE);
	fill(9);
	/* In order: written from memory, which is then cleared, and read again. */
	STATUS(cuFileWriteAsync(fh, memory, &size, &zero, &zero, &written, stream), CU_FILE_SUCCESS);
	MUST(!cuMemsetD8Async(gpu, 0, LENGTH, stream));
	STATUS(cuFileReadAsync(fh, memory, &half, &zero, &zero, &moved, stream), CU_FILE_SUCCESS);
	STATUS(cuFileReadAsync(fh, memory, &half, &middle, &middle, &moved, stream), CU_FILE_SUCCESS);
	MUST(!cuStreamSynchronize(stream));
	EXPECT(written, LENGTH);
	EXPECT(moved, LENGTH / 2);
	CHECK(gpu_is_same() && file_is_same(fd));
	/* As on an H200's machine. */
	STATUS(cuFileReadAsync(&size, memory, &size, &zero, &zero, &moved, stream), CU_FILE_INVALID_VALUE);
	EXPECT(moved, -EINVAL);
	STATUS(cuFileReadAsync(fh, memory, NULL, &zero, &zero, &moved, stream), CU_FILE_INVALID_VALUE);
	STATUS(cuFileStreamDeregister(stream), CU_FILE_SUCCESS);
	MUST(!cuStreamDestroy(stream));
	cuFileHandleDeregister(fh);
	close(fd);
}

#define STREAMS	4
#define EACH	20

/* Each stream's transfers in their order, those of all streams at the same time. */
static void several_streams(void)
{
	static size_t size = PIECE, none;
	static off_t offset[STREAMS], zero, bad = -1;
	static ssize_t moved[STREAMS][EACH][2], refused[2];
	int fd = make_file();
	CUfileHandle_t fh = handle(fd);
	CUstream stream[STREAMS];

	for (int s = 0; s < STREAMS; s++) {
		MUST(!cuStreamCreate(&stream[s], CU_STREAM_NON_BLOCKING));
		offset[s] = (off_t)((size_t)s * PIECE);
	}
	for (int i = 0; i < EACH; i++) {
		for (int s = 0; s < STREAMS; s++) {
			CUdeviceptr at = gpu + (size_t)s * PIECE;

			MUST(!cuMemsetD8Async(at, (unsigned char)(i + 1), PIECE, stream[s]));
			STATUS(cuFileWriteAsync(fh, memory, &size, &offset[s], &offset[s], &moved[s][i][0], stream[s]), CU_FILE_SUCCESS);
			MUST(!cuMemsetD8Async(at, 0, PIECE, stream[s]));
			STATUS(cuFileReadAsync(fh, memory, &size, &offset[s], &offset[s], &moved[s][i][1], stream[s]), CU_FILE_SUCCESS);
		}
	}
	/* Sizes and offsets are looked at when the stream comes to them. */
	STATUS(cuFileReadAsync(fh, memory, &none, &zero, &zero, &refused[0], stream[0]), CU_FILE_SUCCESS);
	STATUS(cuFileReadAsync(fh, memory, &size, &bad, &zero, &refused[1], stream[0]), CU_FILE_SUCCESS);
	for (int s = 0; s < STREAMS; s++) {
		MUST(!cuStreamSynchronize(stream[s]) && !cuStreamDestroy(stream[s]));
		for (int i = 0; i < EACH; i++)
			CHECK(moved[s][i][0] == PIECE && moved[s][i][1] == PIECE);
	}
	EXPECT(refused[0], 0);
	EXPECT(refused[1], -CU_FILE_INVALID_VALUE);
	MUST(!cuMemcpyDtoH(bytes, gpu, STREAMS * PIECE));
	for (size_t i = 0; i < STREAMS * PIECE; i++)
		MUST(bytes[i] == EACH);
	cuFileHandleDeregister(fh);
	close(fd);
}

/* KvikIO's test looks for these words. */
static void wrong_way_in_stream(void)
{
	size_t size = 4096;
	off_t zero = 0;
	ssize_t moved = -5;
	int fd = open("/proc/self/exe", O_RDONLY);
	CUfileHandle_t fh;
	CUstream stream;

	MUST(fd >= 0 && !cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	fh = handle(fd);
	STATUS(cuFileWriteAsync(fh, memory, &size, &zero, &zero, &moved, stream), CU_FILE_SUCCESS);
	MUST(!cuStreamSynchronize(stream) && !cuStreamDestroy(stream));
	EXPECT(moved, -CU_FILE_INVALID_FILE_OPEN_FLAG);
	CHECK(!strcmp(CUFILE_ERRSTR((int)moved), "unsupported file open flags"));
	cuFileHandleDeregister(fh);
	close(fd);
}

/* Memory that nothing has used before, and an odd length: what pinning it asks of CUDA must not wait for the stream itself. */
static void new_in_stream(void)
{
	size_t size = 65536 + 992;
	off_t zero = 0, at = 4096;
	ssize_t written = -5, moved = -5;
	int fd = make_file();
	CUfileHandle_t fh = handle(fd);
	CUdeviceptr from, to;
	CUstream stream;

	MUST(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) && !cuMemAlloc(&from, 1 << 20) && !cuMemAlloc(&to, 1 << 20));
	MUST(!cuMemcpyHtoD(from, bytes, size) && !cuMemsetD8(to, 0, 1 << 20));
	STATUS(cuFileWriteAsync(fh, (void *)(uintptr_t)from, &size, &zero, &zero, &written, stream), CU_FILE_SUCCESS);
	STATUS(cuFileReadAsync(fh, (void *)(uintptr_t)to, &size, &zero, &at, &moved, stream), CU_FILE_SUCCESS);
	MUST(!cuStreamSynchronize(stream));
	EXPECT(written, (ssize_t)size);
	EXPECT(moved, (ssize_t)size);
	CHECK(memory_is(to + 4096, size));
	MUST(!cuStreamDestroy(stream) && !cuMemFree(from) && !cuMemFree(to));
	cuFileHandleDeregister(fh);
	close(fd);
}

/* ---- the driver, parameters, statistics ---- */

static void driver(void)
{
	CUfileDrvProps_t props;
	size_t value, min, max;
	int version;
	bool on;
	char text[300];

	STATUS(cuFileGetVersion(&version), CU_FILE_SUCCESS);
	EXPECT(version, 1150);
	EXPECT(cuFileUseCount(), 0);
	STATUS(cuFileDriverClose(), CU_FILE_DRIVER_NOT_INITIALIZED);
	STATUS(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 64), CU_FILE_SUCCESS);
	/* As on an H200's machine: the opening of the driver puts the default in the place of what is out of range. */
	STATUS(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, 1UL << 40), CU_FILE_SUCCESS);
	STATUS(cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, &value), CU_FILE_SUCCESS);
	EXPECT(value, 1UL << 40);
	STATUS(cuFileSetParameterSizeT((CUFileSizeTConfigParameter_t)99, 1), CU_FILE_INVALID_VALUE);
	STATUS(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &min, &max), CU_FILE_SUCCESS);
	CHECK(min == 1 && max == 256);
	STATUS(cuFileGetParameterMinMaxValue(CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, &min, &max), CU_FILE_SUCCESS);
	CHECK(min == 4 && max == UINT32_MAX);
	STATUS(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROFILE_STATS, &min, &max), CU_FILE_INVALID_VALUE);
	STATUS(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, "/tmp"), CU_FILE_SUCCESS);
	STATUS(cuFileDriverOpen(), CU_FILE_SUCCESS);
	STATUS(cuFileDriverOpen(), CU_FILE_SUCCESS);
	EXPECT(cuFileUseCount(), 2);
	STATUS(cuFileDriverClose(), CU_FILE_SUCCESS);
	/* Settings are made before. */
	STATUS(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, true), CU_FILE_DRIVER_ALREADY_OPEN);
	STATUS(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &value), CU_FILE_SUCCESS);
	EXPECT(value, 64);
	STATUS(cuFileGetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, &value), CU_FILE_SUCCESS);
	EXPECT(value, 128);
	STATUS(cuFileGetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, &on), CU_FILE_SUCCESS);
	CHECK(on);
	STATUS(cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text, sizeof(text)), CU_FILE_SUCCESS);
	CHECK(!strcmp(text, "/tmp"));
	/* As on an H200's machine. */
	STATUS(cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text, 4), CU_FILE_INVALID_VALUE);
	STATUS(cuFileDriverSetMaxDirectIOSize(8192), CU_FILE_SUCCESS);
	STATUS(cuFileDriverSetMaxDirectIOSize(3), CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
	STATUS(cuFileDriverGetProperties(&props), CU_FILE_SUCCESS);
	CHECK(props.nvfs.max_direct_io_size == 8192 && props.max_device_cache_size == 131072 && props.max_batch_io_size == 64);
	STATUS(cuFileDriverSetMaxDirectIOSize(16384), CU_FILE_SUCCESS);
	STATUS(cuFileDriverSetPollMode(true, 8), CU_FILE_SUCCESS);
	STATUS(cuFileDriverGetProperties(&props), CU_FILE_SUCCESS);
	CHECK(props.nvfs.poll_thresh_size == 8 && props.nvfs.dcontrolflags & 1 << CU_FILE_USE_POLL_MODE);
	CHECK(!strcmp(cufileop_status_error(CU_FILE_BATCH_FULL), "the batch is full"));
}

/* The largest of the BARs that the kernel lists; 0: the GPU is no PCI device. */
static uint64_t largest_bar(void)
{
	uint64_t begin, end, largest = 0;
	char id[32], path[128];
	FILE *list;

	MUST(!cuDeviceGetPCIBusId(id, sizeof(id), 0));
	for (char *c = id; *c; c++)
		*c = (char)tolower(*c);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource", id);
	list = fopen(path, "r");
	if (!list)
		return 0;
	for (int i = 0; i < 6 && fscanf(list, "%" SCNx64 " %" SCNx64 " %*x", &begin, &end) == 2; i++)
		largest = end > begin && end - begin + 1 > largest ? end - begin + 1 : largest;
	fclose(list);
	return largest;
}

/* -1, 1 and NULL as on an H200's machine, which says 268435456 of its BAR1 of 256 GiB. */
static void bar(void)
{
	uint64_t bytes = largest_bar();
	size_t kb = 0;
	int count;

	MUST(!cuDeviceGetCount(&count));
	STATUS(cuFileGetBARSizeInKB(0, NULL), CU_FILE_INVALID_VALUE);
	STATUS(cuFileGetBARSizeInKB(-1, &kb), CU_FILE_INVALID_VALUE);
	STATUS(cuFileGetBARSizeInKB(count, &kb), CU_FILE_INVALID_VALUE);
	STATUS(cuFileGetBARSizeInKB(0, &kb), bytes ? CU_FILE_SUCCESS : CU_FILE_PLATFORM_NOT_SUPPORTED);
	EXPECT(kb, bytes / 1024);
}

static void statistics(void)
{
	CUfileStatsLevel1_t one;
	CUfileStatsLevel2_t two;
	CUfileStatsLevel3_t three;
	int fd = make_file(), level;
	CUfileHandle_t fh;

	STATUS(cuFileStatsStart(), CU_FILE_INVALID_VALUE);
	STATUS(cuFileSetStatsLevel(4), CU_FILE_INVALID_VALUE);
	STATUS(cuFileSetStatsLevel(2), CU_FILE_SUCCESS);
	STATUS(cuFileGetStatsLevel(&level), CU_FILE_SUCCESS);
	EXPECT(level, 2);
	STATUS(cuFileStatsStart(), CU_FILE_SUCCESS);
	fh = handle(fd);
	EXPECT(cuFileWrite(fh, memory, 8192, 0, 0), 8192);
	EXPECT(cuFileRead(fh, memory, 4096, 0, 0), 4096);
	EXPECT(cuFileRead(&fd, memory, 4096, 0, 0), -1);
	cuFileHandleDeregister(fh);
	STATUS(cuFileStatsStop(), CU_FILE_SUCCESS);
	EXPECT(cuFileRead(&fd, memory, 4096, 0, 0), -1);
	STATUS(cuFileGetStatsL1(&one), CU_FILE_SUCCESS);
	CHECK(one.read_ops.ok == 1 && one.read_ops.err == 1 && one.write_ops.ok == 1 && one.read_bytes == 4096 && one.write_bytes == 8192);
	CHECK(one.hdl_register_ops.ok == 1 && one.hdl_deregister_ops.ok == 1);
	STATUS(cuFileGetStatsL2(&two), CU_FILE_SUCCESS);
	CHECK(two.read_size_kb_hist[3] == 1 && two.write_size_kb_hist[4] == 1);
	STATUS(cuFileGetStatsL3(&three), CU_FILE_INVALID_VALUE);
	STATUS(cuFileStatsReset(), CU_FILE_SUCCESS);
	STATUS(cuFileGetStatsL1(&one), CU_FILE_SUCCESS);
	CHECK(!one.read_ops.ok && !one.write_bytes);
	close(fd);
}

int main(int argc, char **argv)
{
	CUdevice device;
	CUcontext context;

	if (argc != 2) {
		fprintf(stderr, "usage: cufile_test FOLDER\n");
		return 2;
	}
	folder = argv[1];
	MUST(!cuInit(0) && !cuDeviceGet(&device, 0) && !cuDevicePrimaryCtxRetain(&context, device) && !cuCtxSetCurrent(context));
	MUST(!cuMemAlloc(&gpu, LENGTH));
	memory = (char *)(uintptr_t)gpu;
	driver();
	data();
	managed();
	wrong_handles();
	wrong_buffers();
	batches();
	batch_of_two(context);
	streams();
	several_streams();
	new_in_stream();
	wrong_way_in_stream();
	bar();
	statistics();
	return check_end("cuFile");
}
