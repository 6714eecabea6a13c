// SPDX-License-Identifier: MIT
/*
 * tree_open.c - opens what is below the root, and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tree_inside.h"

/* The kernel gives up a path with ".." in it, as links in sysfs have, when anything anywhere was renamed or mounted meanwhile. */
#define TRIES	1000

int tree_open_below(const struct tree *t, const char *path, int flags)
{
	struct open_how how = { .flags = (unsigned int)flags | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT };
	int fd, left = TRIES;

	if (t->root < 0)
		return open(path, flags | O_CLOEXEC);
	do {
		fd = (int)syscall(SYS_openat2, t->root, path, &how, sizeof(how));
	} while (fd < 0 && errno == EAGAIN && --left);
	/* A kernel before 5.6, or a sandbox that does not know the call: then links are not followed at the end. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(t->root, *path == '/' ? path + 1 : path,
			    flags | O_CLOEXEC | O_NOFOLLOW);
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
