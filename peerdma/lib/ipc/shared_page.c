// SPDX-License-Identifier: MIT
/*
 * shared_page.c - makes what this process needs before it exports: the pages that importers read,
 * the records, and the threads that serve importers.
 */
#include <string.h>
#include <sys/mman.h>

#include "../base/memory.h"
#include "ipc.h"

static void undo(struct ipc *ipc, struct ipc_page *page)
{
	if (page)
		munmap(page, sizeof(*page));
	memory_put(ipc->records, IPC_SLOTS * sizeof(*ipc->records));
	own_fd_close(&ipc->page_file);
	ipc_close_socket(&ipc->listener);
	ipc->records = NULL;
	__atomic_store_n(&ipc->page, NULL, __ATOMIC_RELEASE);
}

/* For host memory, and for device memory. Once made they stay, also if the rest fails: a thread that frees may be looking. */
static bool ranges_make(struct ipc *ipc)
{
	size_t each = ranges_size(IPC_SLOTS);
	char *memory = ipc->ranges[0].nodes ? NULL : memory_get(2 * each, false);

	for (int i = 0; memory && i < 2; i++)
		ranges_init(&ipc->ranges[i], memory + i * each, IPC_SLOTS);
	return ipc->ranges[0].nodes;
}

static int open_now(struct ipc *ipc)
{
	struct ipc_page *page = NULL;
	void *p;
	int fd, ret;

	ipc->uid = geteuid();
	ret = ipc_random(&ipc->self, sizeof(ipc->self));
	if (ret)
		return ret;
	ipc->records = memory_get(IPC_SLOTS * sizeof(*ipc->records), false);
	if (!ipc->records || !ranges_make(ipc)) {
		ret = fail(-ENOMEM, "%s", error_words(-ENOMEM));
		goto fail;
	}
	ret = ipc_file_make("peerdma-ipc", sizeof(*page), true, &fd, &p);
	if (ret)
		goto fail;
	ipc->page_file = own_fd(fd);
	page = p;
	memcpy(page->magic, IPC_PAGE_MAGIC, sizeof(page->magic));
	page->slots = IPC_SLOTS;
	__atomic_store_n(&ipc->page, page, __ATOMIC_RELEASE);
	ret = ipc_server_start(ipc);
	if (!ret)
		return 0;
fail:
	undo(ipc, page);
	return ret;
}

int ipc_page_open(struct ipc *ipc)
{
	int ret;

	/* The thread that opens it gives up the lock meanwhile, and may fail yet. */
	while (ipc->page_opening)
		cancel_safe_wait(&ipc->settled, &ipc->lock);
	if (ipc->page && own_fd_still(&ipc->listener) && own_fd_still(&ipc->page_file))
		return 0;
	if (ipc->page)
		return fail(-EBADF, "the program has closed the descriptors by which importers reach it, as a daemon does; make the first "
			    "export or signal after that");
	ipc->page_opening = true;
	ret = open_now(ipc);
	ipc->page_opening = false;
	pthread_cond_broadcast(&ipc->settled);
	return ret;
}
