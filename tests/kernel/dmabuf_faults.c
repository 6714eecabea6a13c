// SPDX-License-Identifier: MIT
/*
 * dmabuf_faults.c - a program looks at a dma-buf while that is moved, and the move waits
 * for a copy whose page does not come: the rest of the program goes on meanwhile.
 */
#include <linux/dma-buf.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "dmabuf_kinds.h"

struct looker {
	pthread_t thread;
	volatile pid_t tid;
	int dmabuf;
	volatile char *view;
};

/* To read it, the CPU has it moved to system memory. */
static void *reader(void *arg)
{
	struct dma_buf_sync a = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	struct looker *l = arg;

	l->tid = (pid_t)syscall(SYS_gettid);
	EXPECT(ioctl(l->dmabuf, DMA_BUF_IOCTL_SYNC, &a) ? errno : 0, 0);
	return NULL;
}

static void *toucher(void *arg)
{
	struct looker *l = arg;

	l->tid = (pid_t)syscall(SYS_gettid);
	*l->view = 1;
	return NULL;
}

/* In the kernel, for something that no signal ends. */
static bool waits(const struct looker *l)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", l->tid);
	f = l->tid ? fopen(path, "r") : NULL;
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'D' || state == 'I';
}

static void begin(struct looker *l, void *(*function)(void *))
{
	NEED(!pthread_create(&l->thread, NULL, function, l));
}

/* A copy from it has an engine wait in the page fault until the descriptor is closed. */
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
	int uffd, i;

	NEED(view != MAP_FAILED);
	look.view = view;
	uffd = copy_from_nowhere(other);
	begin(&mover, reader);
	while (!waits(&mover))
		usleep(1000);
	begin(&look, toucher);
	/* It need not wait; if it does, it must not have what others need. */
	for (i = 0; i < 200 && !waits(&look); i++)
		usleep(1000);
	EXPECT(mprotect(view + PAGE, PAGE, PROT_READ), 0);
	close(uffd);
	/* A copy that has waited for too long has failed, and ended its context. */
	EXPECT(sg_ctx_sync(g.fd, g.ctx), 0);
	pthread_join(mover.thread, NULL);
	pthread_join(look.thread, NULL);
	CHECK(*look.view == 1 && field(IN_SYSTEM), "not in system memory");
	munmap(view, LENGTH);
	close(mover.dmabuf);
	free_visible(va);
	NEED(!sg_free(g.fd, other));
}
