/* SPDX-License-Identifier: MIT */
/*
 * peerdma.h - libpeerdma: know a pointer, pin the memory behind it (a GPU's or
 * the host's), and let other PCIe devices, the CPU and importers of dma-bufs
 * reach it, until the memory goes away.
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
 * Conventions, the same everywhere:
 *
 * Results.  0, or a negative errno whose meaning for the call is listed with
 * it.  A call that fails has changed nothing, and peerdma_last_error() says in
 * words what failed, why and what to do about it.
 *
 * Units.  Sizes, lengths and offsets are bytes; addresses are uint64_t.
 *
 * Structs.  One that the caller passes begins with `size`: set it to
 * sizeof(the struct) before the call, so that programs and libraries of
 * different releases mix.  All else in it is output; what the library does not
 * know is zeroed.  -EINVAL for a size shorter than the first release's.
 *
 * Threads.  Every call may be made from any thread at any time, except that
 * whoever ends an object (unpin, unmap, close) must be its last user.
 *
 * fork.  A context and all that was made from it belong to the process that
 * opened it.  In a forked child every call on them is -EPERM, but peerdma_unpin,
 * peerdma_unmap and peerdma_close, which there give back the child's copy of
 * the memory and leave the parent's pins alone.  The child may open its own.
 *
 * Signals.  No call is safe in a signal handler, except peerdma_valid().
 *
 * Back-ends.  A pin is made by the first of these that can make it:
 *
 *   kernel	peerdma.ko, /dev/peerdma (peerdma_ioctl.h): all that is said here
 *   dmabuf	a GPU's memory only, exported by CUDA as a dma-buf: for importers.  The export
 *		holds the memory even when it is freed; nobody tells that it was, so
 *		peerdma_valid() does not vouch for it, and peerdma_status() asks CUDA
 *   host	the host's memory only, kept resident by mlock(2): no addresses for
 *		devices, no dma-bufs; views are the memory itself, and nothing is revoked
 *   staging	a copy of a GPU's memory, in host memory pinned by one of these.  Only with
 *		PEERDMA_STAGING: bytes move by peerdma_sync().  by_id as dmabuf
 *   soft	softgpu's software GPU inside this process: views and revocation, but no
 *		device that could reach it.  Only where the environment says so
 *
 * PEERDMA_PROVIDER in the environment gives other ones or another order:
 * "kernel", "kernel,host", "dmabuf", "soft" (which brings host with it).  What a region got
 * its status says, and peerdma_why() why it is not a better one.  PEERDMA_DIRECT takes
 * none but those by which devices reach the memory itself: kernel, dmabuf, and soft in its world.
 */
#ifndef PEERDMA_H
#define PEERDMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For compilers that would take a look at an address for a look at what is there. */
#if defined(__GNUC__) && __GNUC__ >= 11 && !defined(__clang__)
#define PEERDMA_NOT_READ(argument) __attribute__((access(none, argument)))
#else
#define PEERDMA_NOT_READ(argument)
#endif

#define PEERDMA_VERSION_MAJOR	0
#define PEERDMA_VERSION_MINOR	1
#define PEERDMA_VERSION_PATCH	0

struct peerdma;		/* a context: what this process pins memory with */
struct peerdma_region;	/* a pin */
struct peerdma_mapping;	/* a pin made usable for one device */

/* ---- Opening ---- */

/* Load libcuda.so.1 even if the program has not done so (the program's own use of CUDA is noticed anyhow). */
#define PEERDMA_OPEN_CUDA	(1U << 0)

/* All pins of the context are as with PEERDMA_DIRECT. */
#define PEERDMA_OPEN_DIRECT	(1U << 1)

/*
 * Opens the back-ends that there are.  flags: 0 or PEERDMA_OPEN_*.  If there is none,
 * the error is that of the first, and the text names each with its reason:
 *
 *   -ENODEV  there is no /dev/peerdma: the module is not loaded; or, with
 *            PEERDMA_OPEN_CUDA, libcuda.so.1 cannot be loaded
 *   -EACCES  this user may not open it
 *   -EPROTO  the module speaks another ABI than this library
 *   -EINVAL  unknown flags, or names in PEERDMA_PROVIDER
 *   -ENOMEM, -EMFILE, -ENFILE  as open(2) and mmap(2)
 */
int peerdma_open(struct peerdma **ctx, unsigned int flags);

/* Ends all that was made from the context, then the context.  NULL is fine. */
void peerdma_close(struct peerdma *ctx);

/*
 * What the last call of this thread that failed has to say: one line with the
 * thing, the reason and the remedy.  "" if none failed yet.  Valid until the
 * thread's next call; never NULL.
 */
const char *peerdma_last_error(void);

/* "0.1.0": of the library that runs, not of this header. */
const char *peerdma_version(void);

/* ---- What is this pointer? ---- */

enum peerdma_kind {
	PEERDMA_KIND_UNKNOWN = 0, /* not memory of this process: freed, never mapped, a device's registers, a parent's GPU memory */
	PEERDMA_KIND_HOST = 1,	  /* ordinary memory that the CPU can read */
	PEERDMA_KIND_DEVICE = 2,  /* a GPU's: cuMemAlloc, cuMemCreate and cuMemMap, pools; hipMalloc */
	PEERDMA_KIND_MANAGED = 3, /* cuMemAllocManaged: moves between host and GPU, cannot be pinned as a GPU's */
};

#define PEERDMA_MEMORY_CUDA	(1U << 0) /* CUDA knows this memory (host: page-locked by it); see peerdma_query() */
#define PEERDMA_MEMORY_VMM	(1U << 1) /* made by cuMemCreate and cuMemMap */
#define PEERDMA_MEMORY_POOL	(1U << 2) /* from a stream-ordered pool: cuMemAllocAsync */
#define PEERDMA_MEMORY_PINNABLE	(1U << 3) /* may be pinned for other devices: not managed memory, nor cuMemCreate's without gpuDirectRDMACapable */
#define PEERDMA_MEMORY_HSA	(1U << 4) /* AMD's HSA runtime knows this memory as a GPU's: hipMalloc */

struct peerdma_memory {
	uint32_t size;		/* in: sizeof(struct peerdma_memory) */
	uint32_t kind;		/* enum peerdma_kind */
	uint64_t base;		/* first byte of the allocation; 0: not known (host memory that CUDA did not make) */
	uint64_t length;	/* of the allocation; 0: not known */
	uint64_t buffer_id;	/* CUDA's, never the same for two allocations of a process; 0: none */
	int32_t device;		/* CUDA's ordinal; -1: none */
	uint32_t flags;		/* PEERDMA_MEMORY_* */
	char pci[20];		/* "0000:03:00.0" of that device; "" if none */
	uint32_t reserved[7];	/* 0 */
};

/*
 * Says what memory a pointer is in.  ctx may be NULL: no kernel module is
 * needed.  ptr may point into the middle of an allocation and need not be
 * readable.  CUDA is asked through cuPointerGetAttributes of the libcuda.so.1
 * that the process has loaded, with or without a current context; before
 * cuInit(), and in a forked child of a process that used CUDA, it is not asked
 * and no memory is a GPU's.  PEERDMA_CUDA=load in the environment loads
 * libcuda, PEERDMA_CUDA=off never asks it.
 *
 * The caller's own stack, heap (brk) and the program's variables are told
 * without asking anyone; they are PEERDMA_KIND_HOST without further detail, so
 * a missing PEERDMA_MEMORY_CUDA says nothing about host memory.
 *
 * Where libpeerdma-hooks sees all that makes addresses CUDA's (peerdma_hooks.h), an
 * address that was the host's is remembered until the next such call.  A GPU's memory,
 * live or freed, is never mistaken; but nobody tells of munmap(2) and mprotect(2), so an
 * address that the program gave up, and what it maps there that is not CUDA's (a device's
 * registers), may be called the host's until then.
 *
 *   -EINVAL  out->size
 *   -EIO     CUDA failed; peerdma_last_error() has its error number
 */
int peerdma_query(struct peerdma *ctx, const void *ptr, struct peerdma_memory *out)
	PEERDMA_NOT_READ(2);

/*
 * The same for [ptr, ptr + length), which may span allocations, such as those that
 * a framework maps side by side: one entry of `out' for each, in order, clipped to
 * the range (base and length are the piece's, not the allocation's; all else is as
 * peerdma_query() has it).  Neighbours that no buffer id tells apart, the host's or
 * unknown, are one.  out[0].size is set by the caller and counts for all.
 *
 * Fills up to n entries and sets *count to how many there are; n may be 0.  Where
 * CUDA knows nothing it is asked again at each 2 MiB boundary, no allocation of its
 * being smaller, and one byte there stands for the rest.
 *
 *   -EINVAL  out->size, zero or wrapping length
 *   -EIO     as peerdma_query()
 */
int peerdma_query_range(struct peerdma *ctx, const void *ptr, size_t length,
			struct peerdma_memory *out, size_t n, size_t *count) PEERDMA_NOT_READ(2);

/* ---- Pinning ---- */

#define PEERDMA_HOST		(1U << 0) /* this process's own memory */
#define PEERDMA_DEVICE		(1U << 1) /* a GPU's; neither: whichever knows the address */
#define PEERDMA_PERSISTENT	(1U << 2) /* is never revoked; outlives the allocation (NVIDIA's persistent pins) */
#define PEERDMA_READONLY	(1U << 3) /* devices only read it; allows pinning read-only host memory */
#define PEERDMA_NO_SYNC_MEMOPS	(1U << 4) /* leave CU_POINTER_ATTRIBUTE_SYNC_MEMOPS as it is */
#define PEERDMA_DIRECT		(1U << 5) /* devices reach the memory itself, or the call fails */
#define PEERDMA_STAGING		(1U << 6) /* at worst a copy in host memory will do: peerdma_sync() will be called */

/*
 * Pins [ptr, ptr + length), widened to the provider's pages.  The region is
 * the caller's until peerdma_unpin().
 *
 * If CUDA is in the process and the memory is a GPU's, SYNC_MEMOPS is set on
 * the allocation, so that no CUDA call returns before its effect on it can be
 * seen by other devices (CUDA driver API, cuPointerSetAttribute).  It stays set
 * after unpin.  Without it data that a device reads may be stale.  Memory of
 * cuMemCreate cannot have it: peerdma_status() tells, and the program must
 * synchronize (cuCtxSynchronize) before devices read what CUDA wrote.
 *
 * `cookie` is handed back by peerdma_next_event().
 *
 * -EOPNOTSUPP, -ENXIO and -ENODEV: no back-end could; the first of these that one of
 * them had to say, and the text has them all.  Other errors are of one that could but
 * for them, and no other is tried.
 *
 *   -EINVAL      unknown flags, HOST and DEVICE both, zero or wrapping length
 *   -ENXIO       no provider knows the address as its memory, or the range spans allocations
 *   -EFAULT      part of the host range has no memory behind it
 *   -ENOMEM      the kernel is out of memory; host memory: RLIMIT_MEMLOCK
 *   -ENOSPC      the GPU's aperture (BAR1) is full; see `peerdma bar1`
 *   -EOPNOTSUPP  the provider has no such pins (persistent pins of host memory)
 *   -EMFILE      too many pins in this context
 *   -ENODEV      there is no back-end for it
 *   -ESTALE      the memory was freed during the call
 *   -EIO         CUDA refused SYNC_MEMOPS, or failed
 *   -EPERM       the context belongs to a parent process
 */
int peerdma_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags,
		void *cookie, struct peerdma_region **region);

/*
 * Pins [offset, offset + length) of what another driver exports: fd is a dma-buf's, and
 * may be closed afterwards; length 0 means all from there on.  flags: 0 or
 * PEERDMA_READONLY.  The region is as any other, of provider "dmabuf", its addr being
 * the offset.  peerdma_map() asks the exporter to keep the memory where it is; if it
 * will not, the region is revoked when it moves, and in any case when the exporter
 * takes the memory away.  No peerdma_cpu_view(), no peerdma_export_dmabuf(): mmap(2)
 * the dma-buf itself, and hand it on.
 *
 *   -EINVAL      unknown flags, or offset and length are not in it
 *   -ENXIO       the range, widened to pages, passes its end
 *   -EBADF       fd is no dma-buf
 *   -ENODEV      the context has no kernel module: it alone can
 *   -EOPNOTSUPP  the module is older than that
 *   -ENOMEM, -EMFILE, -EPERM
 */
int peerdma_pin_dmabuf(struct peerdma *ctx, int fd, uint64_t offset, uint64_t length,
		       unsigned int flags, void *cookie, struct peerdma_region **region);

/*
 * Ends the pin and all that was made from it: mappings, views and their
 * pointers are dead (a dma-buf's descriptor stays open and useless).  Waits
 * for a revocation under way.  NULL is fine.  0, or -errno if the kernel kept
 * the pin, which then is as before: -EBUSY something made from it is in use.
 */
int peerdma_unpin(struct peerdma_region *region);

#define PEERDMA_STATE_LIVE	1
#define PEERDMA_STATE_REVOKED	2

struct peerdma_status {
	uint32_t size;		/* in: sizeof(struct peerdma_status) */
	uint32_t state;		/* PEERDMA_STATE_* */
	uint32_t flags;		/* as pinned; PEERDMA_HOST or PEERDMA_DEVICE is always set */
	uint32_t page_size;	/* the provider's */
	uint64_t addr;		/* as pinned */
	uint64_t length;
	uint64_t pinned_addr;	/* first byte held */
	uint64_t pinned_length;	/* bytes held, a multiple of page_size */
	uint32_t mappings;	/* to devices, alive */
	uint32_t views;		/* of the CPU, alive */
	uint32_t exports;	/* dma-bufs alive */
	uint32_t sync_memops;	/* 1: this library has set SYNC_MEMOPS on it */
	char provider[16];	/* "nvidia", "host", ... */
	char backend[16];	/* "kernel", "dmabuf", "host", "staging", "soft" */
	uint32_t direct;	/* 1: as PEERDMA_DIRECT asks for */
	uint32_t by_id;		/* 1: nobody tells when the memory is freed; state is CUDA's answer to this call (its buffer id) */
	uint32_t reserved[2];	/* 0 */
};

/* Asks the back-end about a pin.  -EINVAL out->size; -EPERM. */
int peerdma_status(struct peerdma_region *region, struct peerdma_status *out);

/* Why it is of no better back-end: "kernel: /dev/peerdma: not there, ...".  "": there is none better.  Lives as long as the context. */
const char *peerdma_why(const struct peerdma_region *region);

/* ---- For a device ---- */

#define PEERDMA_TO_DEVICE	(1U << 0) /* the device reads the memory */
#define PEERDMA_FROM_DEVICE	(1U << 1) /* the device writes it */

/* A run of addresses. */
struct peerdma_range {
	uint64_t addr;
	uint64_t length;
};

/*
 * Maps the pin for a PCI device, "0000:03:00.0" (the domain may be left out),
 * as Linux's DMA API does, through an IOMMU where there is one.  The addresses
 * are for that device only; they die with the mapping or the pin, and when the
 * device's driver is unbound, and must not be used once the pin is revoked.  flags: PEERDMA_TO_DEVICE, FROM_DEVICE, both.
 *
 *   -EINVAL      not a PCI address; flags
 *   -ENODEV      no such device, or no driver has enabled it for DMA
 *   -EPERM       needs CAP_SYS_RAWIO: DMA addresses are power over the machine
 *   -EOPNOTSUPP  no path between the two devices
 *   -ESTALE      the pin is revoked
 *   -ENOMEM
 */
int peerdma_map(struct peerdma_region *region, const char *pci, unsigned int flags,
		struct peerdma_mapping **mapping);

/* The device's addresses: they cover pinned_length bytes, in order.  The array lives as long as the mapping. */
const struct peerdma_range *peerdma_ranges(const struct peerdma_mapping *mapping, size_t *count);

/* Ends a mapping.  As peerdma_unpin(). */
int peerdma_unmap(struct peerdma_mapping *mapping);

/* ---- For the CPU ---- */

/*
 * Maps the pinned memory for the CPU; *addr is where the pin's ptr is seen.
 * Cached for host memory, write-combined for a GPU's: there reads are slow, and
 * writes reach memory in order only with a fence (sfence) between them.  After
 * revocation a touch raises SIGBUS.  One region may have several views.
 *
 *   -EOPNOTSUPP  this provider's memory is not reachable for the CPU
 *   -ESTALE      the pin is revoked
 *   -ENOMEM, -EPERM
 */
int peerdma_cpu_view(struct peerdma_region *region, void **addr);

/* Ends a view; addr as peerdma_cpu_view() gave it, else -EINVAL. */
int peerdma_cpu_view_end(struct peerdma_region *region, void *addr);

/*
 * Before a device or the CPU reads what was pinned (PEERDMA_TO_DEVICE), and after one
 * wrote to it (PEERDMA_FROM_DEVICE): where a copy stands for the memory, status.backend
 * "staging", it is brought up to date, or the memory is.  [offset, offset + length) from
 * the pinned ptr on; 0 and 0: all.  On all other regions there is nothing to do.
 *
 *   -EINVAL  flags; the range
 *   -ESTALE  the memory was freed
 *   -EIO     cuMemcpy failed: no current context, for one
 *   -EPERM
 */
int peerdma_sync(struct peerdma_region *region, uint64_t offset, uint64_t length, unsigned int flags);

/* ---- For others ---- */

/*
 * Exports [offset, offset + length) of the pinned bytes (from pinned_addr on,
 * page multiples; 0 and 0: all of it) as a dma-buf.  *fd is the caller's, close-on-exec.
 *
 *   -EINVAL      the range
 *   -ESTALE      the pin is revoked
 *   -EOPNOTSUPP  the provider's memory cannot be exported
 *   -EMFILE, -ENFILE, -ENOMEM, -EPERM
 */
int peerdma_export_dmabuf(struct peerdma_region *region, uint64_t offset, uint64_t length,
			  int *fd);

/* ---- Revocation ---- */

/* What every region begins with; for peerdma_valid() only. */
struct peerdma_validity {
	const uint32_t *slot;	/* in the page that the kernel shares */
	uint32_t generation;
};

/*
 * Non-zero for as long as the pin is live and, of host memory, the process still
 * has those pages there: a pin of memory that was unmapped, moved or discarded
 * (MADV_DONTNEED) holds what was there.  One load from a page that the
 * kernel writes before a revocation reaches any device or view: no system
 * call, a few nanoseconds.  What was read or sent before a check that still
 * says "valid" came from the memory that was pinned.  (Back-ends without a kernel
 * have a word of their own for it; host's are of addresses, and always valid; those
 * that nobody tells of, status.by_id, are never known to be: zero.)
 */
static inline int peerdma_valid(const struct peerdma_region *region)
{
	const struct peerdma_validity *v = (const struct peerdma_validity *)region;

	/* What was read before it was read before it: x86 keeps loads in order, compilers and others do not. */
#if defined(__aarch64__)
	__asm__ volatile("dmb ld" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
	return __atomic_load_n(v->slot, __ATOMIC_ACQUIRE) == v->generation;
}

struct peerdma_notice {
	uint32_t size;		/* in: sizeof(struct peerdma_notice) */
	uint32_t reserved;	/* 0 */
	struct peerdma_region *region;
	void *cookie;		/* of peerdma_pin() */
	uint64_t addr;		/* as pinned */
	uint64_t length;
};

/*
 * The next revoked pin, oldest first, once for each; none is lost.  Waits up to
 * timeout_ms: 0 not at all, -1 for ever.  The region still is the caller's to
 * unpin.  Pins that were unpinned before their notice was read have none.  Nor do
 * pins of which nobody tells (status.by_id), unless libpeerdma-hooks sees the free
 * (peerdma_hooks.h): then they have theirs when the free begins.
 *
 *   -EAGAIN  none in that time
 *   -EINTR   a signal came
 *   -EINVAL  out->size
 *   -EPERM
 */
int peerdma_next_event(struct peerdma *ctx, struct peerdma_notice *out, int timeout_ms);

/* A descriptor for poll(2): readable when a notice waits.  The context's own: do not read or close it. */
int peerdma_event_fd(const struct peerdma *ctx);

#ifdef __cplusplus
}
#endif

#endif
