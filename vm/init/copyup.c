// SPDX-License-Identifier: MIT
/* Copies up, in overlayfs's sense, what each program opens as it starts. */
#define _GNU_SOURCE
#include "init.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Over 9p, each open and each link on the way is some requests to the host: 20 for a start of "true", 64 for "cat".
 * In an emulated guest these take longer than the program.
 */
static const char *const patterns[] = {
	"/bin", "/sbin", "/lib", "/lib64",
	"/etc/ld.so.cache", "/lib64/ld-linux*.so.*", "/lib/ld-linux*.so.*",
	"/lib/*-linux-gnu/ld-linux*.so.*", "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libtinfo.so.6",
	"/bin/sh", "/bin/bash", "/bin/cat", "/bin/grep", "/bin/sed", "/bin/sleep", "/bin/seq", "/bin/rm", "/bin/mkdir",
	"/bin/cut", "/bin/head", "/bin/tr", "/bin/wc", "/bin/basename", "/bin/readlink", "/bin/kmod",
	"/usr/share/locale/locale.alias", "/usr/lib/*-linux-gnu/gconv/gconv-modules.cache",
	"/usr/lib/locale/C.utf8/*", "/usr/lib/locale/C.utf8/*/*",
};

/* Changing a link, or opening a file to write it, is enough. */
void copy_up(void)
{
	glob_t found = { 0 };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		glob(patterns[i], GLOB_NOSORT | (i ? GLOB_APPEND : 0), NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *path = found.gl_pathv[i];
		struct stat st;

		if (!lstat(path, &st) && S_ISLNK(st.st_mode))
			(void)!lchown(path, st.st_uid, st.st_gid);
		/* Without O_NONBLOCK, a FIFO would wait for a reader. */
		close(open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
	}
	globfree(&found);
}
