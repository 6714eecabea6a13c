// SPDX-License-Identifier: MIT
/*
 * test_copy.c - peerdma_copy_to_view() and _from_view() at every offset and many
 * sizes, with one method (argument 1; exit code 77: this CPU has not got it);
 * peerdma_flush_inbound() with and without CUDA (argument "flush").
 *
 * The "view" is ordinary memory between two pages without access: the
 * method is the same, and a byte too many is seen at once.  What write-combined
 * memory makes of it, live_regions tries in a virtual machine.
 */
#include <sys/mman.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "peerdma_copy.h"
#include "checks.h"

#define ROOM 8192UL	/* of the view: two pages */

static unsigned char *view, *other, *want;
static unsigned long copies;

static unsigned char *between_guards(void)
{
	unsigned char *p = mmap(NULL, ROOM + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + 4096, ROOM, PROT_READ | PROT_WRITE))
		exit(2);
	return p + 4096;
}

static int one(size_t at, size_t from, size_t n)
{
	int right;

	copies++;
	for (size_t i = 0; i < ROOM; i++) {
		view[i] = want[i] = 0xee;
		other[i] = (unsigned char)(i * 7 + n);
	}
	memcpy(want + at, other + from, n);
	peerdma_copy_to_view(view + at, other + from, n);
	peerdma_view_fence();
	right = !memcmp(view, want, ROOM);

	for (size_t i = 0; i < ROOM; i++) {
		view[i] = (unsigned char)(i * 11 + n);
		other[i] = want[i] = 0xdd;
	}
	memcpy(want + from, view + at, n);
	peerdma_copy_from_view(other + from, view + at, n);
	return right && !memcmp(other, want, ROOM);
}

/* ---- what a device would see ---- */

static unsigned char *passing;		/* the page of the view that may be touched */
static int passing_prot;
static volatile sig_atomic_t passes, comes_back;

/* Goes on with the next page, and no more with the one before it. */
static void touched(int sig, siginfo_t *info, void *context)
{
	unsigned char *at = info->si_addr;

	if (at >= passing + 4096 && at < passing + 8192) {
		mprotect(passing, 4096, PROT_NONE);
		passing += 4096;
		passes++;
	} else if (at >= passing - 4096 && at < passing) {
		comes_back++;
		passing -= 4096;	/* or this would never end */
		if (mprotect(passing, ROOM, PROT_READ | PROT_WRITE))
			_exit(2);
		return;
	} else {
		_exit(3);
	}
	if (mprotect(passing, 4096, passing_prot))
		_exit(2);
}

/* With head and end.  What lies in a view may be a device's, which sees each access, and each takes long. */
static bool once(bool to)
{
	passing = view;
	passing_prot = to ? PROT_READ | PROT_WRITE : PROT_READ;
	passes = comes_back = 0;
	if (mprotect(view, 4096, passing_prot) || mprotect(view + 4096, 4096, PROT_NONE))
		exit(2);
	if (to)
		peerdma_copy_to_view(view + 3, other + 3, ROOM - 8);
	else
		peerdma_copy_from_view(other + 3, view + 3, ROOM - 8);
	if (mprotect(view, ROOM, PROT_READ | PROT_WRITE))
		exit(2);
	return passes == 1 && !comes_back && !memcmp(other + 3, view + 3, ROOM - 8);
}

static void touches(const char *method)
{
	struct sigaction action = { .sa_sigaction = touched, .sa_flags = SA_SIGINFO }, was;

	for (size_t i = 0; i < ROOM; i++) {
		view[i] = (unsigned char)(i * 3);
		other[i] = (unsigned char)(i * 5);
	}
	sigaction(SIGSEGV, &action, &was);
	CHECK(once(true), "%s: writes forwards, and never goes back", method);
	for (size_t i = 0; i < ROOM; i++)
		other[i] = 0;
	CHECK(once(false), "%s: reads forwards, and never goes back", method);
	sigaction(SIGSEGV, &was, NULL);
}

static void copy(const char *method)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 33, 63, 64, 65, 127, 128, 129, 191, 200, 256, 1000 };
	size_t n = sizeof(sizes) / sizeof(sizes[0]);
	int wrong = 0;

	setenv("PEERDMA_COPY", method, 1);
	if (strcmp(peerdma_copy_method(), method)) {
		printf("this CPU has no %s; the best that it has is %s\n", method, peerdma_copy_method());
		exit(77);
	}
	view = between_guards();
	other = between_guards();
	want = malloc(ROOM);
	for (size_t at = 0; at < 64; at++)
		for (size_t i = 0; i < n; i++)
			wrong += !one(at, (at * 5 + i) % 67, sizes[i]);
	CHECK(!wrong, "%s: from every offset in a line, %d wrong", method, wrong);
	wrong = 0;
	for (size_t i = 0; i < n; i++)	/* up to the guard, on both sides */
		wrong += !one(ROOM - sizes[i], ROOM - sizes[i], sizes[i]) + !one(0, 0, sizes[i]);
	CHECK(!wrong, "%s: up to where memory ends, %d wrong", method, wrong);
	CHECK(one(3, 1, ROOM - 3) && one(0, 0, ROOM), "%s: all of it", method);
	touches(method);
	printf("%lu copies each way\n", copies);
	free(want);
}

static void flush(void)
{
	static struct cuda_calls cu;
	void *context;
	int device;

	CHECK(peerdma_flush_inbound(1) == -EINVAL, "a scope that there is not");
	CHECK(peerdma_flush_inbound(PEERDMA_FLUSH_TO_OWNER) == -ENODEV, "no CUDA yet");
	if (!CHECK(cuda_calls_load(&cu) && !cu.cuInit(0) && !cu.cuDeviceGet(&device, 0), "CUDA"))
		return;
	CHECK(peerdma_flush_inbound(PEERDMA_FLUSH_TO_OWNER) == -ENODEV, "no context yet");
	cu.cuDevicePrimaryCtxRetain(&context, device);
	cu.cuCtxSetCurrent(context);
	CHECK(!peerdma_flush_inbound(PEERDMA_FLUSH_TO_OWNER), "for the owner");
	CHECK(!peerdma_flush_inbound(PEERDMA_FLUSH_TO_ALL), "for all");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "flush"))
		flush();
	else if (argc == 2)
		copy(argv[1]);
	else
		return 2;
	return check_end(NULL);
}
