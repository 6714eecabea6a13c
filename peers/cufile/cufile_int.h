/* SPDX-License-Identifier: MIT */
/*
 * cufile_int.h - what the files of this libcufile share.  It has the cuFile API on libpeerdma's peerdma_file.h.
 *
 *	batch.c, async.c	transfers in batches, and in streams
 *	io.c, managed.c		cuFileRead() and cuFileWrite(); of managed memory
 *	handle.c, buffer.c	registered files and buffers
 *	driver.c, bar.c		open, close, properties; the size of a GPU's BAR
 *	parameters.c, stats.c	settings and counters
 *	config.c		cufile.json
 *	worker.c		one thread that makes transfers for streams
 *
 * Lock: state.lock guards all tables.  It is not held during a transfer, nor in a call of libpeerdma or CUDA.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cufile.h"
#include "peerdma_file.h"

#define EXPORT __attribute__((visibility("default")))

static inline CUfileError_t status(CUfileOpError error)
{
	return (CUfileError_t){ .err = error };
}

/* A registered file: what a CUfileHandle_t points to. */
struct handle {
	struct handle *next;
	struct peerdma_file *file;
	int fd; /* the caller's number */
	int cached; /* lock: the file without O_DIRECT, of managed.c; -1: not needed so far */
	unsigned int users; /* lock: transfers under way */
	bool gone; /* lock: deregistered; the last user frees it */
};

struct buffer {
	struct buffer *next;
	uint64_t addr, length;
};

struct state {
	pthread_mutex_t lock;
	long opened; /* uses of the driver */
	struct peerdma *ctx; /* kept from the first use on: its pins are found again */
	struct peerdma_cache *cache;
	struct handle *handles;
	struct buffer *buffers;
};
extern struct state state;

static inline void lock(void)
{
	pthread_mutex_lock(&state.lock);
}

static inline void unlock(void)
{
	pthread_mutex_unlock(&state.lock);
}

/* driver.c: the driver is open, or is opened now, as the calls that register do it. */
CUfileOpError driver_use(void);
/* handle.c: a registered file, or NULL; handle_put() when the transfer has ended. */
struct handle *handle_get(CUfileHandle_t fh);
void handle_put(struct handle *h);
/* buffer.c: how many bytes a registered buffer has that begins there; 0: there is none. */
uint64_t buffer_length(const void *base);

struct transfer {
	CUfileHandle_t fh;
	void *base;
	size_t size;
	off_t file_offset, memory_offset;
	bool write;
};
/* io.c: 0, or what the transfer returns, because it leaves its registered buffer. */
ssize_t transfer_refused(const struct transfer *t);
/* io.c: *h is held: it is to be made.  NULL: it is not, and this is what it returns. */
ssize_t transfer_prepare(const struct transfer *t, struct handle **h);
void transfer_io(const struct transfer *t, const struct handle *h, struct peerdma_file_io *io);
/* io.c: what libpeerdma says, as cuFileRead() returns it: -1 and errno, or minus a CUfileOpError. */
ssize_t transfer_failed(ssize_t error);
/* managed.c: bytes or -errno; -ENXIO: this is not managed memory. */
ssize_t managed_make(struct handle *h, char *memory, const struct transfer *t);

/* worker.c: a function of the CUDA that the program has loaded; NULL: there is none. */
void *cuda_function(const char *name);
/* worker.c: of the calling thread; NULL: none. */
void *current_context(void);
/*
 * worker.c: makes a transfer in a thread of this library.  begin() and ended() are called in that thread.  0, -ENOMEM,
 * -EMFILE or -EAGAIN; calls nothing of CUDA, as the functions that CUDA calls must not.
 */
struct job {
	struct peerdma_file_io io; /* first */
	struct job *next;
	struct transfer transfer;
	uint64_t began;
	/* Set by the caller. */
	void *context;
	struct transfer (*begin)(struct job *job);
	void (*ended)(struct job *job, ssize_t n); /* the job is its caller's again */
};
int worker_give(struct job *job);

/* stats.c */
enum counted {
	COUNT_READ,
	COUNT_WRITE,
	COUNT_HANDLE,
	COUNT_HANDLE_END,
	COUNT_BUFFER,
	COUNT_BUFFER_END,
	COUNT_BATCH_SETUP,
	COUNT_BATCH_SUBMIT,
	COUNT_BATCH_CANCEL,
	COUNT_BATCH_END,
	COUNT_BATCH_DONE,
	COUNTED,
};
void stats_count(enum counted what, bool ok);
/* Counting begins now, at this level. */
void stats_from_start(int at_level);
/* The time; 0: nothing is counted. */
uint64_t stats_begin(void);
/* A transfer has ended, which began then. */
void stats_transfer(bool write, ssize_t n, uint64_t began_ns);
uint64_t now_ns(void);
/* parameters.c.  settle, with the lock: as the driver is opened, a size that is out of range becomes its default. */
void parameters_settle(void);
size_t parameter_size(CUFileSizeTConfigParameter_t param);
void parameter_set_size(CUFileSizeTConfigParameter_t param, size_t value);
void parameter_set_bool(CUFileBoolConfigParameter_t param, bool value);
bool parameter_bool(CUFileBoolConfigParameter_t param);
#define SLABS_MAX 16
/* parameters.c: reads cufile.json, once, by these.  config.c calls them before any other thread may look. */
void parameters_ready(void);
bool parameter_take_size(int param, size_t value); /* false: outside of its bounds */
void parameter_take_bool(int param, bool value);
bool parameter_take_string(int param, const char *text); /* false: too long */
void parameter_take_slabs(const size_t *size, const size_t *count, int n);
/* config.c */
void config_read(void);
