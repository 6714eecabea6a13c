// SPDX-License-Identifier: MIT
/*
 * gpu_streams.c - signals that CUDA's streams wait for and set, between two processes, each with a
 * context of its own on the GPU.  Exits with 77 where the GPU cannot (cuStreamWaitValue64).
 */
#include <sys/prctl.h>
#include <sys/socket.h>

#include "../lib/checks.h"
#include "cuda.h"
#include "peerdma_ipc.h"

#define ROUNDS	1000
#define SECONDS	10000000000ULL

static CUstream stream;
static CUdeviceptr memory;

static void begin(void)
{
	CUcontext context;
	CUdevice device;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate(&context, 0, device) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
	    cuMemAlloc(&memory, 4096)) {
		printf("skipped: no GPU\n");
		exit(77);
	}
}

static int set(struct peerdma_ipc_signal *s, uint64_t value)
{
	return peerdma_ipc_signal_stream_set(s, stream, value);
}

static int wait_for(struct peerdma_ipc_signal *s, uint64_t value)
{
	return peerdma_ipc_signal_stream_wait(s, stream, PEERDMA_IPC_GE, value);
}

/* Ping and pong, by streams alone: odd values are the parent's, even ones this process's. */
static int other(const struct peerdma_ipc_handle *handle)
{
	struct peerdma_ipc_signal *s;
	int bad = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin();
	if (peerdma_ipc_signal_open(handle, sizeof(*handle), &s))
		return 1;
	for (uint64_t i = 1; i <= ROUNDS; i++)
		bad |= wait_for(s, 2 * i - 1) || set(s, 2 * i);
	bad |= !!cuStreamSynchronize(stream);
	/* Then a copy, and a processor that sleeps. */
	bad |= peerdma_ipc_signal_wait(s, PEERDMA_IPC_GE, 2 * ROUNDS + 1, SECONDS, NULL);
	bad |= peerdma_ipc_signal_set(s, 2 * ROUNDS + 2);
	bad |= peerdma_ipc_signal_close(s);
	return bad;
}

int main(void)
{
	struct peerdma_ipc_signal *s = NULL;
	struct peerdma_ipc_handle handle;
	int pair[2], status = 0, ret, bad = 0;
	char bytes[4096] = { 1 };
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return 1;
	pid = fork();
	if (!pid)
		exit(read(pair[1], &handle, sizeof(handle)) == sizeof(handle) ? other(&handle) : 1);
	begin();
	CHECK(!peerdma_ipc_signal_create(0, 0, &s) && !peerdma_ipc_signal_export(s, &handle), "a signal");
	ret = set(s, 0);
	if (ret == -EOPNOTSUPP) {
		printf("skipped: %s\n", peerdma_last_error());
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return 77;
	}
	CHECK(!ret && !cuStreamSynchronize(stream) && write(pair[0], &handle, sizeof(handle)) == sizeof(handle), "a stream sets it: %s",
	      ret ? peerdma_last_error() : "");
	for (uint64_t i = 1; i <= ROUNDS; i++)
		bad += set(s, 2 * i - 1) || wait_for(s, 2 * i);
	CHECK(!bad && !cuStreamSynchronize(stream), "%d turns of two GPU streams, each in a process of its own", ROUNDS);
	CHECK(peerdma_ipc_signal_get(s) == 2 * ROUNDS, "the last value");
	CHECK(!cuMemcpyHtoDAsync(memory, bytes, sizeof(bytes), stream) && !set(s, 2 * ROUNDS + 1), "a copy, then its signal");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_GE, 2 * ROUNDS + 2, SECONDS, NULL), "the process that slept until then answers");
	CHECK(waitpid(pid, &status, 0) == pid && !status, "the other process saw no fault");
	CHECK(!peerdma_ipc_signal_close(s), "closed");
	return check_end(NULL);
}
