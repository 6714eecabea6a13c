/* SPDX-License-Identifier: MIT */
/* stream.h - frames of a grabber, for programs: V4L2's streaming interface, and the stamp that the camera puts on frames. */
#ifndef GRABBER_STREAM_H
#define GRABBER_STREAM_H

#include <linux/videodev2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream {
	int fd;
	enum v4l2_memory memory;
	size_t length;			/* bytes of a buffer: at least those of a picture */
	size_t picture;			/* bytes of a picture */
};

struct taken {
	unsigned int index;
	uint32_t sequence;
	bool error;			/* V4L2_BUF_FLAG_ERROR */
};

/* The nth grabber, from 0 on, in the order of their PCI addresses: its /dev/videoN.  False: there is none. */
bool grabber_find(unsigned int n, char path[32]);

/* The calls below return 0 or -errno.  Those of the kernel's are in V4L2's documentation. */
int stream_open(struct stream *s, const char *path, unsigned int width, unsigned int height, unsigned int rate);
void stream_close(struct stream *s);
int stream_buffers(struct stream *s, enum v4l2_memory memory, unsigned int count);
/* fd: of a dma-buf; at: with USERPTR; neither is used with MMAP. */
int stream_queue(struct stream *s, unsigned int index, int fd, void *at);
void *stream_map(struct stream *s, unsigned int index);
int stream_start(struct stream *s);
int stream_stop(struct stream *s);
/* Waits for a frame; -ETIMEDOUT: none came. */
int stream_take(struct stream *s, int timeout_ms, struct taken *taken);

/* A column of /sys/kernel/debug/peerdma_grabber/grabbers, summed over all grabbers. */
uint64_t grabber_counted(const char *column);

/* Is this a whole picture of the camera's? Its number, if it has a stamp. */
bool frame_whole(const void *bytes, size_t length, uint32_t *number);

#endif
