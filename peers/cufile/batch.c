// SPDX-License-Identifier: MIT
/* batch.c - transfers in batches: the worker makes them one after the other; the program asks which have ended. */
#include "cufile_int.h"

struct batch;

struct entry {
	struct job job; /* first */
	struct batch *batch;
	struct transfer transfer;
	void *cookie;
	CUfileStatus_t status; /* batch->lock */
	ssize_t n;
	unsigned int cancels; /* the batch's number of them, when it was submitted */
	struct entry *next_ended;
};

struct batch {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int capacity, used; /* entries: those of the program that were not yet reported */
	unsigned int waiting; /* given to the worker, and not ended */
	unsigned int cancels; /* how often it was cancelled: entries of before are not made */
	bool destroyed;
	struct entry *ended, **ended_last;
};

static void batch_free(struct batch *b)
{
	struct entry *e;

	while ((e = b->ended)) {
		b->ended = e->next_ended;
		free(e);
	}
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static void make(struct job *job)
{
	struct entry *e = (struct entry *)job;
	struct batch *b = e->batch;
	bool cancelled, last;

	pthread_mutex_lock(&b->lock);
	cancelled = e->cancels != b->cancels;
	e->status = CUFILE_PENDING;
	pthread_mutex_unlock(&b->lock);
	if (!cancelled)
		e->n = transfer_make(&e->transfer);
	pthread_mutex_lock(&b->lock);
	e->status = cancelled ? CUFILE_CANCELED : e->n < 0 ? CUFILE_FAILED : CUFILE_COMPLETE;
	stats_count(COUNT_BATCH_DONE, e->status == CUFILE_COMPLETE);
	*b->ended_last = e;
	b->ended_last = &e->next_ended;
	b->waiting--;
	last = b->destroyed && !b->waiting;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
	if (last)
		batch_free(b);
}

EXPORT CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *out, unsigned int nr)
{
	CUfileOpError error = CU_FILE_SUCCESS;
	pthread_condattr_t clock;
	struct batch *b = NULL;

	if (!out || !nr || nr > parameter_size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE))
		error = CU_FILE_INVALID_VALUE;
	else
		error = driver_use();
	if (!error) {
		b = calloc(1, sizeof(*b));
		error = b ? CU_FILE_SUCCESS : CU_FILE_NOMEM_ERROR;
	}
	stats_count(COUNT_BATCH_SETUP, !error);
	if (error)
		return status(error);
	b->capacity = nr;
	b->ended_last = &b->ended;
	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&b->changed, &clock);
	pthread_condattr_destroy(&clock);
	*out = b;
	return status(CU_FILE_SUCCESS);
}

/* All of a submission is checked first, so that it is taken whole or not at all. */
static CUfileOpError check(const CUfileIOParams_t *p, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		struct handle *h = handle_get(p[i].fh);

		if (h)
			handle_put(h);
		if (!h || p[i].mode != CUFILE_BATCH || !p[i].u.batch.devPtr_base ||
		    p[i].u.batch.file_offset < 0 || p[i].u.batch.devPtr_offset < 0 ||
		    (p[i].opcode != CUFILE_READ && p[i].opcode != CUFILE_WRITE))
			return CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
	}
	return CU_FILE_SUCCESS;
}

static struct entry *entry_of(struct batch *b, const CUfileIOParams_t *p)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->batch = b;
	job_init(&e->job, make);
	e->cookie = p->cookie;
	pthread_mutex_lock(&b->lock);
	e->cancels = b->cancels;
	pthread_mutex_unlock(&b->lock);
	e->status = CUFILE_WAITING;
	e->transfer = (struct transfer){ p->fh,
					 p->u.batch.devPtr_base,
					 p->u.batch.size,
					 p->u.batch.file_offset,
					 p->u.batch.devPtr_offset,
					 p->opcode == CUFILE_WRITE };
	return e;
}

static CUfileOpError give(struct batch *b, const CUfileIOParams_t *p)
{
	struct entry *e = entry_of(b, p);

	if (!e)
		return CU_FILE_NOMEM_ERROR;
	if (!worker_give(&e->job))
		return CU_FILE_SUCCESS;
	free(e);
	return CU_FILE_BATCH_SUBMIT_FAILED;
}

/* Takes room for so many; undone for those that were not given to the worker. */
static CUfileOpError reserve(struct batch *b, unsigned int nr)
{
	CUfileOpError error = CU_FILE_SUCCESS;

	pthread_mutex_lock(&b->lock);
	if (nr > b->capacity - b->used) {
		error = CU_FILE_BATCH_FULL;
	} else {
		b->used += nr;
		b->waiting += nr;
	}
	pthread_mutex_unlock(&b->lock);
	return error;
}

static void unreserve(struct batch *b, unsigned int nr)
{
	pthread_mutex_lock(&b->lock);
	b->used -= nr;
	b->waiting -= nr;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
}

EXPORT CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t id, unsigned int nr,
					 CUfileIOParams_t *p, unsigned int flags)
{
	struct batch *b = id;
	CUfileOpError error = b && p && !flags ? check(p, nr) : CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
	unsigned int given = 0;

	if (!error)
		error = reserve(b, nr);
	if (!error) {
		while (given < nr && !(error = give(b, &p[given])))
			given++;
		if (given < nr)
			unreserve(b, nr - given);
	}
	stats_count(COUNT_BATCH_SUBMIT, !error);
	return status(error);
}

/* Lock.  Waits until so many have ended, all that there are have, or the time is over. */
static void wait_for(struct batch *b, unsigned int min, const struct timespec *timeout)
{
	struct timespec until;
	unsigned int ended;

	clock_gettime(CLOCK_MONOTONIC, &until);
	if (timeout) {
		until.tv_sec += timeout->tv_sec;
		until.tv_nsec += timeout->tv_nsec;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	}
	for (;;) {
		ended = b->used - b->waiting;
		if (ended >= min || !b->waiting)
			return;
		if (!timeout)
			pthread_cond_wait(&b->changed, &b->lock);
		else if (pthread_cond_timedwait(&b->changed, &b->lock, &until))
			return;
	}
}

EXPORT CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t id, unsigned int min,
					    unsigned int *nr, CUfileIOEvents_t *events,
					    struct timespec *timeout)
{
	struct batch *b = id;
	unsigned int room = nr ? *nr : 0, n = 0;
	struct entry *e;

	if (!b || !nr || !events || min > room)
		return status(CU_FILE_INVALID_VALUE);
	pthread_mutex_lock(&b->lock);
	wait_for(b, min, timeout);
	while (n < room && (e = b->ended)) {
		b->ended = e->next_ended;
		if (!b->ended)
			b->ended_last = &b->ended;
		events[n++] = (CUfileIOEvents_t){ e->cookie, e->status, (size_t)e->n };
		b->used--;
		free(e);
	}
	pthread_mutex_unlock(&b->lock);
	*nr = n;
	return status(CU_FILE_SUCCESS);
}

/* Those that have not begun are not made; they are reported as cancelled. */
EXPORT CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t id)
{
	struct batch *b = id;

	stats_count(COUNT_BATCH_CANCEL, b);
	if (!b)
		return status(CU_FILE_INTERNAL_BATCH_CANCEL_ERROR);
	pthread_mutex_lock(&b->lock);
	b->cancels++;
	pthread_mutex_unlock(&b->lock);
	return status(CU_FILE_SUCCESS);
}

EXPORT void cuFileBatchIODestroy(CUfileBatchHandle_t id)
{
	struct batch *b = id;
	bool last;

	stats_count(COUNT_BATCH_END, b);
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->cancels++;
	b->destroyed = true;
	last = !b->waiting;
	pthread_mutex_unlock(&b->lock);
	if (last)
		batch_free(b);
}
