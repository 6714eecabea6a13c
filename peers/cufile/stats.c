// SPDX-License-Identifier: MIT
/* stats.c - cuFile's statistics: what was called, how often, and how it ended.  They are counted between start and stop. */
#include "cufile_int.h"

static CUfileStatsLevel2_t stats; /* state.lock, as all here */
static uint64_t began; /* when counting began, for rates */
static int level;
static bool counting;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static CUfileOpCounter_t *counter(enum counted what)
{
	CUfileStatsLevel1_t *s = &stats.basic;
	CUfileOpCounter_t *const counters[COUNTED] = {
		&s->read_ops,		&s->write_ops,		&s->hdl_register_ops,
		&s->hdl_deregister_ops, &s->buf_register_ops,	&s->buf_deregister_ops,
		&s->batch_setup_ops,	&s->batch_submit_ops,	&s->batch_cancel_ops,
		&s->batch_destroy_ops,	&s->batch_complete_ops,
	};

	return counters[what];
}

/* Lock. */
static void count(enum counted what, bool ok)
{
	if (ok)
		counter(what)->ok++;
	else
		counter(what)->err++;
}

/* Most programs do not count: then no lock is taken. */
static bool off(void)
{
	return !__atomic_load_n(&counting, __ATOMIC_RELAXED);
}

uint64_t stats_begin(void)
{
	return off() ? 0 : now_ns();
}

void stats_count(enum counted what, bool ok)
{
	if (off())
		return;
	lock();
	if (counting)
		count(what, ok);
	unlock();
}

/* Powers of two of KiB; the last one has all longer ones. */
static unsigned int bucket(uint64_t bytes)
{
	unsigned int i = 0;

	for (bytes >>= 10; bytes && i < 31; bytes >>= 1)
		i++;
	return i;
}

void stats_transfer(bool write, ssize_t n, uint64_t start_ns)
{
	CUfileStatsLevel1_t *s = &stats.basic;
	uint64_t us, bytes = n > 0 ? (uint64_t)n : 0;

	if (off())
		return;
	/* It may have begun when nothing was counted. */
	us = start_ns ? (now_ns() - start_ns) / 1000 : 0;
	lock();
	if (counting) {
		count(write ? COUNT_WRITE : COUNT_READ, n >= 0);
		*(write ? &s->write_bytes : &s->read_bytes) += bytes;
		*(write ? &s->write_lat_sum_us : &s->read_lat_sum_us) += us;
		(write ? stats.write_size_kb_hist : stats.read_size_kb_hist)[bucket(bytes)]++;
	}
	unlock();
}

static uint64_t ratio(uint64_t a, uint64_t b)
{
	return b ? a / b : 0;
}

/* Lock.  Adds what follows from the sums. */
static CUfileStatsLevel2_t taken(void)
{
	CUfileStatsLevel2_t t = stats;
	CUfileStatsLevel1_t *s = &t.basic;
	uint64_t seconds = began ? (now_ns() - began) / 1000000000 : 0;

	s->read_lat_avg_us = ratio(s->read_lat_sum_us, s->read_ops.ok + s->read_ops.err);
	s->write_lat_avg_us = ratio(s->write_lat_sum_us, s->write_ops.ok + s->write_ops.err);
	s->read_bw_bytes_per_sec = ratio(s->read_bytes, seconds);
	s->write_bw_bytes_per_sec = ratio(s->write_bytes, seconds);
	s->read_ops_per_sec = ratio(s->read_ops.ok, seconds);
	s->write_ops_per_sec = ratio(s->write_ops.ok, seconds);
	return t;
}

static CUfileError_t get(void *out, size_t size, int least)
{
	CUfileStatsLevel3_t t = { 0 };
	CUfileOpError error = CU_FILE_INVALID_VALUE;

	if (!out)
		return status(error);
	lock();
	if (level >= least) {
		t.detailed = taken();
		error = CU_FILE_SUCCESS;
	}
	unlock();
	if (!error)
		memcpy(out, &t, size);
	return status(error);
}

EXPORT CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t *out)
{
	return get(out, sizeof(*out), 1);
}

EXPORT CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t *out)
{
	return get(out, sizeof(*out), 2);
}

/* GPUs are not counted apart: num_gpus is 0. */
EXPORT CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t *out)
{
	return get(out, sizeof(*out), 3);
}

EXPORT CUfileError_t cuFileSetStatsLevel(int new_level)
{
	if (new_level < 0 || new_level > 3)
		return status(CU_FILE_INVALID_VALUE);
	lock();
	level = new_level;
	unlock();
	return status(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetStatsLevel(int *out)
{
	if (!out)
		return status(CU_FILE_INVALID_VALUE);
	lock();
	*out = level;
	unlock();
	return status(CU_FILE_SUCCESS);
}

static CUfileError_t set_counting(bool on)
{
	CUfileOpError error = CU_FILE_SUCCESS;

	lock();
	if (on && !level)
		error = CU_FILE_INVALID_VALUE;
	if (!error) {
		__atomic_store_n(&counting, on, __ATOMIC_RELAXED);
		if (on && !began)
			began = now_ns();
	}
	unlock();
	return status(error);
}

void stats_from_start(int at_level)
{
	lock();
	level = at_level;
	unlock();
	set_counting(true);
}

EXPORT CUfileError_t cuFileStatsStart(void)
{
	return set_counting(true);
}

EXPORT CUfileError_t cuFileStatsStop(void)
{
	return set_counting(false);
}

EXPORT CUfileError_t cuFileStatsReset(void)
{
	lock();
	memset(&stats, 0, sizeof(stats));
	began = counting ? now_ns() : 0;
	unlock();
	return status(CU_FILE_SUCCESS);
}
