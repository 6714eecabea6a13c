// SPDX-License-Identifier: MIT
/*
 * per_thread.c - the per-thread default streams: CU_STREAM_PER_THREAD.
 *
 * Each thread has one in each context, from the first time that it names it until the thread or the
 * context ends. It is an ordinary stream, so it waits for the legacy default stream, and that for it.
 */
#include <stdlib.h>

#include "stream.h"

struct own {
	unsigned long long ctx_id;	/* of one life of a context */
	CUstream stream;
};

static _Thread_local struct streams {
	struct own *own;
	unsigned int count;
} streams;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* The streams of contexts that have ended are gone already, which is no error here. */
static void thread_ends(void *unused)
{
	(void)unused;
	while (streams.count)
		cuStreamDestroy_v2(streams.own[--streams.count].stream);
	free(streams.own);
	streams = (struct streams) { 0 };
}

static void make_key(void)
{
	pthread_key_create(&key, thread_ends);
}

/* Otherwise a thread that makes and destroys contexts would keep a stream of each. */
static void forget_ended_contexts(void)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < streams.count; i++) {
		if (sgu_stream_ended(streams.own[i].stream))
			cuStreamDestroy_v2(streams.own[i].stream);
		else
			streams.own[kept++] = streams.own[i];
	}
	streams.count = kept;
}

static CUresult add(unsigned long long ctx_id, CUstream *stream)
{
	struct own *more;
	CUresult result;

	forget_ended_contexts();
	more = realloc(streams.own, (streams.count + 1) * sizeof(*more));
	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	streams.own = more;
	result = cuStreamCreate(stream, CU_STREAM_DEFAULT);
	if (result)
		return result;
	streams.own[streams.count++] = (struct own) { ctx_id, *stream };
	pthread_once(&key_once, make_key);
	/* with any value but NULL, thread_ends() runs at thread exit */
	pthread_setspecific(key, &key);
	return CUDA_SUCCESS;
}

CUresult sgu_thread_stream(CUstream *stream)
{
	unsigned long long ctx_id;
	struct sgu_ctx *ctx;
	uint32_t kctx;
	CUresult result = sgu_ctx_live(&ctx, &kctx);

	if (result)
		return result;
	ctx_id = atomic_load(&ctx->id);
	for (unsigned int i = 0; i < streams.count; i++) {
		if (streams.own[i].ctx_id == ctx_id) {
			*stream = streams.own[i].stream;
			return CUDA_SUCCESS;
		}
	}
	return add(ctx_id, stream);
}
