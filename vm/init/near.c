// SPDX-License-Identifier: MIT
/* Copies of what each process opens as it starts. */
#define _GNU_SOURCE
#include "init.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

/* In an emulated guest, twenty questions to the host for each start of "true", and sixty for "cat", take longer than the program. */
static const char *const patterns[] = {
	"/bin", "/sbin", "/lib", "/lib64",
	"/etc/ld.so.cache", "/lib64/ld-linux*.so.*", "/lib/ld-linux*.so.*",
	"/lib/*-linux-gnu/ld-linux*.so.*", "/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libtinfo.so.6",
	"/bin/sh", "/bin/bash", "/bin/cat", "/bin/grep", "/bin/sed", "/bin/sleep", "/bin/seq", "/bin/rm", "/bin/mkdir",
	"/bin/cut", "/bin/head", "/bin/tr", "/bin/wc", "/bin/basename", "/bin/readlink", "/bin/kmod",
	"/usr/share/locale/locale.alias", "/usr/lib/*-linux-gnu/gconv/gconv-modules.cache",
	"/usr/lib/locale/C.utf8/*", "/usr/lib/locale/C.utf8/*/*",
};

/* What is changed, or opened to be written, is copied to the layer above the host's files. */
void bring_near(void)
{
	glob_t found = { 0 };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		glob(patterns[i], GLOB_NOSORT | (i ? GLOB_APPEND : 0), NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct stat st;

		if (!lstat(found.gl_pathv[i], &st) && S_ISLNK(st.st_mode))
			(void)!lchown(found.gl_pathv[i], st.st_uid, st.st_gid);
		close(open(found.gl_pathv[i], O_WRONLY | O_CLOEXEC | O_NONBLOCK));
	}
	globfree(&found);
}
