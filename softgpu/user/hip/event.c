// SPDX-License-Identifier: MIT
/*
 * event.c - events, also those of other processes.
 *
 * An event is an HSA signal. The upper half of its value is the number of the latest record, the
 * lower half the number of the latest record that is done. So a wait for a record does not wait
 * for later ones, and processes that share the signal share the event.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hip_int.h"

struct ihipEvent_t {
	struct hip_handle handle;
	hsa_signal_t signal;
	unsigned int flags;
	_Atomic(uint64_t) time_ns;	/* when the latest record was done in this process */
};

struct ihipEvent_t *hip_event_get(hipEvent_t event)
{
	return hip_handle_get(event, HIP_EVENT);
}

void hip_event_put(struct ihipEvent_t *event)
{
	if (!hip_handle_put(&event->handle))
		return;
	hsa_signal_destroy(event->signal);
	free(event);
}

/* ---- records ---- */

static uint64_t value_of(uint32_t issued, uint32_t done)
{
	return (uint64_t)issued << 32 | done;
}

static uint32_t issued_in(uint64_t value)
{
	return (uint32_t)(value >> 32);
}

static uint32_t done_in(uint64_t value)
{
	return (uint32_t)value;
}

static uint64_t load(const struct ihipEvent_t *event)
{
	return (uint64_t)hsa_signal_load_scacquire(event->signal);
}

/* True: the value was `from', and is `to' now. */
static bool change(struct ihipEvent_t *event, uint64_t from, uint64_t to)
{
	return (uint64_t)hsa_signal_cas_scacq_screl(event->signal, (hsa_signal_value_t)from,
						    (hsa_signal_value_t)to) == from;
}

uint32_t hip_event_issue(struct ihipEvent_t *event)
{
	uint64_t value;

	do {
		value = load(event);
	} while (!change(event, value, value_of(issued_in(value) + 1, done_in(value))));
	return issued_in(value) + 1;
}

uint32_t hip_event_issued(struct ihipEvent_t *event)
{
	return issued_in(load(event));
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Records of several streams may be done in any order. */
void hip_event_complete(struct ihipEvent_t *event, uint32_t record)
{
	uint64_t value;

	atomic_store(&event->time_ns, now_ns());
	do {
		value = load(event);
	} while (record > done_in(value) &&
		 !change(event, value, value_of(issued_in(value), record)));
}

bool hip_event_is_done(struct ihipEvent_t *event, uint32_t record)
{
	return done_in(load(event)) >= record;
}

void hip_event_wait(struct ihipEvent_t *event, uint32_t record)
{
	hsa_signal_value_t value = hsa_signal_load_scacquire(event->signal);

	while (done_in((uint64_t)value) < record)
		value = hsa_signal_wait_scacquire(event->signal, HSA_SIGNAL_CONDITION_NE, value,
						  UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
}

/* ---- calls ---- */

#define EVENT_FLAGS (hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess |	\
		     hipEventDisableSystemFence | hipEventReleaseToDevice | hipEventReleaseToSystem)

static struct ihipEvent_t *new_event(hsa_signal_t signal, unsigned int flags)
{
	struct ihipEvent_t *event = calloc(1, sizeof(*event));

	if (event) {
		event->signal = signal;
		event->flags = flags;
		if (hip_handle_add(&event->handle, HIP_EVENT))
			return event;
	}
	free(event);
	hsa_signal_destroy(signal);
	return NULL;
}

static hipError_t create(hipEvent_t *event, unsigned int flags)
{
	uint64_t shared = flags & hipEventInterprocess ? HSA_AMD_SIGNAL_IPC : 0;
	hipError_t error = hip_enter();
	hsa_signal_t signal;

	if (error)
		return error;
	/* Times of other processes are not known. */
	if (!event || flags & ~(unsigned int)EVENT_FLAGS ||
	    (flags & hipEventInterprocess && !(flags & hipEventDisableTiming)))
		return hipErrorInvalidValue;
	error = hip_of_status(hsa_amd_signal_create(0, 0, NULL, shared, &signal));
	if (error)
		return error;
	*event = new_event(signal, flags);
	return *event ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipEventCreate(hipEvent_t *event)
{
	return hip_done(create(event, hipEventDefault));
}

HIP_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned int flags)
{
	return hip_done(create(event, flags));
}

HIP_EXPORT hipError_t hipEventDestroy(hipEvent_t event)
{
	hipError_t error = hip_enter();

	if (!error && !hip_handle_take(event, HIP_EVENT))
		error = hipErrorInvalidHandle;
	if (!error)
		hip_event_put(event);
	return hip_done(error);
}

static hipError_t run_record(struct hip_work *work)
{
	hip_event_complete(work->mark.event, work->mark.record);
	hip_event_put(work->mark.event);
	return hipSuccess;
}

static hipError_t record(struct ihipEvent_t *event, hipStream_t stream)
{
	struct hip_work work = { .run = run_record };
	struct ihipStream_t *s = hip_stream_get(stream);
	hipError_t error;

	if (!s)
		return hipErrorInvalidHandle;
	work.mark.event = event;
	work.mark.record = hip_event_issue(event);
	error = hip_work_queue(s, &work);
	/* A record that cannot be queued is done, so that no thread waits for it. */
	if (error)
		hip_event_complete(event, work.mark.record);
	hip_stream_put(s);
	return error;
}

HIP_EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream,
					      unsigned int flags)
{
	struct ihipEvent_t *held = NULL;
	hipError_t error = hip_enter();

	if (!error && flags & ~(unsigned int)hipEventRecordExternal)
		error = hipErrorInvalidValue;
	if (!error) {
		held = hip_event_get(event);
		error = held ? record(held, stream) : hipErrorInvalidHandle;
	}
	if (error && held)
		hip_event_put(held);
	return hip_done(error);
}

HIP_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
	return hipEventRecordWithFlags(event, stream, hipEventRecordDefault);
}

HIP_EXPORT hipError_t hipEventQuery(hipEvent_t event)
{
	hipError_t error = hip_enter();
	struct ihipEvent_t *held;

	if (error)
		return hip_done(error);
	held = hip_event_get(event);
	if (!held)
		return hip_done(hipErrorInvalidHandle);
	if (!hip_event_is_done(held, hip_event_issued(held)))
		error = hipErrorNotReady;
	hip_event_put(held);
	return hip_done(error);
}

HIP_EXPORT hipError_t hipEventSynchronize(hipEvent_t event)
{
	hipError_t error = hip_enter();
	struct ihipEvent_t *held;

	if (error)
		return hip_done(error);
	held = hip_event_get(event);
	if (!held)
		return hip_done(hipErrorInvalidHandle);
	hip_event_wait(held, hip_event_issued(held));
	hip_event_put(held);
	return hipSuccess;
}

/* When the event's latest record was done. */
static hipError_t time_of(hipEvent_t event, uint64_t *ns)
{
	struct ihipEvent_t *held = hip_event_get(event);
	hipError_t error = hipSuccess;

	if (!held)
		return hipErrorInvalidHandle;
	if (held->flags & hipEventDisableTiming || !hip_event_issued(held))
		error = hipErrorInvalidHandle;
	else if (!hip_event_is_done(held, hip_event_issued(held)))
		error = hipErrorNotReady;
	*ns = atomic_load(&held->time_ns);
	hip_event_put(held);
	return error;
}

HIP_EXPORT hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
	hipError_t error = hip_enter();
	uint64_t from, to;

	if (!error && !ms)
		error = hipErrorInvalidValue;
	if (!error)
		error = time_of(start, &from);
	if (!error)
		error = time_of(stop, &to);
	if (!error)
		*ms = (float)((double)(int64_t)(to - from) / 1e6);
	return hip_done(error);
}

/* ---- other processes ---- */

struct content {
	hsa_amd_ipc_signal_t signal;
	uint32_t pid, flags;
};

_Static_assert(sizeof(struct content) <= sizeof(hipIpcEventHandle_t), "a handle's size");

HIP_EXPORT hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *handle, hipEvent_t event)
{
	struct content content = { .pid = (uint32_t)getpid() };
	hipError_t error = hip_enter();
	struct ihipEvent_t *held;

	if (!error && !handle)
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	held = hip_event_get(event);
	if (!held)
		return hip_done(hipErrorInvalidHandle);
	content.flags = held->flags;
	if (!(held->flags & hipEventInterprocess))
		error = hipErrorInvalidHandle;
	else
		error = hip_of_status(hsa_amd_ipc_signal_create(held->signal, &content.signal));
	hip_event_put(held);
	if (error)
		return hip_done(error);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &content, sizeof(content));
	return hipSuccess;
}

HIP_EXPORT hipError_t hipIpcOpenEventHandle(hipEvent_t *event, hipIpcEventHandle_t handle)
{
	hipError_t error = hip_enter();
	struct content content;
	hsa_signal_t signal;

	if (!error && !event)
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	memcpy(&content, &handle, sizeof(content));
	if (content.pid == (uint32_t)getpid())
		return hip_done(hipErrorInvalidContext);
	error = hip_of_status(hsa_amd_ipc_signal_attach(&content.signal, &signal));
	if (error)
		return hip_done(error);
	*event = new_event(signal, content.flags & EVENT_FLAGS);
	return hip_done(*event ? hipSuccess : hipErrorOutOfMemory);
}
