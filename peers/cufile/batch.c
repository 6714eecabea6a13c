// SPDX-License-Identifier: MIT
/* batch.c - transfers in batches, by a queue of peerdma_file.h: the program asks which have ended. */
#include <limits.h>

#include "cufile_int.h"

struct entry {
	struct peerdma_file_io io; /* first */
	struct transfer transfer;
	void *cookie;
	uint64_t began;
	ssize_t n; /* of those that the queue does not get */
	bool by_queue;
	unsigned int generation;
	struct entry *next;
};

struct batch {
	struct peerdma_file_queue *queue;
	pthread_mutex_t lock; /* all below */
	unsigned int capacity, used; /* entries: those of the program that were not yet reported */
	unsigned int generation; /* counts cancellations */
	unsigned int cancelled; /* of those used: submitted before the last of these */
	struct entry *entries, *idle;
	/* What the queue does not get: empty transfers, and those that are refused.  And what a cancellation met. */
	struct entry *ended, **ended_last;
};

/* ---- set up ---- */

static void batch_free(struct batch *b)
{
	pthread_mutex_destroy(&b->lock);
	free(b->entries);
	free(b);
}

static CUfileOpError batch_make(struct batch **out, unsigned int nr)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (b)
		b->entries = calloc(nr, sizeof(*b->entries));
	if (!b || !b->entries || peerdma_file_queue_open(nr, 0, &b->queue)) {
		if (b)
			free(b->entries);
		free(b);
		return CU_FILE_NOMEM_ERROR;
	}
	pthread_mutex_init(&b->lock, NULL);
	b->capacity = nr;
	b->ended_last = &b->ended;
	for (unsigned int i = nr; i-- > 0;) {
		b->entries[i].next = b->idle;
		b->idle = &b->entries[i];
	}
	*out = b;
	return CU_FILE_SUCCESS;
}

EXPORT CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *out, unsigned int nr)
{
	CUfileOpError error = CU_FILE_SUCCESS;
	struct batch *b = NULL;

	if (!out || !nr || nr > parameter_size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE))
		error = CU_FILE_INVALID_VALUE;
	else
		error = driver_use();
	if (!error)
		error = batch_make(&b, nr);
	stats_count(COUNT_BATCH_SETUP, !error);
	if (!error)
		*out = b;
	return status(error);
}

/* ---- submit ---- */

/* Lock. */
static void give_back(struct batch *b, struct entry *e)
{
	e->next = b->idle;
	b->idle = e;
	b->used--;
	b->cancelled -= e->generation != b->generation;
}

/* Lock. */
static void keep_ended(struct batch *b, struct entry *e)
{
	e->next = NULL;
	*b->ended_last = e;
	b->ended_last = &e->next;
}

static CUfileOpError take(struct batch *b, unsigned int nr, struct peerdma_file_io **ios)
{
	CUfileOpError error = CU_FILE_SUCCESS;

	pthread_mutex_lock(&b->lock);
	if (nr > b->capacity - b->used) {
		error = CU_FILE_BATCH_FULL;
	} else {
		b->used += nr;
		for (unsigned int i = 0; i < nr; i++) {
			ios[i] = &b->idle->io;
			b->idle->generation = b->generation;
			b->idle = b->idle->next;
		}
	}
	pthread_mutex_unlock(&b->lock);
	return error;
}

static CUfileOpError fill(struct entry *e, const CUfileIOParams_t *p, struct handle *h)
{
	const struct transfer t = { p->fh,
				    p->u.batch.devPtr_base,
				    p->u.batch.size,
				    p->u.batch.file_offset,
				    p->u.batch.devPtr_offset,
				    p->opcode == CUFILE_WRITE };

	if (!h || p->mode != CUFILE_BATCH || !t.base || t.file_offset < 0 || t.memory_offset < 0 ||
	    (p->opcode != CUFILE_READ && p->opcode != CUFILE_WRITE))
		return CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
	e->transfer = t;
	e->cookie = p->cookie;
	e->began = stats_begin();
	e->n = transfer_refused(&t);
	e->by_queue = t.size && !e->n;
	transfer_io(&t, h, &e->io);
	return CU_FILE_SUCCESS;
}

/* Those of the queue come first; returns their number. */
static unsigned int sort(struct peerdma_file_io **ios, unsigned int nr)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr; i++) {
		struct peerdma_file_io *io = ios[i];

		if (((struct entry *)io)->by_queue) {
			ios[i] = ios[n];
			ios[n++] = io;
		}
	}
	return n;
}

/* From peerdma_file_submit() on, the queue's entries may be reported and used again at any time. */
static CUfileOpError submit(struct batch *b, struct peerdma_file_io **ios, unsigned int nr)
{
	unsigned int n = sort(ios, nr);

	if (peerdma_file_submit(b->queue, ios, n))
		return CU_FILE_BATCH_SUBMIT_FAILED;
	pthread_mutex_lock(&b->lock);
	for (; n < nr; n++)
		keep_ended(b, (struct entry *)ios[n]);
	pthread_mutex_unlock(&b->lock);
	return CU_FILE_SUCCESS;
}

/* All of a submission is checked first, so that it is taken whole or not at all. */
static CUfileOpError take_and_submit(struct batch *b, const CUfileIOParams_t *p, unsigned int nr,
				     struct peerdma_file_io **ios, struct handle **handles)
{
	CUfileOpError error = take(b, nr, ios);
	struct handle *h = NULL;

	if (error)
		return error;
	for (unsigned int i = 0; i < nr && !error; i++) {
		/* Most are of the same file as the one before. */
		if (!i || p[i].fh != p[i - 1].fh)
			h = handles[i] = handle_get(p[i].fh);
		error = fill((struct entry *)ios[i], &p[i], h);
	}
	if (!error)
		error = submit(b, ios, nr);
	/* The queue has its own reference to a handle's file. */
	for (unsigned int i = 0; i < nr; i++) {
		if (handles[i])
			handle_put(handles[i]);
	}
	if (!error)
		return error;
	pthread_mutex_lock(&b->lock);
	for (unsigned int i = 0; i < nr; i++)
		give_back(b, (struct entry *)ios[i]);
	pthread_mutex_unlock(&b->lock);
	return error;
}

EXPORT CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t id, unsigned int nr,
					 CUfileIOParams_t *p, unsigned int flags)
{
	CUfileOpError error = CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
	struct peerdma_file_io **ios = NULL;
	struct handle **handles = NULL;
	struct batch *b = id;

	if (b && p && !flags && nr > b->capacity) {
		error = CU_FILE_BATCH_FULL;
	} else if (b && p && !flags) {
		ios = calloc(nr + 1UL, sizeof(*ios));
		handles = calloc(nr + 1UL, sizeof(*handles));
		error = ios && handles ? take_and_submit(b, p, nr, ios, handles) :
					 CU_FILE_NOMEM_ERROR;
	}
	free(handles);
	free(ios);
	stats_count(COUNT_BATCH_SUBMIT, !error);
	return status(error);
}

/* ---- what has ended ---- */

static CUfileIOEvents_t ended(struct entry *e)
{
	ssize_t n = e->by_queue ? (ssize_t)e->io.result : e->n;
	CUfileIOEvents_t event = { .cookie = e->cookie };

	if (e->by_queue && n == -ECANCELED) {
		event.status = CUFILE_CANCELED;
	} else {
		event.status = n < 0 ? CUFILE_FAILED : CUFILE_COMPLETE;
		if (e->transfer.size)
			stats_transfer(e->transfer.write, n, e->began);
		event.ret = (size_t)(e->by_queue && n < 0 ? transfer_failed(n) : n);
	}
	stats_count(COUNT_BATCH_DONE, event.status == CUFILE_COMPLETE);
	return event;
}

/* Lock.  False: it was cancelled, and is not reported. */
static bool report(struct batch *b, struct entry *e, CUfileIOEvents_t *event)
{
	bool reported = e->generation == b->generation;

	*event = ended(e);
	give_back(b, e);
	return reported;
}

/* Those that the queue did not get. */
static unsigned int collect(struct batch *b, CUfileIOEvents_t *events, unsigned int room)
{
	unsigned int n = 0;
	struct entry *e;

	pthread_mutex_lock(&b->lock);
	while (n < room && (e = b->ended)) {
		b->ended = e->next;
		if (!b->ended)
			b->ended_last = &b->ended;
		n += report(b, e, &events[n]);
	}
	pthread_mutex_unlock(&b->lock);
	return n;
}

static int left_ms(uint64_t until)
{
	uint64_t now = now_ns(), ms = until > now ? (until - now + 999999) / 1000000 : 0;

	if (until == UINT64_MAX)
		return -1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

#define SOME 64U

/* At least so many of the queue's, if they end in time. */
static unsigned int wait_for(struct batch *b, unsigned int min, unsigned int room,
			     CUfileIOEvents_t *events, uint64_t until)
{
	struct peerdma_file_io *done[SOME];
	unsigned int n = 0, wanted, most;
	int got;

	while (n < room) {
		most = room - n < SOME ? room - n : SOME;
		wanted = n < min ? min - n : 0;
		wanted = wanted < most ? wanted : most;
		got = peerdma_file_wait(b->queue, done, wanted, most, left_ms(until));
		if (got == -EINTR)
			continue;
		if (got <= 0)
			break;
		pthread_mutex_lock(&b->lock);
		for (int i = 0; i < got; i++)
			n += report(b, (struct entry *)done[i], &events[n]);
		pthread_mutex_unlock(&b->lock);
		if ((unsigned int)got < wanted)
			break;
	}
	return n;
}

EXPORT CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t id, unsigned int min,
					    unsigned int *nr, CUfileIOEvents_t *events,
					    struct timespec *timeout)
{
	struct batch *b = id;
	unsigned int room = nr ? *nr : 0, n;
	uint64_t until = UINT64_MAX;

	if (!b || !nr || !events || min > room)
		return status(CU_FILE_INVALID_VALUE);
	if (timeout)
		until = now_ns() + (uint64_t)timeout->tv_sec * 1000000000 +
			(uint64_t)timeout->tv_nsec;
	n = collect(b, events, room);
	n += wait_for(b, n < min ? min - n : 0, room - n, events + n, until);
	*nr = n;
	return status(CU_FILE_SUCCESS);
}

/* Takes from the queue until none is left that was cancelled.  Others that have ended are kept, to be reported. */
static void drain(struct batch *b)
{
	struct peerdma_file_io *done[SOME];
	CUfileIOEvents_t unused;
	unsigned int left;
	int got;

	do {
		got = peerdma_file_wait(b->queue, done, 1, SOME, -1);
		pthread_mutex_lock(&b->lock);
		for (int i = 0; i < got; i++) {
			struct entry *e = (struct entry *)done[i];

			if (e->generation == b->generation)
				keep_ended(b, e);
			else
				report(b, e, &unused);
		}
		left = b->cancelled;
		pthread_mutex_unlock(&b->lock);
	} while (left && (got > 0 || got == -EINTR));
}

/*
 * As libcufile 1.15.1 on a machine with an H200: nothing of what was submitted before is reported, not even what had ended.
 * Those that have not begun are not made; the others are waited for, so that their places are free.
 */
EXPORT CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t id)
{
	CUfileIOEvents_t unused;
	struct batch *b = id;
	struct entry *e, *list;
	bool any;

	stats_count(COUNT_BATCH_CANCEL, b);
	if (!b)
		return status(CU_FILE_INTERNAL_BATCH_CANCEL_ERROR);
	pthread_mutex_lock(&b->lock);
	b->generation++;
	b->cancelled = b->used;
	list = b->ended;
	b->ended = NULL;
	b->ended_last = &b->ended;
	while ((e = list)) {
		list = e->next;
		report(b, e, &unused);
	}
	any = b->cancelled;
	pthread_mutex_unlock(&b->lock);
	if (peerdma_file_cancel(b->queue) < 0)
		return status(CU_FILE_INTERNAL_BATCH_CANCEL_ERROR);
	if (any)
		drain(b);
	return status(CU_FILE_SUCCESS);
}

/* Waits for those that have begun: the disk may still transfer. */
EXPORT void cuFileBatchIODestroy(CUfileBatchHandle_t id)
{
	CUfileIOEvents_t events[SOME];
	struct batch *b = id;

	stats_count(COUNT_BATCH_END, b);
	if (!b)
		return;
	/* What was not asked for is counted, too. */
	peerdma_file_cancel(b->queue);
	while (collect(b, events, SOME) || wait_for(b, 1, SOME, events, UINT64_MAX))
		;
	peerdma_file_queue_close(b->queue);
	batch_free(b);
}
