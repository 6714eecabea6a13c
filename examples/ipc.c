// SPDX-License-Identifier: MIT
/*
 * ipc.c - two processes share memory and a signal: one fills the memory and sets the signal, the
 * other waits, reads, and detects that the memory was freed.
 *
 *	cc ipc.c $(pkg-config --cflags --libs libpeerdma)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <peerdma.h>
#include <peerdma_ipc.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH	(1UL << 20)
#define FOREVER	UINT64_MAX

/* What goes from one to the other: any channel will do. */
struct handles {
	struct peerdma_ipc_handle memory, ready, seen;
};

static int failed(const char *who)
{
	fprintf(stderr, "%s: %s\n", who, peerdma_last_error());
	return 1;
}

static int importer(int channel)
{
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	struct peerdma_ipc_signal *ready, *seen;
	struct peerdma_ipc_memory *memory;
	struct handles h;

	if (read(channel, &h, sizeof(h)) != sizeof(h))
		return 1;
	if (peerdma_ipc_open(&h.memory, sizeof(h.memory), 0, &memory) ||
	    peerdma_ipc_signal_open(&h.ready, sizeof(h.ready), &ready) ||
	    peerdma_ipc_signal_open(&h.seen, sizeof(h.seen), &seen) ||
	    peerdma_ipc_query(memory->ptr, &info))
		return failed("importer");

	/* -EOWNERDEAD if the exporter dies meanwhile: no wait is for ever. */
	if (peerdma_ipc_signal_wait(ready, PEERDMA_IPC_EQ, 1, FOREVER, NULL))
		return failed("importer");
	printf("importer: \"%s\" in %llu bytes of process %d, provider %s\n", (char *)memory->ptr,
	       (unsigned long long)info.length, info.pid, info.provider);
	if (!peerdma_ipc_valid(memory))
		printf("importer: freed meanwhile: what was read is worthless\n");

	if (peerdma_ipc_signal_set(seen, 1) || peerdma_ipc_signal_wait(ready, PEERDMA_IPC_EQ, 2, FOREVER, NULL))
		return failed("importer");
	printf("importer: %s\n", peerdma_ipc_valid(memory) ? "still live?" : "the exporter has freed it, and the library says so");
	peerdma_ipc_close(memory);
	if (peerdma_ipc_open(&h.memory, sizeof(h.memory), 0, &memory) != -ESTALE)
		return failed("importer");
	peerdma_ipc_signal_close(seen);
	peerdma_ipc_signal_close(ready);
	return 0;
}

static int exporter(int channel)
{
	struct peerdma_ipc_signal *ready, *seen;
	struct handles h;
	void *memory;
	int status;

	if (peerdma_ipc_alloc(LENGTH, 0, &memory) || peerdma_ipc_export(memory, LENGTH, 0, &h.memory) ||
	    peerdma_ipc_signal_create(0, 0, &ready) || peerdma_ipc_signal_export(ready, &h.ready) ||
	    peerdma_ipc_signal_create(0, 0, &seen) || peerdma_ipc_signal_export(seen, &h.seen))
		return failed("exporter");
	if (write(channel, &h, sizeof(h)) != sizeof(h))
		return 1;
	strcpy(memory, "hello from another process");
	if (peerdma_ipc_signal_set(ready, 1) || peerdma_ipc_signal_wait(seen, PEERDMA_IPC_EQ, 1, FOREVER, NULL))
		return failed("exporter");
	/* Ends the export first. Memory of a GPU is freed as always: cuMemFree(), with libpeerdma-hooks. */
	peerdma_ipc_free(memory);
	if (peerdma_ipc_signal_set(ready, 2))
		return failed("exporter");
	wait(&status);
	peerdma_ipc_signal_close(seen);
	peerdma_ipc_signal_close(ready);
	return status ? 1 : 0;
}

int main(void)
{
	int channel[2];
	pid_t pid;

	if (pipe(channel))
		return 1;
	/* Before either uses the library: what a process exports and opens is its own. */
	pid = fork();
	if (pid < 0)
		return 1;
	if (!pid)
		return importer(channel[0]);
	return exporter(channel[1]);
}
