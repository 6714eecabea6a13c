// SPDX-License-Identifier: MIT
/*
 * tree_files.c - reads files, links and folders, each once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "tree_inside.h"

#define LIST_MAX	65536U		/* names in a folder */
#define LINES_MAX	(256UL << 20)	/* of a file of which only some lines are kept */

int tree_read(struct tree *t, const char *path, const char **data, size_t *length)
{
	struct tree_entry *e = tree_entry_find(t, TREE_READ, path);
	int fd;

	if (!e) {
		e = tree_entry_add(t, TREE_READ, path);
		if (!e)
			return -ENOMEM;
		fd = tree_open_file(t, path);
		e->error = fd < 0 ? fd : file_read_all(fd, TREE_FILE_MAX, &e->data, &e->length);
		if (fd >= 0)
			close(fd);
	}
	return tree_hand_out(e, data, length);
}

int tree_put(struct tree *t, const char *path, const char *data, size_t length)
{
	struct tree_entry *e = tree_entry_find(t, TREE_READ, path) ? NULL :
		tree_entry_add(t, TREE_READ, path);

	if (!e)
		return -ENOMEM;
	e->data = malloc(length + 1);
	if (!e->data) {
		e->error = -ENOMEM;
		return -ENOMEM;
	}
	memcpy(e->data, data, length);
	e->data[length] = 0;
	e->length = length;
	return 0;
}

static int read_lines(struct tree_entry *e, int fd, tree_keep keep, void *arg)
{
	FILE *in = fdopen(fd, "r"), *out;
	size_t room = 0, total = 0;
	char *line = NULL;
	ssize_t n;
	int ret = 0;

	if (!in) {
		close(fd);
		return -ENOMEM;
	}
	out = open_memstream(&e->data, &e->length);
	if (!out) {
		fclose(in);
		return -ENOMEM;
	}
	while ((n = getline(&line, &room, in)) > 0) {
		size_t length = (size_t)n - (line[n - 1] == '\n');

		total += (size_t)n;
		if (total > LINES_MAX) {
			ret = -EFBIG;
			break;
		}
		if (keep(line, length, arg)) {
			fwrite(line, 1, length, out);
			fputc('\n', out);
		}
	}
	if (ferror(in))
		ret = -EIO;
	free(line);
	fclose(in);
	if (fclose(out))
		ret = -ENOMEM;
	return ret;
}

int tree_lines(struct tree *t, const char *path, tree_keep keep, void *arg, const char **data,
	       size_t *length)
{
	struct tree_entry *e = tree_entry_find(t, TREE_LINES, path);
	int fd;

	if (!e) {
		e = tree_entry_add(t, TREE_LINES, path);
		if (!e)
			return -ENOMEM;
		fd = tree_open_file(t, path);
		e->error = fd < 0 ? fd : read_lines(e, fd, keep, arg);
	}
	return tree_hand_out(e, data, length);
}

int tree_link(struct tree *t, const char *path, const char **target)
{
	struct tree_entry *e = tree_entry_find(t, TREE_LINK, path);
	char buf[PATH_MAX];
	ssize_t n;
	int fd;

	if (!e) {
		e = tree_entry_add(t, TREE_LINK, path);
		if (!e)
			return -ENOMEM;
		fd = tree_open_below(t, path, O_PATH | O_NOFOLLOW);
		n = fd < 0 ? -1 : readlinkat(fd, "", buf, sizeof(buf));
		/* Of what is no link, readlinkat() says ENOENT when asked in this way. */
		e->error = n < 0 ? -errno : n == sizeof(buf) ? -ENAMETOOLONG : 0;
		if (fd >= 0)
			close(fd);
		if (!e->error) {
			e->data = strndup(buf, (size_t)n);
			e->length = (size_t)n;
			if (!e->data)
				e->error = -ENOMEM;
		}
	}
	return tree_hand_out(e, target, NULL);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_names(DIR *dir, struct tree_entry *e)
{
	char **names = NULL;
	size_t count = 0, room = 0, total = 1;
	struct dirent *d;
	int ret = 0;
	char *to;

	while ((d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (count == LIST_MAX) {
			ret = -EFBIG;
			break;
		}
		if (count == room) {
			char **bigger = realloc(names, (room ? room * 2 : 64) * sizeof(names[0]));

			if (!bigger) {
				ret = -ENOMEM;
				break;
			}
			names = bigger;
			room = room ? room * 2 : 64;
		}
		names[count] = strdup(d->d_name);
		if (!names[count]) {
			ret = -ENOMEM;
			break;
		}
		total += strlen(names[count++]) + 1;
	}
	if (count)
		qsort(names, count, sizeof(names[0]), by_name);
	to = ret ? NULL : malloc(total);
	if (to) {
		e->data = to;
		e->length = total;
		for (size_t i = 0; i < count; i++)
			to = stpcpy(to, names[i]) + 1;
		*to = 0;
	} else if (!ret) {
		ret = -ENOMEM;
	}
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
	return ret;
}

int tree_list(struct tree *t, const char *path, const char **names)
{
	struct tree_entry *e = tree_entry_find(t, TREE_LIST, path);
	DIR *dir;
	int fd;

	if (!e) {
		e = tree_entry_add(t, TREE_LIST, path);
		if (!e)
			return -ENOMEM;
		fd = tree_open_below(t, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
		dir = fd < 0 ? NULL : fdopendir(fd);
		if (dir) {
			e->error = list_names(dir, e);
			closedir(dir);
		} else {
			e->error = -errno;
			if (fd >= 0)
				close(fd);
		}
	}
	return tree_hand_out(e, names, NULL);
}
