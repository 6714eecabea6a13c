/* SPDX-License-Identifier: MIT */
/*
 * hsa_int.h - declarations shared by the files of softgpu's libhsa-runtime64.
 *
 * One lock, hsa_lock, protects their data. It is not held while a callback of the program runs, nor
 * while the driver frees memory. All allocations in the table are mapped. copy.c and memory.c have
 * a lock each, taken after hsa_lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "hsa/hsa.h"
#include "hsa/hsa_ext_amd.h"
#include "transport.h"

#define SGU_EXPORT __attribute__((visibility("default")))

#define HSA_PAGE	((size_t)4096)
#define HSA_CPU		(-1)		/* number of the CPU's agent and pool */

struct hsa_gpu {
	struct softgpu_info info;
	uint32_t ctx;			/* the driver's handle */
	bool has_pool;			/* fixed: all of its memory is in its BAR */
};

extern pthread_mutex_t hsa_lock;
extern struct hsa_gpu hsa_gpus[SOFTGPU_MAX_GPUS];
extern int hsa_gpu_count;
/* Context on the first GPU for memory of the CPU's pool. 0: no driver, or no such context. */
extern uint32_t hsa_system_ctx;

extern unsigned int hsa_users;		/* hsa_init() calls minus hsa_shut_down() calls */
extern bool hsa_forked;			/* this is a forked child of a process that had GPUs */

/* Caller holds hsa_lock. Whether hsa_init() was called, and this is not a forked child. */
bool hsa_ready(void);
/* The same without the lock. */
bool hsa_enter(void);

/*
 * The CPU's agent and pool have the number HSA_CPU, those of a GPU its index in hsa_gpus. False:
 * invalid handle.
 */
bool hsa_agent_number(hsa_agent_t agent, int *number);
bool hsa_pool_number(hsa_amd_memory_pool_t pool, int *number);
hsa_agent_t hsa_agent_of(int number);
hsa_amd_memory_pool_t hsa_pool_of(int number);
/* Size of the pool in bytes, which limits each allocation. */
size_t hsa_pool_size(int number);
/* Returns the GPUs of a list, a bit each. HSA_STATUS_SUCCESS or INVALID_AGENT. */
hsa_status_t hsa_agents_mask(uint32_t n, const hsa_agent_t *agents, uint32_t *mask);
uint32_t hsa_all_gpus(void);

/* Converts the driver's -errno to an HSA status. */
hsa_status_t hsa_status_of(int err);

/* ---- memory.c ---- */

/* A function of the program that runs when the allocation is freed: notify.c. */
struct hsa_notifier {
	void *ptr;		/* as registered: anywhere in the allocation */
	hsa_amd_deallocation_callback_t callback;
	void *user_data;
};

struct hsa_memory {
	struct hsa_memory *next;
	char *base;
	size_t size;		/* as requested */
	size_t length;		/* whole pages */
	int agent;		/* the owner */
	int gpu;		/* the GPU whose driver manages it; -1: none */
	uint32_t ctx;		/* the context on that GPU */
	uint32_t mapped;	/* GPUs with access, a bit each */
	uint32_t flags;		/* of its allocation */
	unsigned int attached;	/* memory of another process: attach calls minus detach calls */
	unsigned int copies; /* number of copies that use it; protected by table_lock of memory.c */
	uint64_t id;		/* not 0, and never reused */
	bool ending;		/* a thread is freeing it, and calls its notifiers */
	/* a mapping of vmem.c: its memory, otherwise NULL; the permission of each GPU and the CPU */
	struct hsa_phys *phys;
	uint8_t access[SOFTGPU_MAX_GPUS + 1];
	bool shown;		/* the CPU sees the mapping */
	struct hsa_notifier *notifiers;
	size_t notifier_count;
	int fd;			/* of the memfd, for memory that no driver manages; otherwise -1 */
	uint64_t key[2];	/* of that file */
	void *userdata;
};

/*
 * Caller holds hsa_lock for all of these. Returns the allocation that contains ptr, up to the
 * requested size. NULL: none.
 */
struct hsa_memory *hsa_memory_at(const void *ptr);
/* Whether the range is within one allocation. True also if `ptr` is in none. */
bool hsa_memory_covers(const void *ptr, size_t size);
/* Whether any memory is in the range. */
bool hsa_mapping_in(const char *base, size_t size);
/* Returns attached memory of the file with this key. NULL: none. */
struct hsa_memory *hsa_memory_attached(const uint64_t key[2]);
void hsa_memory_add(struct hsa_memory *memory);
/*
 * Removes the allocation from the table and unmaps it for the CPU. Its addresses stay reserved.
 * False: a copy was using it, so hsa_lock was released and the caller must check everything again.
 */
bool hsa_memory_drop(struct hsa_memory *memory);
/* Maps the driver's memory for the CPU. 0 or -errno. */
int hsa_memory_show(const struct hsa_memory *memory);
/* Removes and unmaps all allocations, each when no copy uses it any more. */
void hsa_memory_end(void);

/*
 * Call these two without hsa_lock. hsa_memory_hold() returns whether ptr still is in the allocation
 * with that id (0: in none). Then the allocation is kept until hsa_memory_let_go().
 */
bool hsa_memory_hold(const void *ptr, uint64_t id, struct hsa_memory **held);
void hsa_memory_let_go(struct hsa_memory *held);

/* The exported functions, without the first instructions that interposers patch. */
hsa_status_t hsa_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void **ptr);
hsa_status_t hsa_pool_free(void *ptr);

/* ---- vmem.c ---- */

/* Caller holds hsa_lock for these. Whether the program has reserved the address. */
bool hsa_is_reserved(const void *ptr);
void hsa_vmem_end(void);

/* ---- lock.c ---- */

struct hsa_locked {
	struct hsa_locked *next;
	char *base;
	size_t size;
	unsigned int count;
	uint32_t mapped;
	void *userdata;
};

/* Caller holds hsa_lock for both. */
struct hsa_locked *hsa_locked_at(const void *ptr);
void hsa_locked_end(void);

/* ---- signal.c ---- */

/* The part of a signal that processes share. */
struct hsa_value {
	_Atomic(int64_t) value;
	_Atomic(uint32_t) changes;	/* the futex of the waiters */
	_Atomic(uint32_t) waiters; /* a killed waiter stays counted, which costs unneeded wakes */
};

struct hsa_signal {
	struct hsa_value *at;
	struct hsa_value own;		/* used by `at` if the signal cannot be shared */
	atomic_uint refs; /* users without hsa_lock, plus 1 for all handles together */
	unsigned int handles;		/* handles minus hsa_signal_destroy() calls */
	bool shared;			/* fixed: `at` is in a file */
	int fd; /* the file, by which other processes find it; -1: no file, or no handle is left */
	uint64_t key[2];
};

/* Caller holds hsa_lock. Returns the signal of a handle. NULL: invalid handle. */
struct hsa_signal *hsa_signal_at(hsa_signal_t signal);
void hsa_signal_get(struct hsa_signal *s);
void hsa_signal_put(struct hsa_signal *s);
/* Waits until the value is 0: true. False: *stop was set, and the signal was poked. */
bool hsa_signal_wait_zero(struct hsa_signal *s, const atomic_bool *stop);
void hsa_signal_poke(struct hsa_signal *s);
/* Reports the end of a copy. */
void hsa_signal_complete(struct hsa_signal *s, bool failed);
/* Caller holds hsa_lock. Ends all signals. */
void hsa_signal_end(void);
/* Caller holds hsa_lock. Makes a signal of the file with this key. Takes over fd. */
hsa_status_t hsa_signal_adopt(int fd, const uint64_t key[2], hsa_signal_t *signal);

/* ---- copy.c ---- */

/* Caller holds hsa_lock. Drops waiting copies, and waits until running copies have ended. */
void hsa_copy_end(void);
