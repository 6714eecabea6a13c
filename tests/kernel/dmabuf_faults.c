// SPDX-License-Identifier: MIT
/*
 * dmabuf_faults.c - a dma-buf is moved, and a program looks at it, while a copy waits for a
 * page that does not come: neither waits for the copy.
 */
#include <linux/dma-buf.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "dmabuf_kinds.h"

struct looker {
	pthread_t thread;
	int dmabuf;
	volatile char *view;
};

/* To read it, the CPU has it moved to system memory. */
static void *reader(void *arg)
{
	struct dma_buf_sync a = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	struct looker *l = arg;

	EXPECT(ioctl(l->dmabuf, DMA_BUF_IOCTL_SYNC, &a) ? errno : 0, 0);
	return NULL;
}

static void *toucher(void *arg)
{
	struct looker *l = arg;

	*l->view = 1;
	return NULL;
}

static void begin(struct looker *l, void *(*function)(void *))
{
	NEED(!pthread_create(&l->thread, NULL, function, l));
}

/* A copy from it waits for its page until the descriptor is closed; no engine waits with it. */
static int copy_from_nowhere(uint64_t va)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	char *page = mmap(NULL, PAGE64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffd_msg message;

	NEED(page != MAP_FAILED && fd >= 0 && !ioctl(fd, UFFDIO_API, &api));
	reg.range.start = PTR(page);
	reg.range.len = PAGE64;
	NEED(!ioctl(fd, UFFDIO_REGISTER, &reg));
	NEED(!sg_copy(g.fd, g.ctx, va, PTR(page), PAGE64, 0));
	NEED(read(fd, &message, sizeof(message)) == sizeof(message));
	return fd;
}

void faults_while_moving(void)
{
	uint64_t va = alloc(visible), other = alloc(g.ctx);
	struct looker mover = { .dmabuf = export(va) }, look = { 0 };
	char *view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, mover.dmabuf, 0);
	int uffd;

	NEED(view != MAP_FAILED);
	look.view = view;
	uffd = copy_from_nowhere(other);
	/* Both end, though the copy cannot. */
	begin(&mover, reader);
	begin(&look, toucher);
	pthread_join(mover.thread, NULL);
	pthread_join(look.thread, NULL);
	EXPECT(mprotect(view + PAGE, PAGE, PROT_READ), 0);
	CHECK(*look.view == 1 && field(IN_SYSTEM), "not in system memory");
	close(uffd);
	/* A copy that has waited for too long has failed, and ended its context. */
	EXPECT(sg_ctx_sync(g.fd, g.ctx), 0);
	munmap(view, LENGTH);
	close(mover.dmabuf);
	free_visible(va);
	NEED(!sg_free(g.fd, other));
}
