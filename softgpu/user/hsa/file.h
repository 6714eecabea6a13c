/* SPDX-License-Identifier: MIT */
/*
 * file.h - files in memory that other processes of the same user find by a handle.
 *
 * A file is named by the process that has it open, its descriptor there and a name with a
 * random part, and is found through /proc.  It cannot change its size, and goes with its
 * last user: nothing is left behind, whichever process is killed.
 */
#ifndef SGU_HSA_FILE_H
#define SGU_HSA_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "hsa/hsa.h"

/* A descriptor, close-on-exec, of size bytes of zero; or -errno. */
int hsa_file_make(const char *name, size_t size);
/* The descriptor of what process pid has open as fd, if it is such a file of that name, and its size; or -errno. */
int hsa_file_open(uint32_t pid, uint32_t fd, const char *name, size_t *size);
/* What such an error is in HSA's terms: no means to open it, or INVALID_ARGUMENT: it is not there. */
hsa_status_t hsa_file_status(int err);
/* Mapped for reading and writing, not for forked children: NULL: no. */
void *hsa_file_map(int fd, size_t size);
/* 128 bits that cannot be guessed: 0 or -errno. */
int hsa_file_key(uint64_t key[2]);

#define HSA_FILE_NAME 80
/* "kind-key-pid": so no thread of the process can be named in its place. */
void hsa_file_name(char name[HSA_FILE_NAME], const char *kind, const uint64_t key[2], uint32_t pid);

#endif
