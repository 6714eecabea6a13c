// SPDX-License-Identifier: MIT
/* packets.c - sends the frames that wait, block by block, with the faults that were asked for. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "camera.h"

#define STALL_US	1000000

static uint16_t checksum(const void *data, size_t words)
{
	const uint16_t *word = data;
	uint32_t sum = 0;

	while (words--)
		sum += *word++;
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

static void headers(const struct camera *c, const struct frame *frame, uint32_t offset,
		    struct grabber_headers *h)
{
	*h = (struct grabber_headers){
		.ethernet.type = htons(0x0800),
		.version_length = 0x49,
		.length = htons(sizeof(*h) - sizeof(h->ethernet) + GRABBER_BLOCK),
		.ttl = 64, .protocol = 17,
		.source = htonl(0x0a4d6302), .destination = htonl(0x0a4d6301),
		.option = GRABBER_OPTION, .option_length = 16,
		.stream = htons(c->stream), .frame = htonl(frame->number),
		.offset = htonl(offset), .frame_bytes = htonl(c->frame_bytes),
		.source_port = htons(GRABBER_PORT), .destination_port = htons(GRABBER_PORT),
		.udp_length = htons(8 + GRABBER_BLOCK),
	};
	memcpy(h->ethernet.to, c->to, sizeof(c->to));
	memcpy(h->ethernet.from, c->from, sizeof(c->from));
	h->checksum = checksum((char *)h + sizeof(h->ethernet), 18);
}

enum result { SENT, BUSY, ENDED };

static enum result out(int wire, const struct iovec *parts, int count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = count };

	if (sendmsg(wire, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return SENT;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR ?
		BUSY : ENDED;
}

static enum result send_block(struct camera *c, int wire, const struct frame *frame, uint32_t offset)
{
	struct grabber_headers h;
	struct iovec parts[] = { { &h, sizeof(h) }, { frame->bytes + offset, GRABBER_BLOCK } };

	headers(c, frame, offset, &h);
	return out(wire, parts, 2);
}

/* Of several kinds, one after the other: too short, too long, false offsets, not IP. */
static enum result send_garbage(struct camera *c, int wire, const struct frame *frame)
{
	static uint8_t much[9000];
	struct grabber_headers h;
	struct iovec parts[] = { { &h, sizeof(h) }, { much, GRABBER_BLOCK } };

	memset(much, 0xaa, sizeof(much));
	headers(c, frame, frame->sent, &h);
	switch (c->garbage_sent % 6) {
	case 0:
		parts[1].iov_len = 7;
		break;
	case 1:
		parts[1].iov_len = sizeof(much);
		break;
	case 2:
		h.offset = htonl(0xfffff000);
		break;
	case 3:
		h.ethernet.type = htons(0x1234);
		break;
	case 4:
		h.version_length = 0x45;
		break;
	case 5:
		h.frame_bytes = htonl(4096);
		break;
	}
	return out(wire, parts, 2);
}

static bool every(uint64_t count, unsigned long n)
{
	return n && count % n == n - 1;
}

/* The block at frame->sent, or what a fault makes of it. */
static enum result next_packet(struct camera *c, int wire, struct frame *frame)
{
	uint32_t offset = frame->sent;
	enum result result;

	if (every(c->packets, c->garbage) && c->garbage_sent <= c->packets / c->garbage) {
		result = send_garbage(c, wire, frame);
		c->garbage_sent += result == SENT;
		if (result != SENT)
			return result;
	}
	if (every(c->packets, c->lose)) {
		c->packets_lost++;
		result = SENT;
	} else {
		/* Exchanged: the second block first, then the first one. */
		if (every(c->packets, c->swap) && offset + GRABBER_BLOCK < c->frame_bytes)
			offset += GRABBER_BLOCK;
		else if (c->packets && every(c->packets - 1, c->swap) && offset)
			offset -= GRABBER_BLOCK;
		result = send_block(c, wire, frame, offset);
	}
	if (result == SENT) {
		c->packets++;
		frame->sent += GRABBER_BLOCK;
	}
	return result;
}

static bool stalls(struct camera *c, const struct frame *frame)
{
	if (c->stalled_until_us > now_us())
		return true;
	if (!every(frame->number, c->stall) || c->stalled_until_us ||
	    frame->sent < c->frame_bytes / 2)
		return false;
	c->stalled_until_us = now_us() + STALL_US;
	return true;
}

bool camera_send(struct camera *c, int wire)
{
	while (c->waiting) {
		struct frame *frame = &c->ring[c->first];

		if (stalls(c, frame))
			return true;
		switch (next_packet(c, wire, frame)) {
		case ENDED:
			return false;
		case BUSY:
			return true;
		case SENT:
			break;
		}
		if (frame->sent < c->frame_bytes)
			continue;
		c->frames_sent++;
		c->first = (c->first + 1) % c->memory;
		c->waiting--;
		c->stalled_until_us = 0;
	}
	return true;
}
