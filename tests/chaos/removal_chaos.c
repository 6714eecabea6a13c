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
#include "cuda.h"
#include "fpga_ioctl.h"
#include "peerdma.h"
#include "vmtest.h"

#define SIZE	(256UL << 10)
#define PLAIN	4

static struct peerdma *ctx;
static CUcontext context;

static void say_error(void)
{
	printf("  libpeerdma: %s\n", peerdma_last_error());
}

#define OK(call)	MUST(!(call))

static CUdeviceptr gpu_memory(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc(&p, SIZE));
	return p;
}

static struct peerdma_region *pin(CUdeviceptr p, unsigned int flags, intptr_t cookie)
{
	struct peerdma_region *r;

	OK(peerdma_pin(ctx, (void *)(uintptr_t)p, SIZE, flags | PEERDMA_DEVICE, (void *)cookie, &r));
	return r;
}

/* Both go on until the GPU does not let them any more. */
static void copies(void *arg)
{
	CUdeviceptr *ends = arg;
	CUresult result = cuCtxSetCurrent(context);

	while (!result) {
		result = cuMemcpyDtoD(ends[0], ends[1], SIZE);
		if (!result)
			result = cuCtxSynchronize();
	}
	printf("the copies ended with %d\n", result);
}

static void transfers(void *arg)
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
		EXPECT(told[i], 1);
	CHECK(!told[PLAIN], "the persistent pin has a notice");
}

static void gone(const char *command)
{
	EXPECT(system(command), 0);
	CHECK(UNTIL(access("/dev/softgpu0", F_OK)), "the GPU is still there");
}

int main(int argc, char **argv)
{
	struct peerdma_region *plain[PLAIN], *persistent;
	struct peerdma_mapping *m, *kept;
	CUdeviceptr ends[2], more;
	struct task tasks[2];
	void *view;
	int dmabuf, i;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	check_says = say_error;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(peerdma_open(&ctx, 0));
	for (i = 0; i < PLAIN; i++)
		plain[i] = pin(gpu_memory(), 0, i);
	persistent = pin(gpu_memory(), PEERDMA_PERSISTENT, PLAIN);
	OK(peerdma_map(plain[1], argv[1], PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE, &m));
	OK(peerdma_map(persistent, argv[1], PEERDMA_TO_DEVICE, &kept));
	OK(peerdma_cpu_view(plain[2], &view));
	OK(peerdma_export_dmabuf(plain[3], 0, 0, &dmabuf));
	*(volatile char *)view = 1;
	ends[0] = gpu_memory();
	ends[1] = gpu_memory();
	task_begin(&tasks[0], copies, ends);
	task_begin(&tasks[1], transfers, ends);
	usleep(300000);

	gone(argv[2]);

	task_end(&tasks[0]);
	task_end(&tasks[1]);
	notices();
	for (i = 0; i < PLAIN; i++)
		CHECK(!peerdma_valid(plain[i]), "a plain pin is valid");
	EXPECT(signal_of_write(view, 1), SIGBUS);
	CHECK(cuMemAlloc(&more, SIZE) != CUDA_SUCCESS, "memory of the GPU that is gone");
	close(dmabuf);
	for (i = 0; i < PLAIN; i++)
		EXPECT(peerdma_unpin(plain[i]), 0);
	EXPECT(peerdma_unpin(persistent), 0);
	peerdma_close(ctx);
	return check_end("removal_chaos");
}
