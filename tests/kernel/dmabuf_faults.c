// SPDX-License-Identifier: MIT
/*
 * dmabuf_faults.c - a dma-buf is moved, and a program looks at it, while a copy waits for a
 * page that does not come: neither waits for the copy.
 */
#include <linux/dma-buf.h>
#include <linux/userfaultfd.h>

#include "dmabuf_kinds.h"

/* To read it, the CPU has it moved to system memory. */
static void reader(void *dmabuf)
{
	struct dma_buf_sync a = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };

	EXPECT(ioctl(*(int *)dmabuf, DMA_BUF_IOCTL_SYNC, &a) ? errno : 0, 0);
}

static void toucher(void *view)
{
	*(volatile char *)view = 1;
}

/* A copy from it waits for its page until the descriptor is closed; no engine waits with it. */
static int copy_from_nowhere(uint64_t va)
{
	struct uffd_msg message;
	int uffd;
	char *page = absent_memory(PAGE64, &uffd);

	MUST(!sg_copy(g.fd, g.ctx, va, PTR(page), PAGE64, 0));
	MUST(read(uffd, &message, sizeof(message)) == sizeof(message));
	return uffd;
}

void faults_while_moving(void)
{
	uint64_t va = alloc(visible), other = alloc(g.ctx);
	int dmabuf = export(va), uffd;
	volatile char *view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	struct task mover, look;

	MUST(view != MAP_FAILED);
	uffd = copy_from_nowhere(other);
	/* Both end, though the copy cannot. */
	task_begin(&mover, reader, &dmabuf);
	task_begin(&look, toucher, (void *)view);
	task_end(&mover);
	task_end(&look);
	EXPECT(mprotect((void *)(view + PAGE), PAGE, PROT_READ), 0);
	CHECK(*view == 1 && field(IN_SYSTEM), "not in system memory");
	close(uffd);
	/* A copy that has waited for too long has failed, and ended its context. */
	EXPECT(sg_ctx_sync(g.fd, g.ctx), 0);
	munmap((void *)view, LENGTH);
	close(dmabuf);
	EXPECT(sg_free_visible(g.fd, va), 0);
	MUST(!sg_free(g.fd, other));
}
