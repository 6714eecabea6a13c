// SPDX-License-Identifier: MIT
/* cuda_copy.c - work on CUDA's streams: copies, and signals that streams wait for and set. */
#include <string.h>

#include "base/cancel.h"
#include "cuda.h"
#include "ipc.h"

#define STREAMS 64

/* One stream for each context that made a copy. Context ids are never reused. */
static struct context_stream {
	uint64_t context;
	void *stream;
	void *function;
	bool tried;			/* loading the function was attempted */
} streams[STREAMS];
static unsigned int next;
static uint64_t made_in;		/* process_id() of the process that made them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Caller holds lock. */
static void *stream_of_locked(uint64_t context)
{
	for (unsigned int i = 0; made_in == process_id() && i < STREAMS; i++) {
		if (streams[i].stream && streams[i].context == context)
			return streams[i].stream;
	}
	return NULL;
}

static void *stream_of(uint64_t context)
{
	void *stream;

	pthread_mutex_lock(&lock);
	stream = stream_of_locked(context);
	pthread_mutex_unlock(&lock);
	return stream;
}

/*
 * Stores the stream of a context. Returns the stored stream, which is another one if another thread
 * was first; then the caller destroys its own.
 */
static void *store_stream(uint64_t context, void *stream)
{
	void *first;

	pthread_mutex_lock(&lock);
	if (made_in != process_id()) {
		memset(streams, 0, sizeof(streams));
		made_in = process_id();
	}
	first = stream_of_locked(context);
	if (!first)
		streams[next++ % STREAMS] = (struct context_stream){ .context = context,
								     .stream = stream };
	pthread_mutex_unlock(&lock);
	return first ? first : stream;
}

int ipc_cuda_stream(void **stream)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	uint64_t context;
	int ret = ipc_cuda_context(&context);
	void *made;
	CUresult r;

	if (ret)
		return ret;
	if (!cuda->stream_create || !cuda->stream_sync || !cuda->copy || !cuda->callback)
		return fail(-EIO, "this libcuda has no streams");
	*stream = stream_of(context);
	if (*stream)
		return 0;
	r = cuda->stream_create(&made, CUDA_STREAM_NON_BLOCKING);
	if (r)
		return fail(-EIO, "cuStreamCreate failed with CUDA error %d", r);
	*stream = store_stream(context, made);
	if (*stream != made && cuda->stream_destroy)
		cuda->stream_destroy(made);
	return 0;
}

/*
 * Caller holds lock. Returns the entry of a stream. NULL: the stream failed, or a later stream took
 * its entry.
 */
static struct context_stream *find_stream(const void *stream)
{
	for (unsigned int i = 0; made_in == process_id() && i < STREAMS; i++) {
		if (streams[i].stream == stream)
			return &streams[i];
	}
	return NULL;
}

void *ipc_cuda_function(void *stream)
{
	void *function, *loaded, *module = NULL;
	struct context_stream *k;
	bool tried, later;

	pthread_mutex_lock(&lock);
	k = find_stream(stream);
	function = k ? k->function : NULL;
	tried = !k || k->tried;
	pthread_mutex_unlock(&lock);
	if (tried)
		return function;
	loaded = ipc_cuda_kernel_load(&module, &later);
	pthread_mutex_lock(&lock);
	k = find_stream(stream);
	tried = k && k->tried;		/* another thread has loaded an equivalent function */
	if (k && !tried) {
		k->function = loaded;
		k->tried = !later;
	}
	function = k ? k->function : loaded;
	pthread_mutex_unlock(&lock);
	if (tried && loaded)
		ipc_cuda_api()->module_unload(module);
	return function;
}

void ipc_cuda_stream_lost(void *stream)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < STREAMS; i++) {
		if (streams[i].stream == stream)
			streams[i].stream = NULL;
	}
	pthread_mutex_unlock(&lock);
}

int ipc_cuda_copy(void *stream, uint64_t to, uint64_t from, uint64_t length)
{
	CUresult r = ipc_cuda_api()->copy(to, from, length, stream);

	if (r)
		return fail(-EIO, "cuMemcpyAsync of %llu bytes failed with CUDA error %d",
			    (unsigned long long)length, r);
	return 0;
}

int ipc_cuda_copy_2d(void *stream, const struct ipc_copy_2d *rows)
{
	const struct ipc_copy *first = rows->first;
	const struct cuda_2d copy = {
		.from = { .type = CUDA_MEMORY_UNIFIED,
			  .device = first->from,
			  .pitch = rows->from_pitch },
		.to = { .type = CUDA_MEMORY_UNIFIED, .device = first->to, .pitch = rows->to_pitch },
		.width = first->length, .height = rows->n,
	};

	if (!ipc_cuda_api()->copy_2d)
		return -EOPNOTSUPP;
	return ipc_cuda_api()->copy_2d(&copy, stream) ? -EIO : 0;
}

int ipc_cuda_batch(void *stream, const struct ipc_copies *copies, unsigned int n)
{
	struct cuda_batch how = { .order = CUDA_ORDER_STREAM };
	CUdeviceptr to[IPC_COPIES], from[IPC_COPIES];
	size_t lengths[IPC_COPIES], first = 0;

	if (!ipc_cuda_api()->batch)
		return -EOPNOTSUPP;
	for (unsigned int i = 0; i < n; i++) {
		to[i] = copies->copy[i].to;
		from[i] = copies->copy[i].from;
		lengths[i] = copies->copy[i].length;
	}
	return ipc_cuda_api()->batch(to, from, lengths, n, &how, &first, 1, stream) ? -EIO : 0;
}

int ipc_cuda_wait(void *stream)
{
	CUresult r = ipc_cuda_api()->stream_sync(stream);

	return r ? fail(-EIO, "cuStreamSynchronize failed with CUDA error %d", r) : 0;
}

int ipc_cuda_then(void *stream, void (*fn)(void *stream, int error, void *arg), void *arg)
{
	/*
	 * cuStreamAddCallback() also calls fn after the context has failed; cuLaunchHostFunc() does
	 * not.
	 */
	CUresult r = ipc_cuda_api()->callback(stream, fn, arg, 0);

	return r ? fail(-EIO, "cuStreamAddCallback failed with CUDA error %d", r) : 0;
}

static int copy_by_cuda(uint64_t gpu, void *host, uint64_t length, bool back)
{
	const struct cuda_ipc *cuda;
	void *stream;
	int ret = ipc_cuda_stream(&stream);
	CUresult r;

	if (ret)
		return ret;
	cuda = ipc_cuda_api();
	if (!cuda->copy_in || !cuda->copy_out)
		return fail(-EIO, "this libcuda has no cuMemcpyHtoDAsync() and cuMemcpyDtoHAsync()");
	r = back ? cuda->copy_out(host, gpu, length, stream) :
		   cuda->copy_in(gpu, host, length, stream);
	if (r)
		return fail(-EIO, "%s of %llu bytes failed with CUDA error %d",
			    back ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync",
			    (unsigned long long)length, r);
	ret = ipc_cuda_wait(stream);
	if (ret)
		ipc_cuda_stream_lost(stream);
	return ret;
}

int ipc_gpu_copy(void *gpu, void *host, uint64_t length, bool back)
{
	struct peerdma_memory m = { .device = -1 };
	int was = cancel_off(), capture = cuda_capture_leave(), error = 0, ret;

	if (cuda_query(gpu, &m, &error) == CUDA_KNOWN)
		ret = copy_by_cuda((uintptr_t)gpu, host, length, back);
	else if (hsa_query(gpu, &m))
		ret = ipc_hsa_copy(back ? host : gpu, back ? gpu : host, length);
	else
		ret = fail(-ESTALE, "neither CUDA nor HSA knows memory of a GPU at %p", gpu);
	cuda_capture_return(capture);
	cancel_back(was);
	return ret;
}

/* ---- signals ---- */

int ipc_cuda_register(void *addr, size_t length)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	uint64_t context;
	int ret = ipc_cuda_context(&context), capture;
	CUresult r;

	if (ret)
		return ret;
	if (!cuda->stream_wait || !cuda->stream_write || !cuda->host_register ||
	    !cuda->host_device_pointer)
		return fail(-EOPNOTSUPP,
			    "this libcuda has no cuStreamWaitValue64_v2() and cuStreamWriteValue64_v2(); wait with "
			    "peerdma_ipc_signal_wait(), and set the signal in a function of cuLaunchHostFunc()");
	capture = cuda_capture_leave();
	r = cuda->host_register(addr, length, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP);
	cuda_capture_return(capture);
	if (r == CUDA_ERROR_ALREADY_REGISTERED)	/* another thread has registered it */
		return 0;
	if (r)
		return fail(-EIO, "cuMemHostRegister of a signal's page failed with CUDA error %d", r);
	return 0;
}

void ipc_cuda_unregister(void *addr)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	int capture;

	if (cuda && cuda->host_unregister) {
		capture = cuda_capture_leave();
		cuda->host_unregister(addr);
		cuda_capture_return(capture);
	}
}

static int result(CUresult r, const char *call)
{
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return fail(-EOPNOTSUPP, "%s is not supported by this GPU", call);
	return r ? fail(-EIO, "%s failed with CUDA error %d", call, r) : 0;
}

int ipc_cuda_stream_wait(void *stream, void *addr, uint64_t value, bool ge)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	CUdeviceptr device;
	CUresult r = cuda->host_device_pointer(&device, addr, 0);

	if (!r)
		r = cuda->stream_wait(stream, device, value, ge ? CUDA_WAIT_GEQ : CUDA_WAIT_EQ);
	return result(r, "cuStreamWaitValue64");
}

int ipc_cuda_stream_write(void *stream, void *addr, uint64_t value)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	CUdeviceptr device;
	CUresult r = cuda->host_device_pointer(&device, addr, 0);

	if (!r)
		r = cuda->stream_write(stream, device, value, 0);
	return result(r, "cuStreamWriteValue64");
}
