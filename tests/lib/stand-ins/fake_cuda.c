// SPDX-License-Identifier: MIT
/*
 * fake_cuda.c - see fake_cuda.h.  Names, numbers and errors are those of the
 * CUDA driver API.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "pointer_attributes.h"

enum { CAPTURE_UNSUPPORTED = 900 };	/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */

static struct fake_cuda fake = { .state = 3 };

struct fake_cuda *fake_cuda(void)
{
	return &fake;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_cuda_put(unsigned int slot, const struct fake_memory *memory)
{
	pthread_mutex_lock(&lock);
	fake.memory[slot] = *memory;
	pthread_mutex_unlock(&lock);
}

static struct fake_memory *find(unsigned long long p)
{
	for (size_t i = 0; i < sizeof(fake.memory) / sizeof(fake.memory[0]); i++) {
		if (fake.memory[i].size && p - fake.memory[i].base < fake.memory[i].size)
			return &fake.memory[i];
	}
	return NULL;
}

/* For the calls that look at an allocation without a lock. */
static struct fake_memory *asked_of(unsigned long long p)
{
	struct fake_memory *m = find(p);

	fake.asked_leaving += m && m->base == fake.leaving;
	return m;
}

static int get(int attribute, const struct fake_memory *m, void *data)
{
	static const struct fake_memory none = { .device = -2 };

	if (!m)
		m = &none;
	if (!pointer_attribute(&(struct pointer_attributes) {
		.context = m->context, .type = m->type, .managed = m->managed, .id = m->id, .device = m->device, .base = m->base,
		.size = m->size,
	}, attribute, data))
		return 0;
	if (fake.old)
		return 1;
	switch (attribute) {
	case 15:
		*(unsigned int *)data = m->rdma_capable;
		return 0;
	case 17:
		*(void **)data = m->pool;
		return 0;
	case 18:
		*(size_t *)data = m->mapping_size ? m->mapping_size : m->size;
		return 0;
	case 19:
		*(unsigned long long *)data = m->mapping_size ? m->mapping_base : m->base;
		return 0;
	}
	return 1;
}

int cuPointerGetAttributes(unsigned int n, int *attributes, void **data, unsigned long long p)
{
	int ret = 0;

	__atomic_add_fetch(&fake.calls, 1, __ATOMIC_RELAXED);
	if (fake.state)
		return fake.state;
	if (fake.asked)
		fake.asked(fake.arg, 0);
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; !ret && i < n; i++)
		ret = get(attributes[i], asked_of(p), data[i]);
	pthread_mutex_unlock(&lock);
	if (fake.asked)
		fake.asked(fake.arg, 1);
	return ret;
}

/* NVIDIA's takes a lock, and stands another thread's unmapping what it is asked about. */
int cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long p)
{
	struct fake_memory *m = find(p);

	if (fake.state)
		return fake.state;
	if (!m)
		return 500;	/* CUDA_ERROR_NOT_FOUND */
	*base = m->base;
	*size = m->size;
	return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode);
int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int was = fake.capture_mode;

	fake.capture_mode = *mode;
	*mode = was;
	return 0;
}

static bool unsafe(void)
{
	return fake.capturing && fake.capture_mode != 2;	/* CU_STREAM_CAPTURE_MODE_RELAXED */
}

int cuPointerSetAttribute(const void *value, int attribute, unsigned long long p)
{
	struct fake_memory *m = asked_of(p);

	fake.calls++;
	if (fake.state || unsafe())
		return fake.state ? fake.state : CAPTURE_UNSUPPORTED;
	if (!m || attribute != 6)
		return 1;
	if (m->no_sync_memops)
		return 801;	/* CUDA_ERROR_NOT_SUPPORTED, as an H200's driver 580 answers */
	m->sync_memops = *(const int *)value;
	return 0;
}

int cuPointerGetAttribute(void *data, int attribute, unsigned long long p)
{
	fake.calls++;
	if (fake.state)
		return fake.state;
	return asked_of(p) ? get(attribute, find(p), data) : 1;
}

int cuMemcpy(unsigned long long to, unsigned long long from, size_t length)
{
	if (fake.state)
		return fake.state;
	if (fake.copy_error || unsafe())
		return fake.copy_error ? fake.copy_error : CAPTURE_UNSUPPORTED;
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, length);
	return 0;
}

/* The descriptor is of a file in memory, as long as the range. */
int cuMemGetHandleForAddressRange(void *handle, unsigned long long p, size_t size, int type, unsigned long long flags)
{
	struct fake_memory *m = find(p);
	int fd;

	if (fake.state)
		return fake.state;
	if (fake.export_error || unsafe())
		return fake.export_error ? fake.export_error : CAPTURE_UNSUPPORTED;
	if (!m || type != 1 || flags || (p | size) % 4096 || (fake.one_by_one && find(p + size - 1) != m) ||
	    (fake.from_start && p != m->base))
		return 1;
	fd = memfd_create("fake-dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)size) || (fake.no_views && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)))
		return 2;
	memcpy(handle, &fd, sizeof(fd));
	fake.exports++;
	if (fake.reallocate) {	/* freed, and allocated again, just now */
		m->id++;
		fake.reallocate = 0;
	}
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal + 100;	/* a CUdevice need not be its ordinal */
	return fake.device_error;
}

int cuDeviceGetPCIBusId(char *id, int length, int device)
{
	snprintf(id, length, "0000:%02X:00.0", device - 100 + 0xa0);
	return fake.pci_error;
}

int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device)
{
	*device = 107;
	return fake.context_error;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	fake.device_asked = device;
	*value = attribute == 117 ? fake.options : attribute == 118 ? fake.ordering : 0;
	return attribute == 117 ? fake.options_error : attribute == 118 ? fake.ordering_error : 1;
}

int cuFlushGPUDirectRDMAWrites(int target, int scope);
int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	fake.flushes++;
	fake.flush_target = target;
	fake.flush_scope = scope;
	return fake.flush_error;
}
