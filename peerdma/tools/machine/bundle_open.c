// SPDX-License-Identifier: MIT
/*
 * bundle_open.c - a bundle as a folder: itself, or what tar(1) makes of it below the folder for
 * temporary files. A bundle may come from anywhere: what is neither file nor folder is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bundle.h"
#include "tree.h"

/* What a person or a service manager ends a program by. */
static void hold_signals(sigset_t *before)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, before);
}

/* tar(1) is ended by the signals that wait here, so a terminal's Ctrl-C ends both. */
static int unpack(const char *file, const char *folder, const sigset_t *signals)
{
	char *environment[] = { (char *)"LC_ALL=C", (char *)"PATH=/usr/bin:/bin", NULL };
	char *source, *target;
	char *argv[] = { (char *)"tar", (char *)"--extract", NULL, NULL, (char *)"--no-same-owner",
			 (char *)"--no-same-permissions", NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
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
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attr, signals);
	ret = -posix_spawnp(&pid, "tar", &actions, &attr, argv, environment);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	free(source);
	free(target);
	if (ret)
		return ret;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status ? -EBADMSG : 0;
}

/* The index comes last: tar(1) takes an archive that ends before it, between two files, for a whole one. */
static int is_whole(const char *folder)
{
	char *index;
	int ret;

	if (asprintf(&index, "%s" TREE_INDEX, folder) < 0)
		return -ENOMEM;
	ret = access(index, F_OK) ? -EBADMSG : 0;
	free(index);
	return ret;
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

int bundle_open(struct bundle_place *b, const char *path, const char **what)
{
	const char *place = getenv("TMPDIR");
	struct stat st;
	int ret;

	if (!place || !*place)
		place = "/tmp";
	*what = path;
	memset(b, 0, sizeof(*b));
	if (stat(path, &st))
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		b->folder = strdup(path);
		return b->folder ? 0 : -ENOMEM;
	}
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	if (access(path, R_OK))
		return -errno;
	if (asprintf(&b->folder, "%s/peerdma-bundle.XXXXXX", place) < 0) {
		b->folder = NULL;
		return -ENOMEM;
	}
	hold_signals(&b->signals);
	if (!mkdtemp(b->folder)) {
		ret = -errno;
		sigprocmask(SIG_SETMASK, &b->signals, NULL);
		*what = place;
		bundle_close(b);
		return ret;
	}
	b->temporary = true;
	ret = unpack(path, b->folder, &b->signals);
	if (ret && ret != -EBADMSG)
		*what = "tar";
	if (!ret)
		ret = walk(b->folder, false);
	if (!ret)
		ret = is_whole(b->folder);
	if (ret)
		bundle_close(b);
	return ret;
}

void bundle_close(struct bundle_place *b)
{
	if (b->temporary) {
		walk(b->folder, true);
		sigprocmask(SIG_SETMASK, &b->signals, NULL);
	}
	free(b->folder);
	memset(b, 0, sizeof(*b));
}
