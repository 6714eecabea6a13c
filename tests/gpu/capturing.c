// SPDX-License-Identifier: MIT
/*
 * capturing.c - the library's calls while the program records a CUDA graph.
 *
 * In capture mode "global", CUDA's default, a call that might be unsafe, such as an allocation in any thread, fails,
 * and ends the capture with an error. The program does not mean to capture a library's calls: none of them may end the
 * capture, and each must do what it does at other times. softgpu has no graphs, so only tests/gpu/run runs this.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "peerdma_cache.h"
#include "peerdma_ipc.h"

#define SIZE	(4UL << 20)

static struct cuda_calls cu;
static int (*begin)(void *stream, int mode);
static int (*end)(void *stream, void **graph);
static int (*graph_destroy)(void *graph);
static int (*stream_create)(void **stream, unsigned int flags);
static int (*memset_async)(gpu_ptr, unsigned char, size_t, void *stream);

static void *stream, *other;
static gpu_ptr mine, target;
static struct peerdma *ctx;
static struct peerdma_region *region;
static struct peerdma_ipc_memory *there;
static struct peerdma_ipc_signal *done;
static struct peerdma_ipc_handle handles[2];	/* of the other process; of ours */

static void need(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "capturing: %s: %d, %s\n", what, failed, peerdma_last_error());
	exit(1);
}

static gpu_ptr start_cuda(void)
{
	gpu_ptr p = 0;
	void *context;

	need(cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context) || cu.cuMemAlloc_v2(&p, SIZE) ||
	     cu.cuMemsetD8_v2(p, 5, SIZE), "cuInit, a context, memory");
	return p;
}

/* The other process: exports memory until its input ends. */
static int exporter(void)
{
	struct peerdma_ipc_handle handle;
	gpu_ptr p = start_cuda();
	char c;

	need(peerdma_ipc_export((void *)p, SIZE, PEERDMA_IPC_I_UNEXPORT, &handle), "peerdma_ipc_export");
	need(write(1, &handle, sizeof(handle)) != sizeof(handle), "write");
	return read(0, &c, 1) ? 1 : 0;
}

static pid_t start_exporter(const char *program)
{
	int out[2], in[2];
	pid_t child;

	need(pipe(out) || pipe(in), "pipe");
	child = fork();
	need(child < 0, "fork");
	if (!child) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		execl(program, program, "exporter", (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	need(read(out[0], &handles[0], sizeof(handles[0])) != sizeof(handles[0]), "the other process's handle");
	return child;
}

/* ---- the calls ---- */

static int query(void)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	return peerdma_query(NULL, (void *)target, &m) || m.kind != PEERDMA_KIND_DEVICE;
}

static int pin(void)
{
	const char *provider = getenv("PEERDMA_PROVIDER");

	return peerdma_pin(ctx, (void *)target, SIZE, provider && strstr(provider, "staging") ? PEERDMA_STAGING : 0, NULL, &region);
}

static int sync_it(void)
{
	return !region ? -1 : peerdma_sync(region, 0, SIZE, PEERDMA_FROM_DEVICE);
}

static int unpin(void)
{
	int ret = region ? peerdma_unpin(region) : -1;

	region = NULL;
	return ret;
}

static int export(void)
{
	return peerdma_ipc_export((void *)target, SIZE, PEERDMA_IPC_I_UNEXPORT, &handles[1]);
}

static int unexport(void)
{
	return peerdma_ipc_unexport(&handles[1]);
}

static int open_it(void)
{
	return peerdma_ipc_open(&handles[0], sizeof(handles[0]), 0, &there);
}

static int close_it(void)
{
	int ret = there ? peerdma_ipc_close(there) || peerdma_ipc_trim() : -1;

	there = NULL;
	return ret;
}

static int copy(unsigned int flags, struct peerdma_ipc_signal *signal, uint64_t length)
{
	struct peerdma_ipc_transfer t = {
		.size = sizeof(t), .flags = PEERDMA_IPC_READ | flags, .memory = there, .local = (void *)target, .length = length,
	};
	int ret = there ? peerdma_ipc_copy(&t, 1, signal, 1) : -1;

	return ret || !signal ? ret : peerdma_ipc_signal_wait(signal, PEERDMA_IPC_EQ, 1, 5000000000, NULL);
}

static int by_engine(void)
{
	return copy(0, NULL, SIZE);
}

/* Many, in another order: one would be an engine's. */
static int by_kernel(void)
{
	struct peerdma_ipc_transfer t[16];

	for (unsigned int i = 0; i < 16; i++)
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .flags = PEERDMA_IPC_READ | PEERDMA_IPC_KERNEL, .memory = there, .offset = i * 7 % 16 * 256,
			.local = (char *)target + i * 256, .length = 256,
		};
	return there ? peerdma_ipc_copy(t, 16, NULL, 0) : -1;
}

static int by_waiting_kernel(void)
{
	return copy(PEERDMA_IPC_POLL, NULL, 64);
}

static int then_signal(void)
{
	return peerdma_ipc_signal_set(done, 0) || copy(0, done, SIZE);
}

static int stream_sets(void)
{
	return peerdma_ipc_signal_stream_set(done, other, 7) || peerdma_ipc_signal_wait(done, PEERDMA_IPC_EQ, 7, 5000000000, NULL);
}

static const struct step {
	const char *name;
	int (*call)(void);
} steps[] = {
	{ "peerdma_query", query }, { "peerdma_pin", pin }, { "peerdma_sync", sync_it }, { "peerdma_unpin", unpin },
	{ "peerdma_ipc_export", export }, { "peerdma_ipc_unexport", unexport }, { "peerdma_ipc_open", open_it },
	{ "peerdma_ipc_copy", by_engine }, { "peerdma_ipc_copy, again", by_engine }, { "peerdma_ipc_copy, KERNEL", by_kernel },
	{ "peerdma_ipc_copy, KERNEL, again", by_kernel }, { "peerdma_ipc_copy, POLL", by_waiting_kernel },
	{ "peerdma_ipc_copy, POLL, again", by_waiting_kernel }, { "peerdma_ipc_copy, with a signal", then_signal },
	{ "peerdma_ipc_signal_stream_set", stream_sets }, { "peerdma_ipc_close", close_it },
};

static int failed_in_thread;

static void *in_thread(void *arg)
{
	const struct step *s = arg;
	void *context;

	need(cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	failed_in_thread = s->call();
	return NULL;
}

/* In the capturing thread, or in another one. */
static int step(const struct step *s, int threads)
{
	void *graph = NULL;
	int ret, r;

	need(begin(stream, 0), "cuStreamBeginCapture");
	need(memset_async(mine, 1, SIZE, stream), "cuMemsetD8Async");
	if (threads) {
		pthread_t thread;

		need(pthread_create(&thread, NULL, in_thread, (void *)s), "pthread_create");
		pthread_join(thread, NULL);
		ret = failed_in_thread;
	} else {
		ret = s->call();
	}
	r = end(stream, &graph);
	if (graph)
		graph_destroy(graph);
	printf("%sok - %s%s: %d, the capture %d%s%s\n", ret || r ? "not " : "", s->name, threads ? ", another thread" : "", ret, r,
	       ret ? ": " : "", ret ? peerdma_last_error() : "");
	return ret || r;
}

static void find(const char *name, void *function)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol = library ? dlsym(library, name) : NULL;

	if (!symbol) {
		printf("skipped: libcuda.so.1 has no %s()\n", name);
		exit(77);
	}
	memcpy(function, &symbol, sizeof(symbol));
}

int main(int argc, char **argv)
{
	int failed = 0, status;
	pid_t child;

	if (!cuda_calls_load(&cu)) {
		printf("skipped: no libcuda.so.1\n");
		return 77;
	}
	if (argc > 1)
		return exporter();
	find("cuStreamBeginCapture_v2", &begin);
	find("cuStreamEndCapture", &end);
	find("cuGraphDestroy", &graph_destroy);
	find("cuStreamCreate", &stream_create);
	find("cuMemsetD8Async", &memset_async);
	setvbuf(stdout, NULL, _IOLBF, 0);
	child = start_exporter(argv[0]);
	mine = start_cuda();
	need(cu.cuMemAlloc_v2(&target, SIZE) || stream_create(&stream, 1) || stream_create(&other, 1), "memory, streams");
	need(peerdma_open(&ctx, 0), "peerdma_open");
	need(peerdma_ipc_signal_create(0, 0, &done), "peerdma_ipc_signal_create");
	for (int threads = 0; threads < 2; threads++) {
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
			failed += step(&steps[i], threads);
	}
	peerdma_ipc_signal_close(done);
	peerdma_close(ctx);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return failed ? 1 : 0;
}
