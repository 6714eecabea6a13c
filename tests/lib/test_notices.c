// SPDX-License-Identifier: MIT
/*
 * test_notices.c - a context to which both the kernel and the library report revocations:
 * one descriptor becomes readable for both.  The kernel is a stand-in, and the GPU is
 * softgpu's, in this process.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "../cases.h"
#include "cuda_calls.h"
#include "fake_sys.h"
#include "peerdma.h"

#define LENGTH 65536UL

static struct cuda_calls cu;
static int input_closed;	/* another thread closes descriptor 0 just before the library asks for one */

int epoll_create1(int flags)
{
	if (input_closed)
		close(0);
	return (int)syscall(SYS_epoll_create1, flags);
}

/* The stand-in's file, which is readable while an event waits. */
static int kernel_file(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	int ret = fd < 0 || dup2(fd, FAKE_FD) != FAKE_FD;

	fake_reset();
	if (fd >= 0)
		close(fd);
	return ret;
}

static int no_file(void **state)
{
	close(FAKE_FD);
	return 0;
}

FIXTURE(kernel_file, no_file)

static int readable(const struct peerdma *ctx)
{
	struct pollfd p = { .fd = peerdma_event_fd(ctx), .events = POLLIN };

	return poll(&p, 1, 0);
}

static struct peerdma_region *pin(struct peerdma *ctx, void *memory, const char *backend)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_region *region;

	if (peerdma_pin(ctx, memory, LENGTH, 0, NULL, &region))
		fail_msg("%s", peerdma_last_error());
	assert_int_equal(peerdma_status(region, &status), 0);
	assert_string_equal(status.backend, backend);
	return region;
}

static void reported(struct peerdma *ctx, const struct peerdma_region *region)
{
	struct peerdma_notice n = { .size = sizeof(n) };

	assert_int_equal(peerdma_next_event(ctx, &n, 0), 0);
	assert_ptr_equal(n.region, region);
	assert_int_equal(peerdma_next_event(ctx, &n, 0), -EAGAIN);
}

/* GPU memory is pinned and freed. */
static void free_is_reported(struct peerdma *ctx)
{
	struct peerdma_region *region;
	gpu_ptr p;

	assert_int_equal(cu.cuMemAlloc_v2(&p, LENGTH), 0);
	region = pin(ctx, (void *)(uintptr_t)p, "soft");
	assert_int_equal(readable(ctx), 0);
	assert_int_equal(cu.cuMemFree_v2(p), 0);
	assert_int_equal(readable(ctx), 1);
	reported(ctx, region);
	assert_int_equal(readable(ctx), 0);
}

CASE(both)
{
	void *memory = aligned_alloc(LENGTH, LENGTH);
	struct peerdma_region *of_kernel;
	struct peerdma *ctx;
	eventfd_t count;

	assert_non_null(memory);
	assert_int_equal(peerdma_open(&ctx, 0), 0);
	of_kernel = pin(ctx, memory, "kernel");
	fake.pin_error = -ENXIO;	/* the kernel does not know the GPU's memory */
	free_is_reported(ctx);
	fake_revoke(1);
	assert_int_equal(eventfd_write(FAKE_FD, 1), 0);
	assert_int_equal(readable(ctx), 1);
	reported(ctx, of_kernel);
	assert_int_equal(eventfd_read(FAKE_FD, &count), 0);
	assert_int_equal(readable(ctx), 0);

	peerdma_close(ctx);
	free(memory);
}

/* Likewise where the kernel is the last that is asked. */
CASE(other_order)
{
	struct peerdma *ctx;

	setenv("PEERDMA_PROVIDER", "soft,kernel", 1);
	assert_int_equal(peerdma_open(&ctx, 0), 0);
	setenv("PEERDMA_PROVIDER", "kernel,soft", 1);
	assert_int_equal(fake.opens, 1);
	free_is_reported(ctx);
	peerdma_close(ctx);
}

/* A daemon closes all descriptors: what has their numbers then is not written to, nor closed. */
CASE(closed)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	bool was[64] = { false };
	struct peerdma *ctx;
	struct stat st;
	gpu_ptr p;

	for (int fd = 3; fd < 64; fd++)
		was[fd] = fcntl(fd, F_GETFD) >= 0;
	assert_int_equal(peerdma_open(&ctx, 0), 0);
	fake.pin_error = -ENXIO;
	assert_int_equal(cu.cuMemAlloc_v2(&p, LENGTH), 0);
	pin(ctx, (void *)(uintptr_t)p, "soft");
	for (int fd = 3; fd < 64; fd++) {
		if (!was[fd] && fcntl(fd, F_GETFD) >= 0) {
			int file = memfd_create("the program's", 0);

			dup2(file, fd);
			close(file);
			was[fd] = true;
		} else {
			was[fd] = false;
		}
	}
	assert_int_equal(cu.cuMemFree_v2(p), 0);
	assert_int_equal(peerdma_next_event(ctx, &n, 0), 0);
	assert_int_equal(peerdma_next_event(ctx, &n, 0), -EBADF);
	assert_non_null(strstr(peerdma_last_error(), "the program has closed the descriptor"));
	peerdma_close(ctx);
	for (int fd = 3; fd < 64; fd++) {
		if (!was[fd])
			continue;
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, 0);
		close(fd);
	}
}

static int lowest(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void not_opened(int error)
{
	struct peerdma *ctx = (void *)1;

	assert_int_equal(peerdma_open(&ctx, 0), error);
	assert_ptr_equal(ctx, (void *)1);
	assert_non_null(strstr(peerdma_last_error(), "peerdma_open: no descriptor for notices: "));
	assert_int_equal(fake.opens, fake.closes);
}

/* There is one for the library's notices, and none for both. */
CASE(no_second)
{
	struct rlimit was, now;
	int first = lowest();

	getrlimit(RLIMIT_NOFILE, &was);
	now = was;
	now.rlim_cur = (rlim_t)first + 2;	/* for the pipe */
	setrlimit(RLIMIT_NOFILE, &now);
	not_opened(-EMFILE);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(lowest(), first);
}

/* The one for both cannot have the kernel's file: it is closed, also if it is descriptor 0. */
CASE(not_together)
{
	int first = lowest(), input = dup(0);

	no_file(NULL);
	not_opened(-EBADF);
	input_closed = 1;
	not_opened(-EBADF);
	input_closed = 0;
	assert_int_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(dup2(input, 0), 0);
	close(input);
	assert_int_equal(lowest(), first);
}

int main(void)
{
	void *context;

	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
		return 1;
	return cases_run(NULL, NULL);
}
