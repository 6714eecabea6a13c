// SPDX-License-Identifier: MIT
/*
 * peerdma_test_readers.c - two threads read events from one file.  The one that has taken an
 * event has nowhere to put it: the other one, which waits, gets it.
 */
#include <linux/userfaultfd.h>
#include <sys/syscall.h>

#include "peerdma_test_gpu.h"

struct reader {
	int fd;
	void *to;
	volatile pid_t tid;
	ssize_t got;
	int error;
	struct task task;
};

static void read_event(void *arg)
{
	struct reader *r = arg;

	r->tid = (int)syscall(SYS_gettid);
	r->got = read(r->fd, r->to, sizeof(struct peerdma_event));
	r->error = errno;
}

static void reader_begin(struct reader *r)
{
	task_begin(&r->task, read_event, r);
	while (!r->tid)
		usleep(1000);
}

void two_readers(void)
{
	uint64_t va = gpu_alloc(MIB), other = gpu_alloc(MIB);
	int fd = dev_open(), uffd;
	struct peerdma_event event = { 0 };
	struct reader first = { .fd = fd, .to = absent_memory(PAGE, &uffd) }, second = { .fd = fd, .to = &event };
	struct peerdma_pin_args a, b;
	struct uffd_msg message;

	CHECK(!fcntl(fd, F_SETFL, 0));
	WORKS(gpu_pin(fd, va, MIB, 0, &a));
	WORKS(gpu_pin(fd, other, MIB, 0, &b));
	reader_begin(&first);
	CHECK(!cu.MemFree(va));
	/* It has taken the event, and copies it. */
	CHECK(read(uffd, &message, sizeof(message)) == sizeof(message));
	reader_begin(&second);
	/* It has nothing else to sleep in than the read. */
	CHECK(UNTIL(state_of(second.tid) == 'S'));
	munmap(first.to, PAGE);
	close(uffd);
	task_end(&first.task);
	CHECK(first.got < 0 && first.error == EFAULT);
	CHECK(UNTIL(second.task.over) && event.handle == a.handle);
	/* Or it waits for the next one. */
	CHECK(!cu.MemFree(other));
	task_end(&second.task);
	close(fd);
}
