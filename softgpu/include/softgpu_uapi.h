/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * softgpu_uapi.h - what the software GPU's driver and its user libraries say
 * to each other over /dev/softgpuN.
 *
 * This is softgpu's private interface, as a vendor's driver has one: programs
 * use the CUDA look-alikes in softgpu/user, drivers use nvidia_p2p_*.  It may
 * change with any release; SOFTGPU_ABI tells both sides that they match.
 *
 * Rules, the same for every call:
 *
 * - The first field is `size`, the size of the struct as the caller knows it.
 *   A caller's struct may be longer than the driver's if the surplus is zero
 *   (else E2BIG), and never shorter than the one of the first release (EINVAL).
 * - `flags` and `reserved` must hold only what is documented here (EINVAL).
 * - All sizes and offsets are bytes.  All addresses are u64.
 * - Handles are u32, never 0, valid in every open file of one process, and die
 *   with the open file that made them.
 * - A file opened by one process and used by another (inherited over fork or
 *   exec, passed over a socket) answers EPERM to everything: an address space
 *   belongs to one process.  While a file from before exec is open, open(2)
 *   fails with EBUSY: open with O_CLOEXEC.
 *
 * errno, one meaning each:
 *   EINVAL   an argument is malformed: size, flags, alignment, overlap, kind
 *   E2BIG    the struct's surplus bytes are not zero
 *   ENOTTY   no such call
 *   EFAULT   the argument cannot be read or written
 *   EPERM    this open file belongs to another process
 *   EACCES   the GPU's compute mode allows no contexts
 *   ENOENT   no such handle, or nothing at this address
 *   EEXIST   it is there already: something at these addresses, or this memory
 *   ENOMEM   the kernel is out of memory; CTX_CREATE, STREAM_CREATE: the process has SOFTGPU_MAX_STREAMS already
 *   ENOSPC   VRAM, or the window of device addresses, has no room
 *   EBUSY    the object is in use: the handle's memory is mapped, work is queued,
 *            another context has it open, or has the GPU to itself
 *   ENOKEY   the key opens nothing: wrong, or its allocation was freed
 *   EADDRINUSE  other memory is open in this place: what its owner has freed since
 *   EAGAIN   (queries) not finished yet
 *   ENODEV   the GPU was removed
 *   EOPNOTSUPP  the GPU's BAR does not show all of its VRAM
 *   EIO      the context is dead: an earlier copy faulted, here or in another client of its server
 */
#ifndef SOFTGPU_UAPI_H
#define SOFTGPU_UAPI_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/ioctl.h>
#else
#include <linux/types.h>
#include <sys/ioctl.h>
#endif

#define SOFTGPU_ABI		4
#define SOFTGPU_MAX_GPUS	16
#define SOFTGPU_RENDER_FIRST	160	/* /dev/softgpuN is also /dev/dri/renderD(160+N), as AMD's GPUs are */
#define SOFTGPU_MAX_STREAMS	4096	/* of one process, each context's default stream included */
#define SOFTGPU_PAGE_SHIFT	16	/* VRAM is mapped and pinned in 64 KiB pages */
#define SOFTGPU_PAGE_SIZE	(1UL << SOFTGPU_PAGE_SHIFT)
#define SOFTGPU_NAME_LEN	64

/* What stands at an address (softgpu_query.kind). */
enum softgpu_kind {
	SOFTGPU_KIND_NONE = 0,		/* nothing that the driver knows */
	SOFTGPU_KIND_DEVICE = 1,	/* VRAM: cuMemAlloc */
	SOFTGPU_KIND_VMM = 2,		/* VRAM: cuMemMap */
	SOFTGPU_KIND_HOST = 3,		/* host memory made by the library: cuMemHostAlloc */
	SOFTGPU_KIND_MANAGED = 4,	/* host memory that stands for managed memory */
	SOFTGPU_KIND_REGISTERED = 5,	/* the program's own memory: cuMemHostRegister */
	SOFTGPU_KIND_RESERVED = 6,	/* reserved by cuMemAddressReserve, unmapped */
	SOFTGPU_KIND_IPC = 7,		/* VRAM: another process's allocation, by IPC_OPEN */
	SOFTGPU_KIND_VISIBLE = 8,	/* memory that the CPU sees at the same address: hipMalloc */
	SOFTGPU_KIND_VISIBLE_IPC = 9,	/* the same of another process, by IPC_OPEN */
};

/* Who may make contexts on a GPU; the values are CUDA's. */
enum softgpu_compute_mode {
	SOFTGPU_COMPUTE_DEFAULT = 0,	/* everyone */
	SOFTGPU_COMPUTE_PROHIBITED = 2,	/* nobody: CTX_CREATE is EACCES */
	SOFTGPU_COMPUTE_EXCLUSIVE = 3,	/* one context at a time: for a further one it is EBUSY */
};

/* Facts of the GPU behind this file. */
enum softgpu_platform {
	SOFTGPU_PLATFORM_PCI = 0,
	SOFTGPU_PLATFORM_INTEGRATED = 1, /* its memory is the machine's, as Tegra's: nvidia_p2p.ko is loaded */
	SOFTGPU_PLATFORM_COHERENT = 2,	/* its memory is in the CPU's address space, as Grace's: nvidia.ko has coherent=1 */
};

struct softgpu_info {
	__u32 size;
	__u32 abi;		/* out: SOFTGPU_ABI */
	__u32 index;		/* out: the N of /dev/softgpuN */
	__u32 count;		/* out: GPUs in this machine */
	__u8 uuid[16];		/* out */
	char name[SOFTGPU_NAME_LEN];	/* out: NUL-terminated */
	__u64 vram_total;	/* out */
	__u64 vram_free;	/* out */
	__u64 bar1_total;	/* out: the aperture */
	__u64 bar1_used;	/* out: distinct pinned pages, plus what is reserved */
	__u32 pci_domain;	/* out: all zero when VRAM is system memory */
	__u32 pci_bus;
	__u32 pci_device;
	__u32 pci_function;
	__u32 on_pci;		/* out: 1 if VRAM is a PCI BAR, 0 if system memory */
	__u32 pins;		/* out: live pins of this GPU, all processes */
	__u32 strict;		/* out: strict mode is on: remote writes are ordered by FLUSH only */
	__u32 compute_mode;	/* out: enum softgpu_compute_mode */
	__u32 device_pointers;	/* out: host memory has device pointers that are others than the host's */
	__u32 platform;		/* out: enum softgpu_platform */
	__u32 driver;		/* out: the release of NVIDIA's driver that this stands in for: 580 */
	__u32 reserved;
};

/*
 * Gives the process its window of device addresses, which the library has
 * reserved in the CPU's address space, by a mapping of no file and without rights.  The first call of a process decides;
 * later ones return what it decided.  base and length are multiples of 64 KiB.
 *
 * A process may be the client of a server, as with MPS: whoever of the same user
 * names the same number.  The contexts of a server's clients on a GPU are one
 * there: they have the same tokens, until the last of them has ended; they count
 * as one where one is allowed; and a fault in any of them is the end of all
 * (CTX_CREATE: EIO while such a one is left).  Each client owns what it makes.
 * All are in one address space: a window that overlaps another client's is EEXIST.
 */
struct softgpu_window {
	__u32 size;
	__u32 flags;		/* 0 */
	__u64 base;		/* in/out */
	__u64 length;		/* in/out */
	__u32 server;		/* in/out: 0 is none */
	__u32 reserved;
};

/*
 * What is allocated in a VISIBLE context is AMD's to the personalities, and of kind
 * VISIBLE: the process may map it where it stands (see the end).  EINVAL where this
 * GPU's memory cannot be shown; EOPNOTSUPP where its BAR is smaller than its VRAM.
 */
#define SOFTGPU_CTX_VISIBLE	1
/* With VISIBLE: what is allocated is system memory, which needs no place in the BAR. */
#define SOFTGPU_CTX_SYSTEM	2

struct softgpu_ctx_create {
	__u32 size;
	__u32 flags;		/* SOFTGPU_CTX_* */
	__u32 ctx;		/* out: handle */
	__u32 reserved;
};

/* CTX_DESTROY frees all that was allocated in the context; CTX_SYNC waits for all its work. */
struct softgpu_handle {
	__u32 size;
	__u32 handle;
};

/* VRAM at an address of the driver's choice; small ones share a 64 KiB page. */
struct softgpu_mem_alloc {
	__u32 size;
	__u32 ctx;		/* 0: none; the memory stays until it is freed, the file is closed or the GPU removed */
	__u64 length;		/* > 0 */
	__u64 va;		/* out */
	__u64 buffer_id;	/* out: never used before, never used again */
	__u32 flags;		/* SOFTGPU_ALLOC_* */
	__u32 reserved;		/* 0 */
};

/* If there is no room (ENOSPC), wait for streams that are to free memory of no context, as long as there are such. */
#define SOFTGPU_ALLOC_WAIT	1

/*
 * MEM_FREE ends an allocation (va is its start), after all queued work of its
 * context, if it has one, and after that of the process's other contexts that uses it; every pin is revoked before the call returns, and no CPU reaches it any
 * more.  Work on it that comes while the call waits is refused with EFAULT, as after the call;
 * but not VALUE's WRITE, which the call may be waiting for, and which it waits for if it is the
 * context's.  ENOENT, too, if the memory goes meanwhile with its context.
 * Works on a device allocation only: of kind DEVICE, or with
 * SOFTGPU_FREE_VISIBLE of kind VISIBLE.  HOST_UNREGISTER forgets host memory.
 */
#define SOFTGPU_FREE_VISIBLE	1

struct softgpu_va {
	__u32 size;
	__u32 flags;		/* 0; MEM_FREE and IPC_CLOSE: or SOFTGPU_FREE_VISIBLE */
	__u64 va;
};

/*
 * Tells the driver of host memory that the library has mapped at va: kind is
 * HOST, MANAGED or REGISTERED.  HOST and MANAGED lie inside the window at an
 * address got by VA_RESERVE; REGISTERED lies anywhere outside the window.
 */
struct softgpu_host_register {
	__u32 size;
	__u32 ctx;
	__u32 kind;
	__u32 host_flags;	/* kept and given back by QUERY, not interpreted */
	__u64 va;
	__u64 length;
	__u64 buffer_id;	/* out */
};

/* Takes addresses out of the window; nothing stands there until MAP or HOST_REGISTER. */
struct softgpu_va_reserve {
	__u32 size;
	__u32 flags;		/* 0 */
	__u64 length;		/* multiple of 64 KiB */
	__u64 align;		/* 0, or a power of two >= 64 KiB */
	__u64 hint;		/* 0, or where the caller would like it (not binding) */
	__u64 va;		/* out */
};
/* VA_RELEASE (softgpu_va) gives a reservation back: EBUSY while anything stands in it. */

/*
 * Memory of one process in another.  IPC_EXPORT gives the key of the device
 * allocation that holds va: the same each time, and worthless as soon as the
 * allocation is freed.  A process that has the key opens the memory in one of its
 * contexts, or in no context, at an address of its own.  The mapping keeps the memory
 * until the process closes it, and is of kind IPC.  Opened again in that context, or
 * again in none, it is the same mapping, to be closed once more.  IPC_CLOSE (softgpu_va) takes the address that IPC_OPEN gave,
 * waits for the context's work and, the last time, revokes the mapping's pins.
 *
 * Memory of kind VISIBLE is exported with SOFTGPU_IPC_VISIBLE, opens in a context with the
 * flags of its own only, is of kind VISIBLE_IPC there, and is closed with SOFTGPU_FREE_VISIBLE.
 *
 * IPC_OPEN: ENOKEY; EEXIST: it is the calling process's own memory; EBUSY: another
 * context of this process has it open on the same GPU.
 */
#define SOFTGPU_IPC_VISIBLE	1

struct softgpu_ipc_export {
	__u32 size;
	__u32 flags;		/* 0 or SOFTGPU_IPC_VISIBLE */
	__u64 va;
	__u64 id;		/* out */
	__u64 key[2];		/* out */
};

struct softgpu_ipc_open {
	__u32 size;
	__u32 ctx;		/* 0: none, as of MEM_ALLOC */
	__u64 id;
	__u64 key[2];
	__u64 va;		/* out */
};

/*
 * A dma-buf of device memory: allocations and mappings of one GPU, side by side
 * without a gap (EINVAL); of AMD's, all within one allocation's pages.  It keeps the memory and its part of
 * the aperture (ENOSPC) until its last user has closed it, whatever happens to
 * the allocation, the process or this file meanwhile.
 */
struct softgpu_dmabuf {
	__u32 size;
	__u32 flags;		/* 0 */
	__u64 va;		/* multiples of the CPU's page */
	__u64 length;
	__s32 fd;		/* out: close-on-exec */
	__u32 reserved;
};

/*
 * The memory is not for other devices' drivers: no personality pins it, by any handle or
 * mapping.  Dma-bufs of it are made.  As cuMemCreate() without gpuDirectRDMACapable.
 */
#define SOFTGPU_PHYS_NO_RDMA	1

struct softgpu_phys_create {
	__u32 size;
	__u32 flags;		/* 0 or SOFTGPU_PHYS_NO_RDMA */
	__u64 length;		/* multiple of 64 KiB */
	__u32 handle;		/* out; PHYS_RELEASE (softgpu_handle) drops it, maps keep the memory */
	__u32 reserved;
};

/*
 * A PHYS handle's memory in another process, or once more in this one.  PHYS_EXPORT gives
 * the memory's key: the same each time, and worthless once no handle, mapping or pin of
 * the memory is left (PHYS_IMPORT: ENOKEY).  PHYS_IMPORT, to be called on the memory's own
 * GPU (EINVAL), makes a handle of the calling process's own.
 */
struct softgpu_phys_export {
	__u32 size;
	__u32 flags;		/* 0 */
	__u32 handle;
	__u32 reserved;		/* 0 */
	__u64 id;		/* out */
	__u64 key[2];		/* out */
};

struct softgpu_phys_import {
	__u32 size;
	__u32 flags;		/* 0 */
	__u64 id;
	__u64 key[2];
	__u64 length;		/* out */
	__u32 handle;		/* out; PHYS_RELEASE (softgpu_handle) drops it */
	__u32 reserved;
};

/*
 * length is the whole of the memory behind handle; offset must be 0 (as cuMemMap asks).  In a VISIBLE
 * context the mapping is AMD's to the personalities, and the process may map it where it stands.
 */
struct softgpu_map {
	__u32 size;
	__u32 flags;		/* 0 */
	__u32 ctx;		/* whose work the mapping belongs to; 0: none */
	__u32 handle;
	__u64 va;		/* inside one reservation */
	__u64 length;
	__u64 offset;
	__u64 buffer_id;	/* out */
};

/* UNMAP: the range must cover whole mappings.  All pins are revoked before it returns. */
/* ACCESS: every byte of the range must be mapped; access is 0 none, 1 read, 3 read and write. */
struct softgpu_va_range {
	__u32 size;
	__u32 access;		/* UNMAP: 0 */
	__u64 va;
	__u64 length;
};

/* What stands at an address.  Unknown addresses are no error: kind is NONE. */
struct softgpu_query {
	__u32 size;
	__u32 kind;		/* out */
	__u64 va;		/* in */
	__u64 base;		/* out: where the allocation begins */
	__u64 length;		/* out: as the program asked for it */
	__u64 buffer_id;	/* out */
	__u64 p2p_token;	/* out: of the context; 0 if none */
	__u32 va_space_token;	/* out */
	__u32 gpu;		/* out: index */
	__u32 ctx;		/* out: 0 if none */
	__u32 sync_memops;	/* out */
	__u32 host_flags;	/* out: as registered */
	__u32 access;		/* out: as set by ACCESS; 3 for all but VMM */
	__u32 phys;		/* out: VMM's handle, 0 when released or not VMM */
	__u32 reserved;
	/*
	 * out: the two pointers to the byte at va, of host memory whose device pointer is
	 * another than the host's; either may be asked about, and `base' is of that.
	 * Else 0.
	 */
	__u64 host_va;
	__u64 device_va;
};

enum softgpu_attr {
	SOFTGPU_ATTR_SYNC_MEMOPS = 1,	/* value 0 or 1 */
};

struct softgpu_set_attr {
	__u32 size;
	__u32 attr;
	__u64 va;		/* anywhere in the allocation; it holds for the whole of it */
	__u64 value;
};

#define SOFTGPU_STREAM_NON_BLOCKING	1	/* does not order itself with the default stream */

struct softgpu_stream_create {
	__u32 size;
	__u32 ctx;
	__u32 flags;
	__u32 stream;		/* out */
};
/*
 * Stream 0 of a context is its default stream: its work waits for all earlier
 * work of the context's blocking streams, and they wait for its work.
 * STREAM_DESTROY lets queued work finish first (the handle is gone at once).
 * QUERY: 0 or EAGAIN.
 */
struct softgpu_stream {
	__u32 size;
	__u32 ctx;
	__u32 stream;
	__u32 reserved;
};

struct softgpu_event_create {
	__u32 size;
	__u32 ctx;
	__u32 flags;		/* 0 */
	__u32 event;		/* out; EVENT_DESTROY by softgpu_handle */
};

/*
 * EVENT_RECORD: the event is done when all that the stream holds now is.
 * STREAM_WAIT: what the stream gets from now on waits for the event's latest record.
 * EVENT_QUERY: 0 (done, or never recorded) or EAGAIN; EVENT_SYNC waits.  Both fill time_ns.
 * EIO: the context was dead by then, and what came before the event was not done.
 */
struct softgpu_event {
	__u32 size;
	__u32 ctx;		/* RECORD and STREAM_WAIT: of the stream */
	__u32 stream;
	__u32 event;
	__u64 time_ns;		/* out of QUERY and SYNC: when it was done (monotonic) */
};

/*
 * Frees memory of kind DEVICE, or closes one of kind IPC that was opened in no context, when the stream has come to
 * that: its pins are revoked in the process's next call that waits for work, gives or takes memory or copies.  Memory of no context
 * is gone for the program at once: a QUERY finds nothing, and what is queued on it later is refused (EFAULT).
 * The driver does not wait for work of other streams that uses the memory.  Such work faults, and its context is
 * dead then (EIO).
 * EFAULT: no such memory begins at va, or it is being freed.
 */
struct softgpu_mem_free_async {
	__u32 size;
	__u32 ctx;
	__u32 stream;
	__u32 flags;		/* 0 */
	__u64 va;
};

#define SOFTGPU_OP_SYNC		1	/* return when the copy is done */

/*
 * Queues a copy on a stream.  An address that the driver knows as VRAM is VRAM;
 * any other is the calling process's own memory.  width bytes per row, height
 * rows.  dst and src may be on different GPUs.  EFAULT at once when a device range
 * is not wholly mapped; a host address that faults later kills the context (EIO), and so
 * does one whose page does not come within 30 s.
 */
struct softgpu_copy {
	__u32 size;
	__u32 ctx;
	__u32 stream;
	__u32 flags;
	__u64 dst;
	__u64 src;
	__u64 width;
	__u64 height;		/* 1 for a plain copy */
	__u64 dst_pitch;	/* ignored when height is 1 */
	__u64 src_pitch;
};

/* Queues a fill: width elements of elem bytes (1, 2 or 4) per row. */
struct softgpu_fill {
	__u32 size;
	__u32 ctx;
	__u32 stream;
	__u32 flags;
	__u64 dst;
	__u64 width;
	__u64 height;
	__u64 pitch;		/* bytes; ignored when height is 1 */
	__u32 value;
	__u32 elem;
};

/*
 * Queues a stand-in for a kernel that polls a flag: it runs until the word at va
 * reads `expected` or the time is over, then writes the word that it saw last to
 * `result`.  Both are in this GPU's VRAM (else EFAULT), multiples of 4.  Like a
 * kernel it occupies its stream and no copy engine.
 *
 * In strict mode it sees what a device writes only when that had been done
 * before the call, or a FLUSH of its context came after it; what the GPU's own
 * copies and fills write it sees at once.
 */
struct softgpu_watch {
	__u32 size;
	__u32 ctx;
	__u32 stream;
	__u32 flags;		/* 0 */
	__u64 va;
	__u64 result;
	__u32 expected;
	__u32 timeout_ms;	/* 1 to 60000 */
};
/* FLUSH (softgpu_handle): what devices have written is seen by the context's work that runs. */

/*
 * Queues work on one word.  WRITE stores `value' in it, and all that the stream did before is
 * seen first; in strict mode that lets go of what was held back.  The others wait until word and
 * `value' compare so, however long that takes: they hold up their stream, no engine and no caller.
 * The word is a multiple of its width (EINVAL), in this GPU's VRAM or in host memory of kind HOST
 * or REGISTERED (else EFAULT); should it go away meanwhile, the context is dead (EIO).
 */
enum softgpu_value_op {
	SOFTGPU_VALUE_WRITE = 0,
	SOFTGPU_VALUE_GEQ = 1,	/* word - value >= 0, with a sign: counters may wrap */
	SOFTGPU_VALUE_EQ = 2,
	SOFTGPU_VALUE_AND = 3,	/* word & value */
	SOFTGPU_VALUE_NOR = 4,	/* ~(word | value) */
};

struct softgpu_value {
	__u32 size;
	__u32 ctx;
	__u32 stream;
	__u32 op;		/* enum softgpu_value_op */
	__u64 va;
	__u64 value;
	__u32 width;		/* 4 or 8 */
	__u32 reserved;		/* 0 */
};

/*
 * A function of the program's that a stream calls on the CPU.  HOST_FUNC queues the call: when the stream
 * comes to it, it stands still until HOST_FUNC_DONE.  In strict mode it releases what was held back before it.
 *
 * HOST_FUNC_NEXT waits until a stream of the context has come to a call, and hands it out: each call once, in
 * the order in which they were come to.  If `error' is 0, the caller runs the function, and then says HOST_FUNC_DONE,
 * also if the context is dead meanwhile.  If it is EIO, the context was dead before: the function is not to be
 * run, nothing waits for it, and HOST_FUNC_DONE frees what the driver knows of it.
 *
 * ENOENT: no such context, or it was destroyed; HOST_FUNC_DONE: no call with that id is handed out.  EBUSY: so many
 * calls of the context are handed out, and not done.  With the context go its calls.  Threads may wait in HOST_FUNC_NEXT at the same time.
 */
#define SOFTGPU_MAX_FUNCS	4096

struct softgpu_host_func {
	__u32 size;
	__u32 ctx;
	__u32 stream;		/* HOST_FUNC */
	__u32 error;		/* 0; out of HOST_FUNC_NEXT: 0 or EIO */
	__u64 id;		/* the caller's; out of HOST_FUNC_NEXT */
};

#define SOFTGPU_IOC_MAGIC	0xb5
#define SOFTGPU_IOC(nr)		_IOC(_IOC_READ | _IOC_WRITE, SOFTGPU_IOC_MAGIC, nr, 0)

/* The size is in the struct, not in the number, so that a number never changes. */
#define SOFTGPU_INFO			SOFTGPU_IOC(0x00)	/* softgpu_info */
#define SOFTGPU_WINDOW			SOFTGPU_IOC(0x01)	/* softgpu_window */
#define SOFTGPU_CTX_CREATE		SOFTGPU_IOC(0x10)	/* softgpu_ctx_create */
#define SOFTGPU_CTX_DESTROY		SOFTGPU_IOC(0x11)	/* softgpu_handle */
#define SOFTGPU_CTX_SYNC		SOFTGPU_IOC(0x12)	/* softgpu_handle */
#define SOFTGPU_MEM_ALLOC		SOFTGPU_IOC(0x20)	/* softgpu_mem_alloc */
#define SOFTGPU_MEM_FREE		SOFTGPU_IOC(0x21)	/* softgpu_va */
#define SOFTGPU_HOST_REGISTER		SOFTGPU_IOC(0x22)	/* softgpu_host_register */
#define SOFTGPU_HOST_UNREGISTER		SOFTGPU_IOC(0x23)	/* softgpu_va */
#define SOFTGPU_VA_RESERVE		SOFTGPU_IOC(0x24)	/* softgpu_va_reserve */
#define SOFTGPU_VA_RELEASE		SOFTGPU_IOC(0x25)	/* softgpu_va */
#define SOFTGPU_PHYS_CREATE		SOFTGPU_IOC(0x26)	/* softgpu_phys_create */
#define SOFTGPU_PHYS_RELEASE		SOFTGPU_IOC(0x27)	/* softgpu_handle */
#define SOFTGPU_MAP			SOFTGPU_IOC(0x28)	/* softgpu_map */
#define SOFTGPU_UNMAP			SOFTGPU_IOC(0x29)	/* softgpu_va_range */
#define SOFTGPU_ACCESS			SOFTGPU_IOC(0x2a)	/* softgpu_va_range */
#define SOFTGPU_MEM_FREE_ASYNC		SOFTGPU_IOC(0x2b)	/* softgpu_mem_free_async */
#define SOFTGPU_QUERY			SOFTGPU_IOC(0x30)	/* softgpu_query */
#define SOFTGPU_SET_ATTR		SOFTGPU_IOC(0x31)	/* softgpu_set_attr */
#define SOFTGPU_STREAM_CREATE		SOFTGPU_IOC(0x40)	/* softgpu_stream_create */
#define SOFTGPU_STREAM_DESTROY		SOFTGPU_IOC(0x41)	/* softgpu_stream */
#define SOFTGPU_STREAM_QUERY		SOFTGPU_IOC(0x42)	/* softgpu_stream */
#define SOFTGPU_STREAM_SYNC		SOFTGPU_IOC(0x43)	/* softgpu_stream */
#define SOFTGPU_EVENT_CREATE		SOFTGPU_IOC(0x44)	/* softgpu_event_create */
#define SOFTGPU_EVENT_DESTROY		SOFTGPU_IOC(0x45)	/* softgpu_handle */
#define SOFTGPU_EVENT_RECORD		SOFTGPU_IOC(0x46)	/* softgpu_event */
#define SOFTGPU_EVENT_QUERY		SOFTGPU_IOC(0x47)	/* softgpu_event */
#define SOFTGPU_EVENT_SYNC		SOFTGPU_IOC(0x48)	/* softgpu_event */
#define SOFTGPU_STREAM_WAIT		SOFTGPU_IOC(0x49)	/* softgpu_event */
#define SOFTGPU_COPY			SOFTGPU_IOC(0x50)	/* softgpu_copy */
#define SOFTGPU_FILL			SOFTGPU_IOC(0x51)	/* softgpu_fill */
#define SOFTGPU_WATCH			SOFTGPU_IOC(0x52)	/* softgpu_watch */
#define SOFTGPU_FLUSH			SOFTGPU_IOC(0x53)	/* softgpu_handle */
#define SOFTGPU_VALUE			SOFTGPU_IOC(0x54)	/* softgpu_value */
#define SOFTGPU_HOST_FUNC		SOFTGPU_IOC(0x55)	/* softgpu_host_func */
#define SOFTGPU_HOST_FUNC_NEXT		SOFTGPU_IOC(0x56)	/* softgpu_host_func */
#define SOFTGPU_HOST_FUNC_DONE		SOFTGPU_IOC(0x57)	/* softgpu_host_func */
#define SOFTGPU_IPC_EXPORT		SOFTGPU_IOC(0x60)	/* softgpu_ipc_export */
#define SOFTGPU_IPC_OPEN		SOFTGPU_IOC(0x61)	/* softgpu_ipc_open */
#define SOFTGPU_IPC_CLOSE		SOFTGPU_IOC(0x62)	/* softgpu_va */
#define SOFTGPU_DMABUF			SOFTGPU_IOC(0x63)	/* softgpu_dmabuf */
#define SOFTGPU_PHYS_EXPORT		SOFTGPU_IOC(0x64)	/* softgpu_phys_export */
#define SOFTGPU_PHYS_IMPORT		SOFTGPU_IOC(0x65)	/* softgpu_phys_import */

/*
 * mmap(va, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset va)
 * shows memory of kind VISIBLE or VISIBLE_IPC, and VMM's of a VISIBLE context, to the CPU at its own address.  Once it is freed a
 * touch raises SIGBUS.  Not for forked children.
 *
 * mmap(anywhere, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset
 * SOFTGPU_MMAP_WRITE_COMBINED) gives new host memory whose area says that it is
 * write-combined, for HOST_REGISTER.  It outlives the file.
 *
 * The same with offset SOFTGPU_MMAP_MANAGED: memory that /proc/PID/maps calls
 * /dev/nvidia-uvm, as it does a real driver's managed memory.
 */
#define SOFTGPU_MMAP_WRITE_COMBINED	(1ULL << 56)	/* no address of a process */
#define SOFTGPU_MMAP_MANAGED		(1ULL << 57)	/* nor is this */

#endif
