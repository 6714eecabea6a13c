// SPDX-License-Identifier: MIT
/*
 * removal_chaos - the GPU goes away under pins, mappings, views, dma-bufs, copies
 * and a card's DMA: each pin ends once, persistent ones stay to be unpinned, and
 * nothing hangs.
 *
 *   removal_chaos PCI-ADDRESS-OF-A-DMA-CARD COMMAND
 *
 * The command takes the GPU away; it may return before that is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "fpga_ioctl.h"
#include "peerdma.h"

#define SIZE	(256UL << 10)
#define PLAIN	4
#define SECONDS	40	/* at most, for the GPU to go */

static struct peerdma *ctx;
static int failures;
static CUcontext context;
static sigjmp_buf after_sigbus;

static void expect(const char *what, int got, int want)
{
	printf("%s %s: %d\n", got == want ? "ok:" : "NOT OK:", what, got);
	failures += got != want;
}

static void cuda(CUresult result, const char *call)
{
	if (result) {
		fprintf(stderr, "%s: %d\n", call, result);
		exit(1);
	}
}
#define OK(call) cuda(call, #call)

static void peer(int err, const char *call)
{
	if (err) {
		fprintf(stderr, "%s: %s\n", call, peerdma_last_error());
		exit(1);
	}
}
#define PEER(call) peer(call, #call)

static void on_sigbus(int signal)
{
	siglongjmp(after_sigbus, signal);
}

static int raises_sigbus(volatile char *p)
{
	if (sigsetjmp(after_sigbus, 1))
		return 1;
	*p = 1;
	return 0;
}

static CUdeviceptr gpu_memory(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc(&p, SIZE));
	return p;
}

static struct peerdma_region *pin(CUdeviceptr p, unsigned int flags, intptr_t cookie)
{
	struct peerdma_region *r;

	PEER(peerdma_pin(ctx, (void *)(uintptr_t)p, SIZE, flags | PEERDMA_DEVICE, (void *)cookie, &r));
	return r;
}

/* Both go on until the GPU does not let them any more. */
static void *copies(void *arg)
{
	CUdeviceptr *ends = arg;
	CUresult result = cuCtxSetCurrent(context);

	while (!result) {
		result = cuMemcpyDtoD(ends[0], ends[1], SIZE);
		if (!result)
			result = cuCtxSynchronize();
	}
	printf("the copies ended with %d\n", result);
	return NULL;
}

static void *transfers(void *arg)
{
	CUdeviceptr *ends = arg;
	struct fpga_copy copy;
	int fd = open("/dev/fpga0", O_RDWR | O_CLOEXEC), err;

	do {
		memset(&copy, 0, sizeof(copy));
		copy.size = sizeof(copy);
		copy.dst = ends[0];
		copy.src = ends[1];
		copy.length = SIZE;
		err = ioctl(fd, FPGA_COPY, &copy) ? errno : 0;
	} while (!err || err == EINTR);
	printf("the card's DMA ended with %s\n", strerror(err));
	close(fd);
	return NULL;
}

/* Each plain pin is told of once, and only they. */
static void notices(void)
{
	struct peerdma_notice n = { .size = sizeof(n) };
	int told[PLAIN + 1] = { 0 }, i;

	while (!peerdma_next_event(ctx, &n, 500)) {
		i = (int)(intptr_t)n.cookie;
		told[i < 0 || i > PLAIN ? PLAIN : i]++;
	}
	for (i = 0; i < PLAIN; i++)
		expect("a pin's revocation is told", told[i], 1);
	expect("another pin's", told[PLAIN], 0);
}

static void gone(const char *command)
{
	int code = system(command);

	expect("the command that takes the GPU away", code, 0);
	for (int i = 0; i < SECONDS * 10 && !access("/dev/softgpu0", F_OK); i++)
		usleep(100000);
	expect("/dev/softgpu0 is there", !access("/dev/softgpu0", F_OK), 0);
}

int main(int argc, char **argv)
{
	struct peerdma_region *plain[PLAIN], *persistent;
	struct peerdma_mapping *m, *kept;
	CUdeviceptr ends[2], more;
	pthread_t threads[2];
	void *view;
	int dmabuf, i;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGBUS, on_sigbus);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	PEER(peerdma_open(&ctx, 0));
	for (i = 0; i < PLAIN; i++)
		plain[i] = pin(gpu_memory(), 0, i);
	persistent = pin(gpu_memory(), PEERDMA_PERSISTENT, PLAIN);
	PEER(peerdma_map(plain[1], argv[1], PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE, &m));
	PEER(peerdma_map(persistent, argv[1], PEERDMA_TO_DEVICE, &kept));
	PEER(peerdma_cpu_view(plain[2], &view));
	PEER(peerdma_export_dmabuf(plain[3], 0, 0, &dmabuf));
	*(volatile char *)view = 1;
	ends[0] = gpu_memory();
	ends[1] = gpu_memory();
	pthread_create(&threads[0], NULL, copies, ends);
	pthread_create(&threads[1], NULL, transfers, ends);
	usleep(300000);

	gone(argv[2]);

	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	notices();
	for (i = 0; i < PLAIN; i++)
		expect("a plain pin is valid", peerdma_valid(plain[i]), 0);
	expect("a view's touch raises SIGBUS", raises_sigbus(view), 1);
	expect("memory of the GPU that is gone", cuMemAlloc(&more, SIZE) == CUDA_SUCCESS, 0);
	close(dmabuf);
	for (i = 0; i < PLAIN; i++)
		expect("unpin", peerdma_unpin(plain[i]), 0);
	expect("unpin of the persistent one", peerdma_unpin(persistent), 0);
	peerdma_close(ctx);
	printf("removal_chaos: %d failed\n", failures);
	return failures != 0;
}
