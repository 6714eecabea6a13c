// SPDX-License-Identifier: MIT
/*
 * tree_index.c - a machine, or a bundle with its index, opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tool.h"
#include "tree_inside.h"

static bool index_line(struct tree *t, const char *line, const char *end)
{
	struct field fields[5];
	size_t n = tsv_split(line, end, fields, 5);
	struct tree_entry *e;
	uint64_t number, kind = TREE_LINK;
	char path[PATH_MAX];

	if (n < 3 || fields[1].length >= sizeof(path) || memchr(fields[1].s, 0, fields[1].length))
		return false;
	memcpy(path, fields[1].s, fields[1].length);
	path[fields[1].length] = 0;

	if (n == 3 && field_is(&fields[0], "link")) {
		if (tree_entry_find(t, TREE_LINK, path))
			return false;
		e = tree_entry_add(t, TREE_LINK, path);
		if (!e)
			return false;
		e->data = strndup(fields[2].s, fields[2].length);
		e->length = fields[2].length;
		return e->data;
	}
	if (n == 4 && field_is(&fields[0], "error")) {
		if (!text_u64(fields[2].s, fields[2].length, &kind) || kind > TREE_NODE ||
		    !text_u64(fields[3].s, fields[3].length, &number) || !number || number > 4095)
			return false;
		if (tree_entry_find(t, (enum tree_kind)kind, path))
			return false;
		e = tree_entry_add(t, (enum tree_kind)kind, path);
		if (e)
			e->error = -(int)number;
		return e;
	}
	if (n == 4 && field_is(&fields[0], "node")) {
		if (tree_entry_find(t, TREE_NODE, path) ||
		    !text_u64(fields[2].s, fields[2].length, &number) || number > 0xffff)
			return false;
		e = tree_entry_add(t, TREE_NODE, path);
		if (e) {
			e->node.mode = (mode_t)number;
			e->node.usable = field_is(&fields[3], "usable");
			e->node.refused = field_is(&fields[3], "refused");
		}
		return e;
	}
	return false;
}

static int read_index(struct tree *t)
{
	size_t length;
	char *data;
	int ret, fd = tree_open_file(t, TREE_INDEX);

	if (fd == -ENOENT)
		return 0;	/* made by hand */
	if (fd < 0)
		return fd;
	ret = file_read_all(fd, TREE_FILE_MAX, &data, &length);
	close(fd);
	if (ret)
		return ret;
	for (const char *s = data; s < data + length && !ret;) {
		const char *end = memchr(s, '\n', (size_t)(data + length - s));

		if (!end || !index_line(t, s, end))
			ret = -EBADMSG;
		else
			s = end + 1;
	}
	free(data);
	return ret;
}

struct tree *tree_open(const char *root)
{
	struct tree *t = calloc(1, sizeof(*t));
	int ret = 0;

	if (!t)
		return NULL;
	t->root = -1;
	if (*root) {
		t->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		ret = t->root < 0 ? -errno : read_index(t);
	}
	if (!ret)
		return t;
	tree_close(t);
	errno = -ret;
	return NULL;
}
