/* SPDX-License-Identifier: MIT */
/*
 * resident.h - locks pages of this process, and finds out which are locked. Used by locked.c.
 *
 * Ranges are whole pages. Each call makes system calls, so do not hold a contended lock across it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* 0, or -errno; after an error no page of the range is locked. */
int resident_lock(uint64_t from, uint64_t to);
/* Skips pages that are not mapped. */
void resident_unlock(uint64_t from, uint64_t to);

/* Whether the program may write to all of a mapped range: one system call since Linux 5.14. */
bool resident_writable(uint64_t from, uint64_t to);

/* Whether any page of the range is locked: one system call. */
bool resident_any(uint64_t from, uint64_t to);
/* The end of the first part of the range in which no page is locked. */
uint64_t resident_none_to(uint64_t from, uint64_t to);
/* Whether the whole range is mapped and locked: reads /proc/self/maps. */
bool resident_all(uint64_t from, uint64_t to);
/*
 * The end of the mapping that contains `from`, at most `to`: the kernel locks a mapping as a whole.
 * `to` without /proc.
 */
uint64_t resident_end(uint64_t from, uint64_t to);
