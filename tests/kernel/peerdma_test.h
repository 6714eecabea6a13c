/* SPDX-License-Identifier: MIT */
/*
 * peerdma_test.h - what the tests of /dev/peerdma share.  They run in a virtual
 * machine as root, with peerdma.ko loaded.
 */
#ifndef PEERDMA_TEST_H
#define PEERDMA_TEST_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uapi/peerdma_ioctl.h"

extern int failures;

/* Says what does not hold, and goes on: one run shows all. */
#define CHECK(cond)								\
	do {									\
		if (!(cond)) {							\
			printf("  %s:%d: does not hold: %s (errno %d, %s)\n", __FILE__,	\
			       __LINE__, #cond, errno, strerror(errno));	\
			failures++;						\
		}								\
	} while (0)

/* The expression's errno (0: none) is this. */
#define FAILS(expected, call)							\
	do {									\
		int got_;							\
		errno = 0;							\
		got_ = (call) < 0 ? errno : 0;					\
		if (got_ != (expected)) {					\
			printf("  %s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #call,	\
			       strerrorname_np(got_), strerrorname_np(expected));	\
			failures++;						\
		}								\
	} while (0)
#define WORKS(call) FAILS(0, call)

/* The system's: arm64 has kernels whose pages are of 16 or 64 KiB. */
#define PAGE ((unsigned long)getpagesize())
#define PAGE_SHIFT ((unsigned int)__builtin_ctzl(PAGE))
#define GPU_PAGE 65536UL

void run(const char *name, void (*test)(void));
void skip(const char *name, const char *why);

int dev_open(void);
int pin(int fd, void *addr, size_t length, uint32_t flags, struct peerdma_pin_args *args);
int pin_va(int fd, uint64_t addr, size_t length, uint32_t flags, struct peerdma_pin_args *args);
int unpin(int fd, uint32_t handle);
/* The same in a thread of its own; unpin_end() waits for that, and has its errno, or 0. */
struct unpinner {
	int fd;
	uint32_t handle;
	int error;
	pthread_t thread;
};
void unpin_begin(struct unpinner *u, int fd, uint32_t handle);
int unpin_end(struct unpinner *u);
int query(int fd, uint32_t handle, struct peerdma_query_args *args);
int unmap(int fd, uint32_t mapping);
int export(int fd, uint32_t handle, uint64_t offset, uint64_t length);
void *view(int fd, uint32_t handle, size_t length, int prot);
const volatile uint32_t *generations(int fd);
uint64_t live_pins(int fd);
/* So many mappings of one page, or as many as this kernel does not warn of: its DMA-API debugging counts to 7. */
unsigned int times_mapped(unsigned int wanted);

/* Memory of its own pages, touched. */
void *host_memory(size_t length);

/* Runs a function in a child; its exit code. */
int in_child(int (*function)(void *arg), void *arg);

/* Does a read of the byte raise this signal (0: none)? */
int signal_of_read(const volatile void *addr);
int signal_of_write(volatile void *addr, char value);

/* How many pins of this process have this handle in debugfs: one for each open file of it at most. */
unsigned int debugfs_pins(uint32_t handle);
/* A field of the first of them, by its name in the table's first line; false: there is none. */
bool debugfs_field(uint32_t handle, const char *column, char *value, size_t size);
long long debugfs_stat(const char *name);
/* Sets a module's parameter; false: it has no such, or not with that value. */
bool module_set(const char *module, const char *parameter, const char *value);
/* Sets a chaos knob of softgpu. */
bool softgpu_chaos(const char *knob, const char *value);
/* The number in a file, e.g. a module's reference count; -1: none. */
long file_number(const char *path);

/* A DMA card that can be mapped for: its PCI address; false: there is none. */
bool find_card(struct peerdma_map_args *map);
/* All of them, as many as there is room for: how many. */
unsigned int find_cards(struct peerdma_map_args *cards, unsigned int room);

void test_calls(void);
void test_host(void);
void test_devices(void);
void test_removal(void);
void test_coherent(void);
/* False: the provider that PEERDMA_TEST_PROVIDER names is not there. */
bool test_gpu(void);
/* What concerns a provider's memory, or what concerns none. */
void test_importer(bool gpu);
void test_late(bool gpu);
void test_ends(bool gpu);
void test_limits(bool gpu);
void test_handles(bool gpu);

#endif
