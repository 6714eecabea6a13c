/* SPDX-License-Identifier: MIT */
/*
 * peerdma_test.h - what the tests of /dev/peerdma share.  They run in a virtual
 * machine as root, with peerdma.ko loaded.
 */
#pragma once

#include "uapi/peerdma_ioctl.h"
#include "vmtest.h"

#define BOTH	(PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE)

int dev_open(void);
int pin(int fd, void *addr, size_t length, uint32_t flags, struct peerdma_pin_args *args);
int pin_va(int fd, uint64_t addr, size_t length, uint32_t flags, struct peerdma_pin_args *args);
int unpin(int fd, uint32_t handle);
/* The same in a thread of its own; unpin_end() waits for that, and has its errno, or 0. */
struct unpinner {
	int fd;
	uint32_t handle;
	int error;
	struct task task;
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

/* How many pins of this process have this handle in debugfs: one for each open file of it at most. */
unsigned int debugfs_pins(uint32_t handle);
/* A field of the first of them, by its name in the table's first line; false: there is none. */
bool debugfs_field(uint32_t handle, const char *column, char *value, size_t size);
bool debugfs_is(uint32_t handle, const char *column, const char *value);
long long debugfs_stat(const char *name);
/* No pin is left, and no mapping. */
void check_none_left(void);

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
