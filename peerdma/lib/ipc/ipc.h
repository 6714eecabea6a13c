/* SPDX-License-Identifier: MIT */
/*
 * ipc.h - what the files of peerdma_ipc.h's part share.  Calls go down only:
 *
 *	copy.c			copies
 *	stream.c  signal.c	signals
 *	open.c			what this process has opened
 *	export.c  blocks.c	what it exports; memory of peerdma_ipc_alloc()
 *	shared_page.c		what is needed before an export: pages for importers, records, threads
 *	server.c		the exporter's answers, in a thread
 *	frees.c			ends exports of memory that is freed
 *	provider.c		which provider's memory it is: host.c, cuda.c, cuda_pool.c, hsa.c
 *	cuda_imports.c		pools that this process has imported
 *	exporter.c		an exporter, as its importers see it
 *	link.c			an importer's connections to an exporter, for signals
 *	client.c		an importer's request to an exporter
 *	records.c		records of exports, and their slots, which importers read
 *	ranges.c		where exported memory is, in the order of addresses
 *	state.c			the process's one struct ipc, and forks
 *	handle.c  message.c  file.c  async_close.c
 *
 * One lock for data, ipc->lock.  It guards everything in struct ipc, in records, exporters, mappings and
 * signals that is not marked "atomic" or "fixed".  It is not held across a call of a
 * provider, nor while another process is waited for.  Frees (frees.c) take no lock.
 * cuda_pool.c and cuda_imports.c have one of their own for CUDA's calls, ipc->pools_lock, which is taken before ipc->lock.
 */
#ifndef IPC_INT_H
#define IPC_INT_H

#include <pthread.h>

#include "../base/cancel.h"
#include "../base/own_fd.h"
#include "../internal.h"
#include "handle.h"
#include "message.h"
#include "ranges.h"

#define IPC_SLOTS	65536
#define IPC_ARENA_SIGNALS	16384

/* ---- What processes share ---- */

/*
 * The exporter writes it, importers only read.  `alive` is a robust futex that the exporter's
 * thread holds for as long as the process lives: the kernel sets FUTEX_OWNER_DIED in it when that
 * thread ends, however it ends, before the process's memory or a descriptor of it goes away.
 */
#define IPC_PAGE_MAGIC "pdmahome"
struct ipc_page {
	uint8_t magic[8];
	uint32_t slots;
	uint32_t reserved[13];
	uint32_t alive __attribute__((aligned(64)));
	/* generation of what is there; odd: it is live.  Never the same number twice. */
	uint64_t slot[IPC_SLOTS] __attribute__((aligned(4096)));
};

/* A signal; all sides write it. */
struct ipc_shared_signal {
	uint64_t value;
	/*
	 * Waiters sleep on this word.  The lowest bit, IPC_SLEEPS, is set by a waiter that is about to
	 * sleep.  The rest counts changes of the value: a setter adds IPC_CHANGE after each, and clears
	 * IPC_SLEEPS in the same step.  If it cleared the bit in a second step, another waiter might
	 * have set it in between, and no setter would wake that one.
	 */
	uint32_t changes;
#define IPC_SLEEPS	1U
#define IPC_CHANGE	2U
	uint32_t polled;	/* a GPU writes the value: without counting, without a wake */
	uint32_t reserved[12];
} __attribute__((aligned(64)));

/* ---- The exporter ---- */

/* What a provider makes of memory, for another process. */
struct ipc_offer {
	/* Sent to importers: a new one goes to the end. */
	enum ipc_provider_id { IPC_HOST = 1, IPC_CUDA, IPC_CUDA_VMM, IPC_HSA, IPC_CUDA_POOL } provider;
	uint64_t base, length;		/* of the allocation */
	uint64_t id;			/* CUDA's buffer id, or the file's inode; 0: none */
	uint64_t device;		/* that the file is on */
	bool any_user;
	uint8_t blob[64];
	int fd;				/* -1: none */
	bool borrowed;			/* it is a block's: peerdma_ipc_free() ends the record first */
	uint64_t fd_offset;
	uint64_t pool, pool_number;	/* CUDA's, of whose memory it is: its handle, and the number that importers get; 0: none */
	char pci[20];
};

/* What a thread that frees leaves to a thread of the library: a list for each. */
enum ipc_todo { IPC_REAP, IPC_RECHECK, IPC_TODOS };

/* A pool of CUDA's of which memory is exported. Each takes descriptors, so they are few. */
struct ipc_exported_pool {
	struct ipc_exported_pool *next;
	uint64_t pool, number;		/* CUDA's handle; the number by which importers know it */
	unsigned int records;
};

struct ipc_record {
	uint64_t base, length;		/* atomic, for frees; 0: nothing */
	uint32_t device;		/* atomic: the provider of device memory; 0: host memory, or a signal */
	uint64_t id;			/* atomic: as offer.id */
	struct {
		uint32_t waits;		/* atomic: it is in that list, or about to be */
		uint32_t next;		/* in it: number + 1 */
	} todo[IPC_TODOS];
	enum ipc_what what;		/* from here on cleared when it is used again */
	bool used;			/* not in the free list */
	uint64_t generation;		/* that it was published with; a free may have changed that of the slot since */
	bool pending;			/* live for frees, and the rest is not there yet */
	bool ranged;			/* it is in ipc->ranges */
	unsigned int count;		/* exports less unexports */
	uint32_t flags;
	uint8_t key[IPC_KEY];
	struct ipc_offer offer;
	struct own_fd file;		/* offer.fd */
	struct ipc_exported_pool *pool;	/* NULL: no memory of one */
	struct ipc_shared_signal *shared;		/* of a signal */
	uint32_t arena_number;		/* in the arena; IPC_ARENA_SIGNALS: it has a file of its own */
	unsigned int openers;		/* opens of the signal by other processes, and one of this one until its close is through */
	uint32_t deaths;		/* of those that ended with it open, not reported yet */
	uint32_t next;			/* in the free list */
};

/* ---- The importer ---- */

/* Another process, as seen by its importers. */
struct ipc_exporter {
	struct ipc_exporter *next;
	struct ipc_id process, boot;	/* fixed, as uid, pid, page */
	uint32_t pid, uid;
	unsigned int refs;
	const struct ipc_page *page;
	struct ipc_shared_signal *arena;		/* NULL: no signal of it was opened yet */
	bool arena_registered;		/* with CUDA */
	bool pools_lost;		/* memory of its pools is mapped that cuMemFree() did not unmap; written with both locks held */
	struct ipc_pool *pools;		/* imported; written with both locks held */
	struct ipc_link *links;		/* to it, for signals */
};

/* A pool of an exporter's, that this process has imported: cuda_imports.c.  Keeps a reference of the exporter. */
struct ipc_pool {
	struct ipc_pool *next;		/* of the exporter */
	uint64_t number;		/* the exporter's for it: pools_lock, as the next three */
	void *handle;			/* CUDA's, here */
	unsigned int imports;		/* of that handle */
	uint64_t devices;		/* that may access it: ipc_cuda_device_bit() */
	unsigned int users;		/* mappings that have memory of it; written with both locks held, as the next */
	uint64_t unused_since;		/* now_ns() */
};

/* A connection to an exporter, that keeps signals open there: link.c. */
struct ipc_link {
	struct ipc_link *next;		/* of the exporter */
	struct own_fd conn;		/* none: not connected yet */
	uint32_t uid;			/* the exporter's */
	unsigned int asked;		/* opens in its life, at most IPC_OPENS */
	unsigned int open;		/* of these open now, or being opened */
	bool busy;			/* a thread asks on it */
};

struct ipc_mapping {
	struct ipc_mapping *next;	/* the last used first */
	struct ipc_exporter *exporter;		/* fixed from here on */
	uint32_t slot;
	uint64_t generation;
	uint8_t key[IPC_KEY];
	const struct ipc_provider *provider;
	uint64_t context;		/* CUDA's; 0: none */
	uint64_t id;			/* CUDA's buffer id here; 0: none */
	char *base;
	uint64_t length;
	uint64_t exporter_base;
	char pci[20];
	uint64_t handle;		/* the provider's own */
	struct ipc_pool *pool;		/* of whose memory it is; written with both locks held.  NULL: none */
	enum { IPC_OPENING, IPC_OPEN, IPC_CLOSING } state;
	uint64_t sweep;			/* the last that looked */
	bool gone;			/* with its context, or freed by the program: there is nothing to unmap */
	unsigned int refs;		/* of its ranges */
	unsigned int range_count;
	struct ipc_range *ranges;
};

struct ipc_range {
	struct peerdma_ipc_memory memory;	/* first */
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
	bool cuda;		/* its memory is CUDA's */
	/*
	 * What memory is at ptr: fills in provider, base, length, id, pci; -ENOENT: not this provider's, no text.  NULL: another
	 * one's finds it.  0 or -errno with text.
	 */
	int (*identify)(const void *ptr, struct ipc_offer *offer);
	/* Makes the rest of the offer.  0 or -errno with text. */
	int (*offer)(const void *ptr, struct ipc_offer *offer);
	/* The context that memory opened now belongs to: 0, or -errno with text.  NULL: it is the process's. */
	int (*context)(uint64_t *context);
	bool in_context;	/* such memory is unmapped only where some context is current, whichever it is */
	/* Whether what was mapped is there still.  NULL: always; not NULL where there is .context. */
	bool (*still)(const struct ipc_mapping *m);
	/* 0 or -errno with text.  fd stays the caller's.  Fills in base, handle, id; m->length bytes must be there. */
	int (*open)(struct ipc_mapping *m, const struct ipc_reply *reply, int fd);
	/* Also of what is gone. */
	int (*close)(struct ipc_mapping *m);
};

extern const struct ipc_provider ipc_host, ipc_cuda, ipc_cuda_vmm, ipc_cuda_pool, ipc_hsa;

#define IPC_BUCKETS 1024

/* Of an open, beside 0 and -errno: what this process has open has changed, look again.  No errno: the kernel has EAGAIN, too. */
#define IPC_LOOK_AGAIN 1

struct ipc {
	uint64_t process;		/* process_id() */
	struct ipc *parent;		/* of the process that forked this one: kept, never used */
	pthread_mutex_t lock;
	uint64_t pool_numbers;		/* given to pools so far */
	pthread_mutex_t pools_lock;	/* CUDA's imports of pools and of their memory: cuda_pool.c, cuda_imports.c */
	unsigned int pools_unused;	/* atomic: imported, and no mapping has memory of them */
	pthread_cond_t settled;		/* a mapping was opened or closed, an export made */
	bool boot_known;
	struct ipc_id boot;		/* of the machine's kernel */

	/* The exporter: records.c, export.c.  NULL until something is exported. */
	struct ipc_page *page;		/* atomic */
	bool page_opening;		/* a thread is at it */
	struct ipc_record *records;	/* IPC_SLOTS */
	uint32_t high, free;		/* records from `high` on were never used; free: a list, IPC_SLOTS ends it */
	uint32_t todo[IPC_TODOS];	/* atomic: lists of records, by number + 1 */
	struct ranges ranges[2];	/* of memory that is exported: host memory, device memory */
	struct ipc_exported_pool *pools;
	struct ipc_id self;
	uint32_t uid;			/* that listens */
	struct own_fd page_file, arena_file, listener;
	bool reaper_started;			/* the thread is there that does what is in todo[] */
	uint32_t todos;			/* atomic: futex of that thread */
	struct ipc_shared_signal *arena;
	bool arena_registered;
	uint64_t arena_taken[IPC_ARENA_SIGNALS / 64];
	bool watched[2];		/* frees of host memory, of device memory */
	struct ipc_block *blocks;	/* of peerdma_ipc_alloc() */

	/* The importer: open.c. */
	struct ipc_exporter *exporters;
	struct ipc_mapping *mappings;
	struct ipc_range *buckets[IPC_BUCKETS];
	uint64_t sweeps;

	struct peerdma_ipc_counters counters;	/* atomic each */
};

#define ipc_count(ipc, field) __atomic_fetch_add(&(ipc)->counters.field, 1, __ATOMIC_RELAXED)

/* state.c: this process's; NULL: out of memory, with text. */
struct ipc *ipc_get(void);
/* The same, if there is one. */
struct ipc *ipc_there(void);
/* Whether the object is this process's own. */
bool ipc_mine(const struct ipc *ipc);
int ipc_not_mine(const char *call);	/* -EPERM with text */
/* Sockets that no forked child has: each is closed in it before it runs.  -errno: none. */
int ipc_socket(void);
int ipc_accept(int listener);
void ipc_close_socket(struct own_fd *f);
void ipc_hang_up(struct own_fd *f, uint32_t uid);	/* the same; what waits in it is that user's */
int ipc_random(void *bytes, size_t size);	/* 0, or -EIO with text */
int ipc_boot(struct ipc *ipc, struct ipc_id *boot);	/* no lock.  0, or -errno with text */

/* async_close.c: closes what another process sent; whatever it is, the caller does not wait for it. */
void ipc_close_async(const int *fds, unsigned int n);
unsigned int ipc_closes_pending(void);	/* threads that wait for a close */

/* file.c: a sealed file in memory, mapped: 0 or -errno with text.  fixed: it can be written through `addr` only. */
int ipc_file_make(const char *name, size_t size, bool fixed, int *fd, void **addr);
/* Why mmap() failed.  EAGAIN: the process locks all its memory, and this is more than RLIMIT_MEMLOCK. */
static inline int ipc_mmap_error(void)
{
	return errno == EAGAIN ? -ENOMEM : -errno;
}
/* Whether this process gets one more; else errno: EMFILE or ENFILE. */
bool ipc_descriptors_left(void);
/* CUDA makes descriptors that programs inherit, which this one starts; these would have the exported memory. */
void ipc_not_inherited(int fd);
/* Maps what another process sent, if it has that size and cannot shrink. */
int ipc_file_map(int fd, size_t size, bool write, void **addr);

/* shared_page.c.  lock, which it gives up meanwhile.  0 or -errno with text. */
int ipc_page_open(struct ipc *ipc);

/* records.c.  All with the lock. */
/* No lock, and no descriptor: the program may have closed them all.  The thread that does what is in todo[] goes on. */
void ipc_wake(struct ipc *ipc);
/* A record with a key, which is live from ipc_record_publish() on. */
int ipc_record_get(struct ipc *ipc, uint32_t *slot);
void ipc_record_publish(struct ipc *ipc, uint32_t slot);
void ipc_record_name(const struct ipc *ipc, uint32_t slot, struct ipc_name *name);
/* From here on it is not live; any thread, no lock.  False: it was not. */
bool ipc_record_end(struct ipc *ipc, uint32_t slot, uint64_t generation);
/* Any thread, no lock: puts the record into that list.  Takes all that is in it, as numbers + 1, which ipc_todo_next() goes through. */
void ipc_todo_add(struct ipc *ipc, enum ipc_todo what, uint32_t slot);
uint32_t ipc_todo_take(struct ipc *ipc, enum ipc_todo what);
/* The record at `at`, which may be added again from here on, and *at is the next.  False: no more. */
bool ipc_todo_next(struct ipc *ipc, enum ipc_todo what, uint32_t *at, uint32_t *slot);
/* What ended goes back to the free list, once it is not in use: one record, or all that frees have ended. */
void ipc_reap_one(struct ipc *ipc, uint32_t slot);
void ipc_reap(struct ipc *ipc);
/* One opener less of a signal. */
void ipc_record_left(struct ipc *ipc, uint32_t slot);
static inline uint64_t ipc_generation(const struct ipc *ipc, uint32_t slot)
{
	return __atomic_load_n(&ipc->page->slot[slot], __ATOMIC_ACQUIRE);
}
/* After a change of the value, or of what a waiter must see. */
void ipc_signal_changed(struct ipc_shared_signal *shared);

/* frees.c: frees of that kind of memory are seen from here on.  0, or -EOPNOTSUPP or -ENOMEM with text. */
int ipc_watch_frees(struct ipc *ipc, bool device);
/* No lock; by the thread that does what is in todo[]: looks at host memory whose free has passed, and ends what is gone. */
void ipc_recheck(struct ipc *ipc);

/* blocks.c: lock.  The block that has this address. */
bool ipc_block_at(const struct ipc *ipc, uint64_t addr, uint64_t *base, uint64_t *length);
/* The descriptor of a block, which stays its own; NULL: there is no such block. */
const struct own_fd *ipc_block_file(const struct ipc *ipc, uint64_t base);

/* server.c: 0 or -errno with text; returns when the thread holds page->alive. */
int ipc_server_start(struct ipc *ipc);

/*
 * client.c: sends the request to the process that `name` names, and awaits the answer.  *conn: a
 * connection that is there; or none: it is made, and is the caller's, also after an error that
 * came later.  fds: the caller's, -1 where none came.  open: the number of a signal's open there.
 */
int ipc_request(const struct ipc_name *name, enum ipc_op op, unsigned int open, struct ipc_reply *reply, int fds[IPC_FDS],
	    struct own_fd *conn);
/*
 * A provider failed with `error` and its text. The exporter was asked once more, in that attempt, and answered `ret`: what it
 * says of its end, with its text; else `error`, with the provider's.
 */
int ipc_ended(uint32_t attempt, int ret, int error);
/* Closes what came with an answer: after unlocking. */
void ipc_close_fds(const struct ipc_name *name, int fds[IPC_FDS]);

/* link.c.  lock: one that can open one more, of a exporter that may be NULL; busy until ipc_link_keep() or _drop().  NULL: -ENOMEM, with text. */
struct ipc_link *ipc_link_get(struct ipc_exporter *exporter, uint32_t uid, unsigned int *number);
/* lock: the answer was read.  The link is the exporter's. */
void ipc_link_keep(struct ipc_exporter *exporter, struct ipc_link *link);
/*
 * lock, which it gives up meanwhile: one open less on it; the last ends the connection.  failed: an
 * answer may come yet, so nothing is asked on it any more.
 */
void ipc_link_drop(struct ipc *ipc, struct ipc_link *link, struct ipc_exporter *exporter, unsigned int number, bool failed);

/* provider.c: what memory is at ptr: provider, base, length, id, pci.  0 or -errno with text. */
int ipc_identify(const void *ptr, struct ipc_offer *offer);
/* Makes the rest of the offer.  0 or -errno with text. */
int ipc_offer(const void *ptr, struct ipc_offer *offer);
const struct ipc_provider *ipc_provider(uint32_t id);
/* The mapping's provider's calls. */
int ipc_provider_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd);
int ipc_provider_close(struct ipc_mapping *m);
static inline bool ipc_same_memory(const struct ipc_offer *a, const struct ipc_offer *b)
{
	return a->provider == b->provider && a->base == b->base && a->length == b->length && a->id == b->id && a->device == b->device &&
	       a->fd_offset == b->fd_offset;
}
#define IPC_COPIES 128
struct ipc_copy {
	uint64_t to, from, length;
};
struct ipc_copies {
	struct ipc_copy copy[IPC_COPIES];
};
/* copy_2d.c: copies of one length, each as far from the one before as that one was from its own. */
struct ipc_copy_2d {
	const struct ipc_copy *first;		/* the one at the lowest addresses */
	unsigned int n;
	uint64_t to_pitch, from_pitch;		/* bytes from a row to the next */
};
/* The rows that copy[begin] begins, at least 1 of them.  Only copies of the same group share rows. */
struct ipc_copy_2d ipc_copy_2d(const struct ipc_copy *copies, const unsigned int *groups, unsigned int begin, unsigned int end);
/* cuda_copy.c: copies of the current context, on a stream.  0 or -errno with text. */
int ipc_cuda_stream(void **stream);
void ipc_cuda_stream_lost(void *stream);
int ipc_cuda_copy(void *stream, uint64_t to, uint64_t from, uint64_t length);
/* Several of GPU memory by one call, in no order.  -EOPNOTSUPP: there is no such call; -EIO: some of them may be on their way. */
int ipc_cuda_copy_2d(void *stream, const struct ipc_copy_2d *rows);
int ipc_cuda_batch(void *stream, const struct ipc_copies *copies, unsigned int n);
int ipc_cuda_wait(void *stream);
/* The kernel of this stream's context, for ipc_cuda_kernel(), compiled once; NULL: the GPU, or libcuda, runs none. */
void *ipc_cuda_function(void *stream);
/* Calls fn when that is done, also if it failed: with CUDA's error. */
int ipc_cuda_then(void *stream, void (*fn)(void *stream, int error, void *arg), void *arg);
/* cuda_kernel.c: copies of the current context by a kernel, n of them. */
/* What a kernel of the current context is known to reach, during one call; all zero at its beginning. */
struct ipc_reach {
	bool looked, here;
	uint64_t context;
	void *current;
	int device;
	uint64_t base, length;		/* the last buffer that it reaches */
};
/* No memory now, or the program records a graph: another time it may go. */
bool ipc_cuda_passing(int error);
bool ipc_cuda_kernel_reaches(struct ipc_reach *r, const struct ipc_mapping *m, const void *local, uint64_t length);
void *ipc_cuda_kernel_load(void **module, bool *later);
int ipc_cuda_kernel(void *stream, void *function, const struct ipc_copies *copies, unsigned int n);
/* cuda_poll.c: one copy by a kernel that waits for it.  0, -EIO with text, or -EOPNOTSUPP: not here, or not now; nothing was copied. */
int ipc_cuda_poll(uint64_t context, uint64_t to, uint64_t from, uint64_t length);
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
/* Between looks at a word that another processor writes. */
static inline void ipc_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}
/* Host memory for signals. */
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

/* exporter.c.  lock.  The caller's reference; NULL: this process has nothing open of it. */
struct ipc_exporter *ipc_exporter_find(struct ipc *ipc, const struct ipc_id *process);
/* lock.  Of the descriptor that came with a reply, or the one that is there: 0 or -errno with text. */
int ipc_exporter_get(struct ipc *ipc, const struct ipc_name *name, int page_fd, struct ipc_exporter **exporter);
/* lock, which it gives up meanwhile.  callback: of CUDA's: what CUDA has to be told stays for a later call. */
void ipc_exporter_put(struct ipc *ipc, struct ipc_exporter *exporter, bool callback);
void ipc_exporters_end(struct ipc *ipc, bool callback);	/* the same: all without references */
/* 0, -EOWNERDEAD or -ESTALE: what was opened there.  No lock. */
int ipc_exporter_live(const struct ipc_exporter *exporter, uint32_t slot, uint64_t generation);
int ipc_fail_live(const struct ipc_exporter *exporter, int error);	/* the text for that; error */
/* Whether this process may ask for it: another process of this boot.  0 or -errno with text. */
int ipc_name_check(struct ipc *ipc, const struct ipc_name *name);

/*
 * cuda_imports.c.  lock, which it gives up meanwhile; some CUDA context is current: destroys the imports of pools that are not
 * used, and have not been for long, or whose exporter has ended.  all: those used a moment ago, too, and no other thread is at
 * one when it returns.
 */
void ipc_cuda_pools_end(struct ipc *ipc, bool all);

/* open.c.  lock. */
bool ipc_imported(struct ipc *ipc, uint64_t addr);

#endif
