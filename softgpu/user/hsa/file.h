/* SPDX-License-Identifier: MIT */
/*
 * file.h - memfds that other processes of the same user find by a handle.
 *
 * A file is identified by a process that has it open, its descriptor there, and a name with a
 * random part. It is found through /proc. Its size is fixed. It is freed when the last process
 * closes it, so nothing is left behind if a process is killed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hsa/hsa.h"

/* Returns a close-on-exec descriptor of `size` zero bytes, or -errno. */
int hsa_file_make(const char *name, size_t size);
/*
 * Opens the file that process pid has open as fd, if it was made by hsa_file_make() with that name.
 * Returns a descriptor and the size, or -errno.
 */
int hsa_file_open(uint32_t pid, uint32_t fd, const char *name, size_t *size);
/* close() that is no cancellation point. */
void hsa_file_close(int fd);
/*
 * Converts an error of hsa_file_open(): OUT_OF_RESOURCES, or INVALID_ARGUMENT: there is no such
 * file.
 */
hsa_status_t hsa_file_status(int err);
/*
 * Maps the file for reading and writing. Forked children do not inherit the mapping. NULL: failed.
 */
void *hsa_file_map(int fd, size_t size);
/* Generates 128 random bits. 0 or -errno. */
int hsa_file_key(uint64_t key[2]);

#define HSA_FILE_NAME 80
/*
 * Makes the name "kind-key-pid". With the pid in the name, a thread id of the process is not
 * accepted.
 */
void hsa_file_name(char name[HSA_FILE_NAME], const char *kind, const uint64_t key[2], uint32_t pid);
