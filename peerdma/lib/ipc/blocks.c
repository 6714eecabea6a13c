// SPDX-License-Identifier: MIT
/*
 * blocks.c - host memory that is made to be shared: peerdma_ipc_alloc() and peerdma_ipc_free().
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../base/memory.h"
#include "ipc.h"

struct ipc_block {
	struct ipc_block *next;
	void *addr;
	size_t length;		/* whole pages */
	struct own_fd file;
};

static int alloc(size_t length, void **ptr)
{
	struct ipc *ipc = ipc_get();
	struct ipc_block *b = ipc ? calloc(1, sizeof(*b)) : NULL;
	int fd, ret;

	if (!b)
		return fail(-ENOMEM, "%s", error_words(-ENOMEM));
	b->length = memory_rounded(length);
	ret = b->length < length || b->length > INT64_MAX ? fail(-ENOMEM, "%zu bytes are more than the address space", length) :
	      ipc_file_make("peerdma-ipc-memory", b->length, false, &fd, &b->addr);
	if (ret) {
		free(b);
		return ret;
	}
	/* All of it now: later a page that cannot be had would be a SIGBUS. */
	do
		ret = fallocate(fd, 0, 0, (off_t)b->length) ? -errno : 0;
	while (ret == -EINTR);
	if (ret && ret != -EOPNOTSUPP) {
		munmap(b->addr, b->length);
		close(fd);
		free(b);
		return fail(-ENOMEM, "cannot allocate %zu bytes of shared memory: %s", length, strerror(-ret));
	}
	b->file = own_fd(fd);
	*ptr = b->addr;
	pthread_mutex_lock(&ipc->lock);
	b->next = ipc->blocks;
	LIST_STORE(&ipc->blocks, b);
	pthread_mutex_unlock(&ipc->lock);
	return 0;
}

EXPORT int peerdma_ipc_alloc(size_t length, unsigned int flags, void **ptr)
{
	int was, ret = check_given("peerdma_ipc_alloc", "ptr", ptr, NULL);

	if (ret)
		return ret;
	if (flags || !length)
		return fail(-EINVAL, "peerdma_ipc_alloc: %zu bytes, flags %#x: give a length, and 0 for flags", length, flags);
	was = cancel_off();
	ret = alloc(length, ptr);
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_alloc: %s", peerdma_last_error()) : 0;
}

/* lock */
static void end_overlapping(struct ipc *ipc, uint64_t base, uint64_t length)
{
	struct ranges_place place = { 0 };
	uint32_t slot;

	while ((slot = ranges_next(&ipc->ranges[false], base, base + length - 1, &place)) != RANGES_NONE) {
		if (ipc_record_end(ipc, slot, ipc_generation(ipc, slot))) {
			ipc_count(ipc, ended);
			ipc_reap_one(ipc, slot);
		}
	}
}

/* Whether it is the memory of a process that forked this one, of which this one has a copy of the list. */
static bool parents(const struct ipc *ipc, const void *ptr)
{
	for (; ipc; ipc = ipc->parent) {
		for (const struct ipc_block *b = ipc->blocks; b; b = b->next) {
			if (b->addr == ptr)
				return true;
		}
	}
	return false;
}

EXPORT int peerdma_ipc_free(void *ptr)
{
	struct ipc *ipc;
	struct ipc_block **at, *b = NULL;
	int was;

	if (!ptr)
		return 0;
	was = cancel_off();
	ipc = ipc_get();
	if (ipc) {
		pthread_mutex_lock(&ipc->lock);
		for (at = &ipc->blocks; *at && (*at)->addr != ptr; at = &(*at)->next)
			;
		b = *at;
		if (b) {
			LIST_STORE(at, b->next);
			end_overlapping(ipc, (uintptr_t)b->addr, b->length);
		}
		pthread_mutex_unlock(&ipc->lock);
	}
	if (b) {
		munmap(b->addr, b->length);
		own_fd_close(&b->file);
		free(b);
	}
	cancel_back(was);
	if (b || (ipc && parents(ipc->parent, ptr)))
		return 0;
	return fail(-EINVAL, "peerdma_ipc_free: %p is not what peerdma_ipc_alloc() returned, or was freed", ptr);
}

bool ipc_block_at(const struct ipc *ipc, uint64_t addr, uint64_t *base, uint64_t *length)
{
	for (const struct ipc_block *b = ipc->blocks; b; b = b->next) {
		if (addr - (uintptr_t)b->addr < b->length) {
			*base = (uintptr_t)b->addr;
			*length = b->length;
			return true;
		}
	}
	return false;
}

const struct own_fd *ipc_block_file(const struct ipc *ipc, uint64_t base)
{
	for (const struct ipc_block *b = ipc->blocks; b; b = b->next) {
		if ((uintptr_t)b->addr == base)
			return &b->file;
	}
	return NULL;
}
