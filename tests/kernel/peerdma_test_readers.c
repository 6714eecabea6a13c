// SPDX-License-Identifier: MIT
/*
 * peerdma_test_readers.c - two threads read events from one file.  The one that has taken an
 * event has nowhere to put it: the other one, which waits, gets it.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "peerdma_test_gpu.h"

#define MIB (1UL << 20)
#define SECONDS 20

struct reader {
	int fd;
	void *to;
	atomic_int tid;
	atomic_bool done;
	ssize_t got;
	int error;
	pthread_t thread;
};

static void *reader(void *arg)
{
	struct reader *r = arg;

	r->tid = (int)syscall(SYS_gettid);
	r->got = read(r->fd, r->to, sizeof(struct peerdma_event));
	r->error = errno;
	r->done = true;
	return NULL;
}

static void begin(struct reader *r)
{
	CHECK(!pthread_create(&r->thread, NULL, reader, r));
	while (!r->tid)
		usleep(1000);
}

/* It has nothing else to sleep in than the read. */
static bool sleeps(const struct reader *r)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", r->tid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

/* A page that does not come, but goes. */
static char *page_make(int *uffd)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	CHECK(page != MAP_FAILED && *uffd >= 0);
	WORKS(ioctl(*uffd, UFFDIO_API, &api));
	reg.range.start = (uintptr_t)page;
	reg.range.len = PAGE;
	WORKS(ioctl(*uffd, UFFDIO_REGISTER, &reg));
	return page;
}

void two_readers(void)
{
	uint64_t va = gpu_alloc(MIB), other = gpu_alloc(MIB);
	int fd = dev_open(), uffd;
	struct peerdma_event event = { 0 };
	struct reader first = { .fd = fd, .to = page_make(&uffd) }, second = { .fd = fd, .to = &event };
	struct peerdma_pin_args a, b;
	struct uffd_msg message;

	CHECK(!fcntl(fd, F_SETFL, 0));
	WORKS(gpu_pin(fd, va, MIB, 0, &a));
	WORKS(gpu_pin(fd, other, MIB, 0, &b));
	begin(&first);
	CHECK(!cu.MemFree(va));
	/* It has taken the event, and copies it. */
	CHECK(read(uffd, &message, sizeof(message)) == sizeof(message));
	begin(&second);
	while (!sleeps(&second))
		usleep(1000);
	munmap(first.to, PAGE);
	close(uffd);
	pthread_join(first.thread, NULL);
	CHECK(first.got < 0 && first.error == EFAULT);
	for (int i = 0; i < SECONDS * 100 && !second.done; i++)
		usleep(10000);
	CHECK(second.done && event.handle == a.handle);
	/* Or it waits for the next one. */
	CHECK(!cu.MemFree(other));
	pthread_join(second.thread, NULL);
	close(fd);
}
