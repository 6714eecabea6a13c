// SPDX-License-Identifier: MIT
/*
 * capture.c - a video capture card writes frames into GPU memory by DMA, and the GPU works on one frame while the card
 * writes the next ones. For any V4L2 driver that imports dma-bufs, and any CUDA GPU that exports them.
 *
 *	cc -o capture capture.c -lcuda
 *	./capture /dev/video0
 *	./capture /dev/video0 wrong
 *
 * The card does not wait for the GPU. So two things must be in order:
 *
 * - What the GPU does with a buffer must be over before the card gets it (VIDIOC_QBUF). SYNC_MEMOPS sees to that for
 *   calls such as cuMemsetD8(), which otherwise may return first. Without it ("wrong") the memset may overwrite the frame.
 * - The GPU may begin only when the frame is there (VIDIOC_DQBUF). Work that is launched after that sees all of it; for
 *   a kernel that runs already, call cuFlushGPUDirectRDMAWrites().
 */
#include <cuda.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define BUFFERS	4
#define FRAMES	20

#define CUDA(call) check((call) != CUDA_SUCCESS, #call)
#define V4L2(call) check((call) < 0, #call)

static CUdeviceptr memory[BUFFERS];
static int dmabufs[BUFFERS];

static void check(int failed, const char *call)
{
	if (failed) {
		perror(call);
		exit(1);
	}
}

/* Black, so that a frame that does not come is not taken for the last one; then it is the card's. */
static void give(int card, unsigned int i, size_t length)
{
	struct v4l2_buffer b = { .index = i, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_DMABUF };

	b.m.fd = dmabufs[i];
	CUDA(cuMemsetD8(memory[i], 0, length));
	V4L2(ioctl(card, VIDIOC_QBUF, &b));
}

static void set_up(int card, size_t *length, int right)
{
	struct v4l2_requestbuffers r = {
		.count = BUFFERS, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_DMABUF
	};
	struct v4l2_format f = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	unsigned int on = 1;
	CUcontext context;
	CUdevice gpu;

	CUDA(cuInit(0));
	CUDA(cuDeviceGet(&gpu, 0));
	CUDA(cuDevicePrimaryCtxRetain(&context, gpu));
	CUDA(cuCtxSetCurrent(context));
	V4L2(ioctl(card, VIDIOC_G_FMT, &f));
	V4L2(ioctl(card, VIDIOC_REQBUFS, &r));
	/* Memory is exported in pages of the GPU. */
	*length = (f.fmt.pix.sizeimage + 0xffff) & ~0xfffful;
	for (unsigned int i = 0; i < BUFFERS; i++) {
		CUDA(cuMemAlloc(&memory[i], *length));
		if (right)
			CUDA(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory[i]));
		CUDA(cuMemGetHandleForAddressRange(&dmabufs[i], memory[i], *length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		give(card, i, *length);
	}
}

int main(int argc, char **argv)
{
	struct v4l2_buffer b = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_DMABUF };
	int card = open(argc > 1 ? argv[1] : "/dev/video0", O_RDWR), right = argc < 3 || strcmp(argv[2], "wrong");
	unsigned int bad = 0, black = 0;
	char begin[8], nothing[8] = { 0 };
	CUdeviceptr work;
	size_t length;

	V4L2(card);
	set_up(card, &length, right);
	CUDA(cuMemAlloc(&work, length));
	V4L2(ioctl(card, VIDIOC_STREAMON, &b.type));
	for (int n = 0; n < FRAMES; n++) {
		V4L2(ioctl(card, VIDIOC_DQBUF, &b));
		/* In a program of use, a kernel that works on the frame. */
		CUDA(cuMemcpyDtoD(work, memory[b.index], length));
		CUDA(cuMemcpyDtoH(begin, work, sizeof(begin)));
		bad += (b.flags & V4L2_BUF_FLAG_ERROR) != 0;
		black += !memcmp(begin, nothing, sizeof(nothing));
		give(card, b.index, length);
	}
	V4L2(ioctl(card, VIDIOC_STREAMOFF, &b.type));
	printf("%d frames, %u with errors, %u overwritten\n", FRAMES, bad, black);
	return black ? 1 : 0;
}
