/* SPDX-License-Identifier: MIT */
/* camera.h - the camera's parts: frames.c takes pictures, packets.c sends them. */
#ifndef CAMERA_H
#define CAMERA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grabber_wire.h"

struct frame {
	uint32_t number;
	uint32_t sent;		/* bytes; the whole length: none is left */
	uint8_t *bytes;
};

struct camera {
	/* options */
	unsigned long memory, frames, lose, garbage, swap, skip, stall;

	/* the order under way */
	bool runs;
	uint16_t stream;
	uint32_t width, height, bytes_per_line, frame_bytes, interval_us;
	uint8_t to[6], from[6];
	uint32_t next;		/* number of the next frame */
	uint64_t due_us;	/* when it is taken */
	uint64_t stalled_until_us;

	/* a ring of frames that wait to be sent */
	struct frame *ring;
	size_t first, waiting;

	/* counts, of all streams */
	uint64_t packets;	/* that were due to be sent: the faults count these */
	uint64_t frames_taken, frames_sent, frames_dropped, packets_lost, garbage_sent;
};

uint64_t now_us(void);

/* frames.c */
void camera_order(struct camera *c, const struct grabber_order *order);
/* Takes each frame that is due.  One that has no room is dropped. */
void camera_take(struct camera *c);
/* Until the next frame, or the end of a stall; -1: nothing is due. */
int camera_wait_ms(const struct camera *c);
void camera_end(struct camera *c);

/* packets.c: false: the wire has ended. */
bool camera_send(struct camera *c, int wire);

#endif
