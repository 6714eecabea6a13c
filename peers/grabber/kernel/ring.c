// SPDX-License-Identifier: MIT OR GPL-2.0
/* ring.c - see ring.h. */
#include <linux/in.h>
#include <linux/interrupt.h>
#include <linux/ktime.h>
#include <linux/sched.h>

#include "ring.h"

#define REPEAT_MS	500
/*
 * Slots are aimed at the frame that arrives and at the next one, no further: a buffer that is
 * queued during a frame can be used for the next but one.
 */
#define FRAMES_AHEAD	2

static u32 after(u32 slot)
{
	return (slot + 1) % NIC_SLOTS;
}

static bool is_dmabuf(const struct grabber_buffer *buffer)
{
	return buffer->vb.vb2_buf.memory == VB2_MEMORY_DMABUF;
}

/* ---- buffers that leave ---- */

static void done(struct grabber_ring *ring, struct grabber_buffer *buffer,
		 enum vb2_buffer_state state)
{
	struct vb2_v4l2_buffer *vb = &buffer->vb;

	list_del_init(&buffer->node);
	vb->vb2_buf.timestamp = ktime_get_ns();
	vb->field = V4L2_FIELD_NONE;
	vb->sequence = ring->frame;
	vb2_set_plane_payload(&vb->vb2_buf, 0,
			      state == VB2_BUF_STATE_DONE ?
			      ring->picture.bytes_per_line * ring->picture.height : 0);
	vb2_buffer_done(&vb->vb2_buf, state);
}

/* Counts the frame that arrived, and those in front of it of which nothing came. */
static void count_frame(struct grabber_ring *ring, u64 *as)
{
	if (ring->frame >= ring->next_frame)
		ring->counts.skipped += ring->frame - ring->next_frame;
	ring->next_frame = ring->frame + 1;
	(*as)++;
}

/* It had no buffer, unless this is the rest of one that is torn, and was counted. */
static void count_dropped(struct grabber_ring *ring)
{
	if (ring->frame + 1 != ring->next_frame)
		count_frame(ring, &ring->counts.dropped);
}

static void complete_frame(struct grabber_ring *ring, struct grabber_buffer *buffer)
{
	ring->ahead--;
	if (!buffer) {
		count_dropped(ring);
		return;
	}
	count_frame(ring, &ring->counts.frames);
	done(ring, buffer, VB2_BUF_STATE_DONE);
}

/* ---- slots ---- */

static struct grabber_buffer *next_buffer(struct grabber_ring *ring)
{
	struct grabber_buffer *buffer =
		list_first_entry_or_null(&ring->queued, struct grabber_buffer, node);

	if (buffer)
		list_move_tail(&buffer->node, &ring->aimed);
	return buffer;
}

static void aim_slot(struct grabber_ring *ring)
{
	struct grabber_place *aim = &ring->aim;

	if (!aim->block) {
		aim->buffer = next_buffer(ring);
		ring->ahead++;
	}
	ring->slots[ring->end] = *aim;
	nic_aim(&ring->nic, ring->end,
		aim->buffer ? aim->buffer->blocks[aim->block] : ring->nic.scratch_addr);
	aim->block = (aim->block + 1) % ring->blocks;
	ring->end = after(ring->end);
}

static void fill(struct grabber_ring *ring)
{
	u32 before = ring->end;

	while (after(ring->end) != ring->first) {
		if (!ring->aim.block && ring->ahead == FRAMES_AHEAD)
			break;
		aim_slot(ring);
	}
	if (ring->end != before)
		nic_give(&ring->nic, ring->end);
}

/*
 * The receiver is stopped: aims all slots anew, and starts it.  The next packet is expected
 * to be for this place.  Of block 0 the first queued buffer gets the frame.
 */
static void aim_anew(struct grabber_ring *ring, struct grabber_place place)
{
	if (!place.block)
		place.buffer = NULL;
	if (place.buffer)
		list_del_init(&place.buffer->node);
	list_splice_init(&ring->aimed, &ring->queued);
	if (place.buffer)
		list_add(&place.buffer->node, &ring->aimed);
	memset(ring->nic.slots, 0, NIC_SLOTS * sizeof(*ring->nic.slots));
	ring->first = 0;
	ring->end = 0;
	ring->aim = place;
	ring->ahead = place.block ? 1 : 0;
	nic_start(&ring->nic);
	fill(ring);
}

/* ---- packets that arrive ---- */

static const struct grabber_headers *headers_of(struct grabber_ring *ring, u32 slot)
{
	return (struct grabber_headers *)(ring->nic.headers + slot * NIC_HEADERS);
}

static u32 frame_of(struct grabber_ring *ring, u32 slot)
{
	return be32_to_cpu(headers_of(ring, slot)->frame);
}

/* The block's number in its frame, or -1: this is none of the stream's. */
static int block_of(struct grabber_ring *ring, u32 slot)
{
	const struct nic_written *w = &ring->nic.slots[slot].written;
	const struct grabber_headers *h = headers_of(ring, slot);
	u32 status = le32_to_cpu(w->status), offset = be32_to_cpu(h->offset);

	if (!(status & NIC_LAST) || status & NIC_ERRORS ||
	    !(le16_to_cpu(w->split) & NIC_SPLIT) ||
	    le16_to_cpu(w->headers_length) != sizeof(*h) ||
	    le16_to_cpu(w->payload_length[0]) != GRABBER_BLOCK || w->payload_length[1])
		return -1;
	if (h->version_length != 0x49 || h->protocol != IPPROTO_UDP ||
	    h->option != GRABBER_OPTION || h->option_length != 16 ||
	    be16_to_cpu(h->destination_port) != GRABBER_PORT)
		return -1;
	if (be16_to_cpu(h->stream) != ring->stream ||
	    be32_to_cpu(h->frame_bytes) != ring->picture.frame_bytes ||
	    offset % GRABBER_BLOCK || offset >= ring->picture.frame_bytes)
		return -1;
	return offset / GRABBER_BLOCK;
}

/* What the controller has written to a buffer, whatever it was. */
static void count_bytes(struct grabber_ring *ring, u32 slot)
{
	const struct grabber_buffer *buffer = ring->slots[slot].buffer;
	u32 length = le16_to_cpu(ring->nic.slots[slot].written.payload_length[0]);

	if (buffer)
		*(is_dmabuf(buffer) ? &ring->counts.dmabuf_bytes : &ring->counts.host_bytes) += length;
}

static bool slot_done(struct grabber_ring *ring)
{
	const struct nic_written *w = &ring->nic.slots[ring->first].written;

	if (ring->first == ring->end || !(le32_to_cpu(READ_ONCE(w->status)) & NIC_DONE))
		return false;
	dma_rmb();
	return true;
}

/*
 * A block landed in the wrong place, since one before it is missing.  The frame of that place
 * is torn, if a block of it has come; a buffer of which none has stays in the queue.
 * Returns where the next packet belongs: the rest of the frame that this one is of goes to
 * scratch memory.
 */
static struct grabber_place misplaced(struct grabber_ring *ring, struct grabber_place place,
				      u32 frame, u32 block)
{
	if (place.block && place.buffer) {
		count_frame(ring, &ring->counts.torn);
		done(ring, place.buffer, VB2_BUF_STATE_ERROR);
	} else if (place.block) {
		count_dropped(ring);
	}
	ring->frame = frame;
	return (struct grabber_place){ NULL, (block + 1) % ring->blocks };
}

/*
 * Takes the packet in the first slot.  False: the slots behind it are aimed at the wrong
 * places; *place is where the next packet belongs.
 */
static bool take_packet(struct grabber_ring *ring, struct grabber_place *place)
{
	u32 slot = ring->first, frame = frame_of(ring, slot);
	struct grabber_place at = ring->slots[slot];
	int block = block_of(ring, slot);

	count_bytes(ring, slot);
	ring->first = after(slot);
	if (block < 0) {
		/* It has taken the slot of the one that comes next. */
		ring->counts.stray++;
		*place = at;
		return false;
	}
	ring->heard = true;
	if (block != at.block || (block && frame != ring->frame)) {
		*place = misplaced(ring, at, frame, block);
		return false;
	}
	ring->frame = frame;
	if (block == ring->blocks - 1)
		complete_frame(ring, at.buffer);
	return true;
}

/* The receiver is stopped: packets that came to slots which were aimed at the wrong places. */
static void drop_packets(struct grabber_ring *ring, struct grabber_place *place)
{
	for (; slot_done(ring); ring->first = after(ring->first)) {
		int block = block_of(ring, ring->first);

		count_bytes(ring, ring->first);
		if (block < 0)
			ring->counts.stray++;
		else
			*place = misplaced(ring, *place, frame_of(ring, ring->first), block);
	}
}

/*
 * Stops the receiver, and takes the packets that came before.  Returns where the next one
 * belongs.
 */
static struct grabber_place pause_receiver(struct grabber_ring *ring)
{
	struct grabber_place place;

	nic_stop(&ring->nic);
	while (slot_done(ring)) {
		if (take_packet(ring, &place))
			continue;
		drop_packets(ring, &place);
		return place;
	}
	return ring->first == ring->end ? ring->aim : ring->slots[ring->first];
}

/*
 * At most as many packets as there are slots, or until the slots had to be aimed anew: the
 * lock is not held without end.  True: there may be more.
 */
static bool receive(struct grabber_ring *ring)
{
	struct grabber_place place;
	u32 left = NIC_SLOTS;

	if (!ring->runs)
		return false;
	for (; left && slot_done(ring); left--) {
		if (take_packet(ring, &place))
			continue;
		nic_stop(&ring->nic);
		drop_packets(ring, &place);
		aim_anew(ring, place);
		return true;
	}
	fill(ring);
	return !left;
}

irqreturn_t ring_interrupt(int irq, void *data)
{
	struct grabber_ring *ring = data;

	if (!nic_causes(&ring->nic))
		return IRQ_NONE;
	nic_irq_disable(&ring->nic);
	return IRQ_WAKE_THREAD;
}

irqreturn_t ring_thread(int irq, void *data)
{
	struct grabber_ring *ring = data;
	bool more;

	do {
		mutex_lock(&ring->lock);
		more = receive(ring);
		if (ring->runs && !more)
			nic_irq_enable(&ring->nic);
		mutex_unlock(&ring->lock);
	} while (more);
	return IRQ_HANDLED;
}

/* ---- buffers that come and go ---- */

void ring_queue(struct grabber_ring *ring, struct grabber_buffer *buffer)
{
	mutex_lock(&ring->lock);
	if (!buffer->valid) {
		ring->counts.revoked++;
		done(ring, buffer, VB2_BUF_STATE_ERROR);
	} else {
		list_add_tail(&buffer->node, &ring->queued);
		if (ring->runs)
			fill(ring);
	}
	mutex_unlock(&ring->lock);
}

void ring_valid(struct grabber_ring *ring, struct grabber_buffer *buffer)
{
	mutex_lock(&ring->lock);
	buffer->valid = true;
	mutex_unlock(&ring->lock);
}

void ring_copied(struct grabber_ring *ring, u32 bytes)
{
	mutex_lock(&ring->lock);
	ring->counts.copied_bytes += bytes;
	mutex_unlock(&ring->lock);
}

static bool is_aimed(struct grabber_ring *ring, const struct grabber_buffer *buffer)
{
	const struct grabber_buffer *at;

	list_for_each_entry(at, &ring->aimed, node)
		if (at == buffer)
			return true;
	return false;
}

/*
 * Takes the memory of a buffer that slots are aimed at from the controller.  The frame that
 * arrives goes on: to its buffer, or to scratch memory if it was this one's.
 */
static void take_aimed(struct grabber_ring *ring, struct grabber_buffer *buffer)
{
	struct grabber_place place = pause_receiver(ring);

	/* A packet may just have ended it. */
	if (!list_empty(&buffer->node)) {
		ring->counts.revoked++;
		done(ring, buffer, VB2_BUF_STATE_ERROR);
	}
	if (place.buffer == buffer)
		place.buffer = NULL;
	aim_anew(ring, place);
}

void ring_forget(struct grabber_ring *ring, struct grabber_buffer *buffer)
{
	mutex_lock(&ring->lock);
	buffer->valid = false;
	if (ring->runs && is_aimed(ring, buffer)) {
		take_aimed(ring, buffer);
	} else if (!list_empty(&buffer->node)) {
		ring->counts.revoked++;
		done(ring, buffer, VB2_BUF_STATE_ERROR);
	}
	mutex_unlock(&ring->lock);
}

/* ---- streams ---- */

static void order(struct grabber_ring *ring, u16 what)
{
	const struct grabber_picture *p = &ring->picture;
	struct grabber_order order = {
		.magic = cpu_to_be32(GRABBER_ORDER_MAGIC),
		.order = cpu_to_be16(what),
		.stream = cpu_to_be16(ring->stream),
		.width = cpu_to_be32(p->width),
		.height = cpu_to_be32(p->height),
		.bytes_per_line = cpu_to_be32(p->bytes_per_line),
		.frame_bytes = cpu_to_be32(p->frame_bytes),
		.interval_us = cpu_to_be32(p->interval_us),
	};

	nic_order(&ring->nic, &order);
}

static void repeat(struct work_struct *work)
{
	struct grabber_ring *ring = container_of(work, struct grabber_ring, repeat.work);

	mutex_lock(&ring->lock);
	if (ring->runs && !ring->heard) {
		order(ring, GRABBER_START);
		if (++ring->orders == 4)
			dev_info(&ring->nic.pdev->dev, "no frames from the camera for 2 s\n");
		schedule_delayed_work(&ring->repeat, msecs_to_jiffies(REPEAT_MS));
	}
	mutex_unlock(&ring->lock);
}

void ring_start(struct grabber_ring *ring, const struct grabber_picture *picture)
{
	mutex_lock(&ring->lock);
	ring->picture = *picture;
	ring->blocks = picture->frame_bytes / GRABBER_BLOCK;
	ring->stream++;
	ring->heard = false;
	ring->frame = 0;
	ring->next_frame = 0;
	ring->orders = 0;
	ring->before = ring->counts;
	ring->tgid = task_tgid_nr(current);
	get_task_comm(ring->comm, current->group_leader);
	ring->runs = true;
	aim_anew(ring, (struct grabber_place){ NULL, 0 });
	nic_irq_enable(&ring->nic);
	order(ring, GRABBER_START);
	schedule_delayed_work(&ring->repeat, msecs_to_jiffies(REPEAT_MS));
	mutex_unlock(&ring->lock);
}

void ring_stop(struct grabber_ring *ring)
{
	struct grabber_buffer *buffer, *next;

	mutex_lock(&ring->lock);
	if (ring->runs) {
		order(ring, GRABBER_STOP);
		nic_irq_disable(&ring->nic);
		pause_receiver(ring);
		ring->runs = false;
	}
	ring->tgid = 0;
	list_splice_init(&ring->aimed, &ring->queued);
	list_for_each_entry_safe(buffer, next, &ring->queued, node) {
		list_del_init(&buffer->node);
		vb2_buffer_done(&buffer->vb.vb2_buf, VB2_BUF_STATE_ERROR);
	}
	mutex_unlock(&ring->lock);
	cancel_delayed_work_sync(&ring->repeat);
}

int ring_init(struct grabber_ring *ring, struct pci_dev *pdev, void __iomem *regs)
{
	mutex_init(&ring->lock);
	INIT_LIST_HEAD(&ring->queued);
	INIT_LIST_HEAD(&ring->aimed);
	INIT_DELAYED_WORK(&ring->repeat, repeat);
	return nic_init(&ring->nic, pdev, regs);
}

void ring_exit(struct grabber_ring *ring)
{
	nic_exit(&ring->nic);
}
