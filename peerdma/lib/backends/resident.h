/* SPDX-License-Identifier: MIT */
/*
 * resident.h - the kernel's side of locked.c: which pages of this process are locked,
 * and locking them.
 *
 * Ranges are whole pages.  Every call is some system calls: make none while holding a
 * lock that another thread wants soon.
 */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <stdbool.h>
#include <stdint.h>

/* 0, or -errno; then no page of the range is locked. */
int resident_lock(uint64_t from, uint64_t to);
/* Passes over what is not mapped. */
void resident_unlock(uint64_t from, uint64_t to);

/* Whether the program may write all of a range that is mapped: one system call since Linux 5.14. */
bool resident_writable(uint64_t from, uint64_t to);

/* Whether any page of the range is locked: one system call. */
bool resident_any(uint64_t from, uint64_t to);
/* Up to where no page is locked. */
uint64_t resident_none_to(uint64_t from, uint64_t to);
/* Whether the whole range is mapped and locked: reads /proc/self/maps. */
bool resident_all(uint64_t from, uint64_t to);
/* Where the mapping ends that `from` is in, at most `to`: the kernel locks pages of a mapping all or none.  `to` without /proc. */
uint64_t resident_end(uint64_t from, uint64_t to);

#endif
