// SPDX-License-Identifier: MIT
/* window.c - the window of CUDA addresses, and the server whose clients share them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "parse.h"
#include "transport.h"
#include "window.h"

#define GIB	(1ull << 30)

static uint64_t window_base, window_end;
static uint32_t window_server;
static int gpu_count;

bool sgu_in_window(uint64_t va)
{
	return va >= window_base && va < window_end;
}

bool sgu_window_has_server(void)
{
	return window_server != 0;
}

/* Offers reserved addresses to the driver: 0; -EEXIST: another client of the server has them. */
static int offer(void *addr, size_t length, uint32_t server)
{
	/* mmap aligns to the CPU's pages, the window to the GPU's */
	uint64_t misaligned = -(uint64_t)addr & (SGU_PAGE - 1);
	struct softgpu_window window = {
		.size = sizeof(window), .server = server,
		.base = (uint64_t)addr + misaligned, .length = (length - misaligned) & ~(SGU_PAGE - 1),
	};
	int err = 0;

	for (int i = 0; i < gpu_count && !err; i++)
		err = sgu_call(i, SOFTGPU_WINDOW, &window);
	/* another copy of this library in the process was first: its window holds */
	if (err || window.base != (uint64_t)addr + misaligned)
		munmap(addr, length);
	if (err)
		return err;
	window_base = window.base;
	window_end = window.base + window.length;
	window_server = window.server;
	return 0;
}

/* The same with addresses that are reserved first; -ENOMEM: they are not free here. */
static int offer_at(uint64_t base, size_t length, uint32_t server)
{
	void *addr = sgu_reserve((void *)base, length, base ? MAP_FIXED_NOREPLACE : 0);

	if (addr == MAP_FAILED)
		return -ENOMEM;
	if (!base || addr == (void *)base)
		return offer(addr, length, server);
	/* a kernel that does not know the flag takes it for a hint */
	munmap(addr, length);
	return -ENOMEM;
}

static bool goes_on(int err)
{
	return err == -ENOMEM || err == -EEXIST;
}

/*
 * CUDA promises one address range for host and GPU memory.  We take it where
 * documents and old clients expect it, below 2^40, if something is free there.
 * A server's clients have room for 60 others there.
 */
static int take_window(uint32_t server)
{
	static const unsigned int lengths[] = { 64, 16, 4, 1 };
	const size_t first = server ? 1 : 0, count = sizeof(lengths) / sizeof(lengths[0]);
	int err = -ENOMEM;

	for (size_t i = first; i < count && goes_on(err); i++) {
		uint64_t step = lengths[first] * GIB;

		for (uint64_t base = 64 * GIB; base + step <= 1024 * GIB && goes_on(err); base += step)
			err = offer_at(base, lengths[i] * GIB, server);
	}
	for (size_t i = first; i < count && goes_on(err); i++)
		err = offer_at(0, lengths[i] * GIB, server);
	return err;
}

/* SOFTGPU_MPS: the number of a server; false: it is none. */
static bool server_wanted(uint32_t *server)
{
	const char *text = getenv("SOFTGPU_MPS");
	uint64_t value = 0;

	if (text && (!sgu_number(text, strlen(text), &value) || value > UINT32_MAX)) {
		sgu_log("SOFTGPU_MPS=%s: must be a server's number, 0 to %u", text, UINT32_MAX);
		return false;
	}
	*server = (uint32_t)value;
	return true;
}

int sgu_window_open(int gpus)
{
	uint32_t server;
	int err;

	if (!server_wanted(&server))
		return -EINVAL;
	gpu_count = gpus;
	err = take_window(server);
	if (err == -ENOMEM)
		sgu_log("cannot reserve CUDA's window of addresses: %s (is ulimit -v set?)", strerror(-err));
	return err;
}
