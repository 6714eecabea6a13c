/* SPDX-License-Identifier: MIT */
/*
 * peerdma_ipc.h - libpeerdma: memory and signals for other processes of this machine.
 *
 *	exporter					importer
 *
 *	peerdma_ipc_export(ptr, n, 0, &handle);
 *	... send the 128 bytes of handle ...		peerdma_ipc_open(&handle, sizeof(handle), 0, &memory);
 *							... use memory->ptr ...
 *							if (!peerdma_ipc_valid(memory))
 *								... discard what was just read ...
 *	peerdma_ipc_unexport(&handle);			peerdma_ipc_close(memory);
 *	cuMemFree(ptr);
 *
 * Handle.  128 bytes without pointers. Any channel may carry it, to any number of importers. It
 * names the machine, its boot, the exporting process and the memory, and contains a random key
 * of 128 bits. Treat it as a password: the key proves the right to open the memory.
 *
 * Who may open.  Processes of the exporter's user that present the key; with PEERDMA_IPC_ANY_USER
 * processes of every user that present the key. The kernel reports the importer's user; a thread in
 * the exporter compares the key. The exporter's user is its effective user at the first export. The
 * kernel reports all users that the exporter's user namespace does not map as 65534.
 *
 * What importers get.  The whole allocation that contains the exported range, because no provider
 * shares less. Of a file's mapping: a descriptor of the whole file, which reads, and also writes if
 * the mapping is writable. A process of the exporter's user can open that file again for writing, also if
 * the mapping is read-only. For other users (PEERDMA_IPC_ANY_USER) an export of a read-only mapping prevents
 * that: it takes the write permission of group and others from the file, unless the file is sealed with
 * F_SEAL_FUTURE_WRITE or F_SEAL_WRITE, and is refused if the process does not own the file. Of memory
 * of a CUDA pool: a descriptor of the whole pool, with which a process can map all memory of the pool,
 * also memory that is allocated later.
 *
 * Never stale.  An export ends when the exporter frees the memory, calls peerdma_ipc_unexport(),
 * exits, calls execve(2) or is killed. peerdma_ipc_valid() is 0 from then on, before the memory
 * can be used for something else, and no call opens the handle again. Memory that an importer has
 * open stays mapped and allocated until it closes it: an access after the end of the export reads old
 * bytes, never another allocation's, and does not fault. Three exceptions:
 *   - Allocations of cuMemAlloc that are smaller than 2 MiB. NVIDIA's driver puts several into one
 *     block of 2 MiB and shares the block. So an importer reaches the neighbouring allocations, and
 *     after a free its accesses reach what the exporter allocates in that place. peerdma_ipc_copy()
 *     reports -ESTALE for what it read. Nothing stops an importer's own access: agree on the end by a
 *     signal before the free, or allocate 2 MiB or more.
 *   - Memory of CUDA's stream-ordered pools. The exporter may allocate in a place as soon as it has
 *     freed the memory there: then an importer's accesses may reach the new allocation, as for small
 *     allocations. The export ends when cuMemFreeAsync() is called, before the work that is queued in
 *     its stream. CUDA requires that importers unmap the memory before that call: peerdma_ipc_close(),
 *     then peerdma_ipc_trim(). While an importer has memory of an exporter's pools open whose export
 *     has ended, it gets -EADDRINUSE for all memory of that exporter's pools that it has not mapped yet,
 *     because NVIDIA's driver could map only a part of that memory. A process that opens memory of pools
 *     here must not import the same pools by CUDA's own calls: one cuMemFree() unmaps for both.
 *   - Files that are not in memory or not sealed with F_SEAL_SHRINK: what any process does to the
 *     file appears in the import, and an access past a new, smaller end raises SIGBUS.
 * Other users cannot open any of these (PEERDMA_IPC_ANY_USER is refused for them). docs/ipc.md
 * explains how this works.
 *
 * Results, NULL, units and structs are those of peerdma.h: 0 or -errno, peerdma_last_error() has the
 * text, a call that fails has changed nothing unless its description says so. Frees and exports of
 * the same memory at the same time are the program's mistake: such an export fails, or ends with the
 * free or soon after.
 *
 * Threads.  Any thread may make any call; the call that ends an object is its last use. A thread that
 * sees the value of a signal may close the signal before the call that set it has returned. No lock is
 * held while a provider's function runs, with one exception: calls that open or unmap memory of a CUDA
 * pool, or destroy the import of a pool, wait for each other. The first export starts two threads, which
 * run no function of a provider. Only peerdma_ipc_valid() and peerdma_ipc_signal_get() are safe in a
 * signal handler. No call is a cancellation point, except peerdma_ipc_signal_wait().
 *
 * Descriptors.  A program that closes all descriptors, as a daemon does, closes the library's, too. The
 * library does not use what has their numbers afterwards. Then importers open nothing more of this process,
 * and new exports and signals are refused with -EBADF: make the first one after closing.
 *
 * fork.  Exports, imports and signals belong to the process that made them. In a forked child every
 * call on a parent's object returns -EPERM, with these exceptions: peerdma_ipc_close(),
 * _signal_close(), _unexport() and _free() return 0 and do nothing, peerdma_ipc_query() returns
 * -ENOENT, and peerdma_ipc_signal_get() and _signal_hsa() return what they return to the parent. The
 * child may export and open memory of its own. It inherits CUDA's descriptors, and so does a program
 * that is started by a process with memory of a pool: GPU memory stays allocated while they have these
 * descriptors.
 */
#ifndef PEERDMA_IPC_H
#define PEERDMA_IPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct peerdma_ipc_handle {
	unsigned char bytes[128];
};

/* ---- The exporter's side ---- */

#define PEERDMA_IPC_ANY_USER	(1U << 0)	/* any process of any user that has the handle may open it */
/*
 * The caller ends the export with peerdma_ipc_unexport() before it frees the memory. Needed where
 * nothing reports frees: device memory without libpeerdma-hooks (peerdma_hooks.h), host memory
 * where the C library's calls cannot be watched (peerdma_monitor.h).
 */
#define PEERDMA_IPC_I_UNEXPORT	(1U << 1)

/*
 * Allocates host memory that can be exported: whole pages of zeros, in a file in memory that
 * no process can resize. The caller owns it until peerdma_ipc_free(). It may be registered with
 * CUDA (cuMemHostRegister) or pinned (peerdma_pin). It takes one file descriptor. flags: 0.
 *
 *   -EINVAL  flags; length is 0
 *   -EFBIG   more than the process may write to a file (RLIMIT_FSIZE)
 *   -ENOMEM, -EMFILE, -ENFILE
 */
int peerdma_ipc_alloc(size_t length, unsigned int flags, void **ptr);

/* Ends the exports of the memory, then frees it. NULL is ignored. -EINVAL: not from peerdma_ipc_alloc(). */
int peerdma_ipc_free(void *ptr);

/*
 * Makes a handle of [ptr, ptr + length), which must lie in one allocation. The export stays until
 * peerdma_ipc_unexport() has been called as often as this function for the allocation, or the
 * memory is freed. flags: PEERDMA_IPC_*, the same for all exports of an allocation.
 *
 * Memory that can be exported:
 *   cuda      cuMemAlloc, cudaMalloc: cuIpcGetMemHandle
 *   cuda-vmm  cuMemCreate with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, mapped whole by cuMemMap
 *   cuda-pool cuMemAllocFromPoolAsync, cuMemAllocAsync: from a pool of device memory that
 *             cuMemPoolCreate made with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. An allocation may have
 *             at most 4 GiB, because NVIDIA's driver crashes a process that imports some 5 GiB. The
 *             allocation must have completed in its stream before an importer uses the memory. Frees by
 *             a CUDA graph are not reported: call peerdma_ipc_unexport() before the graph runs
 *   hsa       memory pools, hipMalloc: hsa_amd_ipc_memory_create
 *   host      peerdma_ipc_alloc(); a shared mapping of a file that this process has open or can
 *             open by its name; with PEERDMA_IPC_ANY_USER one in memory, sealed with F_SEAL_SHRINK, and,
 *             if the mapping is read-only, owned by this process's user or sealed with F_SEAL_FUTURE_WRITE
 * With PEERDMA_IPC_ANY_USER, an allocation of cuMemAlloc must have 2 MiB or more, and memory of pools
 * cannot be exported.
 *
 * Memory that cannot be exported: private host memory, and shared mappings without a file
 * (MAP_ANONYMOUS, shmat), because no other process can map those pages; managed memory; memory of pools
 * that were not made to be shared, such as a GPU's default pool.
 *
 *   -EINVAL      unknown flags; length is 0 or wraps; the flags differ from an earlier export's
 *   -ENXIO       the range is not in one allocation; nothing is mapped there
 *   -EOPNOTSUPP  this kind of memory cannot be exported; or nothing reports its free, and
 *                PEERDMA_IPC_I_UNEXPORT is not set
 *   -EEXIST      the memory is an import: its exporter exports it
 *   -ENOSPC      the process has 65536 exports and signals
 *   -EIO         the provider failed, and the text has its error number; or the kernel gives no random bytes
 *   -ENODEV      /proc is not mounted; or no context of CUDA is current
 *   -EBADF       the program has closed the library's descriptors, or that of this memory
 *   -EFBIG       RLIMIT_FSIZE is too small for the pages that importers read; 1 MiB is enough
 *   -EMFILE, -ENFILE, -ENOMEM, -EAGAIN (no thread)
 */
int peerdma_ipc_export(const void *ptr, size_t length, unsigned int flags, struct peerdma_ipc_handle *handle);

/*
 * Takes back one call of peerdma_ipc_export(). Taking back the last one ends the export: when this call
 * returns, peerdma_ipc_valid() is 0 in every importer. Returns 0 also if the memory was freed meanwhile.
 * An importer that writes at that moment may still do so: agree on the end by a signal before the
 * exporter uses the memory for something else.
 *
 *   -EINVAL  not a handle, or another process's
 *   -EPROTO  made by a release with another format
 */
int peerdma_ipc_unexport(const struct peerdma_ipc_handle *handle);

/* ---- The importer's side ---- */

/* Belongs to the library; constant while the memory is open. Later releases may add fields at the end. */
struct peerdma_ipc_memory {
	void *ptr;			/* the exported range in this process, a pointer of the exporter's provider */
	uint64_t length;
	const uint64_t *slot;		/* for peerdma_ipc_valid(): in pages that the exporter shares, read-only */
	uint64_t generation;
	const uint32_t *exporter;
};

/*
 * Opens what a handle names. size: sizeof(struct peerdma_ipc_handle). Each open is one reference;
 * opening a handle that this process has open, or closed lately, is a lookup. Any other open of CUDA's
 * memory needs a current context, and so does unmapping memory of a pool. Memory of cuMemAlloc() has one
 * mapping for each context.
 *
 *   -EINVAL        cut short or altered: size, checksum or ranges are wrong; flags is not 0
 *   -EPROTO        made by a release with another format
 *   -EREMOTE       made on another machine, or before this machine's last boot
 *   -EEXIST        made by this process: use the pointer itself
 *   -EKEYREJECTED  the key is not this memory's: guessed, or of an earlier export
 *   -EACCES        another user's: exported without PEERDMA_IPC_ANY_USER, or the key is wrong, or the export
 *                  has ended (which of these is not disclosed); or a security module forbids it
 *   -ESTALE        freed, or unexported; or the file was made shorter
 *   -EOPNOTSUPP    memory of a CUDA pool: the allocation has more than 4 GiB, or this driver has no such calls
 *   -EOWNERDEAD    the exporter has ended, or is in another network namespace
 *   -ETIMEDOUT     the exporter did not answer within 10 seconds: it is stopped, or out of descriptors
 *   -EBUSY         the exporter's limit of connections: 4096, 256 of other users together, 64 of each of them
 *   -EADDRINUSE    memory is open whose export has ended, in the same block of CUDA's or of any pool of
 *                  that exporter (see above): close it; or this process opened the block without this library
 *   -ENODEV        this process has not initialised the provider; or no context is current, or the
 *                  current one was destroyed; or /proc is not mounted
 *   -EIO           the provider failed; the text has its error number
 *   -EMFILE, -ENFILE, -ENOMEM
 *
 * Like every call here, it may be made while any thread records a CUDA graph. No call becomes a part of
 * the graph, except what peerdma_ipc_signal_stream_wait() and _set() put into a stream that is recorded.
 */
int peerdma_ipc_open(const void *handle, size_t size, unsigned int flags, struct peerdma_ipc_memory **memory);

/*
 * Gives one reference back. At most 64 mappings without references stay cached while their exports are
 * live. A mapping whose export has ended is unmapped; CUDA's memory only in a thread with a context, as
 * peerdma_ipc_trim() describes. Work on CUDA's memory must have completed. NULL is ignored.
 *
 *   -EIO  the provider failed to unmap it; the reference is given back
 */
int peerdma_ipc_close(struct peerdma_ipc_memory *memory);

/*
 * Unmaps all memory that is cached without references. Only then does CUDA free memory that the
 * exporter has freed. Memory of cuMemAlloc() is unmapped in the context in which it was opened: call
 * this function once with each such context current.
 *
 *   -ENODEV  memory of CUDA's pools stays mapped, because no context is current, or the current one was destroyed
 *   -EIO     the provider failed to unmap something; the rest is unmapped
 */
int peerdma_ipc_trim(void);

/*
 * As peerdma_ipc_trim(), and also destroys the imports of CUDA's pools of which nothing is mapped. Call it
 * while no other thread uses CUDA. Otherwise NVIDIA's driver 580 may end the process, or wait forever (1 of
 * 300 to 50,000 destructions beside ten busy threads).
 *
 * That is why an import stays, with one descriptor, when its last memory is unmapped. GPU memory of the
 * pool stays allocated as long as the import, even if the exporter has destroyed the pool or has ended.
 * Without this call, an import of which nothing is mapped is destroyed by the next call that opens, closes
 * or trims in a thread with a context, except an open that is a lookup,
 *   - if the exporter has ended;
 *   - if no memory of the pool was mapped for 10 seconds;
 *   - if there are more than 16 such imports: then the one that was used least recently.
 *
 *   -ENODEV  memory of CUDA's pools stays mapped, or a pool imported, because no context is current, or the
 *            current one was destroyed
 *   -EIO     the provider failed to unmap something; the rest is unmapped
 */
int peerdma_ipc_trim_pools(void);

/*
 * Whether the export is live: non-zero until it ends. Two loads, no system call. If the call returns
 * non-zero, what was read before it was the exporter's memory. Once it returned 0, it always does.
 */
static inline int peerdma_ipc_valid(const struct peerdma_ipc_memory *memory)
{
	/* Loads before this call come first: x86 keeps loads in order, compilers and other processors do not. */
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dmb ld" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
	return __atomic_load_n(memory->slot, __ATOMIC_ACQUIRE) == memory->generation &&
	       !(__atomic_load_n(memory->exporter, __ATOMIC_ACQUIRE) & 0x40000000U);	/* FUTEX_OWNER_DIED */
}

struct peerdma_ipc_info {
	uint32_t size;		/* in: sizeof(struct peerdma_ipc_info) */
	uint32_t live;		/* peerdma_ipc_valid() */
	int32_t pid;		/* the exporter, in its own pid namespace */
	uint32_t uid;
	uint64_t base, length;	/* of the exporter's allocation, in this process */
	uint64_t offset;	/* of ptr in it */
	uint64_t exporter_ptr;	/* ptr's address in the exporter */
	uint64_t references;	/* opens minus closes, of all ranges of the allocation */
	char provider[12];	/* "host", "cuda", "cuda-vmm", "cuda-pool", "hsa" */
	char pci[20];		/* of the GPU, as the exporter sees it; "" if none */
	uint32_t reserved[6];	/* 0 */
};

/*
 * Describes the imported allocation that ptr points into, at any place, and its exporter.
 *
 *   -ENOENT  ptr is not in memory that this process has open or cached
 *   -EINVAL, -E2BIG  info->size
 */
int peerdma_ipc_query(const void *ptr, struct peerdma_ipc_info *info);

/* ---- Signals ---- */

/*
 * A value of 64 bits that processes, CUDA streams and HSA change and wait for.  Its creator exports
 * it, importers open it; both close it. Once the creator has closed it or has ended, importers' calls
 * return -ESTALE or -EOWNERDEAD.
 */
struct peerdma_ipc_signal;

enum peerdma_ipc_condition {
	PEERDMA_IPC_EQ = 0,
	PEERDMA_IPC_NE = 1,
	PEERDMA_IPC_LT = 2,	/* signed, as HSA's */
	PEERDMA_IPC_GE = 3,	/* signed; by a CUDA stream: (int64_t)(is - value) >= 0 */
};

/* The value is that of an HSA signal (hsa_amd_signal_create with HSA_AMD_SIGNAL_IPC). */
#define PEERDMA_IPC_HSA		(1U << 8)

/*
 * Creates a signal. flags: 0, PEERDMA_IPC_ANY_USER (takes a page and a descriptor of its own),
 * PEERDMA_IPC_HSA.
 *
 *   -EINVAL  flags
 *   -ENODEV  HSA: the process has no HSA runtime, or has not called hsa_init()
 *   -ENOSPC  65536 exports and signals; or 16384 signals without PEERDMA_IPC_ANY_USER and PEERDMA_IPC_HSA
 *   -EIO     HSA failed; or the kernel gives no random bytes
 *   -EBADF, -EFBIG  as peerdma_ipc_export()
 *   -ENOMEM, -EMFILE, -ENFILE, -EAGAIN (no thread)
 */
int peerdma_ipc_signal_create(uint64_t value, unsigned int flags, struct peerdma_ipc_signal **signal);

/*
 * The signal's handle, the same each time, valid until the creator closes it. -EINVAL: an opened
 * signal; -ENODEV: /proc is not mounted; -EPERM.
 */
int peerdma_ipc_signal_export(struct peerdma_ipc_signal *signal, struct peerdma_ipc_handle *handle);

/*
 * Opens a signal. Each open needs one close. One descriptor, here and in the exporter, serves up to 64
 * signals that this process opens of that exporter. Errors: as peerdma_ipc_open().
 */
int peerdma_ipc_signal_open(const void *handle, size_t size, struct peerdma_ipc_signal **signal);

/* Ends the caller's use of the signal. NULL is ignored. What has yet to set it, such as a copy, still does so. */
int peerdma_ipc_signal_close(struct peerdma_ipc_signal *signal);

/* The value, with acquire order. */
uint64_t peerdma_ipc_signal_get(const struct peerdma_ipc_signal *signal);

/*
 * Stores or adds with release order, and wakes waiters. Returns 0; -ESTALE or -EOWNERDEAD: the creator
 * has closed the signal or has ended, and nothing was written; -EPERM: a parent's signal.
 */
int peerdma_ipc_signal_set(struct peerdma_ipc_signal *signal, uint64_t value);
int peerdma_ipc_signal_add(struct peerdma_ipc_signal *signal, uint64_t value);

/*
 * Waits until the value meets the condition: spins for 20 microseconds, then sleeps. timeout_ns: 0: does
 * not wait; UINT64_MAX: without limit. *seen (NULL: not wanted) is the value that was seen last. If the
 * call returns 0, this value met the condition; another thread may have changed it since. The values of
 * HSA's signals, and of those that a GPU sets, are checked every 50 us.
 *
 *   -EAGAIN      not met in that time
 *   -EINTR       a handler of a Unix signal ran; if it has SA_RESTART, the call may go on instead
 *   -EOWNERDEAD  not met, and a process that had the signal open ended without closing it. The
 *                creator gets it once for each such process, however often that process had opened the
 *                signal; importers get it from the creator's end on
 *   -ESTALE      not met, and the creator closed the signal
 *   -EINVAL      condition
 *   -EPERM       a parent's signal
 */
int peerdma_ipc_signal_wait(struct peerdma_ipc_signal *signal, enum peerdma_ipc_condition condition, uint64_t value,
			    uint64_t timeout_ns, uint64_t *seen);

/*
 * CUDA: stream (a CUstream of the current context) waits for the condition (EQ or GE), or sets the
 * value when work before it has completed. Registers the signal's page with CUDA the first time
 * and needs cuStreamWaitValue64_v2 and cuStreamWriteValue64_v2. From the first stream_set on,
 * waiters check the value every 50 us, because a GPU cannot wake them.
 *
 *   -EOPNOTSUPP  this driver or GPU has no such operations; stream_wait with NE or LT; a signal of HSA
 *   -ENODEV      no CUDA in this process, or no current context
 *   -EIO         CUDA failed
 *   -ESTALE, -EOWNERDEAD, -EPERM, -EINVAL
 */
int peerdma_ipc_signal_stream_wait(struct peerdma_ipc_signal *signal, void *stream,
				   enum peerdma_ipc_condition condition, uint64_t value);
int peerdma_ipc_signal_stream_set(struct peerdma_ipc_signal *signal, void *stream, uint64_t value);

/* The hsa_signal_t.handle of a signal made with PEERDMA_IPC_HSA, for HSA's own calls; valid until the close. 0: none. */
uint64_t peerdma_ipc_signal_hsa(const struct peerdma_ipc_signal *signal);

/* ---- Copies ---- */

enum peerdma_ipc_path {
	PEERDMA_IPC_PATH_NONE = 0,	/* not copied */
	PEERDMA_IPC_PATH_CPU = 1,	/* by the calling thread, through mappings of host memory */
	PEERDMA_IPC_PATH_CUDA = 2,	/* by CUDA's copy engines, on a stream of the library */
	PEERDMA_IPC_PATH_HSA = 3,	/* by hsa_memory_copy() */
	PEERDMA_IPC_PATH_KERNEL = 4,	/* by a kernel on the GPU of the current context */
	PEERDMA_IPC_PATH_POLL = 5,	/* by a kernel there that was running already */
	PEERDMA_IPC_PATHS = 8,		/* room for later ones */
};

/* From the imported memory (or the address in offset) to local; without it the other way. */
#define PEERDMA_IPC_READ	(1U << 0)
/*
 * Transfers with CUDA's device memory at both ends may be made by a kernel, up to 128 of a call by one
 * launch. It is used where it is faster than copy engines, by a rule that was measured: for several transfers
 * that do not lie at equal distances, such as the blocks of a cache in any order, and within one GPU for most
 * lists. The kernel takes multiprocessors from the program's own kernels, and the first call in a context
 * compiles it (milliseconds; it may wait for kernels that run). Copy engines are used in any case for
 * transfers above 16 MiB, for host memory, for memory of this process that another context than the current
 * one allocated or that is another GPU's, and on GPUs that run no kernels. `path` returns what was used.
 */
#define PEERDMA_IPC_KERNEL	(1U << 1)
/*
 * For calls of one transfer of up to 64 KiB, with CUDA's device memory at both ends and `done` NULL. The
 * transfer may be made by a kernel that keeps running and polls host memory for the next one. Between two
 * H100 this takes 0.6 of an engine's time for 8 bytes, and 0.7 for 64 KiB. The kernel occupies a
 * multiprocessor until there was no such call for 0.5 ms, at most for 5 ms; then the next call launches it
 * again. Calls that wait for the whole GPU, such as cuMemFree() and cuCtxSynchronize(), wait for the kernel's
 * end. So may another process that shares the GPU, and a stream that has to share a hardware queue with the
 * kernel's stream. The calling thread does not sleep meanwhile; the first call compiles the kernel, as with
 * PEERDMA_IPC_KERNEL.
 *
 * The transfer is made as without the flag
 *   - while another thread of the context uses the kernel;
 *   - while the program's own kernels occupy the whole GPU;
 *   - if an address is no multiple of 16 and the length is above 16 KiB, or no multiple of 8 and above 2 KiB;
 *   - before CUDA 12;
 *   - in contexts after the 16th that asked for the kernel in a process.
 * `path` returns what was used.
 */
#define PEERDMA_IPC_POLL	(1U << 2)

struct peerdma_ipc_transfer {
	uint32_t size;			/* in: sizeof(struct peerdma_ipc_transfer) */
	uint32_t flags;			/* PEERDMA_IPC_READ, PEERDMA_IPC_KERNEL, PEERDMA_IPC_POLL */
	struct peerdma_ipc_memory *memory;	/* NULL: memory of this process */
	uint64_t offset;		/* in the opened range; with memory NULL the address */
	void *local;			/* host or device memory of this process, or other imported memory */
	uint64_t length;
	int32_t error;			/* out: 0, -EINPROGRESS or -errno, of this transfer */
	uint32_t path;			/* out: enum peerdma_ipc_path */
	uint32_t reserved[2];		/* 0 */
};

/*
 * Copies n transfers, whose `size` fields are equal; their order is not defined. A transfer without memory is
 * a copy within this process, by the same paths: of its GPUs' memory, of one GPU or two, and of host memory. Checks each range
 * before anything is copied, and peerdma_ipc_valid() before and after. Transfers of CUDA's device
 * memory that follow each other in the list at equal distances, with one length of up to 2 MiB, are
 * made by one command of a copy engine.
 *
 * If `done` is NULL, the call returns when all transfers are complete. Otherwise it sets the signal to
 * `value` when they are, and the transfer structs belong to the library until then; transfers that the CPU
 * or HSA makes are complete when the call returns. A thread that sees the value may close the signal at
 * once. Copies of CUDA are not ordered with the program's own streams.
 *
 * Returns the first error of a transfer that is known by then. -EINVAL, -E2BIG and -EPERM: nothing was
 * copied, and `done` is not set. After any other error the remaining transfers are copied all the same, each
 * has its own `error`, and `done` is set when they are complete: wait for it before you use the transfers
 * again.
 *
 *   -EINVAL      flags, reserved; n is 0; a range passes the end of the opened memory, or wraps; a transfer has a
 *                length above 0 and no local, or neither memory nor an address
 *   -E2BIG       size
 *   -ESTALE      the export has ended, or ended meanwhile: discard what was read. Or the creator of `done`
 *                has closed it: nothing was copied, and each transfer has this error
 *   -EOWNERDEAD  the same, and the exporter's process, or the creator of `done`, ended
 *   -ENODEV      it is CUDA's memory, and no context is current
 *   -EIO         CUDA failed
 *   -EPERM       a parent's memory or signal
 *   -ENOMEM
 */
int peerdma_ipc_copy(struct peerdma_ipc_transfer *transfers, size_t n, struct peerdma_ipc_signal *done, uint64_t value);

/* ---- What happened ---- */

struct peerdma_ipc_counters {
	uint32_t size;			/* in: sizeof(struct peerdma_ipc_counters) */
	uint32_t reserved;		/* 0 */
	uint64_t exports;		/* live now */
	uint64_t imports;		/* mapped now, with references and without */
	uint64_t opens, hits;		/* peerdma_ipc_open() that succeeded; of these, those that were a lookup */
	uint64_t ended;			/* exports of this process that a free ended */
	uint64_t served, refused;	/* requests of importers */
	uint64_t copies[PEERDMA_IPC_PATHS], bytes[PEERDMA_IPC_PATHS];	/* by enum peerdma_ipc_path */
};

/* The counts of this process since its first call. -EINVAL, -E2BIG: size. */
int peerdma_ipc_counters(struct peerdma_ipc_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
