/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * peerdma_ioctl.h - the system calls of /dev/peerdma, for user space.  Programs usually
 * use libpeerdma (peerdma.h) instead.
 *
 * A pin keeps a range of memory in place: GPU memory, through the interface of the
 * GPU's driver, or host memory.  Its handle is valid in the open file that made it:
 * another open file has other pins under the same numbers.  Handles, slots and
 * generations do not depend on what is done with other files.  The pin ends with
 * PEERDMA_UNPIN or the last close (mappings of the file keep it open).
 * The memory is that of the process that calls PEERDMA_PIN.  Other processes that hold the
 * file (after fork, or over a socket) may use and end its pins.
 *
 * A pin is revoked when its memory goes away (freed, its context or process ended, the
 * GPU removed; on a Tegra also when part of the range is unmapped, moved or protected).  Before the memory can be used for anything else, every DMA address, CPU
 * view and dma-buf made from the pin has stopped reaching it.  The handle stays taken
 * until PEERDMA_UNPIN.
 *
 * Rules for every call:
 *
 * - The first field is `size`, the struct's size as the caller knows it.  It may
 *   be longer than the kernel's if the surplus is zero (else E2BIG), never
 *   shorter than the first release's (EINVAL).
 * - Unknown flags and non-zero reserved fields are EINVAL.
 * - Sizes, offsets and lengths are bytes.  Addresses are u64.
 * - A call that fails has changed nothing.
 *
 * errno, one meaning each:
 *   EINVAL      malformed: size, flags, reserved field, zero or wrapping length
 *   E2BIG       the struct's surplus bytes are not zero
 *   ENOTTY      no such call
 *   EFAULT      the argument cannot be read or written, or the host range has no memory behind it (before Linux 6.2
 *               also if the memory is registered with userfaultfd)
 *   ENOENT      no such handle in this open file
 *   ENXIO       no provider knows this address as its memory (PIN of a GPU range), or it spans allocations, or is
 *               longer than 1 TiB
 *   ESTALE      the pin is revoked, or was while it was made
 *   ENODEV      no such PCI device; or no driver is bound to it, and it is behind an IOMMU or the machine is no PC: bind
 *               one, such as uio_pci_generic.  Without a driver the device's DMA may change under a mapping
 *   EPERM       the caller may not do this: MAP needs CAP_SYS_RAWIO; a READONLY pin is not mapped for writing
 *   ENOMEM      the kernel has no memory; or, for pins of host memory and on a Tegra, the user would have more memory
 *               locked, in all processes together, than RLIMIT_MEMLOCK allows (CAP_IPC_LOCK is exempt), or the range is longer
 *               than 1 TiB.  Pages of generations count too, from the second page of a file on
 *   ENOSPC      the provider's aperture (BAR1) is exhausted
 *   EDQUOT      a limit per user is reached: PIN: pins (parameter max_pins_per_user), MAP: mappings, mmap():
 *               CPU views, EXPORT: dma-bufs.  INFO has count and limit.  CAP_SYS_RESOURCE is exempt
 *   ENOBUFS     PIN: the limit per user on pinned device memory is reached (max_aperture_mib_per_user)
 *   EOPNOTSUPP  this provider or path cannot do it: persistent pins of host memory, a device that cannot address the
 *               memory or whose driver manages its own DMA (vfio), a dma-buf whose exporter refuses the device or
 *               maps less than it has; or a provider's answer is inconsistent, or two providers claim the address:
 *               the kernel's log names the provider and the reason
 *   EIO         MAP: the memory's driver does not map it (Tegra): it is being freed, or a program has it mapped with
 *               another memory type than it was allocated with; the kernel's log has the reason
 *   EBADF       PIN_DMABUF_FD: the descriptor is no dma-buf
 *   EACCES      PIN_DMABUF_FD: the dma-buf is open for reading only, and the pin is not READONLY
 *   EBUSY       UNPIN: a dma-buf of the pin is in use by a device that the kernel cannot take it from
 *   ENFILE      the system holds PEERDMA_MAX_PINS - 1 pins; or all but those that only CAP_SYS_RESOURCE may make
 *               (parameter reserved_pins)
 *   EMFILE      EXPORT, PAGES: the process has no file descriptor left
 *   EAGAIN      read() of a non-blocking file: no event
 *   EINTR       a signal arrived
 */
#ifndef PEERDMA_IOCTL_H
#define PEERDMA_IOCTL_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/ioctl.h>
#else
#include <linux/types.h>
#include <sys/ioctl.h>
#endif

#define PEERDMA_ABI		1
#define PEERDMA_MAX_PINS	(1U << 20)	/* of the whole system; handles and slots are smaller */
#define PEERDMA_PROVIDER_NAME	16

/* Facts of the module. */
struct peerdma_info {
	__u32 size;
	__u32 flags;		/* in: 0 */
	__u32 abi;		/* out: PEERDMA_ABI */
	__u32 providers;	/* out: how many are loaded, host memory included */
	/*
	 * Of all open files and drivers for callers with CAP_SYS_ADMIN; for others of the calling
	 * process's user only, so that the counts do not show what other users do.
	 */
	__u64 pins;		/* out: live ones */
	__u64 revocations;	/* out: since the module was loaded */
	/*
	 * What the calling process's user has taken in all processes, and the limit
	 * (module parameters max_..._per_user; 0: no limit).
	 */
	__u32 user_pins;
	__u32 max_user_pins;
	__u32 user_mappings;
	__u32 max_user_mappings;
	__u32 user_views;
	__u32 max_user_views;
	__u32 user_exports;
	__u32 max_user_exports;
	__u64 user_aperture;	/* bytes of device memory pinned that take up a GPU's aperture, overlapping pins counted each */
	__u64 max_user_aperture;
	__u64 user_locked;	/* bytes of host memory pinned (a Tegra's too), and of generations: RLIMIT_MEMLOCK is the limit */
};

/* PEERDMA_PIN flags: which memory.  Exactly one of HOST and DEVICE, or none: the first provider that knows the address. */
#define PEERDMA_PIN_HOST	(1U << 0)	/* this process's own memory, pin_user_pages */
#define PEERDMA_PIN_DEVICE	(1U << 1)	/* a GPU's memory */
#define PEERDMA_PIN_PERSISTENT	(1U << 2)	/* is never revoked; outlives the allocation (providers that can) */
#define PEERDMA_PIN_READONLY	(1U << 3)	/* no device writes to it (host memory: allows read-only mappings) */
#define PEERDMA_PIN_DMABUF	(1U << 4)	/* only in QUERY's answer: PEERDMA_PIN_DMABUF_FD made it */

/*
 * Pins [addr, addr + length).  The range is widened to the provider's pages;
 * the widened range must lie in one allocation.
 */
struct peerdma_pin_args {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 length;
	__u64 p2p_token;	/* 0: the pin is of this process's memory */
	__u32 va_space_token;
	__u32 reserved;
	__u32 handle;		/* out */
	__u32 page_shift;	/* out: the provider's page */
	__u32 slot;		/* out: in this file's array of generations */
	__u32 generation;	/* out: what the slot holds for as long as the pin lives */
	__u64 offset;		/* out: addr's distance from the first page's start */
	__u64 pinned_length;	/* out: bytes held, a multiple of the page */
};

/*
 * UNPIN waits for a revocation under way (SIGKILL ends that wait) and removes everything
 * that was made from the pin, mapping handles included.  The pin is charged to its user
 * until its views are unmapped and its dma-bufs are closed, too.
 *
 * UNMAP removes one mapping.
 *
 * After a revocation, addresses of MAP that an IOMMU translates reach nothing, and the
 * device gets them for no other mapping until UNMAP or UNPIN, or until it loses its driver
 * or is removed.  (Exception: the provider's driver has made the mapping: Tegra's, that of
 * a coherent GPU of NVIDIA, and of an imported dma-buf the exporter.)
 */
struct peerdma_handle_args {
	__u32 size;
	__u32 handle;
};

/*
 * Pins [offset, offset + length) of what another driver exports as a dma-buf, widened
 * to the CPU's pages (ENXIO: past its end).  The descriptor may be closed afterwards.
 *
 * It is a pin like any other, except: MAP asks the exporter to keep the memory in place
 * or, if it does not, to report when it moves the memory.  The pin is revoked when the
 * exporter takes the memory away, or moves it while it is mapped.  QUERY and events have
 * the offset in place of the address.  CPU views and EXPORT are not supported
 * (EOPNOTSUPP): map or pass on the dma-buf itself.
 */
struct peerdma_pin_dmabuf_args {
	__u32 size;
	__u32 flags;		/* 0 or PEERDMA_PIN_READONLY */
	__s32 fd;
	__u32 handle;		/* out, and all that follows as of PIN */
	__u64 offset;		/* in the dma-buf */
	__u64 length;		/* 0: all from there on */
	__u32 page_shift;
	__u32 slot;
	__u32 generation;
	__u32 reserved;		/* 0 */
	__u64 page_offset;	/* out: offset's distance from the first page's start */
	__u64 pinned_length;
};

#define PEERDMA_STATE_LIVE	1
#define PEERDMA_STATE_REVOKED	2

struct peerdma_query_args {
	__u32 size;
	__u32 handle;
	__u32 state;		/* out: PEERDMA_STATE_* */
	__u32 flags;		/* out: as pinned; HOST or DEVICE is always set */
	__u64 addr;		/* out: as pinned */
	__u64 length;
	__u64 pinned_length;
	__u32 page_shift;
	__u32 mappings;		/* out: to devices */
	__u32 cpu_views;	/* out: calls of mmap of which something is still mapped */
	__u32 exports;		/* out: dma-bufs alive */
	char provider[PEERDMA_PROVIDER_NAME];	/* out: "nvidia", "host", ... */
};

/* PEERDMA_MAP direction, as seen from memory: what the device does. */
#define PEERDMA_MAP_TO_DEVICE	(1U << 0)	/* it reads */
#define PEERDMA_MAP_FROM_DEVICE	(1U << 1)	/* it writes */

/* A run of addresses that the device may use. */
struct peerdma_segment {
	__u64 dma_addr;
	__u64 length;
};

/*
 * Maps a pin for a PCI device.  Needs CAP_SYS_RAWIO, because a program that knows DMA
 * addresses can program a device to use them.  The segments cover pinned_length bytes
 * in order.  If segment_count is too small nothing is mapped, and the call returns 0
 * with mapping 0 and the count needed.
 *
 * A revocation removes the mapping.  Behind an IOMMU the device faults from then on.
 * Without one, the kernel cannot stop a device that user space has programmed: the
 * program must stop it when it is notified.  In-kernel clients are called before the
 * memory goes away.
 *
 * The mapping is also removed when the device's driver is unbound or the device is
 * removed: the next driver of that device starts with nothing mapped.
 */
struct peerdma_map_args {
	__u32 size;
	__u32 handle;		/* of the pin */
	__u32 flags;		/* direction: one or both */
	__u32 domain;		/* PCI address of the device */
	__u32 bus;
	__u32 devfn;
	__u32 mapping;		/* out: handle for UNMAP */
	__u32 segment_count;	/* in: room at `segments`; out: how many there are */
	__u64 segments;		/* pointer to struct peerdma_segment[] */
};

/*
 * Exports [offset, offset + length) of the pinned range as a dma-buf.  The file
 * descriptor is close-on-exec.  It is open for reading only if the pin is READONLY, else for
 * writing, too, whatever the mode in which this file was opened.
 *
 * Revocable importers (dynamic, with the callback for invalidation) may attach to any
 * of them.  Others (static, or, up to Linux 7.0, dynamic but calling dma_buf_pin) may
 * attach only if the memory is never revoked: host memory and PERSISTENT pins; otherwise
 * their attach or map fails with EOPNOTSUPP.  Once such an importer has mapped, UNPIN
 * fails with EBUSY, and after the last close the memory stays pinned, until it
 * detaches.  Static importers map for both directions, so READONLY pins are for dynamic
 * ones.
 *
 * After an invalidation an importer has a limited time to unmap (the module's parameter
 * export_timeout_ms).  One that takes longer is named in the kernel's log and in
 * debugfs.  On UNPIN it keeps the memory until it detaches.  When the memory itself
 * is freed, an importer behind an IOMMU loses its mapping; for any other the free
 * waits, or (export_stop_device) its device is stopped.
 */
struct peerdma_export_args {
	__u32 size;
	__u32 handle;
	__u32 flags;		/* in: 0 */
	__s32 fd;		/* out */
	__u64 offset;		/* page multiples; 0 and 0: all of it */
	__u64 length;
};

/* PEERDMA_PAGES flags. */
#define PEERDMA_PAGES_PERSISTENT	(1U << 0)	/* the kind that lasts until it is idle */
#define PEERDMA_PAGES_FOR_DEVICE	(1U << 1)	/* domain, bus and devfn name a PCI device that must reach the memory */

/*
 * Makes a page view of [offset, offset + length) of a pin: a file whose mappings (MAP_SHARED)
 * are memory with struct pages, so that O_DIRECT, sockets and other drivers transfer to it and
 * from it.  The caller is the process that has made the pin.  The file descriptor is
 * close-on-exec; forked children inherit mappings.
 *
 * The memory's driver must have made the pages, and must support persistent pins: the view has
 * one of its own, which counts as a pin and as aperture of the calling process's user until the
 * memory is given back, and whose client in debugfs is "page view".
 *
 *	without PERSISTENT	The view ends when the pin is revoked or unpinned.  Then an
 *		access raises SIGBUS, and system calls that read or write there fail with EFAULT.
 *		The revocation waits until I/O under way has ended, but not longer than the
 *		parameter pages_timeout_ms, and not at all if the user has parked memory already.  Memory that is still in use then (by vmsplice or
 *		MSG_ZEROCOPY, for example) is parked: it belongs to no one, and counts, until
 *		its last user lets go of it.  Users that keep pages as long as they like are
 *		refused by the kernel: registered buffers of io_uring, ibv_reg_mr(), V4L2's
 *		USERPTR (EOPNOTSUPP).
 *	PERSISTENT		The pin's end does not end the view, and neither does free: the
 *		memory stays what it is until all files and mappings of the view are closed
 *		and nothing uses its pages.  All users are allowed, unless the pages are p2pdma's:
 *		those the kernel gives to O_DIRECT and io_uring's reads and writes only.
 *
 * Views of both kinds delay the removal of the GPU, until their pages are idle: a page view
 * cannot be taken from a persistent user.  Since Linux 6.17 a page that another view maps is not idle.
 *
 * FOR_DEVICE: EOPNOTSUPP if the device cannot reach the memory, or its driver manages its own
 * DMA; ENODEV as for MAP.  For pages of p2pdma the kernel's own rules decide, which it also applies
 * to each transfer.  For others peerdma's rules decide: struct pages do not stop the kernel from
 * trying.  A file's device is known; that of a network socket is not.
 *
 * EOPNOTSUPP also for memory without such pages (the kernel's log says so), of a provider
 * without persistent pins, of an imported dma-buf, and for host memory, whose own address can be
 * used.  ENXIO: the memory is another process's.  EDQUOT, ENOBUFS: as for PIN.
 */
struct peerdma_pages_args {
	__u32 size;
	__u32 handle;
	__u32 flags;
	__s32 fd;		/* out */
	__u64 offset;		/* multiples of the CPU's page; 0 and 0: all of the pin */
	__u64 length;
	__u32 domain;		/* with FOR_DEVICE; else 0 */
	__u32 bus;
	__u32 devfn;
	__u32 reserved;		/* 0 */
};

#define PEERDMA_IOC_MAGIC	0xb6
#define PEERDMA_IOC(nr)		_IOC(_IOC_READ | _IOC_WRITE, PEERDMA_IOC_MAGIC, nr, 0)

#define PEERDMA_INFO		PEERDMA_IOC(0x00)	/* peerdma_info */
#define PEERDMA_PIN		PEERDMA_IOC(0x01)	/* peerdma_pin_args */
#define PEERDMA_UNPIN		PEERDMA_IOC(0x02)	/* peerdma_handle_args */
#define PEERDMA_QUERY		PEERDMA_IOC(0x03)	/* peerdma_query_args */
#define PEERDMA_MAP		PEERDMA_IOC(0x04)	/* peerdma_map_args */
#define PEERDMA_UNMAP		PEERDMA_IOC(0x05)	/* peerdma_handle_args */
#define PEERDMA_EXPORT		PEERDMA_IOC(0x06)	/* peerdma_export_args */
#define PEERDMA_PIN_DMABUF_FD	PEERDMA_IOC(0x07)	/* peerdma_pin_dmabuf_args */
#define PEERDMA_PAGES		PEERDMA_IOC(0x08)	/* peerdma_pages_args */

/*
 * poll() returns POLLIN while an event waits; read() returns whole events, oldest
 * first.  One event per revoked pin; none is lost, because the pin contains it.  Memory
 * may be freed as soon as it is pinned: one thread may read the event before PIN has
 * returned the handle to another.
 */
#define PEERDMA_EVENT_REVOKED	1

struct peerdma_event {
	__u32 type;
	__u32 handle;
	__u32 slot;
	__u32 generation;	/* of the pin, no longer valid */
	__u64 addr;		/* as pinned */
	__u64 length;
};

/*
 * mmap offsets.
 *
 * PEERDMA_MMAP_GENERATIONS: an array of __u32, read-only, one slot per pin of this
 * open file; EINVAL past its end, SIGBUS where the file has no slot yet (never on the
 * first page).  A page of slots lives as long as the file.  Each page but the first, with
 * the kernel's data for it, counts as 12 pages of locked memory of the user who needed it.
 * A pin is valid as long as its slot holds its generation: one load, no system call.  The
 * slot changes before a revocation reaches any device or view, and when the pin is
 * unpinned.  A pin of host memory is never revoked, but its slot changes when the process
 * that pinned unmaps, moves or discards part of the range, before the address can mean
 * other memory: the pin keeps the old pages, and the new memory needs a new pin.
 *
 * PEERDMA_MMAP_PIN(handle): the CPU's view of the pinned range, from its first
 * page on: write-combined for a GPU's BAR, cached for host memory.  After
 * revocation or UNPIN an access raises SIGBUS.  MAP_SHARED only; EINVAL past the
 * end; EPERM for a writable view of a READONLY pin.  Children of fork() do not
 * inherit it, unless the program asks for that with MADV_DOFORK, which newer
 * kernels refuse.  Loads and stores are all that it is for: calls that look for
 * the pages behind an address fail with EFAULT or EEXIST, such as VFIO's and KVM's use as
 * guest memory, O_DIRECT, ibv_reg_mr(), io_uring's buffers, vmsplice() and ptrace().
 * read(), poll() and mmap() work for every process that holds the file.
 */
#define PEERDMA_MMAP_GENERATIONS	0ULL
#define PEERDMA_MMAP_GENERATIONS_SIZE	(PEERDMA_MAX_PINS * 4ULL)
#define PEERDMA_MMAP_PIN(handle)	((__u64)(handle) << 40)

#endif
