/* SPDX-License-Identifier: MIT */
/* work.h - what a stream is: for work.c and stream.c. */
#pragma once

#include "hip_int.h"

struct ihipStream_t {
	struct hip_handle handle;
	struct ihipStream_t *next;
	int device;		/* fixed, as are flags and priority */
	unsigned int flags;
	int priority;
	/* protected by the lock of work.c */
	struct hip_work *head, **tail;
	hipError_t error;	/* the first one since the last wait */
	bool has_thread, destroyed;
};

/* NULL: not enough memory. */
struct ihipStream_t *hip_stream_new(unsigned int flags, int priority);
/* Call after hip_handle_take(). */
void hip_stream_end(struct ihipStream_t *stream);
/* NotReady, or as hip_work_wait(). */
hipError_t hip_work_query(struct ihipStream_t *stream);
