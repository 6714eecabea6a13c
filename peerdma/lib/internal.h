/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of libpeerdma share.
 *
 * One lock: ctx->lock guards ctx->regions, ctx->by_handle, the event queue of
 * the process and, of every region, ->views, ->page_views, ->mappings, ->published and what
 * ->queue*.  It is not held across calls into CUDA, the kernel or a back-end, because
 * a back-end may report a revocation from any place where memory is freed.  Exceptions
 * are malloc() and writing to the descriptor that shows that a notice waits.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/own_fd.h"
#include "peerdma.h"
#include "uapi/peerdma_ioctl.h"

#define EXPORT __attribute__((visibility("default")))

struct view {
	struct view *next;
	char *base;		/* of the mmap; its length is the region's pinned_length */
};

/* Of all its pinned bytes, in this process: file/direct.c */
struct page_view {
	struct page_view *next;
	/* Of the disks that may transfer to it; 0: all may; UINT64_MAX: none, it is the CPU's */
	uint64_t id;
	char *base;		/* NULL: there is none to be had */
	bool by_backend;	/* the CPU's view */
};

struct peerdma_mapping {
	struct peerdma_mapping *next;
	struct peerdma_region *region;
	uint64_t device;	/* domain, bus, devfn */
	unsigned int flags;
	bool shared;		/* map_shared()'s */
	uint32_t handle;
	/* Of a region of several segments: theirs; else NULL */
	struct peerdma_mapping **each;
	size_t each_count;
	size_t count;
	struct peerdma_range ranges[];
};

/* The part of a region that is one allocation's. */
struct allocation {
	uint64_t addr, length;
	/* Where CUDA has it; size 0: not asked, or CUDA does not tell */
	uint64_t base, size;
	uint64_t id;				/* CUDA's buffer id; 0: none */
	enum peerdma_kind kind;
};

/* How the library learns that the memory of a pin goes away. */
enum ends {
	ENDS_NEVER,		/* persistent memory; and host memory, unless a cache watches it */
	ENDS_BY_KERNEL,		/* the kernel changes the pin's word, and event() reports it */
	ENDS_BY_CALLBACK,	/* the back-end calls region_revoked(), in the thread that frees */
	ENDS_UNREPORTED,	/* CUDA is asked, by buffer id; libpeerdma-hooks may report frees */
};

struct peerdma_region {
	struct peerdma_validity validity;	/* first: peerdma_valid() reads it */
	struct peerdma *ctx;
	const struct backend *backend;		/* that has it */
	struct peerdma_region *prev, *next;	/* in ctx->regions */
	void *cookie;
	uint64_t addr, length;			/* as asked for */
	uint64_t offset, pinned_length;		/* as in peerdma_pin_args */
	struct view *views;
	struct page_view *page_views;
	struct peerdma_mapping *mappings;
	/* mr.c's: added to under the lock, read without it */
	struct mr *mrs;
	struct peerdma_region *stand_in;	/* atomic: a copy that its MRs are of; in no list */
	/* Not a better back-end: the context's text, or NULL */
	const char *why;
	const char *provider;
	uint32_t flags;				/* of peerdma_pin() */
	uint32_t page_size;
	uint32_t word;				/* validity's, unless the kernel has one */
	bool sync_memops;
	/* Of a dma-buf: addr is an offset in it, and no address */
	bool imported;
	/* The back-end's; of persistent memory that it does not watch: NEVER */
	enum ends ends;
	/* If ENDS_UNREPORTED, or of several segments: all; else NULL, or all */
	struct allocation *allocations;
	size_t allocation_count;
	struct peerdma_region *one;		/* itself */
	struct peerdma_region **segments;	/* segments.c: its pins; NULL: it is one itself */
	size_t segment_count;
	struct words *words;			/* that all must be what they were: the segments' */
	struct peerdma_region *whole;		/* it is a segment of */
	bool ended;				/* a segment that is no pin any more */
	bool published;				/* in ctx->regions */
	bool revoked;				/* atomic: region_revoked() was called */
	bool cached;				/* of a cache, which has a monitor of its own */
	/* atomic: file/transfer.c has asked, and it is not host memory */
	bool known_gpu;
	/* atomic: it has or had an MR that ends as a whole when any of its memory goes */
	bool by_peer;
	bool queued;			/* in ctx->queue */
	/* pin() failed with -ENXIO, but knows whose memory it is and what is missing */
	bool recognized;
	bool ending;				/* lock: hook_frees.c is about to end it */
	struct peerdma_region *hooked_next, **hooked_link, *ending_next;
	struct peerdma_region *queue_next;
	union {					/* the back-end's */
		struct {
			uint32_t handle, slot;
		} kernel;
		struct softgpu_pin *soft;
		struct own_fd dmabuf;
		struct {
			/* No segment that counts it has a later one; 0: none counts it */
			uint64_t turn;
		} host;
		struct {
			void *base;		/* pinned_length bytes */
			struct peerdma_region *pin;	/* in no list */
		} copy;
	};
};

#define OFFERS_MAX 8

/* A back-end that the context may use. */
struct offer {
	const struct backend *backend;
	int error;				/* -errno: it cannot be had, and */
	char *why;
};

/* Why a back-end was passed over: one text for all regions that it was passed over for alike. */
struct reason {
	struct reason *next;
	char text[];
};

struct peerdma {
	uint64_t process;			/* process_id() of the opener */
	unsigned int flags;			/* of peerdma_open() */
	unsigned int offer_count;
	struct offer offers[OFFERS_MAX];	/* the better first */
	struct reason *reasons;			/* texts that regions point to */
	int event_fd;				/* for poll(2) */
	/* A pipe, readable while ctx->queue is not empty; none: no back-end fills it */
	struct own_fd notice[2];
	pthread_mutex_t lock;
	pthread_cond_t mrs_settled;		/* an MR that was being ended is so no more */
	struct peerdma_region *regions;
	struct peerdma_region *queue, **queue_end;
	bool hooked;				/* libpeerdma-hooks reports frees */
	/* lock: the pins whose frees only it reports */
	struct peerdma_region *hooked_regions;
	/* What lies above back-ends.  select.c's, since it opened them: pins by the first that can. */
	int (*pin)(struct peerdma_region *region);
	/* Lock.  mr.c's mrs_end(), since the first MR of the context; until then NULL. */
	int (*mrs_end)(struct peerdma_region *region, bool over);
	struct {				/* kernel.c's */
		int fd;				/* -1: not open */
		struct own_fd file;		/* fd, which all opens of the device look like */
		const uint32_t *generations;
		size_t generations_size;
		void *by_handle;		/* tsearch() tree of its regions */
	} kernel;
};

/*
 * error.c: remembers the text for peerdma_last_error() and returns `error`.  The text that is
 * there may be part of the new one: parts that serve several calls leave "CALL: " to those.
 */
int fail(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * A call that succeeds leaves the text alone, whatever failed on the way. So a call that tries several ways, or that does more
 * than was asked for, does it in an attempt: what fails meanwhile has a text that the caller sees only if the attempt fails.
 *
 *	uint32_t was = attempt_begin();
 *	...				peerdma_last_error() has the texts of what fails here
 *	return attempt_end(was, ret);	ret; if it is 0 or more, the text is again what it was before
 *
 * Attempts may be made in an attempt. They take no memory and no lock.
 */
uint32_t attempt_begin(void);
int attempt_end(uint32_t was, int ret);
/* How often this thread called it, but for attempts that did not fail: whether a function of the caller's has left a text. */
uint32_t fail_count(void);
/* strerror(), and where a limit of the process was met: which, and what to do. */
const char *error_words(int error);

/*
 * arguments.c: what every call checks of its arguments first.  0, or -EINVAL with text.
 * check_given(): pointers that must not be NULL: a name and a pointer each, then NULL.
 * check_range(): [addr, addr + length) is not empty and ends below the last address of all.
 */
int check_given(const char *call, ...) __attribute__((sentinel));
int check_range(const char *call, uint64_t addr, uint64_t length);

/*
 * structs.c: structs that the caller sized, and the rule for them.  check_size(): 0, -EINVAL
 * or -E2BIG.  put_out(): to a caller's, whose size was checked and stands in `from`.
 * take_in(): a caller's struct to one of this release; 0, -EINVAL or -E2BIG.
 */
int check_size(const char *call, uint32_t size, size_t first);
int take_in(const char *call, void *to, size_t known, size_t first, const void *from);
bool all_zero(const void *bytes, size_t length);	/* reserved fields */
#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
#define MEMORY_FIRST	END_OF(struct peerdma_memory, reserved)
#define STATUS_FIRST	END_OF(struct peerdma_status, reserved)
#define NOTICE_FIRST	END_OF(struct peerdma_notice, length)
#define COMPONENT_FIRST	END_OF(struct peerdma_component, reserved)
void put_out(void *out, const void *from, size_t known);

/* process.c: a number that differs between a process and its forked children; no system call after the first. */
uint64_t process_id(void);
/* process.c: false in a forked child of the process that opened ctx; that file says what such a child may do. */
bool is_owner(const struct peerdma *ctx);
/* 0, or -EPERM with text in such a child. */
int check_owner(const struct peerdma *ctx, const char *call);

/* loader.c: how many libraries the dynamic loader has ever loaded; 0: it does not tell. */
uint64_t loader_loads(void);

/* A list's new first element, which is complete: a child may be forked before or after this store. */
#define LIST_STORE(first, element) __atomic_store_n(first, element, __ATOMIC_RELEASE)

/* sys.c: the kernel.  Each returns -errno on failure. */
int sys_open(const char *path);
int sys_close(int fd);
int sys_ioctl(int fd, unsigned long request, void *arg);
int sys_mmap(int fd, uint64_t offset, size_t length, int prot, void **addr);
/* Instead of what is there */
int sys_mmap_at(int fd, uint64_t offset, size_t length, int prot, void *addr);
int sys_munmap(void *addr, size_t length);
int sys_dont_fork(void *addr, size_t length);	/* no child gets this mapping */
int sys_read(int fd, void *buf, size_t length);
int sys_poll_in(int fd, int timeout_ms);	/* 1 readable, 0 timeout */
/* RLIMIT_MEMLOCK in bytes; UINT64_MAX: none, or CAP_IPC_LOCK exempts */
uint64_t sys_memlock_limit(void);

/* kernel.c: pins what the descriptor is of, at region->addr; 0, or -errno with the reason. */
int kernel_pin_dmabuf(struct peerdma_region *region, int dmabuf);

/* open.c: a context without back-ends.  NULL: out of memory, no text. */
struct peerdma *context_new(unsigned int flags);
void context_free(struct peerdma *ctx);

/* event.c */
int event_queue_open(struct peerdma *ctx);
void event_queue_close(struct peerdma *ctx);
/* event_queue.c */
void notice_fill(struct peerdma_notice *notice, struct peerdma_region *region);
void event_queue_add(struct peerdma_region *region);		/* lock: at the end of the queue */
void event_queue_remove(struct peerdma_region *region);	/* lock */
/* The first, out of the queue; false: none waits */
bool event_queue_take(struct peerdma *ctx, struct peerdma_notice *notice);

/* hook_frees.c.  begin: sets ctx->hooked; 0, or -ENOMEM with text. */
int hook_frees_begin(struct peerdma *ctx);
void hook_frees_end(struct peerdma *ctx);
/* Lock. */
void hook_frees_add(struct peerdma_region *region);
void hook_frees_remove(struct peerdma_region *region);

/*
 * allocations.c: fills in what the range is made of.  -ENXIO, -ENODEV, -EIO, -ENOMEM, with text.
 * holes: NULL, or: whether it begins with GPU memory and is not all so.
 */
int allocations_find(struct peerdma_region *region, bool *holes);
/* Whether each allocation that the part of the region touches is the one that it was: one call into CUDA for each. */
bool allocations_valid(const struct peerdma_region *region, uint64_t addr, uint64_t length);
/* Whether an allocation is where each was, perhaps another one, but for that part: this can be asked about what may be leaving. */
bool allocations_present(const struct peerdma_region *region, uint64_t addr, uint64_t length);
/* words.c: takes the words of the region's segments; false: out of memory. */
bool words_make(struct peerdma_region *region);
/* Whether each is what it was. */
bool segments_valid(const struct peerdma_region *region);

/* pin.c */
/* peerdma_pin().  cached: for a cache, which takes care of its end. */
int region_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags, void *cookie,
	       bool cached, struct peerdma_region **region);
/* peerdma_pin_dmabuf(), likewise. */
int region_pin_dmabuf(struct peerdma *ctx, int fd, uint64_t offset, uint64_t length,
		      unsigned int flags, void *cookie, bool cached,
		      struct peerdma_region **region);
/* This process's side only; it is in no list any more */
void region_free(struct peerdma_region *region);
/* validity.c */
/* Whether the region still is what is at its address: by its word, or by asking CUDA, as it has to be. */
bool region_still(const struct peerdma_region *region);
/* The same; but of a cache's region, which has asked about the memory of its get, the rest may be leaving just now (allocations.c). */
bool region_usable(const struct peerdma_region *region);
/* Whether its end is reported to the program: peerdma_status's `notified'. */
bool region_notified(const struct peerdma_region *region);
/* backend.c */
/* peerdma_status(), without asking CUDA whether the memory is still there. */
int region_facts(struct peerdma_region *region, struct peerdma_status *status);
/* map.c: one mapping for all who ask with the same device and flags; it lives as long as the region. */
int map_shared(struct peerdma_region *region, const char *pci, unsigned int flags,
	       struct peerdma_mapping **out);
/*
 * mr.c: deregisters what it and its segments have of verbs' memory regions, and waits for others that do.  0, or -errno of one that is kept.
 * over: it is being revoked; then no new ones are made.
 */
int mrs_end(struct peerdma_region *region, bool over);
void mrs_free(struct peerdma_region *region);
/* map.c, backend.c: give back this process's side only. */
void mappings_free(struct peerdma_region *region);
void views_free(struct peerdma_region *region);
void page_view_end(struct peerdma_region *region, struct page_view *view);

/* host.c */
bool host_for_certain(const void *ptr);		/* by looking at the address alone */
uint64_t page_size(void);			/* the system's, not the GPU's */
bool host_readable(const void *ptr);		/* asks the kernel */
/*
 * Where brk()'s heap begins: field 47 of a line of /proc/PID/stat, whose second field,
 * the command's name in brackets, may hold anything.  UINTPTR_MAX: it does not say.
 */
uintptr_t host_heap_start(const char *stat);
/* "[domain:]bus:device.function", hexadecimal, nothing after it. */
bool map_parse_pci(const char *s, struct peerdma_map_args *args);

/* cuda.c: what CUDA says of an address. */
enum {	/* CUresult */
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_SUPPORTED = 801,
};
enum cuda_answer {
	CUDA_ABSENT,	/* there is no CUDA to ask: all memory is the host's */
	CUDA_UNKNOWN,	/* CUDA does not know this address */
	CUDA_KNOWN,	/* *out is filled in, but for size */
	CUDA_FAILED,	/* *error is CUDA's number */
};
enum cuda_answer cuda_query(const void *ptr, struct peerdma_memory *out, int *error);
enum cuda_answer cuda_set_sync_memops(const void *ptr, int *error);
/* For the current context's GPU.  UNKNOWN: it cannot; ABSENT: no CUDA, or no context; KNOWN: done, or not needed. */
enum cuda_answer cuda_flush_writes(int scope, int *error);
/* Whether the allocation at ptr is the one with this id: one call into CUDA. */
bool cuda_has_id(uint64_t ptr, uint64_t id);
/* Where the allocation begins, and how long it is.  UNKNOWN: there is none.  FAILED: CUDA does not tell this thread. */
enum cuda_answer cuda_range(uint64_t ptr, uint64_t *base, uint64_t *size);
/* The calling thread's current context; NULL: none, or no CUDA.  set: in a thread of the library's own. */
void *cuda_context(void);
void cuda_set_context(void *context);
/* FAILED: *error. */
enum cuda_answer cuda_copy(void *to, const void *from, uint64_t length, int *error);
/* A dma-buf of the range, pages of the CPU.  FAILED: *error. */
enum cuda_answer cuda_dmabuf(uint64_t ptr, uint64_t length, int *fd, int *error);
/*
 * While any thread records a CUDA graph in CUDA's default mode, calls that might be unsafe there fail in all threads, and
 * end the recording.  The library's own calls are no part of a graph: between these two its thread may make them, if
 * any function above has found CUDA before.
 */
int cuda_capture_leave(void);			/* what cuda_capture_return() takes */
void cuda_capture_return(int mode);
/* Whether this process has CUDA's library, and may use it */
bool cuda_there(void);
int cuda_ready(void);			/* the same: 0, or -ENODEV with the reason as text */
/* Whether cuda_dmabuf() has the functions that it needs */
bool cuda_exports_dmabufs(void);
int cuda_load(void);				/* 0 or -ENODEV, with text */
/* Whether it is a GPU's memory that HSA knows; then *out is filled in, but for size. */
bool hsa_query(const void *ptr, struct peerdma_memory *out);
/* As the last hsa_query() found it. */
bool hsa_there(void);
