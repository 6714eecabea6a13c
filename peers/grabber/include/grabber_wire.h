/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * grabber_wire.h - what the camera and the grabber say to each other, in Ethernet packets.
 *
 * Frames.  The camera cuts a frame into blocks of GRABBER_BLOCK bytes and sends each in a
 * packet of UDP.  Which block it is stands in an option of the IP header (number 30, which
 * RFC 4727 reserves for experiments).  So all that the grabber's network controller counts
 * as headers is description, and all that it counts as payload are pixels: it separates the
 * two by itself (header split), and the pixels go where the buffer is.
 *
 * Orders.  The grabber sends struct grabber_order, in packets of GRABBER_ORDER_TYPE, which
 * IEEE 802 reserves for experiments.  There is no answer but the frames.
 *
 * All numbers are big endian.
 */
#ifndef GRABBER_WIRE_H
#define GRABBER_WIRE_H

#include <linux/types.h>

#define GRABBER_BLOCK		4096u	/* bytes of a frame in one packet */
#define GRABBER_ORDER_TYPE	0x88b5
#define GRABBER_ORDER_MAGIC	0x50475242	/* "PGRB" */
#define GRABBER_OPTION		0x9e	/* copied into fragments; control; number 30 */
#define GRABBER_PORT		4727

struct grabber_ethernet {
	__u8 to[6];
	__u8 from[6];
	__be16 type;
} __attribute__((packed));

/* Headers of a packet with a block of a frame. */
struct grabber_headers {
	struct grabber_ethernet ethernet;	/* type 0x0800 */
	/* IP, version 4 */
	__u8 version_length;		/* 0x49: nine words */
	__u8 service;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;			/* 17: UDP */
	__be16 checksum;
	__be32 source;
	__be32 destination;
	/* the option */
	__u8 option;			/* GRABBER_OPTION */
	__u8 option_length;		/* 16 */
	__be16 stream;			/* of the order that started it */
	__be32 frame;			/* counts from 0 in each stream */
	__be32 offset;			/* of the block in the frame, in bytes */
	__be32 frame_bytes;		/* the whole frame's length */
	/* UDP */
	__be16 source_port;
	__be16 destination_port;	/* GRABBER_PORT */
	__be16 udp_length;		/* of its own header and the block */
	__be16 udp_checksum;		/* 0: none */
} __attribute__((packed));

enum { GRABBER_STOP, GRABBER_START };

struct grabber_order {
	struct grabber_ethernet ethernet;	/* type GRABBER_ORDER_TYPE */
	__be32 magic;
	__be16 order;			/* GRABBER_START, GRABBER_STOP */
	__be16 stream;			/* any number; another for each start */
	__be32 width, height;		/* pixels */
	__be32 bytes_per_line;
	__be32 frame_bytes;	/* a multiple of GRABBER_BLOCK: zeros follow the picture */
	__be32 interval_us;		/* from one frame to the next */
} __attribute__((packed));

/*
 * The first bytes of a frame, in place of pixels: a program can check that the frame is
 * whole.
 */
struct grabber_stamp {
	__u8 magic[8];			/* GRABBER_STAMP */
	__be32 frame;
	__be32 crc;			/* CRC-32 (zlib's) of the rest of the picture */
	__be64 time_us;			/* when it was taken, by the camera's clock */
} __attribute__((packed));

#define GRABBER_STAMP		"PGRBFRAM"

#endif
