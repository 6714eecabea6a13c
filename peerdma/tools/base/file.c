// SPDX-License-Identifier: MIT
/*
 * file.c - reads small files of /sys, or of a tree that stands for it; writes files of the user.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

static int join(char out[PATH_MAX], const char *root, const char *path)
{
	int n = snprintf(out, PATH_MAX, "%s%s", root, path);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int file_read_all(int fd, size_t max, char **data, size_t *length)
{
	size_t used = 0, room = 0;
	char *buf = NULL, *bigger;
	int ret = 0;

	for (;;) {
		ssize_t n;

		if (used + 1 >= room) {
			room = room ? room * 2 : 16384;
			bigger = realloc(buf, room);
			if (!bigger) {
				ret = -ENOMEM;
				break;
			}
			buf = bigger;
		}
		n = read(fd, buf + used, room - used - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			ret = -errno;
		if (n <= 0)
			break;
		used += (size_t)n;
		if (used > max) {
			ret = -EFBIG;
			break;
		}
	}
	if (ret) {
		free(buf);
		return ret;
	}
	buf[used] = 0;
	*data = buf;
	*length = used;
	return 0;
}

int file_write_all(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(fd, text, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		length -= (size_t)n;
	}
	return 0;
}

static int read_whole(const char *name, bool regular, char **data, size_t *length)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (regular && (fstat(fd, &st) || !S_ISREG(st.st_mode)))
		ret = -ENOTSUP;
	if (!ret)
		ret = file_read_all(fd, FILE_MAX, data, length);
	close(fd);
	return ret;
}

int file_read(const char *root, const char *path, char **data, size_t *length)
{
	char name[PATH_MAX];
	int ret = join(name, root, path);

	return ret ? ret : read_whole(name, false, data, length);
}

int file_read_regular(const char *path, char **data, size_t *length)
{
	return read_whole(path, true, data, length);
}

bool file_exists(const char *root, const char *path)
{
	char name[PATH_MAX];

	return !join(name, root, path) && !access(name, F_OK);
}

size_t tsv_split(const char *s, const char *end, struct field *fields, size_t max)
{
	size_t n = 0;

	while (n < max) {
		const char *tab = memchr(s, '\t', end - s);

		fields[n].s = s;
		fields[n++].length = (tab ? tab : end) - s;
		if (!tab)
			break;
		s = tab + 1;
	}
	return n;
}

bool field_is(const struct field *f, const char *s)
{
	return f->length == strlen(s) && !memcmp(f->s, s, f->length);
}
