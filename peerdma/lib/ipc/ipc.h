/* SPDX-License-Identifier: MIT */
/*
 * ipc.h - declarations shared by the files of peerdma_ipc.h's implementation. Calls go down only:
 *
 * copy.c                 copies
 * stream.c  signal.c     signals
 * open.c                 memory that this process has opened
 * export.c  blocks.c     memory that it exports; memory of peerdma_ipc_alloc()
 * shared_page.c          sets up an exporter: the pages for importers, records, threads
 * server.c               the threads that answer importers
 * frees.c                ends exports of freed memory
 * provider.c             finds the provider of memory: host.c, cuda.c, cuda_pool.c, hsa.c
 * cuda_imports.c         pools that this process has imported
 * exporter.c             an exporter as seen by its importers
 * link.c                 an importer's connections to an exporter, for signals
 * client.c               an importer's request to an exporter
 * records.c              records of exports, and their slots, which importers read
 * ranges.c               ranges of exported memory, sorted by address
 * state.c                the process's one struct ipc, and forks
 * handle.c  message.c  file.c  async_close.c
 *
 * One lock protects the data: ipc->lock. It protects every field of struct ipc, records, exporters,
 * mappings and signals that is not marked "atomic" or "fixed". No thread holds it across a call of
 * a provider or while it waits for another process. The handlers of frees (frees.c) take no lock.
 * cuda_pool.c and cuda_imports.c serialize CUDA's calls with ipc->pools_lock, which is taken before
 * ipc->lock.
 *
 * A field that is "written with both locks held" may be read with either: ipc->lock or pools_lock.
 */
#pragma once

#include <pthread.h>

#include "../base/cancel.h"
#include "../base/own_fd.h"
#include "../internal.h"
#include "handle.h"
#include "message.h"
#include "ranges.h"

#define IPC_SLOTS	65536
#define IPC_ARENA_SIGNALS	16384

/* ---- Memory that processes share ---- */

/*
 * Written by the exporter, read by importers. `alive` is a robust futex that the exporter's thread
 * holds while the process lives. However the thread ends, the kernel then sets FUTEX_OWNER_DIED in
 * it, before it frees the process's memory or descriptors.
 */
#define IPC_PAGE_MAGIC "pdmahome"
struct ipc_page {
	uint8_t magic[8];
	uint32_t slots;
	uint32_t reserved[13];
	uint32_t alive __attribute__((aligned(64)));
	/* generation of each record; odd: live. A value is never used twice. */
	uint64_t slot[IPC_SLOTS] __attribute__((aligned(4096)));
};

/* A signal. The creator and all importers write it. */
struct ipc_shared_signal {
	uint64_t value;
	/*
	 * Waiters sleep on this word. A waiter that is about to sleep sets the lowest bit,
	 * IPC_SLEEPS. The other bits count changes of the value: after each change the setter adds
	 * IPC_CHANGE and clears IPC_SLEEPS in one step. With two steps, another waiter might set
	 * the bit in between, and no setter would wake that waiter.
	 */
	uint32_t changes;
#define IPC_SLEEPS	1U
#define IPC_CHANGE	2U
	/* a GPU writes the value, and neither counts the change nor wakes waiters */
	uint32_t polled;
	uint32_t reserved[12];
} __attribute__((aligned(64)));

/* ---- The exporter ---- */

/* An allocation as its provider describes it for importers. */
struct ipc_offer {
	/* Sent to importers, so values are stable: add new ones at the end. */
	enum ipc_provider_id { IPC_HOST = 1, IPC_CUDA, IPC_CUDA_VMM, IPC_HSA,
			       IPC_CUDA_POOL } provider;
	uint64_t base, length;		/* of the allocation */
	uint64_t id;			/* CUDA's buffer id, or the file's inode; 0: none */
	uint64_t device;		/* the file's device number */
	bool any_user;
	uint8_t blob[64];
	int fd;				/* -1: none */
	/* the fd is owned by a block; peerdma_ipc_free() ends the record before it closes the fd */
	bool borrowed;
	uint64_t fd_offset;
	/* CUDA's handle of the pool, and the pool's number for importers; 0: none */
	uint64_t pool, pool_number;
	char pci[20];
};

/* Work that a freeing thread leaves to the reaper thread. There is a list for each. */
enum ipc_todo { IPC_REAP, IPC_RECHECK, IPC_TODOS };

/* A pool of CUDA with exported memory. Each holds descriptors, so there are few. */
struct ipc_exported_pool {
	struct ipc_exported_pool *next;
	uint64_t pool, number;		/* CUDA's handle; the number sent to importers */
	unsigned int records;
};

struct ipc_record {
	uint64_t base, length;		/* atomic, read by frees; length 0: no memory */
	uint32_t device; /* atomic: the provider of device memory; 0: host memory or a signal */
	uint64_t id;			/* atomic: a copy of offer.id */
	struct {
		uint32_t waits;		/* atomic: in the list, or being added */
		uint32_t next;		/* in the list: number + 1 */
	} todo[IPC_TODOS];
	enum ipc_what what; /* this field and those below are cleared when the record is reused */
	bool used;			/* not in the free list */
	uint64_t generation;		/* at publication; a free may have changed the slot since */
	bool pending;			/* visible to frees, but not complete yet */
	bool ranged;			/* in ipc->ranges */
	unsigned int count;		/* exports minus unexports */
	uint32_t flags;
	uint8_t key[IPC_KEY];
	struct ipc_offer offer;
	struct own_fd file;		/* offer.fd */
	struct ipc_exported_pool *pool;	/* NULL: not memory of a pool */
	struct ipc_shared_signal *shared;		/* of a signal */
	/* index in the arena; IPC_ARENA_SIGNALS: the signal has a file of its own */
	uint32_t arena_number;
	/* opens of the signal by other processes, plus 1 until this process's close is complete */
	unsigned int openers;
	uint32_t deaths; /* processes that ended with the signal open, not reported yet */
	uint32_t next;			/* in the free list */
};

/* ---- The importer ---- */

/* Another process, as seen by its importers. */
struct ipc_exporter {
	struct ipc_exporter *next;
	struct ipc_id process, boot;	/* fixed, like uid, pid and page */
	uint32_t pid, uid;
	unsigned int refs;
	const struct ipc_page *page;
	struct ipc_shared_signal *arena; /* NULL: none of its signals was opened yet */
	bool arena_registered;		/* registered with CUDA */
	/*
	 * memory of its pools stays mapped because cuMemFree() failed; written with both locks held
	 */
	bool pools_lost;
	struct ipc_pool *pools;		/* imported pools; written with both locks held */
	struct ipc_link *links;		/* connections to it, for signals */
};

/*
 * An exporter's pool that this process has imported (cuda_imports.c). Holds a reference to the
 * exporter.
 */
struct ipc_pool {
	struct ipc_pool *next;		/* of the exporter */
	/* the exporter's number of the pool; protected by pools_lock, like the next three */
	uint64_t number;
	void *handle;			/* CUDA's handle in this process */
	unsigned int imports;		/* number of times that the pool was imported */
	uint64_t devices;		/* devices with access: ipc_cuda_device_bit() */
	/* mappings of the pool's memory; written with both locks held, like unused_since */
	unsigned int users;
	uint64_t unused_since;		/* now_ns() */
};

/* A connection to an exporter that keeps signals open there (link.c). */
struct ipc_link {
	struct ipc_link *next;		/* of the exporter */
	struct own_fd conn;		/* OWN_FD_NONE: not connected yet */
	uint32_t uid;			/* of the exporter */
	unsigned int asked;		/* opens over its lifetime, at most IPC_OPENS */
	unsigned int open;		/* opens that are active or pending */
	bool busy;			/* a thread waits for an answer on it */
};

struct ipc_mapping {
	struct ipc_mapping *next;	/* most recently used first */
	struct ipc_exporter *exporter;		/* fixed from here on */
	uint32_t slot;
	uint64_t generation;
	uint8_t key[IPC_KEY];
	const struct ipc_provider *provider;
	uint64_t context;		/* id of the CUDA context; 0: none */
	uint64_t id;			/* CUDA's buffer id in this process; 0: none */
	char *base;
	uint64_t length;
	uint64_t exporter_base;
	char pci[20];
	uint64_t handle;		/* for use by the provider */
	/* the pool of its memory, NULL: none; written with both locks held */
	struct ipc_pool *pool;
	enum { IPC_OPENING, IPC_OPEN, IPC_CLOSING } state;
	uint64_t sweep;			/* the last sweep that checked it */
	bool gone; /* unmapped by the context's end or by the program: nothing is left to unmap */
	unsigned int refs;		/* of all its ranges */
	unsigned int range_count;
	struct ipc_range *ranges;
};

struct ipc_range {
	struct peerdma_ipc_memory memory;	/* must be first */
	struct ipc *ipc;		/* fixed */
	struct ipc_mapping *mapping;	/* fixed */
	uint64_t offset;		/* fixed */
	unsigned int refs;
	struct ipc_range *next;		/* of the mapping */
	struct ipc_range *hash_next;
};

struct ipc_provider {
	enum ipc_provider_id id;
	const char *name;
	bool cuda;		/* it shares memory of CUDA */
	/*
	 * NULL, or: whether the process has what offer() and open() need besides suitable memory. 0,
	 * or -errno with text.
	 */
	int (*ready)(void);
	/* If it is ready: which memory, for peerdma_components(). */
	void (*describe)(struct peerdma_component *c);
	/*
	 * Identifies the memory at ptr: fills in provider, base, length, id, pci. -ENOENT: not
	 * memory of this provider, no text. NULL: another provider's identify() recognizes the
	 * memory. 0 or -errno with text.
	 */
	int (*identify)(const void *ptr, struct ipc_offer *offer);
	/* Fills in the other fields of the offer. 0 or -errno with text. */
	int (*offer)(const void *ptr, struct ipc_offer *offer);
	/*
	 * Returns the context that opened memory belongs to: 0, or -errno with text. NULL: memory
	 * belongs to the process.
	 */
	int (*context)(uint64_t *context);
	bool in_context;	/* unmapping needs a current CUDA context, which may be any */
	/* Whether the mapping still exists. NULL: it always does. Required with .context. */
	bool (*still)(const struct ipc_mapping *m);
	/*
	 * Maps the exporter's memory: fills in base, handle, id. m->length bytes must be there. fd
	 * stays the caller's. 0 or -errno with text.
	 */
	int (*open)(struct ipc_mapping *m, const struct ipc_reply *reply, int fd);
	/* Unmaps. Is also called when m->gone is set. */
	int (*close)(struct ipc_mapping *m);
};

extern const struct ipc_provider ipc_host, ipc_cuda, ipc_cuda_vmm, ipc_cuda_pool, ipc_hsa;

#define IPC_BUCKETS 1024

/*
 * Result of an open beside 0 and -errno: this process's mappings have changed, so search again. Not
 * an errno, because the kernel's EAGAIN has another meaning.
 */
#define IPC_LOOK_AGAIN 1

struct ipc {
	uint64_t process;		/* process_id() of its creator */
	/* of the parent process; kept because objects point to it, otherwise unused */
	struct ipc *parent;
	pthread_mutex_t lock;
	uint64_t pool_numbers;		/* the last number given to a pool */
	/* serializes CUDA's imports of pools and of their memory: cuda_pool.c, cuda_imports.c */
	pthread_mutex_t pools_lock;
	unsigned int pools_unused;	/* atomic: imported pools without mappings */
	pthread_cond_t settled;		/* a mapping was opened or closed, or an export was made */
	bool boot_known;
	struct ipc_id boot;		/* boot id of the machine */

	/* The exporter: records.c, export.c. NULL before the first export. */
	struct ipc_page *page;		/* atomic */
	bool page_opening;		/* a thread is opening it */
	struct ipc_record *records;	/* IPC_SLOTS of them */
	/* records from `high` on are unused; `free` heads a list that ends with IPC_SLOTS */
	uint32_t high, free;
	uint32_t todo[IPC_TODOS];	/* atomic: lists of records, by number + 1 */
	struct ranges ranges[2];	/* exported memory: host memory, device memory */
	struct ipc_exported_pool *pools;
	struct ipc_id self;
	uint32_t uid;			/* of the listener */
	struct own_fd page_file, arena_file, listener;
	bool reaper_started;			/* the thread that processes todo[] is running */
	uint32_t todos;			/* atomic: futex on which that thread sleeps */
	struct ipc_shared_signal *arena;
	bool arena_registered;
	uint64_t arena_taken[IPC_ARENA_SIGNALS / 64];
	bool watched[2]; /* frees of host memory and of device memory are reported to frees.c */
	struct ipc_block *blocks;	/* memory of peerdma_ipc_alloc() */

	/* The importer: open.c. */
	struct ipc_exporter *exporters;
	struct ipc_mapping *mappings;
	struct ipc_range *buckets[IPC_BUCKETS];
	uint64_t sweeps;

	struct peerdma_ipc_counters counters;	/* each atomic */
};

#define ipc_count(ipc, field) __atomic_fetch_add(&(ipc)->counters.field, 1, __ATOMIC_RELAXED)

/* state.c: this process's struct. NULL: out of memory, with text. */
struct ipc *ipc_get(void);
/* This process's struct, or NULL if there is none yet. */
struct ipc *ipc_there(void);
/* Whether this process created the object's struct ipc; false in a forked child. */
bool ipc_mine(const struct ipc *ipc);
int ipc_not_mine(const char *call);	/* -EPERM with text */
/*
 * Sockets that forked children do not inherit: a handler closes them before fork() returns in the
 * child. -errno: none.
 */
int ipc_socket(void);
int ipc_accept(int listener);
void ipc_close_socket(struct own_fd *f);
/* closes a socket that may hold unread messages of user `uid` */
void ipc_hang_up(struct own_fd *f, uint32_t uid);
int ipc_random(void *bytes, size_t size);	/* 0, or -EIO with text */
int ipc_boot(struct ipc *ipc, struct ipc_id *boot); /* takes ipc->lock; 0, or -errno with text */

/* async_close.c: closes descriptors from another process without blocking the caller. */
void ipc_close_async(const int *fds, unsigned int n);
unsigned int ipc_closes_pending(void);	/* threads that are waiting for a close */

/*
 * file.c: creates a sealed memfd and maps it. 0 or -errno with text. fixed: only the mapping at
 * `addr` can write.
 */
int ipc_file_make(const char *name, size_t size, bool fixed, int *fd, void **addr);
/*
 * Converts errno of mmap(). EAGAIN: the process locks all its memory, and the mapping exceeds
 * RLIMIT_MEMLOCK.
 */
static inline int ipc_mmap_error(void)
{
	return errno == EAGAIN ? -ENOMEM : -errno;
}
/* Whether this process can open one more descriptor. Otherwise errno is EMFILE or ENFILE. */
bool ipc_descriptors_left(void);
/*
 * Sets close-on-exec. CUDA opens descriptors without it, and programs started by this process would
 * inherit the exported memory.
 */
void ipc_not_inherited(int fd);
/* Maps a file from another process, after checking that the file has the size and cannot shrink. */
int ipc_file_map(int fd, size_t size, bool write, void **addr);

/* shared_page.c. Caller holds ipc->lock; released meanwhile. 0 or -errno with text. */
int ipc_page_open(struct ipc *ipc);

/* records.c. Caller holds ipc->lock, unless stated otherwise. */
/*
 * Wakes the reaper thread, which processes todo[]. Takes no lock and needs no descriptor, because
 * the program may have closed the library's descriptors.
 */
void ipc_wake(struct ipc *ipc);
/* Allocates a record with a key. It is live from ipc_record_publish() on. */
int ipc_record_get(struct ipc *ipc, uint32_t *slot);
void ipc_record_publish(struct ipc *ipc, uint32_t slot);
void ipc_record_name(const struct ipc *ipc, uint32_t slot, struct ipc_name *name);
/* Ends a live record. Any thread may call it, without a lock. False: the record was not live. */
bool ipc_record_end(struct ipc *ipc, uint32_t slot, uint64_t generation);
/*
 * ipc_todo_add() puts a record into a list. ipc_todo_take() empties the list and returns its first
 * entry as number + 1, for ipc_todo_next(). Any thread may call both, without a lock.
 */
void ipc_todo_add(struct ipc *ipc, enum ipc_todo what, uint32_t slot);
uint32_t ipc_todo_take(struct ipc *ipc, enum ipc_todo what);
/*
 * Returns the record at *at and advances *at. From here on the record may be added again. False: no
 * more.
 */
bool ipc_todo_next(struct ipc *ipc, enum ipc_todo what, uint32_t *at, uint32_t *slot);
/*
 * Move ended records to the free list unless they are still in use: one record, or all that frees
 * have ended.
 */
void ipc_reap_one(struct ipc *ipc, uint32_t slot);
void ipc_reap(struct ipc *ipc);
/* Removes one opener of a signal. */
void ipc_record_left(struct ipc *ipc, uint32_t slot);
static inline uint64_t ipc_generation(const struct ipc *ipc, uint32_t slot)
{
	return __atomic_load_n(&ipc->page->slot[slot], __ATOMIC_ACQUIRE);
}
/* Call after a change of the value, or of other state that waiters check. */
void ipc_signal_changed(struct ipc_shared_signal *shared);

/*
 * frees.c: subscribes to frees of host memory or of device memory. 0, or -EOPNOTSUPP or -ENOMEM
 * with text.
 */
int ipc_watch_frees(struct ipc *ipc, bool device);
/*
 * Takes ipc->lock. Called by the reaper thread: identifies host memory again after a free, and ends
 * the exports whose memory is gone.
 */
void ipc_recheck(struct ipc *ipc);

/* blocks.c. Caller holds ipc->lock. Finds the block that contains the address. */
bool ipc_block_at(const struct ipc *ipc, uint64_t addr, uint64_t *base, uint64_t *length);
/* The block's descriptor, owned by the block. NULL: no such block. */
const struct own_fd *ipc_block_file(const struct ipc *ipc, uint64_t base);

/* server.c: returns when the thread holds page->alive. 0 or -errno with text. */
int ipc_server_start(struct ipc *ipc);

/*
 * client.c: sends a request to the exporter in `name` and waits for the answer. If *conn is
 * OWN_FD_NONE, connects first; the caller owns the connection, also after a later error. The caller
 * owns fds; -1: not sent. open: number of the signal's open on the connection.
 */
int ipc_request(const struct ipc_name *name, enum ipc_op op, unsigned int open,
		struct ipc_reply *reply, int fds[IPC_FDS], struct own_fd *conn);
/*
 * Chooses the error after a provider failed with `error`. `ret` is the exporter's answer to a
 * second request, sent inside the attempt. If that answer shows that the export has ended, returns
 * `ret` with its text. Otherwise returns `error` with the provider's text.
 */
int ipc_ended(uint32_t attempt, int ret, int error);
/* Closes the descriptors of an answer. Call without ipc->lock. */
void ipc_close_fds(const struct ipc_name *name, int fds[IPC_FDS]);

/*
 * link.c. Caller holds ipc->lock. Returns a link on which one more signal can be opened; it is busy
 * until ipc_link_keep() or ipc_link_drop(). exporter may be NULL. NULL: -ENOMEM, with text.
 */
struct ipc_link *ipc_link_get(struct ipc_exporter *exporter, uint32_t uid, unsigned int *number);
/*
 * Caller holds ipc->lock. The answer was read: the link is idle again and belongs to the exporter.
 */
void ipc_link_keep(struct ipc_exporter *exporter, struct ipc_link *link);
/*
 * Caller holds ipc->lock; may be released meanwhile. Removes one open from the link; the last one
 * ends the connection. failed: the answer may still arrive, so no further request is sent on the
 * link.
 */
void ipc_link_drop(struct ipc *ipc, struct ipc_link *link, struct ipc_exporter *exporter,
		   unsigned int number, bool failed);

/*
 * provider.c: identifies the memory at ptr: provider, base, length, id, pci. 0 or -errno with text.
 */
int ipc_identify(const void *ptr, struct ipc_offer *offer);
/* Fills in the other fields of the offer. 0 or -errno with text. */
int ipc_offer(const void *ptr, struct ipc_offer *offer);
const struct ipc_provider *ipc_provider(uint32_t id);
/* Call open() and close() of the mapping's provider. */
int ipc_provider_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd);
int ipc_provider_close(struct ipc_mapping *m);
static inline bool ipc_same_memory(const struct ipc_offer *a, const struct ipc_offer *b)
{
	return a->provider == b->provider && a->base == b->base && a->length == b->length &&
	       a->id == b->id && a->device == b->device && a->fd_offset == b->fd_offset;
}
#define IPC_COPIES 128
struct ipc_copy {
	uint64_t to, from, length;
};
struct ipc_copies {
	struct ipc_copy copy[IPC_COPIES];
};
/* copy_2d.c: copies of equal length at equal distances: the rows of a 2D copy. */
struct ipc_copy_2d {
	const struct ipc_copy *first;		/* the copy with the lowest addresses */
	unsigned int n;
	uint64_t to_pitch, from_pitch;		/* bytes between the starts of two rows */
};
/* Returns the rows that start with copy[begin], at least one. All have the same group. */
struct ipc_copy_2d ipc_copy_2d(const struct ipc_copy *copies, const unsigned int *groups,
			       unsigned int begin, unsigned int end);
/* How engines make a group of rows: one by one, as one plain copy, or as one 2D copy. */
#define IPC_ROWS_FEWEST	3	/* for a 2D copy beside other copies */
enum ipc_rows { IPC_ROWS_NONE, IPC_ROWS_ADJOIN, IPC_ROWS_2D };
/* all: there are no other copies in the list. */
enum ipc_rows ipc_rows_of(const struct ipc_copy_2d *rows, bool all);
/* faster.c: one_gpu: all sources and targets are in one GPU's memory. */
bool ipc_kernel_is_faster(const struct ipc_copies *copies, const unsigned int *groups, unsigned int n,
			  bool one_gpu);
/* cuda_copy.c: copies on a stream of the current context. 0 or -errno with text. */
int ipc_cuda_stream(void **stream);
void ipc_cuda_stream_lost(void *stream);
int ipc_cuda_copy(void *stream, uint64_t to, uint64_t from, uint64_t length);
/*
 * Copies host memory to GPU memory, or back, and waits for it.  The address may be freed at any time:
 * then it fails.  peerdma_ipc_copy() takes an address that CUDA does not know for the host's.
 */
int ipc_gpu_copy(void *gpu, void *host, uint64_t length, bool back);
/*
 * One call for several copies of GPU memory, which complete in any order. -EOPNOTSUPP: libcuda
 * lacks the call. -EIO: some copies may have been submitted.
 */
int ipc_cuda_copy_2d(void *stream, const struct ipc_copy_2d *rows);
int ipc_cuda_batch(void *stream, const struct ipc_copies *copies, unsigned int n);
int ipc_cuda_wait(void *stream);
/*
 * Returns the copy kernel for the stream's context, for ipc_cuda_kernel(). It is loaded once. NULL:
 * the GPU or libcuda cannot run it.
 */
void *ipc_cuda_function(void *stream);
/* Calls fn after the stream's work has completed or failed, with CUDA's error. */
int ipc_cuda_then(void *stream, void (*fn)(void *stream, int error, void *arg), void *arg);
/* cuda_kernel.c: makes n copies in the current context by a kernel. */
/*
 * Cached facts about the current context and its reach. Used for one call; zero at its beginning.
 */
struct ipc_reach {
	bool looked, here;
	uint64_t context;
	void *current;
	int device;
	struct ipc_reached {
		uint64_t base, length;	/* the last buffer in reach */
	} local, there;
};
/* Whether the error is temporary: out of memory, or the program records a graph. */
bool ipc_cuda_passing(int error);
/* Memory that this process opened, and memory of its own; `last` is r->local or r->there. */
bool ipc_cuda_kernel_reaches_mapping(struct ipc_reach *r, const struct ipc_mapping *m);
bool ipc_cuda_kernel_reaches(struct ipc_reach *r, struct ipc_reached *last, const void *ptr,
			     uint64_t length);
void *ipc_cuda_kernel_load(void **module, bool *later);
int ipc_cuda_kernel(void *stream, void *function, const struct ipc_copies *copies, unsigned int n);
/*
 * cuda_poll.c: makes one copy by the polling kernel and waits for it. 0; -EIO with text;
 * -EOPNOTSUPP: unavailable here or at the moment, nothing was copied.
 */
int ipc_cuda_poll(uint64_t context, uint64_t to, uint64_t from, uint64_t length);
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
/* Call between two reads of a word that another processor writes. */
static inline void ipc_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}
/* Registers host memory of signals with CUDA. */
int ipc_cuda_register(void *addr, size_t length);
void ipc_cuda_unregister(void *addr);
int ipc_cuda_stream_wait(void *stream, void *addr, uint64_t value, bool ge);
int ipc_cuda_stream_write(void *stream, void *addr, uint64_t value);
/* hsa.c */
int ipc_hsa_copy(void *to, const void *from, uint64_t length);
/* hsa_signal.c */
int ipc_hsa_signal_make(uint64_t value, uint64_t *handle, uint8_t blob[64]);
int ipc_hsa_signal_open(const uint8_t blob[64], uint64_t *handle);
void ipc_hsa_signal_end(uint64_t handle);
uint64_t ipc_hsa_signal_get(uint64_t handle);
void ipc_hsa_signal_set(uint64_t handle, uint64_t value);
void ipc_hsa_signal_add(uint64_t handle, uint64_t value);

/*
 * exporter.c. Caller holds ipc->lock. Returns a new reference. NULL: this process has no object of
 * the exporter open.
 */
struct ipc_exporter *ipc_exporter_find(struct ipc *ipc, const struct ipc_id *process);
/*
 * Caller holds ipc->lock. Returns a reference to the known exporter, or makes one from the page
 * descriptor of a reply. 0 or -errno with text.
 */
int ipc_exporter_get(struct ipc *ipc, const struct ipc_name *name, int page_fd,
		     struct ipc_exporter **exporter);
/*
 * Caller holds ipc->lock; may be released meanwhile. callback: the caller is a callback of CUDA, so
 * calls of CUDA are left to a later put.
 */
void ipc_exporter_put(struct ipc *ipc, struct ipc_exporter *exporter, bool callback);
/* the same, for all exporters without references */
void ipc_exporters_end(struct ipc *ipc, bool callback);
/* The state of an opened object: 0, -EOWNERDEAD or -ESTALE. Takes no lock. */
int ipc_exporter_live(const struct ipc_exporter *exporter, uint32_t slot, uint64_t generation);
/* sets the text for the error; returns the error */
int ipc_fail_live(const struct ipc_exporter *exporter, int error);
/* Whether the handle is of another process of this boot. 0 or -errno with text. */
int ipc_name_check(struct ipc *ipc, const struct ipc_name *name);

/*
 * cuda_imports.c. Caller holds ipc->lock, which is released meanwhile, and a CUDA context is
 * current. Destroys the imports of pools that are unused for long, or whose exporter has ended.
 * all: destroys all unused imports, and returns when no other thread is destroying one.
 */
void ipc_cuda_pools_end(struct ipc *ipc, bool all);

/* open.c. Caller holds ipc->lock. Whether the address is in opened memory. */
bool ipc_imported(struct ipc *ipc, uint64_t addr);
