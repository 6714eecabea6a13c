// SPDX-License-Identifier: MIT
/*
 * worker.c - one thread that makes transfers for streams, by a queue: those of several streams are under way at the same time.
 * What is copied, libpeerdma copies in a stream of its own, and so waits for no stream of the program.
 */
#include <dlfcn.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "cufile_int.h"

#define DEPTH 64U

typedef CUresult get_fn(void **context);
typedef CUresult set_fn(void *context);

void *cuda_function(const char *name)
{
	static void *library;

	if (!__atomic_load_n(&library, __ATOMIC_ACQUIRE))
		__atomic_store_n(&library, dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD),
				 __ATOMIC_RELEASE);
	return library ? dlsym(library, name) : NULL;
}

void *current_context(void)
{
	get_fn *get = (get_fn *)(uintptr_t)cuda_function("cuCtxGetCurrent");
	void *context;

	return get && !get(&context) ? context : NULL;
}

struct worker {
	pthread_mutex_t lock; /* all below but the thread's own */
	struct job *first, **last;
	pid_t runs_in; /* the process that has the thread: a forked child has none */
	int wake; /* an eventfd: there are jobs */
	struct peerdma_file_queue *queue; /* the thread's */
	unsigned int under_way; /* the thread's */
};
static struct worker worker = { .lock = PTHREAD_MUTEX_INITIALIZER, .last = &worker.first };

static struct job *take(void)
{
	struct job *job;

	pthread_mutex_lock(&worker.lock);
	job = worker.first;
	if (job) {
		worker.first = job->next;
		if (!worker.first)
			worker.last = &worker.first;
	}
	pthread_mutex_unlock(&worker.lock);
	return job;
}

static void begin(struct job *job)
{
	set_fn *set = (set_fn *)(uintptr_t)cuda_function("cuCtxSetCurrent");
	struct peerdma_file_io *io = &job->io;
	struct handle *h;
	ssize_t n;
	int ret;

	if (set)
		set(job->context);
	job->transfer = job->begin(job);
	n = transfer_prepare(&job->transfer, &h);
	if (!h) {
		job->ended(job, n);
		return;
	}
	job->began = stats_begin();
	transfer_io(&job->transfer, h, io);
	ret = peerdma_file_submit(worker.queue, &io, 1);
	handle_put(h);
	if (ret)
		job->ended(job, transfer_failed(ret));
	else
		worker.under_way++;
}

/* A queue does not know managed memory. */
static ssize_t managed(const struct transfer *t)
{
	struct handle *h = handle_get(t->fh);
	ssize_t n = h ? managed_make(h, (char *)t->base + t->memory_offset, t) : -ENXIO;

	if (h)
		handle_put(h);
	return n;
}

static void end(struct job *job)
{
	ssize_t n = job->io.result;

	worker.under_way--;
	if (n == -ENXIO)
		n = managed(&job->transfer);
	stats_transfer(job->transfer.write, n, job->began);
	job->ended(job, n < 0 ? transfer_failed(n) : n);
}

/* Until there is a job, or a transfer has ended. */
static void wait_for_either(void)
{
	struct pollfd fds[2] = { { .fd = worker.wake, .events = POLLIN },
				 { .fd = worker.queue->fd, .events = POLLIN } };
	uint64_t count;

	/* No more jobs than the queue has room for. */
	if (worker.under_way == DEPTH)
		fds[0].fd = -1;
	if (poll(fds, 2, -1) > 0 && fds[0].revents && read(worker.wake, &count, sizeof(count)) < 0)
		return;
}

static void *work(void *arg)
{
	struct peerdma_file_io *done[DEPTH];
	struct job *job;
	int n;

	(void)arg;
	for (;;) {
		while (worker.under_way < DEPTH && (job = take()))
			begin(job);
		n = peerdma_file_wait(worker.queue, done, 0, DEPTH, 0);
		for (int i = 0; i < n; i++)
			end((struct job *)done[i]);
		if (n <= 0)
			wait_for_either();
	}
	return NULL;
}

/* Lock.  What a parent had is the parent's. */
static int start(void)
{
	pthread_t thread;
	int error, wake;

	if (worker.runs_in == getpid())
		return 0;
	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake < 0)
		return -EAGAIN;
	worker.first = NULL;
	worker.last = &worker.first;
	worker.under_way = 0;
	error = peerdma_file_queue_open(DEPTH, 0, &worker.queue);
	if (error) {
		close(wake);
		return error;
	}
	worker.wake = wake;
	error = pthread_create(&thread, NULL, work, NULL);
	if (error) {
		peerdma_file_queue_close(worker.queue);
		close(wake);
		return -error;
	}
	pthread_detach(thread);
	worker.runs_in = getpid();
	return 0;
}

int worker_give(struct job *job)
{
	uint64_t one = 1;
	int ret;

	job->next = NULL;
	pthread_mutex_lock(&worker.lock);
	ret = start();
	if (!ret) {
		*worker.last = job;
		worker.last = &job->next;
		if (write(worker.wake, &one, sizeof(one)) < 0)
			ret = 0; /* it is full of them: the thread comes */
	}
	pthread_mutex_unlock(&worker.lock);
	return ret;
}
