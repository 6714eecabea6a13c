// SPDX-License-Identifier: MIT
/*
 * bundle_open.c - a bundle as a folder: itself, or what tar(1) makes of it below the folder for
 * temporary files. A bundle may come from anywhere: what is neither file nor folder is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bundle.h"

static int unpack(const char *file, const char *folder)
{
	char *environment[] = { (char *)"LC_ALL=C", (char *)"PATH=/usr/bin:/bin", NULL };
	char *source, *target;
	char *argv[] = { (char *)"tar", (char *)"--extract", NULL, NULL, (char *)"--no-same-owner", (char *)"--no-same-permissions", NULL };
	posix_spawn_file_actions_t actions;
	int ret, status;
	pid_t pid;

	/* With a slash, lest "host:file" be taken for another machine's. */
	if (asprintf(&source, "--file=%s%s", *file == '/' ? "" : "./", file) < 0)
		return -ENOMEM;
	if (asprintf(&target, "--directory=%s", folder) < 0) {
		free(source);
		return -ENOMEM;
	}
	argv[2] = source;
	argv[3] = target;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	ret = -posix_spawnp(&pid, "tar", &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	free(source);
	free(target);
	if (ret)
		return ret;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status ? -EBADMSG : 0;
}

/* All that is in a folder: whether it is files and folders only; or, removed with it. */
static int walk(char *folder, bool remove)
{
	char *paths[] = { folder, NULL };
	FTS *all = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *e;
	int ret = 0;

	if (!all)
		return -errno;
	while ((e = fts_read(all))) {
		if (e->fts_info == FTS_D)
			chmod(e->fts_path, 0700);	/* whatever the archive says */
		else if (remove && e->fts_info == FTS_DP)
			rmdir(e->fts_path);
		else if (remove)
			unlink(e->fts_path);
		else if (e->fts_info != FTS_F && e->fts_info != FTS_DP)
			ret = -EBADMSG;
	}
	fts_close(all);
	return ret;
}

int bundle_open(struct bundle_place *b, const char *path)
{
	const char *place = getenv("TMPDIR");
	struct stat st;
	int ret;

	memset(b, 0, sizeof(*b));
	if (stat(path, &st))
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		b->folder = strdup(path);
		return b->folder ? 0 : -ENOMEM;
	}
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	if (asprintf(&b->folder, "%s/peerdma-bundle.XXXXXX", place && *place ? place : "/tmp") < 0) {
		b->folder = NULL;
		return -ENOMEM;
	}
	if (!mkdtemp(b->folder)) {
		ret = -errno;
		bundle_close(b);
		return ret;
	}
	b->temporary = true;
	ret = unpack(path, b->folder);
	if (!ret)
		ret = walk(b->folder, false);
	if (ret)
		bundle_close(b);
	return ret;
}

void bundle_close(struct bundle_place *b)
{
	if (b->temporary)
		walk(b->folder, true);
	free(b->folder);
	memset(b, 0, sizeof(*b));
}
