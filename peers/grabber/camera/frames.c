// SPDX-License-Identifier: MIT
/* frames.c - obeys the orders of the grabber, and draws the frames. */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "camera.h"

#define LARGEST_FRAME	(64u << 20)

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

void camera_end(struct camera *c)
{
	for (size_t i = 0; c->ring && i < c->memory; i++)
		free(c->ring[i].bytes);
	free(c->ring);
	c->ring = NULL;
	c->first = 0;
	c->waiting = 0;
	c->runs = false;
}

static bool make_room(struct camera *c)
{
	c->ring = calloc(c->memory, sizeof(*c->ring));
	for (size_t i = 0; c->ring && i < c->memory; i++) {
		c->ring[i].bytes = calloc(1, c->frame_bytes);
		if (!c->ring[i].bytes)
			camera_end(c);
	}
	return c->ring;
}

static void start(struct camera *c, const struct grabber_order *order)
{
	c->stream = ntohs(order->stream);
	c->width = ntohl(order->width);
	c->height = ntohl(order->height);
	c->bytes_per_line = ntohl(order->bytes_per_line);
	c->frame_bytes = ntohl(order->frame_bytes);
	c->interval_us = ntohl(order->interval_us);
	if (c->frame_bytes > LARGEST_FRAME || !c->frame_bytes || c->frame_bytes % GRABBER_BLOCK ||
	    (uint64_t)c->height * c->bytes_per_line > c->frame_bytes || !c->interval_us ||
	    (uint64_t)c->height * c->bytes_per_line < sizeof(struct grabber_stamp)) {
		fprintf(stderr, "camera: no such picture: %ux%u, %u bytes a line, %u a frame, %u us\n",
			c->width, c->height, c->bytes_per_line, c->frame_bytes, c->interval_us);
		return;
	}
	if (!make_room(c)) {
		fprintf(stderr, "camera: no memory for frames of %u bytes\n", c->frame_bytes);
		return;
	}
	memcpy(c->to, order->ethernet.from, sizeof(c->to));
	memcpy(c->from, order->ethernet.to, sizeof(c->from));
	c->next = 0;
	c->due_us = now_us();
	c->stalled_until_us = 0;
	c->runs = true;
}

void camera_order(struct camera *c, const struct grabber_order *order)
{
	if (ntohs(order->ethernet.type) != GRABBER_ORDER_TYPE ||
	    ntohl(order->magic) != GRABBER_ORDER_MAGIC)
		return;
	/* The grabber repeats an order until frames arrive. */
	if (ntohs(order->order) == GRABBER_START && c->runs && c->stream == ntohs(order->stream))
		return;
	camera_end(c);
	if (ntohs(order->order) == GRABBER_START)
		start(c, order);
}

/* Bars that move by a pixel with each frame, over a gradient. */
static void draw(const struct camera *c, struct frame *frame)
{
	struct grabber_stamp stamp = { .frame = htonl(frame->number), .time_us = htobe64(now_us()) };
	size_t rest = (size_t)c->height * c->bytes_per_line - sizeof(stamp);

	for (uint32_t y = 0; y < c->height; y++) {
		uint8_t *line = frame->bytes + (size_t)y * c->bytes_per_line;

		for (uint32_t x = 0; x < c->bytes_per_line; x++)
			line[x] = ((x + frame->number) & 32 ? 200 : 60) + (y & 31);
	}
	memcpy(stamp.magic, GRABBER_STAMP, sizeof(stamp.magic));
	stamp.crc = htonl(crc32(0, frame->bytes + sizeof(stamp), rest));
	memcpy(frame->bytes, &stamp, sizeof(stamp));
}

static void take(struct camera *c)
{
	struct frame *frame = &c->ring[(c->first + c->waiting) % c->memory];
	uint32_t number = c->next++;

	c->frames_taken++;
	if (c->skip && number % c->skip == c->skip - 1)
		return;
	if (c->waiting == c->memory) {
		c->frames_dropped++;
		return;
	}
	frame->number = number;
	frame->sent = 0;
	draw(c, frame);
	c->waiting++;
}

void camera_take(struct camera *c)
{
	while (c->runs && (!c->frames || c->next < c->frames) && c->due_us <= now_us()) {
		take(c);
		c->due_us += c->interval_us;
	}
}

int camera_wait_ms(const struct camera *c)
{
	uint64_t now = now_us(), then = UINT64_MAX;

	if (c->runs && (!c->frames || c->next < c->frames))
		then = c->due_us;
	if (c->waiting && c->stalled_until_us > now && c->stalled_until_us < then)
		then = c->stalled_until_us;
	if (then == UINT64_MAX)
		return -1;
	return then <= now ? 0 : (then - now + 999) / 1000;
}
