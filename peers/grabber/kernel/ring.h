/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * ring.h - frames into buffers: each receive slot is aimed at a block of a buffer, in the
 * order in which the blocks will come.
 *
 * If one does not come, all later blocks land one place too early.  So at the first packet
 * that is not the one expected, the receiver is stopped, and the frame is torn.  The packet's
 * headers say which block comes next: the rest of its frame goes to scratch memory, and the
 * next frame to the next buffer.
 *
 * Locks, in this order: the queue's (videobuf2), a dma-buf's reservation lock, ring->lock.
 * With ring->lock held nothing is allocated, and no dma-buf is mapped.
 */
#ifndef GRABBER_RING_H
#define GRABBER_RING_H

#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <media/videobuf2-v4l2.h>

#include "nic.h"

struct grabber_buffer {
	struct vb2_v4l2_buffer vb;	/* first: videobuf2 allocates it */
	/* ring->lock */
	struct list_head node;		/* in ring->queued or ring->aimed; empty: in neither */
	bool valid;			/* its addresses are */
	dma_addr_t *blocks;		/* where each block of a frame goes */
	u32 count;			/* of blocks */
};

/* Of a block in memory. */
struct grabber_place {
	struct grabber_buffer *buffer;	/* NULL: scratch memory */
	u32 block;
};

/* The format of the frames, which the grabber orders from the camera. */
struct grabber_picture {
	u32 width, height, fourcc, bytes_per_line;
	u32 frame_bytes;		/* in whole blocks; the picture may be less */
	u32 interval_us;
};

struct grabber_counts {
	u64 frames;		/* given to programs, whole */
	u64 torn;		/* with V4L2_BUF_FLAG_ERROR: a packet was missing */
	u64 revoked;		/* the same: the memory went away */
	u64 dropped;		/* no buffer was queued */
	u64 skipped;		/* no packet of them was received */
	u64 stray;		/* packets that were none of the stream's */
	u64 dmabuf_bytes;	/* that the controller wrote into dma-bufs */
	u64 host_bytes;		/* and into buffers in the host's memory */
	u64 copied_bytes;	/* of these: copied by the CPU to where the program wants them */
};

struct grabber_ring {
	struct mutex lock;		/* of all that follows */
	struct nic nic;
	bool runs;
	bool heard;			/* a packet of this stream has come */
	u16 stream;
	struct grabber_picture picture;
	u32 blocks;			/* of a frame */
	u32 frame;			/* the number of the frame that is arriving */
	u32 next_frame;			/* the one after the last that was counted */
	struct list_head queued;	/* buffers, in the order of their use */
	struct list_head aimed;		/* the same, of those that slots are aimed at */
	struct grabber_place slots[NIC_SLOTS];
	u32 first, end;			/* the controller has slots from first to before end */
	struct grabber_place aim;	/* of the slot that is aimed next */
	u32 ahead;			/* frames that slots are aimed at */
	struct grabber_counts counts, before;	/* before: when the stream began */
	struct delayed_work repeat;	/* the order, until the camera is heard */
	unsigned int orders;
	char comm[TASK_COMM_LEN];	/* of the program that started the stream */
	pid_t tgid;
};

int ring_init(struct grabber_ring *ring, struct pci_dev *pdev, void __iomem *regs);
void ring_exit(struct grabber_ring *ring);

/* Starts the camera.  Buffers that were queued before are used. */
void ring_start(struct grabber_ring *ring, const struct grabber_picture *picture);
/* Stops it, and gives all buffers back, with errors. */
void ring_stop(struct grabber_ring *ring);

/* Takes a buffer, or gives it back at once with an error if it is not valid. */
void ring_queue(struct grabber_ring *ring, struct grabber_buffer *buffer);
/* The buffer's memory goes away: when it returns, the controller does not write to it. */
void ring_forget(struct grabber_ring *ring, struct grabber_buffer *buffer);
void ring_valid(struct grabber_ring *ring, struct grabber_buffer *buffer);

void ring_copied(struct grabber_ring *ring, u32 bytes);

irqreturn_t ring_interrupt(int irq, void *data);
irqreturn_t ring_thread(int irq, void *data);

#endif
