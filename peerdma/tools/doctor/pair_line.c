// SPDX-License-Identifier: MIT
/*
 * pair_line.c - see pair_line.h.  Either end may send anything.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "pair_line.h"
#include "pair_remote.h"

#define SLOW_S	2

/* ASCII: what comes from the other end is printed. */
static bool is_printable(char c)
{
	return c >= ' ' && c < 0x7f;
}

static bool is_text(const char *s, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (!is_printable(s[i]))
			return false;
	}
	return true;
}

/* 1: one was handed out; 0: there is no whole one yet. */
static int take(struct line_end *l, char out[LINE_BYTES])
{
	char *end = memchr(l->buf, '\n', l->used);
	size_t length = end ? (size_t)(end - l->buf) : 0;

	if (!end)
		return l->used == sizeof(l->buf) ? -EMSGSIZE : 0;
	if (!is_text(l->buf, length))
		return -EBADMSG;
	memcpy(out, l->buf, length);
	out[length] = 0;
	l->used -= length + 1;
	memmove(l->buf, end + 1, l->used);
	return 1;
}

/* Until there is something, or its end. */
static int wait_for(const struct line_end *l, long long deadline)
{
	struct pollfd p = { .fd = l->in, .events = POLLIN };
	int ret = poll(&p, 1, remote_left(deadline));

	return ret < 0 ? (errno == EINTR ? 0 : -errno) : ret;
}

static int more(struct line_end *l)
{
	ssize_t n = read(l->in, l->buf + l->used, sizeof(l->buf) - l->used);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	l->used += (size_t)n;
	return n ? 0 : l->used ? -EBADMSG : -ENODATA;
}

int line_get(struct line_end *l, unsigned int seconds, void (*slow)(void), char out[LINE_BYTES])
{
	long long deadline = remote_deadline(seconds), notice = remote_deadline(SLOW_S);
	int ret;

	for (;;) {
		ret = take(l, out);
		if (ret)
			return ret < 0 ? ret : 0;
		ret = wait_for(l, slow && notice < deadline ? notice : deadline);
		if (ret > 0)
			ret = more(l);
		else if (!ret && !remote_left(deadline))
			ret = -ETIMEDOUT;
		if (ret)
			return ret;
		if (slow && !remote_left(notice)) {
			slow();
			slow = NULL;
		}
	}
}

int line_put(struct line_end *l, const char *text, ...)
{
	char line[LINE_BYTES];
	va_list args;
	int n;

	va_start(args, text);
	n = vsnprintf(line, sizeof(line), text, args);
	va_end(args);
	/* Only a text at its end may be too long. */
	if (n < 0 || n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	for (int i = 0; i < n; i++) {
		if (!is_printable(line[i]))
			line[i] = '?';
	}
	line[n++] = '\n';
	return file_write_all(l->out, line, (size_t)n);
}

const char *line_error(int error)
{
	switch (error) {
	case -ENODATA:
		return "has ended";
	case -ETIMEDOUT:
		return "does not answer";
	case -EMSGSIZE:
		return "sends a line that is too long";
	case -EBADMSG:
		return "sends a line that is cut off, or no text";
	default:
		return strerror(-error);
	}
}

size_t line_words(char *line, char *words[WORDS])
{
	size_t n = 0;

	for (char *s = line; s; n++) {
		char *end = strchr(s, ' ');

		if (n == WORDS || !*s || s == end)
			return 0;
		words[n] = s;
		if (end)
			*end++ = 0;
		s = end;
	}
	return n;
}

bool line_number(const char *word, uint64_t max, uint64_t *out)
{
	return text_u64(word, strlen(word), out) && *out <= max;
}

const char *line_gid(const uint8_t gid[16], char out[LINE_GID])
{
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", gid[i]);
	return out;
}

static bool parse_gid(const char *word, uint8_t gid[16])
{
	if (strlen(word) != LINE_GID - 1 || strspn(word, "0123456789abcdef") != LINE_GID - 1)
		return false;
	for (int i = 0; i < 16; i++) {
		unsigned int byte;

		if (sscanf(word + 2 * i, "%2x", &byte) != 1)
			return false;
		gid[i] = (uint8_t)byte;
	}
	return true;
}

bool line_queue(char *const words[4], struct rdma_end *out)
{
	uint64_t number, lid, mtu;

	if (!line_number(words[0], 0xffffff, &number) || !line_number(words[1], UINT16_MAX, &lid) ||
	    !line_number(words[2], 5, &mtu) || !mtu || !parse_gid(words[3], out->gid))
		return false;
	out->number = (uint32_t)number;
	out->lid = (uint16_t)lid;
	out->mtu = (int)mtu;
	return true;
}
