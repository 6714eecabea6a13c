// SPDX-License-Identifier: MIT
/*
 * tree_live.c - what is no file: the output of commands, the kernel's log, the rights of device nodes.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tool.h"
#include "tree_inside.h"

#define LOG_MAX		1000000U	/* records */

static int run(const char *const argv[], char **data, size_t *length)
{
	static const char *const folders[] = { "/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/" };
	char *environment[] = { (char *)"LC_ALL=C", (char *)"PATH=/usr/sbin:/sbin:/usr/bin:/bin",
				NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], ret = -ENOENT, status;
	char program[64];
	pid_t pid = 0;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	for (size_t i = 0; ret && i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(program, sizeof(program), "%s%s", folders[i], argv[0]);
		ret = -posix_spawn(&pid, program, &actions, NULL, (char *const *)argv, environment);
	}
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (!ret) {
		ret = file_read_all(ends[0], TREE_FILE_MAX, data, length);
		/* Not before it has ended: what does not fit makes it end with SIGPIPE. */
		close(ends[0]);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (!ret && status) {
			free(*data);
			*data = NULL;
			ret = -ENOENT;
		}
		return ret;
	}
	close(ends[0]);
	return ret;
}

int tree_command(struct tree *t, const char *name, const char *const argv[], const char **data,
		 size_t *length)
{
	struct tree_entry *e = tree_entry_find(t, TREE_COMMAND, name);
	char path[256];
	int fd;

	if (!e) {
		e = tree_entry_add(t, TREE_COMMAND, name);
		if (!e)
			return -ENOMEM;
		if (t->root < 0) {
			e->error = run(argv, &e->data, &e->length);
		} else {
			snprintf(path, sizeof(path), TREE_COMMANDS "%s", name);
			fd = tree_open_file(t, path);
			e->error = fd < 0 ? fd : file_read_all(fd, TREE_FILE_MAX, &e->data,
							       &e->length);
			if (fd >= 0)
				close(fd);
		}
	}
	return tree_hand_out(e, data, length);
}

/* A record a read: "6,339,5140900,-;what it says\n keys=values". */
static int read_log(struct tree_entry *e, tree_keep keep, void *arg)
{
	int fd = open(e->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), ret = 0;
	FILE *out = fd < 0 ? NULL : open_memstream(&e->data, &e->length);
	char record[8193];

	if (!out) {
		ret = fd < 0 ? -errno : -ENOMEM;
		if (fd >= 0)
			close(fd);
		return ret;
	}
	for (unsigned int i = 0; i < LOG_MAX; i++) {
		ssize_t n = read(fd, record, sizeof(record) - 1);
		char *says;

		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;	/* the oldest ones were just overwritten */
		if (n <= 0) {
			ret = n && errno != EAGAIN ? -errno : 0;
			break;
		}
		record[n] = 0;
		says = strchr(record, ';');
		if (says && keep(says + 1, strcspn(says + 1, "\n"), arg))
			fprintf(out, "%.*s\n", (int)strcspn(says + 1, "\n"), says + 1);
	}
	close(fd);
	if (fclose(out))
		ret = -ENOMEM;
	return ret;
}

int tree_log(struct tree *t, tree_keep keep, void *arg, const char **data)
{
	struct tree_entry *e = tree_entry_find(t, TREE_LINES, TREE_LOG);

	if (t->root >= 0)
		return tree_lines(t, TREE_LOG, keep, arg, data, NULL);
	if (!e) {
		e = tree_entry_add(t, TREE_LINES, TREE_LOG);
		if (!e)
			return -ENOMEM;
		e->error = read_log(e, keep, arg);
	}
	return tree_hand_out(e, data, NULL);
}

int tree_node(struct tree *t, const char *path, struct tree_node *node)
{
	struct tree_entry *e = tree_entry_find(t, TREE_NODE, path);
	struct stat st;

	if (!e) {
		e = tree_entry_add(t, TREE_NODE, path);
		if (!e)
			return -ENOMEM;
		/* A captured tree has nodes only in its index. */
		e->error = t->root >= 0 ? -ENOENT : stat(path, &st) ? -errno : 0;
		if (!e->error) {
			e->node.mode = st.st_mode;
			e->node.usable = !access(path, R_OK | W_OK);
			/* EACCES: its rights; EPERM: what cgroups and systemd forbid (inode_permission() of Linux) */
			e->node.refused = !e->node.usable && errno == EPERM;
		}
	}
	*node = e->node;
	return e->error;
}
