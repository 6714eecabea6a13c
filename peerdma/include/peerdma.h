/* SPDX-License-Identifier: MIT */
/*
 * peerdma.h - libpeerdma: find out what memory a pointer refers to, pin that memory (a
 * GPU's or the host's), and give PCIe devices, the CPU and dma-buf importers access to it
 * until the memory is freed.
 *
 *	struct peerdma *ctx;
 *	struct peerdma_region *region;
 *	void *view;
 *
 *	peerdma_open(&ctx, 0);
 *	peerdma_pin(ctx, ptr, length, 0, NULL, &region);
 *	peerdma_cpu_view(region, &view);	... the CPU reads and writes it ...
 *	peerdma_unpin(region);
 *	peerdma_close(ctx);
 *
 * These conventions hold for every call:
 *
 * Results.  A call returns 0 or a negative errno; the comment of the call lists each errno
 * with its meaning.  A call that fails has changed nothing.  peerdma_last_error() then
 * returns a text: the cause in one sentence, and the remedy.
 *
 * NULL.  A pointer that the call needs and that is NULL: -EINVAL, and the text names it.  Calls that return no errno do
 * nothing, and return NULL, 0 or "".  This holds for peerdma.h, peerdma_cache.h, peerdma_ipc.h, peerdma_monitor.h and
 * peerdma_verbs.h, but not for peerdma_valid() and peerdma_ipc_valid(), which take no longer than the check would.
 *
 * Units.  Sizes, lengths and offsets are in bytes.  Addresses are uint64_t.  A range that ends at 2^64 or beyond wraps.
 *
 * Ownership.  The caller owns each object that a call returns (context, region, mapping,
 * view, descriptor) and ends it with the matching call.  peerdma_unpin() ends what was
 * made from the region, peerdma_close() what was made from the context.  Pointers and
 * strings that a call returns belong to the library; their comment says how long they live.
 *
 * Structs.  A struct that crosses this interface begins with `size`.  Set it to
 * sizeof(the struct) before the call; programs and libraries of different releases then
 * mix.  Shorter than in the first release: -EINVAL.  Longer than the library's: output
 * fields that it does not know are zeroed; input fields that it does not know must be
 * zero, else -E2BIG.  Longer than 4096: -E2BIG.  struct peerdma_range and struct
 * peerdma_validity have no size and never change.  Fields called reserved must be zero.
 *
 * Blocking.  Every call may block: in the kernel, in CUDA, on a lock of the library; except
 * peerdma_valid(), peerdma_ranges(), peerdma_why(), peerdma_event_fd(), peerdma_version()
 * and peerdma_last_error().  No lock is held while another library's function runs.
 *
 * Threads.  Any thread may make any call at any time.  The call that ends an object must
 * be the last use of that object in all threads.
 *
 * Memory that is being freed.  peerdma_query(), peerdma_query_range(), peerdma_pin(), peerdma_status() and a get from a
 * cache ask CUDA about the GPU memory that they are given.  NVIDIA's libcuda (580.159.04) may crash if another thread
 * frees or unmaps that memory meanwhile; CUDA's own calls may crash in the same way.  So free memory only after the
 * calls that name it have returned.  For other memory in a cache's region, the library asks CUDA only for the address
 * range (cuMemGetAddressRange), which does not crash.
 *
 * CUDA graphs.  Any call may be made while any thread captures a stream, in every capture mode.  The call is not part of
 * the graph and does not end the capture: the library sets the calling thread's mode to "relaxed" for the duration of
 * its CUDA calls (cuThreadExchangeStreamCaptureMode()).  One exception: peerdma_pin() and peerdma_sync() of a staging
 * region call cuMemcpy() on CUDA's default stream, which ends the capture of a stream that was made without
 * CU_STREAM_NON_BLOCKING.
 *
 * Locks of the program.  The caller may hold any lock across any call, except a lock that one of
 * the program's callbacks takes (peerdma_cache.h, peerdma_hooks.h).
 *
 * fork.  A context belongs to the process that opened it.  In a forked child every call on
 * a parent's object returns -EPERM, except three that leave the parent's objects alone:
 * peerdma_unpin() and peerdma_unmap() return 0 and do nothing; peerdma_close() closes the
 * child's descriptors and frees the child's copy of the memory.  peerdma_query(),
 * peerdma_query_range(), peerdma_why() and peerdma_ranges() work as before.  The child may
 * open a context of its own.
 *
 * Signals.  peerdma_valid() and peerdma_cache_invalidate() are safe in a signal handler; no other
 * call is.  A handler that has interrupted a call must return: no siglongjmp().
 *
 * Back-ends.  The library pins through the first of these back-ends that supports the memory:
 *
 *   kernel	peerdma.ko through /dev/peerdma (peerdma_ioctl.h).  Supports every call
 *   dmabuf	GPU memory that CUDA exports as a dma-buf, for importers.  The dma-buf keeps
 *		the memory allocated after the program freed it.  The library is not notified
 *		of the free: peerdma_valid() returns 0, peerdma_status() asks CUDA
 *   host	host memory, kept resident by mlock(2).  No device addresses, no dma-bufs; a view is
 *		the memory itself.  The program's own mlock(2) is kept if it came first, or, with a
 *		monitor of host memory (peerdma_monitor.h), if it is of memory that has replaced what was pinned;
 *		its munlock(2) of pinned pages ends their residency
 *   staging	a copy of GPU memory in host memory that another back-end pins; only with
 *		PEERDMA_STAGING.  peerdma_sync() copies.  Frees: as dmabuf
 *   soft	softgpu's software GPU in this process: views and revocation, no devices.  Only
 *		if PEERDMA_PROVIDER names it
 *
 * The environment variable PEERDMA_PROVIDER sets other back-ends or another order: "kernel",
 * "kernel,host", "dmabuf", "soft" (which adds host).  peerdma_status() reports the back-end of
 * a region, peerdma_why() why no earlier one was used.  PEERDMA_DIRECT excludes host and
 * staging, through which no device reaches the memory itself.
 */
#ifndef PEERDMA_H
#define PEERDMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tells GCC that the call uses the pointer's value and does not read the memory. */
#if defined(__GNUC__) && __GNUC__ >= 11 && !defined(__clang__)
#define PEERDMA_NOT_READ(argument) __attribute__((access(none, argument)))
#else
#define PEERDMA_NOT_READ(argument)
#endif

#define PEERDMA_VERSION_MAJOR	0
#define PEERDMA_VERSION_MINOR	1
#define PEERDMA_VERSION_PATCH	0

struct peerdma;		/* a context: back-ends, and all that was pinned through them */
struct peerdma_region;	/* a pinned range of memory */
struct peerdma_mapping;	/* a region's addresses for one device */

/* ---- Opening ---- */

/* Load libcuda.so.1.  Without it the library uses CUDA only if the program has loaded it. */
#define PEERDMA_OPEN_CUDA	(1U << 0)

/* Every pin of the context has PEERDMA_DIRECT. */
#define PEERDMA_OPEN_DIRECT	(1U << 1)

/*
 * Opens a context with every back-end that can be opened.  flags: 0 or PEERDMA_OPEN_*.
 * Fails if no back-end can be opened, with the errno of the first.
 *
 *   -EINVAL  ctx is NULL; unknown flags; PEERDMA_PROVIDER names an unknown back-end
 *   -ENODEV  /dev/peerdma is not there: the module is not loaded; or, with
 *            PEERDMA_OPEN_CUDA, libcuda.so.1 cannot be loaded
 *   -EACCES  this user may not open /dev/peerdma
 *   -EPROTO  the module's ABI is not this library's
 *   -ENOMEM  out of memory or address space
 *   -EMFILE, -ENFILE  out of file descriptors: the process, the machine
 */
int peerdma_open(struct peerdma **ctx, unsigned int flags);

/*
 * Unpins every region of the context and frees it.  Blocks until revocations under way have
 * ended.  NULL is ignored.
 */
void peerdma_close(struct peerdma *ctx);

/*
 * The text of this thread's last failed call: "CALL: WHAT: cause; remedy", on one line, then
 * what other back-ends reported.  What a terminal could take as a command, in names that the
 * environment or other processes have given, is in it as \xNN.  "" if no call has failed.  Never
 * NULL.  A call that succeeds leaves the text as it is.  The text belongs to the library, and is
 * valid until this thread's next call.
 */
const char *peerdma_last_error(void);

/* The version of the library that runs, such as "0.1.0"; constant. */
const char *peerdma_version(void);

/* ---- What is there, and why not? ---- */

enum peerdma_component_type {
	PEERDMA_COMPONENT_LIBRARY = 1,	/* libpeerdma itself */
	/* see above; in the order in which peerdma_pin() tries them, then those that it does not try */
	PEERDMA_COMPONENT_BACKEND = 2,
	PEERDMA_COMPONENT_GPU = 3,	/* a GPU's library, which reports what memory is: peerdma_query() */
	PEERDMA_COMPONENT_MONITOR = 4,	/* peerdma_monitor.h */
	PEERDMA_COMPONENT_VERBS = 5,	/* libibverbs: peerdma_verbs.h */
	PEERDMA_COMPONENT_IPC = 6,	/* a kind of memory that peerdma_ipc_export() exports */
	/* an environment variable that the library reads; on: set, and not ignored */
	PEERDMA_COMPONENT_VARIABLE = 7,
};

enum peerdma_component_state {
	PEERDMA_COMPONENT_OFF = 0,
	PEERDMA_COMPONENT_ON = 1,
	PEERDMA_COMPONENT_UNKNOWN = 2,	/* decided later, for each allocation or at the first use: see `why` */
};

/* BACKEND: it pins GPU memory itself, not a copy: PEERDMA_DIRECT accepts it */
#define PEERDMA_COMPONENT_DIRECT (1U << 0)

/* Texts are cut off where they do not fit.  Control characters in them are written as \xNN. */
struct peerdma_component {
	uint32_t size;		/* in, of the first: sizeof(struct peerdma_component), for all */
	uint32_t type;		/* enum peerdma_component_type */
	uint32_t state;		/* enum peerdma_component_state */
	uint32_t flags;		/* PEERDMA_COMPONENT_* */
	char name[32];		/* "kernel", "cuda", "PEERDMA_PROVIDER" */
	char version[32];	/* of the library or interface behind it; "" if not known */
	char file[512];		/* the library or device node behind it; "" if there is none, or it is not known */
	char why[1024];		/* why it is off, what decides, or what it does */
	uint32_t reserved[8];	/* 0 */
};

/*
 * Lists the parts of the library: which of them this process has now, and why not the others. It asks by the functions
 * that the calls themselves use. ctx: the context whose back-ends are listed, with the reasons of its peerdma_open(); NULL:
 * as peerdma_open() with flags 0 would find them now, also if it would fail. Writes at most n entries and sets *count to the
 * number of parts; n may be 0.
 *
 * The call loads no library (except by PEERDMA_CUDA=load and PEERDMA_PROVIDER=soft, as peerdma_open()), initializes none,
 * creates no context of CUDA, and starts no monitor of host memory. So a part that depends on the allocation, or on what the
 * program has not done yet, such as cuInit(), is listed with what it needs.
 *
 *   -EINVAL, -E2BIG  out->size
 *   -EPERM   the context belongs to a parent process
 *   -ENOMEM  out of memory
 */
int peerdma_components(struct peerdma *ctx, struct peerdma_component *out, size_t n, size_t *count);

/* ---- What is this pointer? ---- */

enum peerdma_kind {
	PEERDMA_KIND_UNKNOWN = 0, /* freed, never mapped, a device's registers, GPU memory of a parent process */
	PEERDMA_KIND_HOST = 1,	  /* ordinary memory that the CPU can read */
	PEERDMA_KIND_DEVICE = 2,  /* GPU memory: cuMemAlloc, cuMemCreate and cuMemMap, pools; hipMalloc */
	PEERDMA_KIND_MANAGED = 3, /* cuMemAllocManaged: moves between host and GPU, cannot be pinned as GPU memory */
};

#define PEERDMA_MEMORY_CUDA	(1U << 0) /* CUDA manages this memory; host memory: CUDA has page-locked it */
#define PEERDMA_MEMORY_VMM	(1U << 1) /* made by cuMemCreate and cuMemMap */
#define PEERDMA_MEMORY_POOL	(1U << 2) /* from a stream-ordered pool: cuMemAllocAsync */
#define PEERDMA_MEMORY_PINNABLE	(1U << 3) /* the GPU's driver pins it: not managed, nor cuMemCreate() without gpuDirectRDMACapable (that: back-end dmabuf) */
#define PEERDMA_MEMORY_HSA	(1U << 4) /* GPU memory of AMD's HSA runtime: hipMalloc */

struct peerdma_memory {
	uint32_t size;		/* in: sizeof(struct peerdma_memory) */
	uint32_t kind;		/* enum peerdma_kind */
	uint64_t base;		/* first byte of the allocation; 0: not known (host memory that CUDA did not allocate) */
	uint64_t length;	/* of the allocation; 0: not known */
	uint64_t buffer_id;	/* of CUDA, unique to the allocation in this process; 0: none */
	int32_t device;		/* CUDA's number of the GPU; -1: none */
	uint32_t flags;		/* PEERDMA_MEMORY_* */
	char pci[20];		/* address of that GPU, "0000:03:00.0"; "" if none */
	uint32_t reserved[7];	/* 0 */
};

/*
 * Finds out what memory ptr refers to.  ctx may be NULL; no kernel module is needed.  ptr
 * may point into the middle of an allocation and need not be readable.
 *
 * The library asks the libcuda.so.1 that the process has loaded (cuPointerGetAttributes),
 * with or without a current CUDA context.  Before cuInit(), and in a forked child of a
 * process that used CUDA, it does not ask, and reports no GPU memory.  The environment
 * variable PEERDMA_CUDA=load loads libcuda.so.1; PEERDMA_CUDA=off keeps the library from
 * asking.
 *
 * The calling thread's stack, the heap (brk) and the program's variables are recognised by
 * their address.  They are PEERDMA_KIND_HOST without further detail: a missing
 * PEERDMA_MEMORY_CUDA means nothing for host memory.
 *
 * If libpeerdma-hooks sees every call that allocates GPU memory (peerdma_hooks.h), the
 * calling thread caches addresses of host memory until the next such call.  GPU memory is
 * never mistaken for host memory.  But munmap(2) and mprotect(2) are not reported: an address
 * that the program has unmapped since may still be reported as host memory.
 *
 *   -EINVAL, -E2BIG  out->size
 *   -EIO     CUDA failed; the text has CUDA's error number
 */
int peerdma_query(struct peerdma *ctx, const void *ptr, struct peerdma_memory *out)
	PEERDMA_NOT_READ(2);

/*
 * The same for [ptr, ptr + length), which may span allocations.  Writes one entry for each
 * piece, in order of addresses, clipped to the range: base and length describe the piece,
 * not the allocation; the other fields are those of peerdma_query().  Adjacent pieces of
 * host or unknown memory without a buffer id are merged.  peerdma_pin()
 * makes one region of GPU memory that spans allocations.  Set out[0].size; it is the
 * distance between entries.
 *
 * Writes at most n entries and sets *count to the number of pieces; n may be 0.
 *
 * Where CUDA reports no allocation, one byte stands for more: in a gap between mappings for
 * the gap, in private memory for its mapping (/proc/self/maps), and in another mapping for what is
 * left of it or of 2 MiB, the unit in which CUDA takes addresses; without /proc always for the latter.
 *
 *   -EINVAL, -E2BIG  out->size; length is 0 or wraps
 *   -EIO     CUDA failed; the text has CUDA's error number
 */
int peerdma_query_range(struct peerdma *ctx, const void *ptr, size_t length,
			struct peerdma_memory *out, size_t n, size_t *count) PEERDMA_NOT_READ(2);

/* ---- Pinning ---- */

#define PEERDMA_HOST		(1U << 0) /* host memory; of managed memory the host's pages, stale once CUDA moves it */
#define PEERDMA_DEVICE		(1U << 1) /* GPU memory.  Neither flag: the first back-end that supports the address */
#define PEERDMA_PERSISTENT	(1U << 2) /* never revoked; the memory outlives its free (NVIDIA's persistent pins) */
#define PEERDMA_READONLY	(1U << 3) /* devices only read; read-only host memory can be pinned */
#define PEERDMA_NO_SYNC_MEMOPS	(1U << 4) /* do not set CU_POINTER_ATTRIBUTE_SYNC_MEMOPS; not with PEERDMA_HOST */
#define PEERDMA_DIRECT		(1U << 5) /* fail unless devices reach the memory itself */
#define PEERDMA_STAGING		(1U << 6) /* accept a copy in host memory, see peerdma_sync(); not with PEERDMA_HOST */

/*
 * Pins [ptr, ptr + length), widened to the provider's pages.  The caller owns the region
 * until peerdma_unpin().  peerdma_next_event() returns `cookie`.
 *
 * If CUDA manages the memory, the call sets SYNC_MEMOPS on the allocation: CUDA calls then
 * return only after their effect is visible to other devices (CUDA driver API,
 * cuPointerSetAttribute).  It stays set after the unpin.  Without it a device may read stale
 * data.  CUDA refuses it for memory of cuMemCreate(); status.sync_memops is then 0, and the
 * program must synchronize (cuCtxSynchronize) before a device reads what CUDA wrote.
 *
 * -EOPNOTSUPP, -ENXIO and -ENODEV: no back-end supports the memory; the errno is that of the
 * back-end that knows most about it, the text has every back-end's reason.  Any other errno
 * comes from a back-end that supports the memory but failed; later back-ends are not tried.
 *
 *   -EINVAL      unknown flags, HOST with DEVICE, a flag that HOST excludes; length is 0 or wraps
 *   -ENXIO       no provider supports this memory, or its module is not loaded; the range
 *                is not GPU memory from end to end; managed memory without PEERDMA_HOST
 *   -EFAULT      part of the host range is not mapped, or is read-only
 *   -ENOMEM      the kernel is out of memory; host memory, or on a Tegra: the user's limit RLIMIT_MEMLOCK, which
 *                counts the locked memory of all the user's processes, is reached
 *   -EDQUOT      the user's limit on pins is reached (peerdma.ko's parameter max_pins_per_user)
 *   -ENOBUFS     the user's limit on pinned device memory is reached (max_aperture_mib_per_user)
 *   -ENOSPC      the GPU's aperture (BAR1) is full; `peerdma bar1` lists its users
 *   -EOPNOTSUPP  the provider does not support the flags: persistent pins of host memory
 *   -ENFILE      peerdma.ko has its maximum of pins, of all users (the last 65536 are root's)
 *   -EMFILE      back-end host: the process has 262144 separate ranges pinned
 *   -ENODEV      no back-end for this kind of memory could be opened
 *   -ESTALE      the memory was freed during the call
 *   -EIO         CUDA failed, or refused SYNC_MEMOPS
 *   -EPERM       the context belongs to a parent process
 */
int peerdma_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags,
		void *cookie, struct peerdma_region **region);

/*
 * Pins [offset, offset + length) of a dma-buf of another driver.  length 0: to its end.  fd
 * stays the caller's and may be closed after the call.  flags: 0 or PEERDMA_READONLY.
 *
 * The result is a region as any other, with provider "dmabuf", and offsets for addresses.
 * peerdma_map() asks the exporter to keep the memory in place.  An exporter that does not
 * comply revokes the region when it moves the memory; any exporter may revoke it.
 * peerdma_cpu_view() and peerdma_export_dmabuf() are not supported: mmap(2) or pass on the
 * dma-buf itself.
 *
 *   -EINVAL      unknown flags; offset and length are not within the dma-buf, or wrap
 *   -ENXIO       the range, widened to pages, passes the end of the dma-buf
 *   -EBADF       fd is not a dma-buf
 *   -EACCES      fd is open for reading only, and flags has no PEERDMA_READONLY
 *   -ENODEV      the context has no back-end kernel, the only one that imports
 *   -EOPNOTSUPP  the loaded module is older than this call
 *   -ESTALE      the exporter took the memory away during the call
 *   -EDQUOT, -ENFILE, -ENOMEM, -EPERM  as peerdma_pin(); RLIMIT_MEMLOCK does not apply
 */
int peerdma_pin_dmabuf(struct peerdma *ctx, int fd, uint64_t offset, uint64_t length,
		       unsigned int flags, void *cookie, struct peerdma_region **region);

/*
 * Unpins the region, ends its mappings, views and MRs, and frees it.  Dma-bufs that were
 * exported stay open and become useless.  Blocks while a revocation is under way.  NULL is
 * ignored.
 *
 *   -EBUSY  something made from the region is in use; the region is unchanged; of several segments, those
 *           that could be unpinned are, it is not valid any more, and another call ends the rest
 *   -EINVAL the region is a segment: peerdma_segments()
 */
int peerdma_unpin(struct peerdma_region *region);

#define PEERDMA_STATE_LIVE	1
#define PEERDMA_STATE_REVOKED	2	/* the memory was freed, or other memory has its address */
#define PEERDMA_STATE_UNKNOWN	3	/* back-end host, if the program locks the pages itself: other memory looks the same */

struct peerdma_status {
	uint32_t size;		/* in: sizeof(struct peerdma_status) */
	uint32_t state;		/* PEERDMA_STATE_* */
	uint32_t flags;		/* of peerdma_pin(); PEERDMA_HOST or PEERDMA_DEVICE is always set */
	uint32_t page_size;	/* of the provider */
	uint64_t addr;		/* of peerdma_pin() */
	uint64_t length;
	uint64_t pinned_addr;	/* first pinned byte */
	uint64_t pinned_length;	/* a multiple of page_size */
	uint32_t mappings;	/* number of device mappings */
	uint32_t views;		/* number of CPU views */
	uint32_t exports;	/* number of dma-bufs */
	uint32_t sync_memops;	/* 1: the library has set SYNC_MEMOPS */
	char provider[16];	/* "nvidia", "host", ... */
	char backend[16];	/* "kernel", "dmabuf", "host", "staging", "soft" */
	uint32_t direct;	/* 1: PEERDMA_DIRECT accepts this back-end */
	uint32_t by_id;		/* 1: state is CUDA's answer to this call; peerdma_valid() returns 0 */
	uint32_t notified;	/* 1: peerdma_next_event() reports when the memory is freed; 0: only this call does */
	uint32_t segments;	/* number of pins: peerdma_segments(); 1 unless the range spans allocations */
	uint32_t reserved[4];	/* 0 */
};

/*
 * Asks the back-end about a region.  Back-end host: reads /proc/self/maps, and finds out
 * whether the pages that it locked are still there; afterwards peerdma_valid() agrees.  If out->by_id is
 * set and a cache's region spans allocations, LIVE means only that each address still has an allocation,
 * which may be a new one.
 *
 *   -EINVAL, -E2BIG  out->size
 *   -EPERM   the context belongs to a parent process
 */
int peerdma_status(struct peerdma_region *region, struct peerdma_status *out);

/*
 * Why no earlier back-end pinned the region: "kernel: /dev/peerdma: not there, ...".  "" if
 * there is none.  The library's; lives as long as the context.
 */
const char *peerdma_why(const struct peerdma_region *region);

/*
 * A range may span allocations, such as those that PyTorch's expandable segments map side by
 * side.  It is one region all the same: pinned, mapped, revoked and unpinned as one.  It is
 * revoked, with one notice, as soon as any of its memory is freed.  If the back-end makes
 * one pin of it (dmabuf: CUDA exports one dma-buf over all), it is like any other region.  If
 * each allocation is pinned by itself (kernel, soft), the region has segments:
 *
 *   peerdma_map		one mapping, its ranges in order
 *   peerdma_cpu_view		one view; -EOPNOTSUPP where two allocations share a page
 *   peerdma_export_dmabuf	CUDA's dma-buf over all.  It keeps the memory when that is freed, and is not revoked.
 *				-EOPNOTSUPP where CUDA has none
 *   peerdma_verbs_mr		one key, by that dma-buf or view; else -EOPNOTSUPP
 *
 * If there can be none of the whole range, use the segments: each is a region for all of these
 * calls, and peerdma_status() reports which part of the range it is.
 */

/*
 * The segments of a region, in order and without gaps; of most, one: the region itself.  The
 * array and the segments live as long as the region.  They have no notices, and no
 * peerdma_unpin() (-EINVAL) of their own.
 */
struct peerdma_region *const *peerdma_segments(const struct peerdma_region *region, size_t *count);

/* ---- For a device ---- */

#define PEERDMA_TO_DEVICE	(1U << 0) /* the device reads the memory */
#define PEERDMA_FROM_DEVICE	(1U << 1) /* the device writes it */

/* A contiguous range of addresses. */
struct peerdma_range {
	uint64_t addr;
	uint64_t length;
};

/*
 * Maps the region for a PCI device, "0000:03:00.0" (the domain may be omitted), by Linux's
 * DMA API, through an IOMMU if the device has one.  flags: PEERDMA_TO_DEVICE,
 * PEERDMA_FROM_DEVICE or both.
 *
 * The addresses are for this device only.  They end with the mapping, with the region, and
 * when the device's driver is unbound.  Do not use them once the region is revoked.
 *
 *   -EINVAL      pci is not a PCI address; flags
 *   -ENODEV      no such device, or no driver is bound to it (needed behind an IOMMU, and on
 *                machines other than PCs): bind one, such as uio_pci_generic
 *   -EPERM       no CAP_SYS_RAWIO (DMA addresses are power over the machine); PEERDMA_FROM_DEVICE of a
 *                PEERDMA_READONLY region; or a parent's context
 *   -EOPNOTSUPP  there is no path between the two devices; the back-end has no device addresses
 *   -EIO         the GPU's driver does not map this memory; the kernel's log says why
 *   -ESTALE      the region is revoked
 *   -EDQUOT      the user's limit on mappings is reached (max_mappings_per_user)
 *   -ENOMEM      out of memory
 */
int peerdma_map(struct peerdma_region *region, const char *pci, unsigned int flags,
		struct peerdma_mapping **mapping);

/*
 * The device's addresses, which cover pinned_length bytes in order.  The array is the
 * library's and lives as long as the mapping.
 */
const struct peerdma_range *peerdma_ranges(const struct peerdma_mapping *mapping, size_t *count);

/* Ends a mapping.  NULL is ignored.  -EBUSY: the device still uses it; the mapping is unchanged. */
int peerdma_unmap(struct peerdma_mapping *mapping);

/* ---- For the CPU ---- */

/*
 * Maps the region for the CPU.  *addr is where the first byte of ptr appears.  Each call makes
 * another view; peerdma_unpin() ends them.
 *
 * Host memory is cached.  GPU memory is write-combined: loads are slow, and stores arrive in
 * order only across a fence (sfence; peerdma_copy.h).  An access after revocation raises
 * SIGBUS.
 *
 *   -EOPNOTSUPP  the CPU cannot reach this provider's memory, or not by this back-end; then the text has why
 *                no better one was used
 *   -ESTALE      the region is revoked
 *   -EDQUOT      the user's limit on views is reached (max_views_per_user)
 *   -EBADF       back-end dmabuf: the program has closed the region's descriptor, as a daemon does:
 *                unpin, and pin again
 *   -ENOMEM      out of memory or address space
 *   -EPERM       the context belongs to a parent process
 */
int peerdma_cpu_view(struct peerdma_region *region, void **addr);

/* Ends a view.  -EINVAL: addr is not what peerdma_cpu_view() returned; -EPERM. */
int peerdma_cpu_view_end(struct peerdma_region *region, void *addr);

/*
 * Copies between the memory and the copy that stands for it (status.backend "staging").  Call
 * it with PEERDMA_TO_DEVICE before a device or the CPU reads through the region, and with
 * PEERDMA_FROM_DEVICE after one wrote.  [offset, offset + length) counts from ptr; 0 and 0:
 * all.  For other regions the call does nothing.
 *
 *   -EINVAL  flags; the range
 *   -ESTALE  the memory was freed
 *   -EIO     cuMemcpy failed, for example without a current CUDA context
 *   -EPERM   the context belongs to a parent process
 */
int peerdma_sync(struct peerdma_region *region, uint64_t offset, uint64_t length, unsigned int flags);

/* ---- For others ---- */

/*
 * Exports [offset, offset + length) of the pinned bytes as a dma-buf; offset counts from
 * pinned_addr, both are multiples of the page size; 0 and 0: all.  The caller owns *fd, which is
 * close-on-exec.
 *
 *   -EINVAL      the range
 *   -ESTALE      the region is revoked
 *   -EOPNOTSUPP  the provider's memory cannot be exported
 *   -EDQUOT      the user's limit on dma-bufs is reached (max_exports_per_user)
 *   -EBADF       back-end dmabuf: the program has closed the region's descriptor, as a daemon does:
 *                unpin, and pin again
 *   -EMFILE, -ENFILE  out of file descriptors: the process, the machine
 *   -ENOMEM      out of memory
 *   -EPERM       the context belongs to a parent process
 */
int peerdma_export_dmabuf(struct peerdma_region *region, uint64_t offset, uint64_t length,
			  int *fd);

/* ---- Revocation ---- */

/* The first bytes of every region; for peerdma_valid() only. */
struct peerdma_validity {
	const uint32_t *slot;	/* in the page that the kernel shares */
	uint32_t generation;
	uint32_t several;		/* non-zero: there are more words, of segments */
};

/* For peerdma_valid(): whether all segments are. */
int peerdma_segments_valid(const struct peerdma_region *region);

/*
 * Whether the region is live: non-zero until its memory is freed.  For host memory of back-end
 * kernel, also whether the process still has those pages there: a pin of memory that was
 * unmapped, moved or discarded (MADV_DONTNEED) keeps the old pages.
 *
 * One load, no system call.  The kernel changes the word before a revocation reaches any
 * device or view: data that was read or sent before this call returned non-zero came from
 * the pinned memory.
 *
 * Regions of which status.by_id is set: always 0.  Back-end host: 0 once peerdma_status() has
 * found the memory gone.  In a forked child the result for a parent's region means nothing.
 */
static inline int peerdma_valid(const struct peerdma_region *region)
{
	const struct peerdma_validity *v = (const struct peerdma_validity *)region;

	/* Loads before this call come first: x86 keeps loads in order, compilers and other processors do not. */
#if defined(__aarch64__)
	__asm__ volatile("dmb ld" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
	if (__builtin_expect(v->several, 0))
		return peerdma_segments_valid(region);
	return __atomic_load_n(v->slot, __ATOMIC_ACQUIRE) == v->generation;
}

struct peerdma_notice {
	uint32_t size;		/* in: sizeof(struct peerdma_notice) */
	uint32_t reserved;	/* 0 */
	struct peerdma_region *region;
	void *cookie;		/* of peerdma_pin() */
	uint64_t addr;		/* of peerdma_pin() */
	uint64_t length;
};

/*
 * Returns the next revoked region, the oldest first, each once; none is lost.  Blocks up to
 * timeout_ms milliseconds; 0: not at all, -1: without limit.  The region stays the caller's;
 * unpin it.  A region that was unpinned before its notice was read has none.  Nor has a region
 * of which status.notified is 0.  With libpeerdma-hooks, regions of which status.by_id is set
 * are notified when their free begins (peerdma_hooks.h).
 *
 *   -EAGAIN  none in that time
 *   -EINTR   a signal arrived
 *   -EINVAL, -E2BIG  out->size
 *   -EPERM   the context belongs to a parent process
 *   -EBADF   the program has closed the context's descriptors, as a daemon does: call peerdma_open() after that
 */
int peerdma_next_event(struct peerdma *ctx, struct peerdma_notice *out, int timeout_ms);

/*
 * A descriptor for poll(2) that is readable while a notice waits.  It belongs to the context: do
 * not read or close it.  -EPERM: a parent's context.
 */
int peerdma_event_fd(const struct peerdma *ctx);

#ifdef __cplusplus
}
#endif

#endif
