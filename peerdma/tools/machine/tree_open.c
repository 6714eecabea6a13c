// SPDX-License-Identifier: MIT
/*
 * tree_open.c - opens what is below the root, and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tree_inside.h"

int tree_open_below(const struct tree *t, const char *path, int flags)
{
	struct open_how how = { .flags = (unsigned int)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	int fd;

	if (t->root < 0)
		return open(path, flags | O_CLOEXEC);
	fd = (int)syscall(SYS_openat2, t->root, path, &how, sizeof(how));
	/* A kernel before 5.6, or a sandbox that does not know the call: then links are not followed at the end. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(t->root, *path == '/' ? path + 1 : path, flags | O_CLOEXEC | O_NOFOLLOW);
	return fd;
}

/* A file to read from, or -errno. */
int tree_open_file(const struct tree *t, const char *path)
{
	int fd = tree_open_below(t, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	/* In a bundle a folder in which nothing could be read is a file. */
	if (fd < 0)
		return errno == ENOTDIR && t->root >= 0 ? -ENOENT : -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

/* All that fd has, with a NUL after it that does not count. */
int tree_read_all(int fd, size_t max, char **data, size_t *length)
{
	size_t used = 0, room = 0;
	char *buf = NULL, *bigger;
	int ret = 0;

	for (;;) {
		ssize_t n;

		if (used + 1 >= room) {
			room = room ? room * 2 : 4096;
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
