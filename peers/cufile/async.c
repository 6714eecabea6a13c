// SPDX-License-Identifier: MIT
/*
 * async.c - transfers in CUDA's streams: a host function of the stream gives the transfer to the worker and waits for it.  Sizes
 * and offsets are read when the stream comes to it.
 */
#include "cufile_int.h"

struct request {
	struct job job; /* first */
	CUfileHandle_t fh;
	void *base;
	const size_t *size;
	const off_t *file_offset, *memory_offset;
	ssize_t *moved;
	bool write;
	struct peerdma_cached *pin; /* of GPU memory, or NULL */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool over;
};

/*
 * Pinning asks CUDA to synchronize later copies (SYNC_MEMOPS), which waits for the GPU's work: in the stream it would wait for
 * itself.  So the program's thread pins, and the whole allocation, for size and offset are read later.  NULL: host memory; or it
 * is too large, and then the range that is known now is pinned, if that can be.
 */
static struct peerdma_cached *pin(const struct request *r)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };
	struct peerdma_cached *hold;

	if (peerdma_query(state.ctx, r->base, &memory) || memory.kind != PEERDMA_KIND_DEVICE)
		return NULL;
	if (!peerdma_cache_get(state.cache, (void *)(uintptr_t)memory.base, memory.length, &hold))
		return hold;
	if (!peerdma_cache_get(state.cache, (char *)r->base + *r->memory_offset, *r->size, &hold))
		return hold;
	return NULL;
}

static void unpin(struct request *r)
{
	if (r->pin)
		peerdma_cache_put(state.cache, r->pin);
	r->pin = NULL;
}

static void request_free(struct request *r)
{
	unpin(r);
	pthread_cond_destroy(&r->ended);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static struct transfer begin(struct job *job)
{
	const struct request *r = (const struct request *)job;

	return (struct transfer){ r->fh, r->base, *r->size, *r->file_offset, *r->memory_offset,
				  r->write };
}

static void ended(struct job *job, ssize_t n)
{
	struct request *r = (struct request *)job;

	if (n == -1 && errno == EBADF)
		n = -CU_FILE_INVALID_FILE_OPEN_FLAG; /* the file is open for the other direction */
	*r->moved = n == -1 ? -errno : n;
	unpin(r); /* here, since functions that CUDA calls must not call CUDA */
	pthread_mutex_lock(&r->lock);
	r->over = true;
	pthread_cond_signal(&r->ended);
	pthread_mutex_unlock(&r->lock);
}

/* In the stream's order.  The stream's later work waits until this returns. */
static void in_stream(void *arg)
{
	struct request *r = arg;
	int error = worker_give(&r->job);

	if (error) {
		*r->moved = error;
	} else {
		pthread_mutex_lock(&r->lock);
		while (!r->over)
			pthread_cond_wait(&r->ended, &r->lock);
		pthread_mutex_unlock(&r->lock);
	}
	request_free(r);
}

typedef CUresult launch_fn(CUstream stream, void (*fn)(void *arg), void *arg);

static CUfileError_t submit(const struct request *what, CUstream stream)
{
	launch_fn *launch = (launch_fn *)(uintptr_t)cuda_function("cuLaunchHostFunc");
	struct handle *h = handle_get(what->fh);
	struct request *r;
	CUresult error;

	if (!h || !what->base || !what->size || !what->file_offset || !what->memory_offset ||
	    !what->moved) {
		if (h)
			handle_put(h);
		if (what->moved)
			*what->moved = -EINVAL;
		return status(CU_FILE_INVALID_VALUE);
	}
	handle_put(h);
	if (!launch)
		return status(CU_FILE_ASYNC_NOT_SUPPORTED);
	r = malloc(sizeof(*r));
	if (!r)
		return status(CU_FILE_NOMEM_ERROR);
	*r = *what;
	r->pin = pin(r);
	r->job.context = current_context();
	r->job.begin = begin;
	r->job.ended = ended;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->ended, NULL);
	error = launch(stream, in_stream, r);
	if (!error)
		return status(CU_FILE_SUCCESS);
	request_free(r);
	return (CUfileError_t){ CU_FILE_CUDA_DRIVER_ERROR, error };
}

EXPORT CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *base, size_t *size,
				     off_t *file_offset, off_t *memory_offset, ssize_t *moved,
				     CUstream stream)
{
	return submit(&(struct request){ .fh = fh,
					 .base = base,
					 .size = size,
					 .file_offset = file_offset,
					 .memory_offset = memory_offset,
					 .moved = moved },
		      stream);
}

EXPORT CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *base, size_t *size,
				      off_t *file_offset, off_t *memory_offset, ssize_t *moved,
				      CUstream stream)
{
	return submit(&(struct request){ .fh = fh,
					 .base = base,
					 .size = size,
					 .file_offset = file_offset,
					 .memory_offset = memory_offset,
					 .moved = moved,
					 .write = true },
		      stream);
}

/* A stream needs no preparation here. */
EXPORT CUfileError_t cuFileStreamRegister(CUstream stream, unsigned int flags)
{
	(void)stream;
	return status(flags > 0xf ? CU_FILE_INVALID_VALUE : CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileStreamDeregister(CUstream stream)
{
	(void)stream;
	return status(CU_FILE_SUCCESS);
}
