/* SPDX-License-Identifier: MIT */
/*
 * hsa_int.h - what the files of softgpu's libhsa-runtime64 share.
 *
 * One lock, hsa_lock, for all that they keep; it is not held while a callback of the
 * program's runs, nor while the driver frees memory.  What is in the table of
 * allocations is mapped.  copy.c and memory.c have a lock each, taken after it.
 */
#ifndef SGU_HSA_INT_H
#define SGU_HSA_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "hsa/hsa.h"
#include "hsa/hsa_ext_amd.h"
#include "transport.h"

#define SGU_EXPORT __attribute__((visibility("default")))

#define HSA_PAGE	((size_t)4096)
#define HSA_CPU		(-1)		/* among the numbers of agents and pools */

struct hsa_gpu {
	struct softgpu_info info;
	uint32_t ctx;			/* the driver's handle */
	bool has_pool;			/* fixed: all of its memory is in its BAR */
};

extern pthread_mutex_t hsa_lock;
extern struct hsa_gpu hsa_gpus[SOFTGPU_MAX_GPUS];
extern int hsa_gpu_count;
/* On the first GPU, of the CPU's memory; 0: there is no driver, or it has none to give. */
extern uint32_t hsa_system_ctx;

extern unsigned int hsa_users;		/* hsa_init less hsa_shut_down */
extern bool hsa_forked;			/* this is a forked child of a process that had GPUs */

/* With hsa_lock held: whether hsa_init has been called and this is no forked child. */
bool hsa_ready(void);
/* The same without the lock. */
bool hsa_enter(void);

/* The CPU's agent and pool are numbered HSA_CPU, a GPU's as in hsa_gpus.  False: no such one. */
bool hsa_agent_number(hsa_agent_t agent, int *number);
bool hsa_pool_number(hsa_amd_memory_pool_t pool, int *number);
hsa_agent_t hsa_agent_of(int number);
/* In bytes; no allocation is larger. */
size_t hsa_pool_size(int number);
/* The GPUs of a list, a bit each: 0, or INVALID_AGENT. */
hsa_status_t hsa_agents_mask(uint32_t n, const hsa_agent_t *agents, uint32_t *mask);
uint32_t hsa_all_gpus(void);

/* In the driver's -errno, HSA's. */
hsa_status_t hsa_status_of(int err);

/* ---- memory.c ---- */

struct hsa_memory {
	struct hsa_memory *next;
	char *base;
	size_t size;		/* as asked for */
	size_t length;		/* whole pages */
	int agent;		/* the owner */
	int gpu;		/* whose driver knows it; -1: none does */
	uint32_t ctx;		/* there */
	uint32_t mapped;	/* GPUs, a bit each */
	uint32_t flags;		/* of its allocation */
	unsigned int attached;	/* another process's: how often less detached */
	unsigned int copies;	/* with memory.c's lock: those that hold it */
	uint64_t id;		/* no other allocation ever has it; not 0 */
	int fd;			/* memory that no driver knows is a file's; else -1 */
	uint64_t key[2];	/* of that file */
	void *userdata;
};

/* All with hsa_lock held.  The allocation that ptr is in, as far as the program asked for it; NULL: none. */
struct hsa_memory *hsa_memory_at(const void *ptr);
/* Whether the bytes are all of one allocation, or the first of them is of none. */
bool hsa_memory_covers(const void *ptr, size_t size);
/* Memory of this file that is attached; NULL: it is not. */
struct hsa_memory *hsa_memory_attached(const uint64_t key[2]);
void hsa_memory_add(struct hsa_memory *memory);
/*
 * It is no longer in the table, nor seen by the CPU; its addresses stay taken.  False: a copy held it, so hsa_lock was given
 * up for a while: look at everything again.
 */
bool hsa_memory_drop(struct hsa_memory *memory);
/* The CPU's view of memory that the driver knows: 0 or -errno. */
int hsa_memory_show(const struct hsa_memory *memory);
/* Forgets all allocations, and unmaps them, once no copy holds them. */
void hsa_memory_end(void);

/* These two without hsa_lock.  Whether ptr is still in the allocation of that id (0: in none); until let_go it stays there. */
bool hsa_memory_hold(const void *ptr, uint64_t id, struct hsa_memory **held);
void hsa_memory_let_go(struct hsa_memory *held);

/* ---- lock.c ---- */

struct hsa_locked {
	struct hsa_locked *next;
	char *base;
	size_t size;
	unsigned int count;
	uint32_t mapped;
	void *userdata;
};

/* Both with hsa_lock held. */
struct hsa_locked *hsa_locked_at(const void *ptr);
void hsa_locked_end(void);

/* ---- signal.c ---- */

/* What processes share of a signal. */
struct hsa_value {
	_Atomic(int64_t) value;
	_Atomic(uint32_t) changes;	/* what waiters sleep on */
	_Atomic(uint32_t) waiters;	/* one that was killed stays counted: a wake too many */
};

struct hsa_signal {
	struct hsa_value *at;
	struct hsa_value own;		/* what `at' is when no other process may have it */
	atomic_uint refs;		/* of those who use it without hsa_lock, and one for all handles */
	unsigned int handles;		/* less hsa_signal_destroy */
	bool shared;			/* fixed: `at' is in a file */
	int fd;				/* that file, by which others find it; -1: there is none, or no handle is left */
	uint64_t key[2];
};

/* With hsa_lock held.  The signal of a handle; NULL: it is none. */
struct hsa_signal *hsa_signal_at(hsa_signal_t signal);
void hsa_signal_get(struct hsa_signal *s);
void hsa_signal_put(struct hsa_signal *s);
/* Waits until the value is 0: true; false: *stop was set and the signal poked. */
bool hsa_signal_wait_zero(struct hsa_signal *s, const atomic_bool *stop);
void hsa_signal_poke(struct hsa_signal *s);
/* The end of a copy. */
void hsa_signal_complete(struct hsa_signal *s, bool failed);
/* With hsa_lock held: all of them end. */
void hsa_signal_end(void);
/* With hsa_lock held.  In a file that has this key; fd and mapping are the signal's then. */
hsa_status_t hsa_signal_adopt(int fd, const uint64_t key[2], hsa_signal_t *signal);

/* ---- copy.c ---- */

/* With hsa_lock held: drops the copies that wait, lets those that run finish. */
void hsa_copy_end(void);

#endif
