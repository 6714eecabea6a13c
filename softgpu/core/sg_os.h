/* SPDX-License-Identifier: MIT */
/*
 * sg_os.h - everything that softgpu's core needs from its environment.  Implemented once
 * for the kernel (softgpu/kernel/sg_os_kernel.h) and once for user space
 * (softgpu/user/common/sg_os_user.h); a test may supply a third one with -DSG_OS_HEADER.  Core
 * files include this and one another, nothing else.
 *
 * Each version gives:
 *
 *   types     u8 u16 u32 u64 s32 s64 bool size_t, NULL, offsetof, memcpy/memset/memcmp,
 *             the errno constants EINVAL, ENOMEM, ... (positive)
 *   container_of(ptr, type, member), SG_WARN_ON(cond) (reports a broken invariant,
 *             gives cond's value; a test version aborts)
 *
 *   void *sg_zalloc(size_t)                  zeroed, NULL when out of memory or at a limit of the calling process;
 *                                            may sleep, but waits for no user; any size
 *   void sg_free(void *)                     NULL is fine
 *
 *   struct sg_mutex                          sg_mutex_init/destroy/lock/unlock(struct sg_mutex *)
 *   struct sg_cond                           sg_cond_init/destroy(c), sg_cond_wait(c, mutex),
 *                                            sg_cond_broadcast(c): broadcast is called with the mutex held
 *   int sg_cond_wait_killable(c, mutex)      the same, for a wait that may be long and is a process's own:
 *                                            -EINTR once the calling process is being killed, 0 otherwise
 *   struct sg_thread                         int sg_thread_start(t, void (*fn)(void *), arg, const char *name)
 *                                            void sg_thread_join(t): fn has returned
 *   u64 sg_thread_self(void)                 differs between threads alive at once; never 0
 *   u64 sg_random64(void)                    unguessable
 *   u64 sg_now_ns(void)                      monotonic
 *   void sg_sleep_ms(u32)
 *   sg_info(fmt, ...), sg_err(fmt, ...)      one line of log each, no newline in fmt
 */
#ifndef SG_OS_H
#define SG_OS_H

#if defined(SG_OS_HEADER)
#include SG_OS_HEADER
#elif defined(__KERNEL__)
#include "../kernel/sg_os_kernel.h"
#else
#include "../user/common/sg_os_user.h"
#endif

#endif
