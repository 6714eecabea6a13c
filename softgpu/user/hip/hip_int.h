/* SPDX-License-Identifier: MIT */
/*
 * hip_int.h - declarations shared by the files of softgpu's libamdhip64. Like AMD's, it is built on
 * HSA.
 *
 * Locks: init.c's is taken alone. work.c's may be held while handle.c's is taken.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "hip/hip_runtime_api.h"
#include "hsa/hsa_ext_amd.h"
#include "softgpu_hsa.h"

#define HIP_EXPORT __attribute__((visibility("default")))
#define HIP_DEVICES_MAX 16

/* ---- init.c ---- */

struct hip_device {
	hsa_agent_t agent;
	hsa_amd_memory_pool_t pool;
	uint32_t domain, bdf, node;
	size_t memory;
	char name[64];
	char uuid[21];
};

/* They do not change once hip_enter() has succeeded. */
extern struct hip_device hip_devices[HIP_DEVICES_MAX];
extern int hip_count;
extern hsa_amd_memory_pool_t hip_host_pool;

/* Call first in every function: HIP initializes itself. */
hipError_t hip_enter(void);
bool hip_device_ok(int device);
/* The thread's. */
int hip_current(void);

/* ---- error.c ---- */

/* Returns the error to the program, and keeps it as the thread's last error. */
hipError_t hip_done(hipError_t error);
hipError_t hip_of_status(hsa_status_t status);
/* Prints the name of the function that was called, and returns hipErrorNotSupported. */
int hip_unsupported(const char *name);

/* ---- memory.c ---- */

enum hip_kind { HIP_DEVICE_MEMORY, HIP_HOST_MEMORY, HIP_MANAGED_MEMORY, HIP_KINDS };

/* What HIP knows of an address. */
struct hip_memory {
	enum hip_kind kind;
	bool known;
	bool registered;	/* memory of the program, by hipHostRegister() */
	bool ipc;		/* of another process */
	bool mapped;		/* by hipMemMap() */
	char *base;
	size_t size;
	int device;
	unsigned int flags;
};

struct hip_memory hip_memory_at(const void *ptr);
hipError_t hip_free(void *ptr);
/* Records kind and flags of the memory that begins at ptr. */
void hip_mark(void *ptr, enum hip_kind kind, unsigned int flags);

/* ---- copy.c ---- */

struct hip_copy {
	char *dst;
	const char *src;
	size_t dst_pitch, src_pitch, width, height;
};

struct hip_fill {
	char *dst;
	size_t pitch, width, height;	/* in bytes */
	uint32_t value;			/* the bytes of one word */
};

hipError_t hip_copy_run(const struct hip_copy *copy);
hipError_t hip_fill_run(const struct hip_fill *fill);

/* ---- handle.c: a program's pointers to streams, events and the like, which may be wrong ---- */

enum hip_handle_kind { HIP_STREAM, HIP_EVENT, HIP_PHYS };

struct hip_handle {
	enum hip_handle_kind kind;
	unsigned int refs;	/* protected by handle.c */
};

/* Makes the handle valid, with one reference. False: not enough memory. */
bool hip_handle_add(struct hip_handle *handle, enum hip_handle_kind kind);
/* Takes a reference. NULL: not a handle of this kind. */
void *hip_handle_get(const void *ptr, enum hip_handle_kind kind);
/* The handle is no longer valid. False: it was not. The first reference is the caller's. */
bool hip_handle_take(const void *ptr, enum hip_handle_kind kind);
/* True: this was the last reference, and the caller frees the struct. */
bool hip_handle_put(struct hip_handle *handle);

/* ---- event.c ---- */

/* Takes a reference. NULL: not an event. */
struct ihipEvent_t *hip_event_get(hipEvent_t event);
void hip_event_put(struct ihipEvent_t *event);
/* Counts a record of the event, and returns its number. */
uint32_t hip_event_issue(struct ihipEvent_t *event);
/* The latest record. */
uint32_t hip_event_issued(struct ihipEvent_t *event);
void hip_event_complete(struct ihipEvent_t *event, uint32_t record);
bool hip_event_is_done(struct ihipEvent_t *event, uint32_t record);
/* Waits until that record is done. */
void hip_event_wait(struct ihipEvent_t *event, uint32_t record);

/* ---- work.c: streams' work ---- */

/* A piece of work. `run' is called without locks, and the struct is freed after it. */
struct hip_work {
	struct hip_work *next;
	uint64_t ticket;	/* counts all work, in the order in which it was queued */
	hipError_t (*run)(struct hip_work *work);
	union {
		struct hip_copy copy;
		struct hip_fill fill;
		struct {
			struct ihipEvent_t *event;
			uint32_t record;
		} mark;
		struct {
			hipHostFn_t function;
			hipStreamCallback_t callback;
			hipStream_t stream;
			void *user_data;
		} call;
		void *ptr;
	};
};

/* Finds the stream, 0 and its like included, and takes a reference. NULL: there is none. */
struct ihipStream_t *hip_stream_get(hipStream_t stream);
void hip_stream_put(struct ihipStream_t *stream);
/* Queues a copy of the work. */
hipError_t hip_work_queue(struct ihipStream_t *stream, const struct hip_work *work);
/* Waits for all that was queued before the call; returns the first error since the last wait. */
hipError_t hip_work_wait(struct ihipStream_t *stream);
/* As the default stream of the thread's device does before work of its own. */
hipError_t hip_work_wait_default(void);
/* Waits for all streams of the device; -1: of all devices. */
void hip_work_wait_device(int device);

/* ---- log.c of all libraries ---- */

void sgu_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
