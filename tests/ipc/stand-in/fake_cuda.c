// SPDX-License-Identifier: MIT
/* fake_cuda.c - see fake_cuda.h. */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../peerdma/lib/ipc/cuda_poll.h"
#include "../../lib/stand-ins/pointer_attributes.h"
#include "fake_cuda.h"
#include "fake_pool.h"

typedef unsigned long long CUdeviceptr;

enum { INVALID_VALUE = 1, INVALID_CONTEXT = 201, CONTEXT_IS_DESTROYED = 709 };
enum { MEMORY = 256, OPS = 4096 };

struct handle {
	uint32_t pid, fd;
	uint64_t size, inode;
	char rest[40];
};

_Static_assert(sizeof(struct handle) == 64, "as CUDA's");

struct fake_ipc_cuda fake_ipc_cuda = { .context = &fake_ipc_cuda, .poll_looks = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct memory {
	CUdeviceptr base;
	size_t size;
	int fd;
	unsigned long long id;
	bool opened;
	void *context;
	int device;
} memory[MEMORY];
static unsigned long long next_id = 1;

/* ---- graphs ---- */

enum { CAPTURE_GLOBAL, CAPTURE_RELAXED = 2, CAPTURE_UNSUPPORTED = 900 };

static __thread int capture_mode = CAPTURE_GLOBAL;

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int was = capture_mode;

	if (fake_ipc_cuda.exchanging)
		fake_ipc_cuda.exchanging();
	capture_mode = *mode;
	*mode = was;
	return 0;
}

static int unsafe(void)
{
	if (!fake_ipc_cuda.capturing || capture_mode == CAPTURE_RELAXED)
		return 0;
	fake_ipc_cuda.unsafe++;
	return CAPTURE_UNSUPPORTED;
}

int fake_unsafe(void)
{
	return unsafe();
}

/* ---- memory ---- */

/* lock */
static struct memory *at(CUdeviceptr p)
{
	for (int i = 0; i < MEMORY; i++) {
		if (memory[i].size && p - memory[i].base < memory[i].size)
			return &memory[i];
	}
	return NULL;
}

static int map(int fd, size_t size, bool opened, CUdeviceptr *ptr)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MEMORY; i++) {
		if (memory[i].size)
			continue;
		memory[i] = (struct memory) { (uintptr_t)p, size, fd, next_id++, opened,
					      fake_ipc_cuda.shareable ? NULL : fake_ipc_cuda.context, fake_ipc_cuda.device };
		*ptr = (uintptr_t)p;
		pthread_mutex_unlock(&lock);
		return 0;
	}
	pthread_mutex_unlock(&lock);
	munmap(p, size);
	return 2;
}

static int drop(CUdeviceptr ptr, bool opened)
{
	struct memory *m, was;

	pthread_mutex_lock(&lock);
	m = at(ptr);
	if (!m || m->base != ptr || m->opened != opened) {
		pthread_mutex_unlock(&lock);
		return INVALID_VALUE;
	}
	was = *m;
	memset(m, 0, sizeof(*m));
	pthread_mutex_unlock(&lock);
	munmap((void *)(uintptr_t)was.base, was.size);
	close(was.fd);
	return 0;
}

int cuMemAlloc_v2(CUdeviceptr *ptr, size_t size)
{
	int fd = memfd_create("fake-cuda", MFD_CLOEXEC);

	return ftruncate(fd, (off_t)size) ? INVALID_VALUE : map(fd, size, false, ptr);
}

int cuMemFree_v2(CUdeviceptr ptr)
{
	int error;

	return fake_pool_free(ptr, &error) ? error : drop(ptr, false);
}

/* ---- what a pointer is ---- */

static int one_attribute(void *data, int attribute, const struct memory *m)
{
	struct pointer_attributes p = { 0 };

	if (m)
		p = (struct pointer_attributes) { .context = m->context, .type = 2, .id = m->id, .device = m->device, .base = m->base,
						  .size = m->size };
	return pointer_attribute(&p, attribute, data);
}

int cuPointerGetAttributes(unsigned int n, int *attributes, void **data, CUdeviceptr ptr);
int cuPointerGetAttributes(unsigned int n, int *attributes, void **data, CUdeviceptr ptr)
{
	int ret = 0;

	if (fake_ipc_cuda.looking)
		fake_ipc_cuda.looking();
	pthread_mutex_lock(&lock);
	fake_ipc_cuda.looks++;
	for (unsigned int i = 0; i < n && !ret; i++) {
		if (!fake_pool_attribute(ptr, attributes[i], data[i], &ret))
			ret = one_attribute(data[i], attributes[i], at(ptr));
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr);
int cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
	const struct memory *m;
	int ret;

	if (fake_pool_attribute(ptr, attribute, data, &ret))
		return ret;
	pthread_mutex_lock(&lock);
	m = at(ptr);
	ret = m ? one_attribute(data, attribute, m) : INVALID_VALUE;
	pthread_mutex_unlock(&lock);
	return ret;
}

int cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr ptr);
int cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr ptr)
{
	return unsafe();
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

int cuDeviceGetPCIBusId(char *id, int length, int device);
int cuDeviceGetPCIBusId(char *id, int length, int device)
{
	snprintf(id, (size_t)length, "0000:%02X:00.0", device + 10);
	return 0;
}

int cuCtxGetCurrent(void **ctx);
int cuCtxGetCurrent(void **ctx)
{
	*ctx = fake_ipc_cuda.context;
	return 0;
}

#ifndef BEFORE_12
int cuCtxGetId(void *ctx, unsigned long long *id);
int cuCtxGetId(void *ctx, unsigned long long *id)
{
	*id = (uintptr_t)ctx;
	return fake_ipc_cuda.destroyed ? CONTEXT_IS_DESTROYED : 0;
}
#endif

int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device)
{
	*device = fake_ipc_cuda.device;
	return fake_ipc_cuda.context ? 0 : INVALID_CONTEXT;
}

/* ---- other processes ---- */

int cuIpcGetMemHandle(struct handle *handle, CUdeviceptr ptr);
int cuIpcGetMemHandle(struct handle *handle, CUdeviceptr ptr)
{
	const struct memory *m;
	struct stat st;

	if (fake_ipc_cuda.get_error || unsafe())
		return fake_ipc_cuda.get_error ? fake_ipc_cuda.get_error : CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	m = at(ptr);
	if (m && !m->opened && !fstat(m->fd, &st))
		*handle = (struct handle) { .pid = (uint32_t)getpid(), .fd = (uint32_t)m->fd, .size = m->size, .inode = st.st_ino };
	pthread_mutex_unlock(&lock);
	return m ? 0 : INVALID_VALUE;
}

int cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, struct handle handle, unsigned int flags);
int cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, struct handle handle, unsigned int flags)
{
	struct stat st;
	char path[64];
	int fd, ret;

	ret = fake_ipc_cuda.opening ? fake_ipc_cuda.opening() : fake_ipc_cuda.open_error;
	if (!ret)
		ret = unsafe();
	if (ret || flags != 1)
		return ret ? ret : INVALID_VALUE;
	snprintf(path, sizeof(path), "/proc/%u/fd/%u", handle.pid, handle.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return INVALID_VALUE;
	ret = fstat(fd, &st) || st.st_ino != handle.inode ? INVALID_VALUE : map(fd, handle.size - fake_ipc_cuda.less, true, ptr);
	if (ret)
		close(fd);
	else
		fake_ipc_cuda.opens++;
	return ret;
}

int cuIpcCloseMemHandle(CUdeviceptr ptr);
int cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	if (fake_ipc_cuda.close_error || unsafe())
		return fake_ipc_cuda.close_error ? fake_ipc_cuda.close_error : CAPTURE_UNSUPPORTED;
	fake_ipc_cuda.closes++;
	return drop(ptr, true);
}

/* ---- streams: one thread runs all of them, in order ---- */

struct op {
	enum { COPY, CALL, WAIT, WRITE } what;
	CUdeviceptr to, from;
	uint64_t value;
	size_t rows, to_pitch, from_pitch;	/* of a 2D copy, else 0 */
	unsigned int flags;
	void (*fn)(void *stream, int error, void *arg);
	void *stream, *arg;
};

static struct op ops[OPS];
static uint64_t begun, queued, done;
static pid_t runs_in;
static _Thread_local bool calls_back;

static bool holds(const struct op *op)
{
	uint64_t is = __atomic_load_n((uint64_t *)(uintptr_t)op->to, __ATOMIC_ACQUIRE);

	return op->flags ? is == op->value : (int64_t)(is - op->value) >= 0;
}

static void *run(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		struct op op;

		while (begun == queued)
			pthread_cond_wait(&changed, &lock);
		op = ops[begun++ % OPS];
		pthread_mutex_unlock(&lock);
		switch (op.what) {
		case COPY:
			do {
				memcpy((void *)(uintptr_t)op.to, (void *)(uintptr_t)op.from, op.value);
				op.to += op.to_pitch;
				op.from += op.from_pitch;
			} while (op.rows && --op.rows);
			break;
		case CALL:
			calls_back = true;
			op.fn(op.stream, fake_ipc_cuda.stream_error, op.arg);
			calls_back = false;
			break;
		case WAIT:
			while (!holds(&op))
				usleep(10);
			break;
		case WRITE:
			__atomic_store_n((uint64_t *)(uintptr_t)op.to, op.value, __ATOMIC_RELEASE);
		}
		pthread_mutex_lock(&lock);
		done++;
		pthread_cond_broadcast(&changed);
	}
	return unused;
}

static int queue(struct op op)
{
	pthread_t thread;

	pthread_mutex_lock(&lock);
	if (runs_in != getpid()) {
		runs_in = getpid();
		pthread_create(&thread, NULL, run, NULL);
		pthread_detach(thread);
	}
	ops[queued++ % OPS] = op;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuStreamCreate(void **stream, unsigned int flags)
{
	static char streams[64];
	static int n;

	if (fake_ipc_cuda.creating)
		fake_ipc_cuda.creating();
	if (unsafe())
		return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	*stream = &streams[n++ % 64];
	fake_ipc_cuda.streams++;
	pthread_mutex_unlock(&lock);
	return flags == 1 ? 0 : INVALID_VALUE;
}

int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream)
{
	pthread_mutex_lock(&lock);
	fake_ipc_cuda.streams--;
	pthread_mutex_unlock(&lock);
	return stream ? 0 : INVALID_VALUE;
}

int cuStreamSynchronize(void *stream)
{
	uint64_t until;

	if (unsafe())
		return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	until = queued;
	while (done < until)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return fake_ipc_cuda.sync_error;
}

/* Host memory is in no list. */
static void look_at_end(CUdeviceptr p, size_t length)
{
	const struct memory *m;

	pthread_mutex_lock(&lock);
	m = at(p);
	if (m && p + length > m->base + m->size)
		fake_ipc_cuda.crossing++;
	pthread_mutex_unlock(&lock);
}

int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t length, void *stream)
{
	fake_ipc_cuda.copies++;
	look_at_end(to, length);
	look_at_end(from, length);
	return fake_ipc_cuda.copy_error ? fake_ipc_cuda.copy_error :
	       queue((struct op) { .what = COPY, .to = to, .from = from, .value = length });
}

struct side {
	size_t x, y;
	int type;
	void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct rectangle {
	struct side from, to;
	size_t width, height;
};

static bool usable(const struct side *s, const struct rectangle *r)
{
	look_at_end(s->device, s->pitch * (r->height - 1) + r->width);
	return !s->x && !s->y && s->type == 4 && !s->host && !s->array && s->pitch >= r->width && s->pitch < 1UL << 31;
}

int cuMemcpy2DAsync_v2(const struct rectangle *r, void *stream);
int cuMemcpy2DAsync_v2(const struct rectangle *r, void *stream)
{
	fake_ipc_cuda.rows++;
	if (!stream || !r->width || !r->height || !usable(&r->from, r) || !usable(&r->to, r))
		return INVALID_VALUE;
	return fake_ipc_cuda.rows_error ? fake_ipc_cuda.rows_error :
	       queue((struct op) { .what = COPY, .to = r->to.device, .from = r->from.device, .value = r->width, .rows = r->height,
				   .to_pitch = r->to.pitch, .from_pitch = r->from.pitch });
}

struct attributes {
	int order, from[2], to[2];
	unsigned int flags;
};

int cuMemcpyBatchAsync_v2(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *lengths, size_t n, const struct attributes *how,
			  const size_t *first, size_t hows, void *stream);
int cuMemcpyBatchAsync_v2(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *lengths, size_t n, const struct attributes *how,
			  const size_t *first, size_t hows, void *stream)
{
	fake_ipc_cuda.batches++;
	if (!stream || !n || hows != 1 || *first || how->order != 1 || how->flags)
		return INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		if (!lengths[i])
			return INVALID_VALUE;
		/* Some of them may be on their way when it fails. */
		if (fake_ipc_cuda.batch_error && i == n / 2)
			return fake_ipc_cuda.batch_error;
		queue((struct op) { .what = COPY, .to = to[i], .from = from[i], .value = lengths[i] });
	}
	return 0;
}

int cuStreamAddCallback(void *stream, void (*fn)(void *stream, int error, void *arg), void *arg, unsigned int flags);
int cuStreamAddCallback(void *stream, void (*fn)(void *stream, int error, void *arg), void *arg, unsigned int flags)
{
	fake_ipc_cuda.launched++;
	return flags ? INVALID_VALUE : queue((struct op) { .what = CALL, .fn = fn, .stream = stream, .arg = arg });
}

int cuMemHostRegister_v2(void *p, size_t size, unsigned int flags);
int cuMemHostRegister_v2(void *p, size_t size, unsigned int flags)
{
	if (fake_ipc_cuda.register_error)
		return fake_ipc_cuda.register_error;
	fake_ipc_cuda.registered++;
	return size % 4096 || flags != 3 ? INVALID_VALUE : unsafe();
}

int cuMemHostUnregister(void *p);
int cuMemHostUnregister(void *p)
{
	fake_ipc_cuda.unregistered++;
	fake_ipc_cuda.in_callback += calls_back;
	return unsafe();
}

int cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *p, unsigned int flags);
int cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *p, unsigned int flags)
{
	*ptr = (uintptr_t)p;
	return flags;
}

int cuStreamWaitValue64_v2(void *stream, CUdeviceptr addr, uint64_t value, unsigned int flags);
int cuStreamWaitValue64_v2(void *stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	return fake_ipc_cuda.wait_error ? fake_ipc_cuda.wait_error :
	       queue((struct op) { .what = WAIT, .to = addr, .value = value, .flags = flags });
}

int cuStreamWriteValue64_v2(void *stream, CUdeviceptr addr, uint64_t value, unsigned int flags);
int cuStreamWriteValue64_v2(void *stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	return fake_ipc_cuda.write_error || flags ? fake_ipc_cuda.write_error :
	       queue((struct op) { .what = WRITE, .to = addr, .value = value });
}

/* ---- the kernels: that of cuda_kernel.c, whose parameter is a list, and that of cuda_poll.c ---- */

static char poll_kernel;

struct poll_arguments {
	struct ipc_poll_page *page;
	uint64_t turn, launch;
	unsigned int looks;
	bool fails;		/* as it begins */
};

static bool has(const struct ipc_poll_page *page, uint64_t turn, uint64_t words[3])
{
	bool all = true;

	/* In any order, as a GPU may. */
	for (int n = 0, first = rand(); n < 3; n++) {
		int i = (first + (first & 1 ? n : 2 * n)) % 3;

		words[i] = __atomic_load_n(&page->command[i], __ATOMIC_ACQUIRE);
		all &= words[i] >> POLL_SHIFT == (turn & POLL_TURNS);
		words[i] &= (1ULL << POLL_SHIFT) - 1;
	}
	return all;
}

static void *polling(void *arguments)
{
	struct poll_arguments *a = arguments;
	uint64_t words[3];

	while (fake_ipc_cuda.poll_held)
		usleep(100);
	__atomic_store_n(&a->page->begun, a->launch, __ATOMIC_RELEASE);
	for (unsigned int looks = 0; !a->fails && looks < a->looks && !fake_ipc_cuda.poll_ends; looks++) {
		if (!has(a->page, a->turn, words)) {
			usleep(looks % 8 == 7);
			continue;
		}
		memmove((void *)(uintptr_t)words[POLL_TO], (void *)(uintptr_t)words[POLL_FROM], words[POLL_LENGTH]);
		fake_ipc_cuda.polled++;
		__atomic_store_n(&a->page->done, a->turn++, __ATOMIC_RELEASE);
	}
	if (!a->fails)
		__atomic_store_n(&a->page->gone, a->launch, __ATOMIC_RELEASE);
	free(a);
	return NULL;
}

static int launch_polling(void **arguments)
{
	struct poll_arguments *a = malloc(sizeof(*a));
	pthread_t thread;

	*a = (struct poll_arguments) { *(struct ipc_poll_page **)arguments[0], *(uint64_t *)arguments[1], *(uint64_t *)arguments[2],
				       1 + (unsigned int)rand() % fake_ipc_cuda.poll_looks, fake_ipc_cuda.query_error != 0 };
	fake_ipc_cuda.polls++;
	pthread_create(&thread, NULL, polling, a);
	return pthread_detach(thread);
}

int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream)
{
	return !stream ? INVALID_VALUE : fake_ipc_cuda.query_error ? fake_ipc_cuda.query_error : unsafe() ? CAPTURE_UNSUPPORTED : 600;
}

int cuModuleLoadData(void **module, const void *image);
int cuModuleLoadData(void **module, const void *image)
{
	if (unsafe())
		return CAPTURE_UNSUPPORTED;
	*module = strstr(image, ".entry peerdma_ipc_copies(") ? (void *)&fake_ipc_cuda :
		  strstr(image, ".entry peerdma_ipc_poll(") ? (void *)&poll_kernel : NULL;
	fake_ipc_cuda.modules += !fake_ipc_cuda.module_error;
	return *module ? fake_ipc_cuda.module_error : INVALID_VALUE;
}

int cuModuleUnload(void *module);
int cuModuleUnload(void *module)
{
	fake_ipc_cuda.modules--;
	return module ? 0 : INVALID_VALUE;
}

int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name)
{
	*function = module;
	return strcmp(name, module == &poll_kernel ? "peerdma_ipc_poll" : "peerdma_ipc_copies") ? INVALID_VALUE : 0;
}

int cuLaunchKernel(void *function, unsigned int blocks, unsigned int rows, unsigned int z, unsigned int threads, unsigned int ty,
		   unsigned int tz, unsigned int shared, void *stream, void **arguments, void **extra);
int cuLaunchKernel(void *function, unsigned int blocks, unsigned int rows, unsigned int z, unsigned int threads, unsigned int ty,
		   unsigned int tz, unsigned int shared, void *stream, void **arguments, void **extra)
{
	const struct {
		uint64_t to, from, length;
	} *copies = arguments[0];

	/* As NVIDIA's does. */
	if (!blocks || !rows || !z || !threads || !ty || !tz) {
		fake_ipc_cuda.wrong++;
		return INVALID_VALUE;
	}
	if (function == &poll_kernel)
		return fake_ipc_cuda.kernel_error ? fake_ipc_cuda.kernel_error : launch_polling(arguments);
	if (function != &fake_ipc_cuda || z != 1 || threads * ty * tz > 1024 || shared || extra)
		return INVALID_VALUE;
	if (fake_ipc_cuda.kernel_error)
		return fake_ipc_cuda.kernel_error;
	fake_ipc_cuda.kernels++;
	for (unsigned int i = 0; i < rows; i++)
		queue((struct op) { .what = COPY, .to = copies[i].to, .from = copies[i].from, .value = copies[i].length });
	return 0;
}
