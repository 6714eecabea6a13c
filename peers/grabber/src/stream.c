// SPDX-License-Identifier: MIT
/* stream.c - see stream.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "grabber_wire.h"
#include "stream.h"

#define DEVICES	64

static int call(int fd, unsigned long request, void *arg)
{
	int ret;

	do {
		ret = ioctl(fd, request, arg);
	} while (ret && errno == EINTR);
	return ret ? -errno : 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

bool grabber_find(unsigned int n, char path[32])
{
	struct {
		char bus[32];
		char path[32];
	} found[DEVICES];
	unsigned int count = 0;

	for (int i = 0; i < DEVICES; i++) {
		struct v4l2_capability cap;
		int fd;

		snprintf(found[count].path, sizeof(found[count].path), "/dev/video%d", i);
		fd = open(found[count].path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!call(fd, VIDIOC_QUERYCAP, &cap) && !strcmp((char *)cap.driver, "peerdma_grabber"))
			memcpy(found[count++].bus, cap.bus_info, sizeof(found[0].bus));
		close(fd);
	}
	if (n >= count)
		return false;
	qsort(found, count, sizeof(found[0]), compare);
	strcpy(path, found[n].path);
	return true;
}

int stream_open(struct stream *s, const char *path, unsigned int width, unsigned int height, unsigned int rate)
{
	struct v4l2_format f = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	struct v4l2_streamparm parm = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	int err;

	f.fmt.pix.width = width;
	f.fmt.pix.height = height;
	f.fmt.pix.pixelformat = V4L2_PIX_FMT_YUYV;
	parm.parm.capture.timeperframe.numerator = 1;
	parm.parm.capture.timeperframe.denominator = rate;
	s->fd = open(path, O_RDWR | O_CLOEXEC);
	if (s->fd < 0)
		return -errno;
	err = call(s->fd, VIDIOC_S_FMT, &f);
	if (!err)
		err = call(s->fd, VIDIOC_S_PARM, &parm);
	if (!err && (f.fmt.pix.width != width || f.fmt.pix.height != height))
		err = -EINVAL;
	if (err)
		close(s->fd);
	s->length = f.fmt.pix.sizeimage;
	s->picture = (size_t)f.fmt.pix.bytesperline * f.fmt.pix.height;
	return err;
}

void stream_close(struct stream *s)
{
	close(s->fd);
}

int stream_buffers(struct stream *s, enum v4l2_memory memory, unsigned int count)
{
	struct v4l2_requestbuffers r = {
		.count = count, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = memory,
	};

	s->memory = memory;
	return call(s->fd, VIDIOC_REQBUFS, &r);
}

int stream_queue(struct stream *s, unsigned int index, int fd, void *at)
{
	struct v4l2_buffer b = {
		.index = index, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = s->memory, .length = s->length,
	};

	if (s->memory == V4L2_MEMORY_DMABUF)
		b.m.fd = fd;
	else if (s->memory == V4L2_MEMORY_USERPTR)
		b.m.userptr = (unsigned long)at;
	return call(s->fd, VIDIOC_QBUF, &b);
}

void *stream_map(struct stream *s, unsigned int index)
{
	struct v4l2_buffer b = { .index = index, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP };
	void *at;

	if (call(s->fd, VIDIOC_QUERYBUF, &b))
		return NULL;
	at = mmap(NULL, b.length, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, b.m.offset);
	return at == MAP_FAILED ? NULL : at;
}

int stream_start(struct stream *s)
{
	enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	return call(s->fd, VIDIOC_STREAMON, &type);
}

int stream_stop(struct stream *s)
{
	enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

	return call(s->fd, VIDIOC_STREAMOFF, &type);
}

int stream_take(struct stream *s, int timeout_ms, struct taken *taken)
{
	struct v4l2_buffer b = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = s->memory };
	struct pollfd wait = { .fd = s->fd, .events = POLLIN };
	int err = poll(&wait, 1, timeout_ms);

	if (err <= 0)
		return err ? -errno : -ETIMEDOUT;
	err = call(s->fd, VIDIOC_DQBUF, &b);
	if (err)
		return err;
	taken->index = b.index;
	taken->sequence = b.sequence;
	taken->error = b.flags & V4L2_BUF_FLAG_ERROR;
	return 0;
}

uint64_t grabber_counted(const char *column)
{
	FILE *f = fopen("/sys/kernel/debug/peerdma_grabber/grabbers", "re");
	char line[512], *cell, *rest;
	uint64_t sum = 0;
	int at = -1, i;

	for (bool head = true; f && fgets(line, sizeof(line), f); head = false) {
		rest = line;
		for (i = 0; (cell = strsep(&rest, "\t\n")); i++) {
			if (head && !strcmp(cell, column))
				at = i;
			else if (!head && i == at)
				sum += strtoull(cell, NULL, 10);
		}
	}
	if (f)
		fclose(f);
	return sum;
}

bool frame_whole(const void *bytes, size_t length, uint32_t *number)
{
	struct grabber_stamp stamp;

	memcpy(&stamp, bytes, sizeof(stamp));
	if (memcmp(stamp.magic, GRABBER_STAMP, sizeof(stamp.magic)))
		return false;
	*number = ntohl(stamp.frame);
	return crc32(0, (const unsigned char *)bytes + sizeof(stamp), length - sizeof(stamp)) == ntohl(stamp.crc);
}
