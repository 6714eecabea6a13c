/* SPDX-License-Identifier: MIT */
/* memory.h - the kinds of memory that the examples send and receive, and the data in them. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind { HOST, CUDA, MANAGED, AMD, KINDS };

extern const char *const kind_names[KINDS];

/* Whether argument n, a list of kinds, has this one; without such an argument, all. */
bool is_asked(int argc, char **argv, int n, enum kind kind);

/* False, with a line on stderr: there is no such GPU. */
bool memory_start(int rank);

/* Whole words of 8 bytes.  The program ends if there is no memory. */
void *memory_new(enum kind kind, size_t size);
void memory_end(enum kind kind, void *p);

void memory_put(enum kind kind, void *to, const void *from, size_t size);
void memory_get(enum kind kind, void *to, const void *from, size_t size);

/* Words that each depend on their place and on the seed. */
void pattern(uint64_t *words, size_t size, uint64_t seed);
/* Fills p with the pattern. */
void memory_fill(enum kind kind, void *p, size_t size, uint64_t seed);
/* The offset of the first byte that is not the pattern's, or -1. */
long memory_differs(enum kind kind, const void *p, size_t size, uint64_t seed);

#endif
