// SPDX-License-Identifier: MIT
/*
 * bundle.c - all that was read of a machine as a tar file, which unpacked is a
 * tree that reads the same.
 *
 * It has regular files only, so unpacking it does nothing but write files.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "tree.h"

#define BLOCK	512

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
	char magic[8], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a block of tar");

struct bundle {
	FILE *out;
	FILE *index;
	struct tree *tree;
};

static void write_padded(FILE *out, const char *data, size_t length)
{
	static const char zeros[BLOCK];

	fwrite(data, 1, length, out);
	fwrite(zeros, 1, (BLOCK - length % BLOCK) % BLOCK, out);
}

static void write_header(FILE *out, const char *name, char type, size_t length)
{
	struct header h = { .mode = "0000644", .uid = "0000000", .gid = "0000000", .type = type,
			    .magic = "ustar  " };
	unsigned int sum = 0;

	snprintf(h.name, sizeof(h.name), "%s", name);
	snprintf(h.size, sizeof(h.size), "%011zo", length);
	snprintf(h.mtime, sizeof(h.mtime), "%011o", 0U);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.checksum, sizeof(h.checksum), "%06o", sum & 0777777);
	fwrite(&h, 1, sizeof(h), out);
}

static void write_file(FILE *out, const char *path, const char *data, size_t length)
{
	while (*path == '/')
		path++;
	/* GNU's way with long names, which all unpackers know. */
	if (strlen(path) >= 100) {
		write_header(out, "././@LongLink", 'L', strlen(path) + 1);
		write_padded(out, path, strlen(path) + 1);
	}
	write_header(out, path, '0', length);
	write_padded(out, data, length);
}

static bool fits_index(const char *s)
{
	return !strpbrk(s, "\t\n");
}

/* Something below it is in the bundle, or it itself: then it needs no file of its own. */
struct cover {
	const char *folder, *name;
	bool found;
};

static int covers(const struct tree_entry *e, void *arg)
{
	struct cover *c = arg;
	size_t folder = strlen(c->folder), name = strlen(c->name);

	if (!e->error && e->kind != TREE_NODE && e->kind != TREE_COMMAND && e->kind != TREE_LINK &&
	    !strncmp(e->path, c->folder, folder) && e->path[folder] == '/' &&
	    !strncmp(e->path + folder + 1, c->name, name) &&
	    (!e->path[folder + 1 + name] || e->path[folder + 1 + name] == '/'))
		c->found = true;
	return c->found;
}

/* A config space without the device's serial number, which no diagnosis needs. */
static void write_config(FILE *out, const char *path, const char *data, size_t length)
{
	char *copy = malloc(length + 1);

	if (!copy)
		return;
	memcpy(copy, data, length);
	pci_config_anonymous((uint8_t *)copy, length);
	write_file(out, path, copy, length);
	free(copy);
}

static bool is_config(const char *path)
{
	size_t length = strlen(path);

	return length > 7 && !strcmp(path + length - 7, "/config") &&
	       !strncmp(path, PCI_DEVICES, strlen(PCI_DEVICES));
}

static int write_entry(const struct tree_entry *e, void *arg)
{
	struct bundle *b = arg;
	char path[512];

	if (!fits_index(e->path))
		return 0;
	if (e->error) {
		if (e->error != -ENOENT)
			fprintf(b->index, "error\t%s\t%d\t%d\n", e->path, (int)e->kind, -e->error);
		return 0;
	}
	switch (e->kind) {
	case TREE_READ:
	case TREE_LINES:
		if (is_config(e->path))
			write_config(b->out, e->path, e->data, e->length);
		else
			write_file(b->out, e->path, e->data, e->length);
		break;
	case TREE_COMMAND:
		snprintf(path, sizeof(path), TREE_COMMANDS "%s", e->path);
		write_file(b->out, path, e->data, e->length);
		break;
	case TREE_LINK:
		if (fits_index(e->data))
			fprintf(b->index, "link\t%s\t%s\n", e->path, e->data);
		break;
	case TREE_NODE:
		fprintf(b->index, "node\t%s\t%u\t%s\n", e->path, e->node.mode & 0xffff,
			e->node.usable ? "usable" : e->node.refused ? "refused" : "-");
		break;
	case TREE_LIST:
		/* A folder, even if nothing is in it. */
		for (const char *name = e->data; *name; name = tree_next(name)) {
			struct cover c = { .folder = e->path, .name = name };

			tree_each(b->tree, covers, &c);
			snprintf(path, sizeof(path), "%s/%s", e->path, name);
			if (!c.found)
				write_file(b->out, path, "", 0);
		}
		if (!*e->data) {
			snprintf(path, sizeof(path), "%s/", e->path + strspn(e->path, "/"));
			write_header(b->out, path, '5', 0);
		}
		break;
	}
	return 0;
}

int tree_bundle(struct tree *t, int fd)
{
	static const char end[2 * BLOCK];
	struct bundle b = { .tree = t };
	char *index = NULL;
	size_t length = 0;
	int ret = 0, copy = dup(fd);

	b.out = copy < 0 ? NULL : fdopen(copy, "w");
	b.index = open_memstream(&index, &length);
	if (!b.out || !b.index) {
		ret = -ENOMEM;
		goto out;
	}
	tree_each(t, write_entry, &b);
	if (fflush(b.index))
		ret = -ENOMEM;
	else
		write_file(b.out, TREE_INDEX, index, length);
	fwrite(end, 1, sizeof(end), b.out);
	if (fflush(b.out) || ferror(b.out))
		ret = -errno ? -errno : -EIO;
out:
	if (b.out)
		fclose(b.out);
	else if (copy >= 0)
		close(copy);
	if (b.index)
		fclose(b.index);
	free(index);
	return ret;
}
