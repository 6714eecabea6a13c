// SPDX-License-Identifier: MIT
/*
 * tree.c - reads a machine, or a folder that stands for one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <search.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"
#include "tree.h"

#define LIST_MAX	65536U		/* names in a folder */
#define LINES_MAX	(256UL << 20)	/* of a file of which only some lines are kept */

struct tree {
	int root;		/* -1: this machine */
	void *entries;		/* tsearch(3) */
	struct tree_entry **sorted;
	size_t count, room;
};

/* ---- what has been read --------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct tree_entry *x = a, *y = b;

	return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

static struct tree_entry *find(struct tree *t, enum tree_kind kind, const char *path)
{
	struct tree_entry key = { .kind = kind, .path = (char *)path };
	void *found = tfind(&key, &t->entries, compare);

	return found ? *(struct tree_entry **)found : NULL;
}

static struct tree_entry *add(struct tree *t, enum tree_kind kind, const char *path)
{
	struct tree_entry *e;

	if (t->count == t->room) {
		size_t room = t->room ? t->room * 2 : 256;
		struct tree_entry **bigger = realloc(t->sorted, room * sizeof(bigger[0]));

		if (!bigger)
			return NULL;
		t->sorted = bigger;
		t->room = room;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->kind = kind;
	e->path = strdup(path);
	if (!e->path || !tsearch(e, &t->entries, compare)) {
		free(e->path);
		free(e);
		return NULL;
	}
	t->sorted[t->count++] = e;
	return e;
}

static void keep_nothing(void *node)
{
	(void)node;
}

static int by_kind_and_path(const void *a, const void *b)
{
	return compare(*(struct tree_entry *const *)a, *(struct tree_entry *const *)b);
}

int tree_each(const struct tree *t, tree_visit visit, void *arg)
{
	int ret = 0;

	if (t->count)
		qsort(t->sorted, t->count, sizeof(t->sorted[0]), by_kind_and_path);
	for (size_t i = 0; i < t->count && !ret; i++)
		ret = visit(t->sorted[i], arg);
	return ret;
}

/* ---- opening -------------------------------------------------------------- */

static int open_below(const struct tree *t, const char *path, int flags)
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
static int open_file(const struct tree *t, const char *path)
{
	int fd = open_below(t, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
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
static int read_all(int fd, size_t max, char **data, size_t *length)
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

static int hand_out(const struct tree_entry *e, const char **data, size_t *length)
{
	if (!e)
		return -ENOMEM;
	if (e->error)
		return e->error;
	*data = e->data;
	if (length)
		*length = e->length;
	return 0;
}

/* ---- files ---------------------------------------------------------------- */

int tree_read(struct tree *t, const char *path, const char **data, size_t *length)
{
	struct tree_entry *e = find(t, TREE_READ, path);
	int fd;

	if (!e) {
		e = add(t, TREE_READ, path);
		if (!e)
			return -ENOMEM;
		fd = open_file(t, path);
		e->error = fd < 0 ? fd : read_all(fd, TREE_FILE_MAX, &e->data, &e->length);
		if (fd >= 0)
			close(fd);
	}
	return hand_out(e, data, length);
}

int tree_put(struct tree *t, const char *path, const char *data, size_t length)
{
	struct tree_entry *e = find(t, TREE_READ, path) ? NULL : add(t, TREE_READ, path);

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

int tree_lines(struct tree *t, const char *path, tree_keep keep, void *arg, const char **data, size_t *length)
{
	struct tree_entry *e = find(t, TREE_LINES, path);
	int fd;

	if (!e) {
		e = add(t, TREE_LINES, path);
		if (!e)
			return -ENOMEM;
		fd = open_file(t, path);
		e->error = fd < 0 ? fd : read_lines(e, fd, keep, arg);
	}
	return hand_out(e, data, length);
}

int tree_link(struct tree *t, const char *path, const char **target)
{
	struct tree_entry *e = find(t, TREE_LINK, path);
	char buf[PATH_MAX];
	ssize_t n;
	int fd;

	if (!e) {
		e = add(t, TREE_LINK, path);
		if (!e)
			return -ENOMEM;
		fd = open_below(t, path, O_PATH | O_NOFOLLOW);
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
	return hand_out(e, target, NULL);
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
	struct tree_entry *e = find(t, TREE_LIST, path);
	DIR *dir;
	int fd;

	if (!e) {
		e = add(t, TREE_LIST, path);
		if (!e)
			return -ENOMEM;
		fd = open_below(t, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
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
	return hand_out(e, names, NULL);
}

/* ---- commands and nodes ---------------------------------------------------- */

static int run(const char *const argv[], char **data, size_t *length)
{
	static const char *const folders[] = { "/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/" };
	char *environment[] = { (char *)"LC_ALL=C", (char *)"PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL };
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
		ret = read_all(ends[0], TREE_FILE_MAX, data, length);
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

int tree_command(struct tree *t, const char *name, const char *const argv[], const char **data, size_t *length)
{
	struct tree_entry *e = find(t, TREE_COMMAND, name);
	char path[256];
	int fd;

	if (!e) {
		e = add(t, TREE_COMMAND, name);
		if (!e)
			return -ENOMEM;
		if (t->root < 0) {
			e->error = run(argv, &e->data, &e->length);
		} else {
			snprintf(path, sizeof(path), TREE_COMMANDS "%s", name);
			fd = open_file(t, path);
			e->error = fd < 0 ? fd : read_all(fd, TREE_FILE_MAX, &e->data, &e->length);
			if (fd >= 0)
				close(fd);
		}
	}
	return hand_out(e, data, length);
}

int tree_node(struct tree *t, const char *path, struct tree_node *node)
{
	struct tree_entry *e = find(t, TREE_NODE, path);
	struct stat st;

	if (!e) {
		e = add(t, TREE_NODE, path);
		if (!e)
			return -ENOMEM;
		/* A captured tree tells of nodes in its index only. */
		e->error = t->root >= 0 ? -ENOENT : stat(path, &st) ? -errno : 0;
		if (!e->error) {
			e->node.mode = st.st_mode;
			e->node.usable = !access(path, R_OK | W_OK);
		}
	}
	*node = e->node;
	return e->error;
}

/* ---- the index of a bundle ------------------------------------------------- */

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
		if (find(t, TREE_LINK, path))
			return false;
		e = add(t, TREE_LINK, path);
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
		if (find(t, (enum tree_kind)kind, path))
			return false;
		e = add(t, (enum tree_kind)kind, path);
		if (e)
			e->error = -(int)number;
		return e;
	}
	if (n == 4 && field_is(&fields[0], "node")) {
		if (find(t, TREE_NODE, path) || !text_u64(fields[2].s, fields[2].length, &number) || number > 0xffff)
			return false;
		e = add(t, TREE_NODE, path);
		if (e) {
			e->node.mode = (mode_t)number;
			e->node.usable = field_is(&fields[3], "usable");
		}
		return e;
	}
	return false;
}

static int read_index(struct tree *t)
{
	size_t length;
	char *data;
	int ret, fd = open_file(t, TREE_INDEX);

	if (fd == -ENOENT)
		return 0;	/* made by hand */
	if (fd < 0)
		return fd;
	ret = read_all(fd, TREE_FILE_MAX, &data, &length);
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

void tree_close(struct tree *t)
{
	if (!t)
		return;
	tdestroy(t->entries, keep_nothing);
	for (size_t i = 0; i < t->count; i++) {
		free(t->sorted[i]->path);
		free(t->sorted[i]->data);
		free(t->sorted[i]);
	}
	free(t->sorted);
	if (t->root >= 0)
		close(t->root);
	free(t);
}

bool tree_is_live(const struct tree *t)
{
	return t->root < 0;
}

/* ---- small answers ---------------------------------------------------------- */

/* Not cut in the middle of a character. */
static void tree_fit(char *out, size_t size, const char *clean)
{
	size_t length = strlen(clean);

	if (length >= size) {
		length = size - 1;
		while (length && (clean[length] & 0xc0) == 0x80)
			length--;
	}
	memcpy(out, clean, length);
	out[length] = 0;
}

int tree_clean(char *out, size_t size, const char *s, size_t length)
{
	char *clean = text_clean(s, length < 4096 ? length : 4096);

	*out = 0;
	if (!clean)
		return -ENOMEM;
	tree_fit(out, size, clean);
	free(clean);
	return 0;
}

int tree_word(struct tree *t, const char *path, char *out, size_t size)
{
	const char *data;
	int ret = tree_read(t, path, &data, NULL);

	*out = 0;
	return ret ? ret : tree_clean(out, size, data, strcspn(data, "\n"));
}

int tree_number(struct tree *t, const char *path, int64_t *out)
{
	char word[32];
	uint64_t n;
	bool minus;
	int ret = tree_word(t, path, word, sizeof(word));

	if (ret)
		return ret;
	minus = *word == '-';
	if (!text_u64(word + minus, strlen(word + minus), &n) || n > INT64_MAX)
		return -EBADMSG;
	*out = minus ? -(int64_t)n : (int64_t)n;
	return 0;
}

bool tree_exists(struct tree *t, const char *path)
{
	const char *data;
	size_t length;
	int ret = tree_list(t, path, &data);

	if (ret == -ENOTDIR)
		ret = tree_read(t, path, &data, &length);
	return !ret || ret == -EACCES || ret == -EPERM;
}
