/* SPDX-License-Identifier: MIT */
/*
 * softgpu_inprocess.h - pins of the software GPU that is inside this process
 * (SOFTGPU_INPROCESS=1): what nvidia_p2p_get_pages() is to a kernel module, for
 * programs.  Exported by softgpu's libcuda.so.1 and by no other: look the names up
 * with dlsym(), and do without where they are not.
 *
 * Nothing but this process reaches such a GPU's memory, so a pin gives no
 * addresses, but it has all else of one: it takes aperture (BAR1), keeps the
 * memory in place, is seen by the CPU, and ends when its memory is freed.
 */
#ifndef SOFTGPU_INPROCESS_H
#define SOFTGPU_INPROCESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct softgpu_pin;

/*
 * From here on cuInit() finds a GPU inside this process, as with SOFTGPU_INPROCESS=1 in the
 * environment, unless the environment says otherwise.  To be called before cuInit().
 */
void softgpu_inprocess_begin(void);

/* Outlives the memory's free; revoked() is never called */
#define SOFTGPU_PIN_PERSISTENT	(1U << 0)

/*
 * Pins [va, va + length), multiples of 64 KiB in one allocation's pages.
 *
 * revoked(arg) is called when the memory goes away, once, in the thread that frees
 * it, with no lock held; it may be before this call returns.  Memory that cuMemFreeAsync
 * freed goes in the process's first call after the stream has come to that which waits for
 * work, gives or takes memory, or copies, and in the thread that makes it.  From there on views
 * end; when it returns they reach the memory no more (a touch raises SIGBUS), and
 * only then is the memory used for something else.  In it no call of this header
 * may be made on this pin.
 *
 *   -EINVAL  not such memory, or not multiples, or it spans allocations
 *   -ENOSPC  the aperture is full
 *   -ENODEV  there is no GPU in this process: it was not asked for, or before cuInit()
 *   -ENOMEM
 */
int softgpu_inprocess_pin(uint64_t va, uint64_t length, unsigned int flags,
			  void (*revoked)(void *arg), void *arg, struct softgpu_pin **pin);

/* Ends a pin, and what views are left of it.  Waits for revoked() if it is running. */
void softgpu_inprocess_unpin(struct softgpu_pin *pin);

/*
 * The pinned memory for the CPU, in one piece; a forked child does not get it.
 *
 *   -ESTALE      the pin is revoked
 *   -EOPNOTSUPP  this system gives no memory that can be mapped twice
 *   -ENOMEM
 */
int softgpu_inprocess_view(struct softgpu_pin *pin, int writable, void **view);

/*
 * The same at an address of the caller's choice, a multiple of the page: what is mapped
 * there goes.  If it fails, something without access is there.  The end of the view or
 * of the pin unmaps it.
 */
int softgpu_inprocess_view_at(struct softgpu_pin *pin, int writable, void *view);

/* Ends a view. */
void softgpu_inprocess_view_end(struct softgpu_pin *pin, void *view);

/* ---- Faults, at the moment that a test chooses ---- */

/*
 * Revokes every pin over an address, whichever library made it (libpeerdma's too), as a driver may
 * that needs its aperture: revoked() is called in this thread, and has returned when this
 * does.  The memory stays, and may be pinned again.  Persistent pins stay.
 *
 * How many they were; -ENODEV as above.  Not from a revoked().
 */
int softgpu_inprocess_revoke(uint64_t va);

/*
 * Sets knobs, as SOFTGPU_CHAOS does at the start ("fail_pin=3,strict=1"); the others stay
 * as they are.
 *
 *   -EINVAL  no such knob, or no such value: said on standard error.  Nothing is changed.
 *   -ENODEV  as above
 */
int softgpu_inprocess_chaos(const char *knobs);

#ifdef __cplusplus
}
#endif
#endif
