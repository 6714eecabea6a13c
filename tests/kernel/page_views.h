/* SPDX-License-Identifier: MIT */
/*
 * page_views.h - page views (PEERDMA_PAGES): Linux's own NVMe driver reads into GPU memory and
 * writes from it, and the memory is taken back.
 */
#pragma once

#include "peerdma_test_gpu.h"

#define SEEN_LENGTH	MIB

extern int disk;	/* open with O_DIRECT */
extern bool p2pdma;	/* the pages are p2pdma's: the kernel lets fewer users have them */

/* Memory of the GPU, pinned, and a page view of all of it. */
struct seen {
	size_t length;
	int file, fd;
	uint32_t handle;
	uint64_t va;
	char *view;
};

/* A page view's descriptor; -1 and errno. */
int pages(int fd, uint32_t handle, uint32_t flags, uint64_t offset, uint64_t length);
/* The same with PEERDMA_PAGES_FOR_DEVICE: the disk's controller. */
int pages_for_disk(int fd, uint32_t handle);
void seen_make(struct seen *s, uint32_t flags);
void seen_make_length(struct seen *s, uint32_t flags, size_t length);
void seen_free(struct seen *s);
void seen_end(struct seen *s);

/* Pins that keep memory, in all of the system: "page view", and of those how many are a "parked page view". */
unsigned int kept(const char *client);
/* A view that was closed gives its memory back a little later. */
void none_left(void);

/* What is written by one side is read by the other: pattern() fills `bytes'. */
extern char bytes[SEEN_LENGTH];
void pattern(unsigned int seed);
void gpu_write(uint64_t va);
bool gpu_has(uint64_t va);

/* Reads from the disk: how many bytes, or -errno. */
ssize_t read_part(const struct seen *s, size_t offset, size_t length);
ssize_t read_into(const struct seen *s);
/* A pipe is to hold the page at the address: what vmsplice() returns; or must hold it. */
ssize_t pipe_offer(int ends[2], char *page);
void pipe_take(int ends[2], char *page);

/* A socket whose receiver does not read: false and errno: it does not take the page (MSG_ZEROCOPY). */
bool socket_take(int ends[2], const char *page);
/* Reads it all: is the page full of this byte? */
bool socket_has(int ends[2], char byte);
/* 0, or the errno with which io_uring refuses to register the buffer. */
int register_buffer(void *addr, size_t length, int *ring);

/* page_views_users.c: who keeps pages, and for how long */
void test_users(void);
void test_unload(void);
/* page_views_rounds.c: memory is freed under reads, while others use it, too */
void test_rounds(unsigned int rounds);
/* page_views_p2pdma.c: what is different with pages of p2pdma; where the kernel refuses transfers; where it should */
void test_p2pdma(void);
void test_refused(void);
void test_lost(void);
