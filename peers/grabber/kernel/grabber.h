/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * grabber.h - one grabber, and what its parts offer each other.
 *
 *	main.c		the PCI device
 *	video.c		V4L2: formats, inputs
 *	queue.c		videobuf2: buffers
 *	memory.c	their memory; an importer of dma-bufs that may go away
 *	ring.c		frames into buffers
 *	nic.c		the controller's registers
 *	clients.c	what is counted, for debugfs and `peerdma top'
 */
#ifndef GRABBER_H
#define GRABBER_H

#include <media/v4l2-device.h>
#include <media/videobuf2-v4l2.h>

#include "ring.h"

struct grabber {
	struct v4l2_device v4l2;	/* its release frees all this */
	struct video_device video;
	struct vb2_queue queue;
	struct mutex lock;		/* of the queue and of ioctls; before ring->lock */
	struct grabber_picture picture;	/* lock */
	struct grabber_ring ring;
	struct pci_dev *pdev;
	struct list_head node;		/* clients.c */
};

static inline struct grabber_buffer *to_buffer(struct vb2_buffer *vb)
{
	return container_of(to_vb2_v4l2_buffer(vb), struct grabber_buffer, vb);
}

/* memory.c */
extern const struct vb2_mem_ops grabber_memory;
/*
 * Sets the addresses of a buffer's blocks, and makes it valid.  -EINVAL: its memory is in
 * pieces that blocks do not fit into; -ENOMEM; or what the exporter of a dma-buf says.
 */
int memory_prepare(struct grabber_ring *ring, struct grabber_buffer *buffer);
/* Before a program gets the buffer: copies the frame if that must be.  Returns the bytes copied. */
u32 memory_finish(struct grabber_buffer *buffer);

/* queue.c */
int queue_init(struct grabber *g);

/* video.c */
int video_init(struct grabber *g);
void video_default(struct grabber_picture *picture);

/* clients.c */
void clients_init(void);
void clients_exit(void);
void clients_add(struct grabber *g);
void clients_remove(struct grabber *g);
void clients_log(struct grabber *g);

#endif
