// SPDX-License-Identifier: MIT OR GPL-2.0
/* queue.c - videobuf2's side: buffers of programs, and the stream. */
#include <linux/sizes.h>

#include "compat.h"
#include "grabber.h"

/* Of memory that a program has the driver allocate: four frames of the largest size. */
#define LARGEST_BUFFER	SZ_16M

static struct grabber *of(struct vb2_queue *q)
{
	return container_of(q, struct grabber, queue);
}

static int queue_setup(struct vb2_queue *q, unsigned int *buffers, unsigned int *planes,
		       unsigned int sizes[], struct device *devices[])
{
	u32 size = of(q)->picture.frame_bytes;

	if (*planes)
		return sizes[0] < size || sizes[0] > LARGEST_BUFFER ? -EINVAL : 0;
	*planes = 1;
	sizes[0] = size;
	return 0;
}

static int buf_init(struct vb2_buffer *vb)
{
	struct grabber_buffer *buffer = to_buffer(vb);

	INIT_LIST_HEAD(&buffer->node);
	buffer->valid = false;
	return 0;
}

static int buf_prepare(struct vb2_buffer *vb)
{
	struct grabber *g = of(vb->vb2_queue);
	unsigned long size = vb2_plane_size(vb, 0);
	int err;

	if (size < g->picture.frame_bytes) {
		dev_dbg(&g->pdev->dev, "a buffer of %lu bytes: a frame has %u\n", size,
			g->picture.frame_bytes);
		return -EINVAL;
	}
	err = memory_prepare(&g->ring, to_buffer(vb), g->picture.frame_bytes / GRABBER_BLOCK);
	if (err == -EINVAL)
		dev_dbg(&g->pdev->dev, "a dma-buf is in pieces of less than %u bytes\n",
			GRABBER_BLOCK);
	return err;
}

static void buf_finish(struct vb2_buffer *vb)
{
	ring_copied(&of(vb->vb2_queue)->ring, memory_finish(to_buffer(vb)));
}

static void buf_queue(struct vb2_buffer *vb)
{
	ring_queue(&of(vb->vb2_queue)->ring, to_buffer(vb));
}

static int start_streaming(struct vb2_queue *q, unsigned int count)
{
	struct grabber *g = of(q);

	ring_start(&g->ring, &g->picture);
	return 0;
}

static void stop_streaming(struct vb2_queue *q)
{
	ring_stop(&of(q)->ring);
}

static const struct vb2_ops ops = {
	.queue_setup = queue_setup,
	.buf_init = buf_init,
	.buf_prepare = buf_prepare,
	.buf_finish = buf_finish,
	.buf_queue = buf_queue,
	.start_streaming = start_streaming,
	.stop_streaming = stop_streaming,
	GRABBER_WAIT_OPS
};

int queue_init(struct grabber *g)
{
	struct vb2_queue *q = &g->queue;

	q->type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
	q->io_modes = VB2_MMAP | VB2_USERPTR | VB2_DMABUF;
	q->dev = &g->pdev->dev;
	q->drv_priv = &g->ring;
	q->buf_struct_size = sizeof(struct grabber_buffer);
	q->ops = &ops;
	q->mem_ops = &grabber_memory;
	q->timestamp_flags = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
	q->min_queued_buffers = 2;
	q->lock = &g->lock;
	return vb2_queue_init(q);
}
