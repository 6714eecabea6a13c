// SPDX-License-Identifier: MIT
/*
 * copy.c - copies and fills, synchronous and asynchronous.
 *
 * An asynchronous copy is a job of a thread, which waits for the job's dependencies and then makes
 * the copy. There are as many threads as jobs, so no job waits for another job's dependencies. A
 * few idle threads are kept for later jobs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hsa_int.h"
#include "thread.h"
#include "uncancelled.h"

#define PIECE_MAX ((size_t)1 << 30)
#define IDLE_MAX 8

/* A copy after its checks. gpu < 0: the CPU copies. */
struct copy {
	void *dst;
	const void *src;
	size_t size;
	int gpu;
	uint32_t ctx;
	/* the allocations; when the copy runs, other allocations may have these addresses */
	uint64_t to, from;
};

struct job {
	struct job *next;	/* in `queued` or in `running` */
	struct copy copy;
	struct hsa_signal *completion;
	/* protected by jobs_lock; the dependency for which its thread waits */
	struct hsa_signal *awaited;
	uint32_t n;
	struct hsa_signal *dependencies[];
};

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_changed = PTHREAD_COND_INITIALIZER;
static struct job *queued, **queued_tail = &queued, *running;
static unsigned int idle, waiting_jobs;	/* threads without a job, jobs without a thread */
static atomic_bool stopping;

/* Caller holds hsa_lock. Chooses the GPU whose driver makes the copy. */
static void choose(struct copy *c)
{
	const struct hsa_memory *from = hsa_memory_at(c->src), *to = hsa_memory_at(c->dst);
	const struct hsa_memory *by = from && from->agent >= 0 ? from :
				      to && to->gpu >= 0 ? to : from;

	c->gpu = by ? by->gpu : -1;
	c->ctx = by ? by->ctx : 0;
	c->to = to ? to->id : 0;
	c->from = from ? from->id : 0;
}

/* Copies by a system call, so that an invalid address ends the copy and not the process. */
static bool copy_piece(void *dst, const void *src, size_t size)
{
	struct iovec from = { .iov_base = (void *)(uintptr_t)src, .iov_len = size };
	struct iovec to = { .iov_base = dst, .iov_len = size };
	ssize_t n = process_vm_writev(getpid(), &from, 1, &to, 1, 0);

	if (n < 0 && (errno == EPERM || errno == ENOSYS)) {	/* a container's seccomp filter */
		memmove(dst, src, size);
		return true;
	}
	return n == (ssize_t)size;
}

/*
 * Copies overlapping ranges in pieces through a buffer, in the order in which no piece is
 * overwritten before it is read.
 */
static bool copy_overlapping(char *dst, const char *src, size_t size)
{
	char buffer[4096];

	for (size_t done = 0, n; done < size; done += n) {
		size_t at;

		n = size - done < sizeof(buffer) ? size - done : sizeof(buffer);
		at = dst > src ? size - done - n : done;
		if (!copy_piece(buffer, src + at, n) || !copy_piece(dst + at, buffer, n))
			return false;
	}
	return true;
}

static bool copy_by_cpu(char *dst, const char *src, size_t size)
{
	size_t apart = dst > src ? (size_t)(dst - src) : (size_t)(src - dst);

	if (apart < size)
		return copy_overlapping(dst, src, size);
	/* One system call copies less than 2 GiB. */
	for (size_t done = 0, n; done < size; done += n) {
		n = size - done < PIECE_MAX ? size - done : PIECE_MAX;
		if (!copy_piece(dst + done, src + done, n))
			return false;
	}
	return true;
}

static hsa_status_t make(const struct copy *c)
{
	struct softgpu_copy copy = {
		.size = sizeof(copy),
		.flags = SOFTGPU_OP_SYNC,
		.ctx = c->ctx,
		.dst = (uintptr_t)c->dst,
		.src = (uintptr_t)c->src,
		.width = c->size,
		.height = 1,
	};

	if (c->gpu >= 0)
		return hsa_status_of(sgu_call(c->gpu, SOFTGPU_COPY, &copy));
	return copy_by_cpu(c->dst, c->src, c->size) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR;
}

/*
 * Makes the copy, unless the memory was freed since the request. The memory is not freed until the
 * copy has ended.
 */
static hsa_status_t run(const struct copy *c)
{
	hsa_status_t status = HSA_STATUS_ERROR;
	struct hsa_memory *to, *from;

	if (!hsa_memory_hold(c->dst, c->to, &to))
		return status;
	if (hsa_memory_hold(c->src, c->from, &from)) {
		status = make(c);
		hsa_memory_let_go(from);
	}
	hsa_memory_let_go(to);
	return status;
}

/* Caller holds hsa_lock. */
static hsa_status_t check(const struct copy *c)
{
	return hsa_memory_covers(c->dst, c->size) && hsa_memory_covers(c->src, c->size) ?
		       HSA_STATUS_SUCCESS :
		       HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

SGU_EXPORT hsa_status_t hsa_memory_copy(void *dst, const void *src, size_t size)
{
	struct copy c = { .dst = dst, .src = src, .size = size };
	hsa_status_t status;

	pthread_mutex_lock(&hsa_lock);
	status = !hsa_ready() ? HSA_STATUS_ERROR_NOT_INITIALIZED :
		 !dst || !src ? HSA_STATUS_ERROR_INVALID_ARGUMENT :
				check(&c);
	if (!status)
		choose(&c);
	pthread_mutex_unlock(&hsa_lock);
	return status || !size ? status : run(&c);
}

/* As copy_piece(): the memory may not be there. */
static hsa_status_t fill_unknown(char *dst, uint32_t value, size_t size)
{
	uint32_t words[1024];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = value;
	for (size_t done = 0, n; done < size; done += n) {
		n = size - done < sizeof(words) ? size - done : sizeof(words);
		if (!copy_piece(dst + done, words, n))
			return HSA_STATUS_ERROR;
	}
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count)
{
	struct softgpu_fill fill = {
		.size = sizeof(fill),
		.flags = SOFTGPU_OP_SYNC,
		.dst = (uintptr_t)ptr,
		.width = count,
		.height = 1,
		.value = value,
		.elem = sizeof(value),
	};
	struct copy c = { .dst = ptr, .src = ptr, .size = count * sizeof(value) };
	hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	struct hsa_memory *held;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	else if (ptr && !((uintptr_t)ptr % sizeof(value)) && count <= SIZE_MAX / sizeof(value))
		status = check(&c);
	if (!status)
		choose(&c);
	pthread_mutex_unlock(&hsa_lock);
	if (status || !count)
		return status;
	if (!hsa_memory_hold(ptr, c.to, &held))
		return HSA_STATUS_ERROR;
	if (!held)
		return fill_unknown(ptr, value, c.size);
	fill.ctx = c.ctx;
	if (c.gpu >= 0)
		status = hsa_status_of(sgu_call(c.gpu, SOFTGPU_FILL, &fill));
	for (size_t i = 0; i < count && c.gpu < 0; i++)
		((uint32_t *)ptr)[i] = value;
	hsa_memory_let_go(held);
	return status;
}

/* ---- asynchronous copies ---- */

/* Waits for all dependencies. False: HSA is being shut down. */
static bool wait_for_all(struct job *job)
{
	bool done = true;

	for (uint32_t i = 0; i < job->n && done; i++) {
		pthread_mutex_lock(&jobs_lock);
		job->awaited = job->dependencies[i];
		pthread_mutex_unlock(&jobs_lock);
		done = hsa_signal_wait_zero(job->dependencies[i], &stopping);
	}
	pthread_mutex_lock(&jobs_lock);
	job->awaited = NULL;
	pthread_mutex_unlock(&jobs_lock);
	return done;
}

static void job_free(struct job *job)
{
	for (uint32_t i = 0; i < job->n; i++)
		hsa_signal_put(job->dependencies[i]);
	hsa_signal_put(job->completion);
	free(job);
}

static void job_done(struct job *job)
{
	struct job **at = &running;

	pthread_mutex_lock(&jobs_lock);
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	pthread_cond_broadcast(&jobs_changed);
	pthread_mutex_unlock(&jobs_lock);
	job_free(job);
}

/* Returns the next job. NULL: there are enough idle threads, so this one ends. */
static struct job *take(void)
{
	struct job *job;

	pthread_mutex_lock(&jobs_lock);
	idle++;
	while (!queued && idle <= IDLE_MAX)
		pthread_cond_wait(&jobs_changed, &jobs_lock);
	idle--;
	if (!queued) {
		pthread_mutex_unlock(&jobs_lock);
		return NULL;
	}
	waiting_jobs--;
	job = queued;
	queued = job->next;
	if (!queued)
		queued_tail = &queued;
	job->next = running;
	running = job;
	pthread_mutex_unlock(&jobs_lock);
	return job;
}

static void *work(void *arg)
{
	struct job *job;

	(void)arg;
	while ((job = take())) {
		if (wait_for_all(job))
			hsa_signal_complete(job->completion, run(&job->copy));
		job_done(job);
	}
	return NULL;
}

static bool more_threads(void)
{
	pthread_t id;

	return !sgu_thread_create(&id, true, work, NULL);
}

/* Queues the job, which then belongs to the queue. OUT_OF_RESOURCES: the caller keeps the job. */
static hsa_status_t submit(struct job *job)
{
	hsa_status_t status = HSA_STATUS_SUCCESS;

	pthread_mutex_lock(&jobs_lock);
	if (idle <= waiting_jobs && !more_threads())
		status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (!status) {
		*queued_tail = job;
		queued_tail = &job->next;
		waiting_jobs++;
		pthread_cond_broadcast(&jobs_changed);
	}
	pthread_mutex_unlock(&jobs_lock);
	return status;
}

/* Caller holds hsa_lock. */
static hsa_status_t check_agents(hsa_agent_t dst, hsa_agent_t src)
{
	int number;

	return hsa_agent_number(dst, &number) && hsa_agent_number(src, &number) ?
		       HSA_STATUS_SUCCESS :
		       HSA_STATUS_ERROR_INVALID_AGENT;
}

/* Caller holds hsa_lock. Finds the signals of a job and takes a reference to each. */
static hsa_status_t find_signals(struct job *job, uint32_t n, const hsa_signal_t *dependencies,
				 hsa_signal_t completion)
{
	for (uint32_t i = 0; i < n; i++) {
		job->dependencies[i] = hsa_signal_at(dependencies[i]);
		if (!job->dependencies[i])
			return HSA_STATUS_ERROR_INVALID_SIGNAL;
	}
	job->completion = hsa_signal_at(completion);
	if (!job->completion)
		return HSA_STATUS_ERROR_INVALID_SIGNAL;
	job->n = n;
	for (uint32_t i = 0; i < n; i++)
		hsa_signal_get(job->dependencies[i]);
	hsa_signal_get(job->completion);
	return HSA_STATUS_SUCCESS;
}

SGU_EXPORT hsa_status_t hsa_amd_memory_async_copy(void *dst, hsa_agent_t dst_agent, const void *src,
						  hsa_agent_t src_agent, size_t size,
						  uint32_t num_dep_signals,
						  const hsa_signal_t *dep_signals,
						  hsa_signal_t completion_signal)
{
	hsa_status_t status = HSA_STATUS_ERROR_NOT_INITIALIZED;
	struct job *job = NULL;

	pthread_mutex_lock(&hsa_lock);
	if (!hsa_ready())
		goto out;
	status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!dst || !src || !num_dep_signals != !dep_signals)
		goto out;
	status = check_agents(dst_agent, src_agent);
	if (status)
		goto out;
	status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	job = calloc(1, sizeof(*job) + num_dep_signals * sizeof(job->dependencies[0]));
	if (!job)
		goto out;
	job->copy = (struct copy){ .dst = dst, .src = src, .size = size };
	status = check(&job->copy);
	if (!status)
		status = find_signals(job, num_dep_signals, dep_signals, completion_signal);
	if (status) {
		free(job);
		goto out;
	}
	choose(&job->copy);
	if (size)
		status = submit(job);
	if (status || !size)
		job_free(job);
out:
	pthread_mutex_unlock(&hsa_lock);
	return status;
}

void hsa_copy_end(void)
{
	SGU_UNCANCELLED;
	struct job *job;

	pthread_mutex_lock(&jobs_lock);
	atomic_store(&stopping, true);
	/* A queued job is also taken by a thread, which ends it without copying. */
	while (queued || running) {
		for (job = running; job; job = job->next) {
			if (job->awaited)
				hsa_signal_poke(job->awaited);
		}
		pthread_cond_wait(&jobs_changed, &jobs_lock);
	}
	atomic_store(&stopping, false);
	pthread_mutex_unlock(&jobs_lock);
}
