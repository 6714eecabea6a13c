/* SPDX-License-Identifier: MIT */
/*
 * softgpu_inprocess.h - pins memory of the in-process GPU (SOFTGPU_INPROCESS=1).  Programs use
 * these functions as a kernel module uses nvidia_p2p_get_pages().  Only softgpu's libcuda.so.1
 * exports them.  Look the names up with dlsym(), and work without them if they do not exist.
 *
 * Only this process can reach the memory of an in-process GPU, so a pin has no device addresses.
 * In all else it is like other pins: it takes aperture (BAR1), keeps the memory in place, can be
 * mapped for the CPU, and ends when its memory is freed.
 */
#ifndef SOFTGPU_INPROCESS_H
#define SOFTGPU_INPROCESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct softgpu_pin;

/*
 * From now on cuInit() finds an in-process GPU, as with SOFTGPU_INPROCESS=1 in the environment,
 * unless the environment says otherwise.  Call this before cuInit().
 */
void softgpu_inprocess_begin(void);

/* The pin does not end when the memory is freed; revoked() is never called */
#define SOFTGPU_PIN_PERSISTENT	(1U << 0)

/*
 * Pins [va, va + length).  Both are multiples of 64 KiB, and the range is within the pages of one
 * allocation.
 *
 * revoked(arg) is called once when the memory is freed, in the thread that frees it, with no lock
 * held.  It may be called before this function returns.  cuMemFreeAsync only queues a free: when
 * the stream has reached it, the process's next call that waits for work, allocates or frees
 * memory, or copies carries it out, in its own thread.
 *
 * When revoked() returns, the pin's views no longer reach the memory (an access raises SIGBUS).
 * The memory is reused only after that.  revoked() must not call functions of this header on this
 * pin.
 *
 *   -EINVAL  the range is not memory of this GPU, not aligned, or not in one allocation
 *   -EACCES  cuMemCreate() made the memory without gpuDirectRDMACapable
 *   -ENOSPC  the aperture is full
 *   -ENODEV  this process has no in-process GPU: it was not requested, or cuInit() was not called
 *   -ENOMEM
 */
int softgpu_inprocess_pin(uint64_t va, uint64_t length, unsigned int flags,
			  void (*revoked)(void *arg), void *arg, struct softgpu_pin **pin);

/* Ends a pin and its remaining views.  Waits for revoked() if it is running. */
void softgpu_inprocess_unpin(struct softgpu_pin *pin);

/*
 * Maps the pinned memory for the CPU, in one piece.  Forked children do not inherit the mapping.
 *
 *   -ESTALE      the pin was revoked
 *   -EOPNOTSUPP  this system has no memory that can be mapped twice
 *   -ENOMEM
 */
int softgpu_inprocess_view(struct softgpu_pin *pin, int writable, void **view);

/*
 * Makes a view at an address of the caller's choice, a multiple of the page size.  Replaces an
 * earlier mapping there.  If this fails, a mapping without access is left there.  The end of the
 * view or of the pin unmaps it.
 */
int softgpu_inprocess_view_at(struct softgpu_pin *pin, int writable, void *view);

/* Ends a view. */
void softgpu_inprocess_view_end(struct softgpu_pin *pin, void *view);

/* ---- Faults, at the moment that a test chooses ---- */

/*
 * Revokes all pins that contain an address, of any library (libpeerdma too), as a driver does that
 * needs its aperture.  Calls revoked() in this thread, and returns after it.  The memory stays
 * allocated and may be pinned again.  Persistent pins are not revoked.  Must not be called from
 * revoked().
 *
 * Returns the number of revoked pins, or -ENODEV as above.
 */
int softgpu_inprocess_revoke(uint64_t va);

/*
 * Sets knobs, as SOFTGPU_CHAOS does at the start ("fail_pin=3,strict=1").  Other knobs do not
 * change.
 *
 *   -EINVAL  a knob or value does not exist.  The reason is printed on standard error.  No knob is
 *            changed.
 *   -ENODEV  as above
 */
int softgpu_inprocess_chaos(const char *knobs);

#ifdef __cplusplus
}
#endif
#endif
