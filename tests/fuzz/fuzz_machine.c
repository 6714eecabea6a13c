// SPDX-License-Identifier: MIT
/*
 * A whole machine, as topo and the doctor read one: a captured one of which some files
 * are another's, or gone.  The tree is in memory: this stands in for tree_open.c, and what
 * is in the tree is what has been read of it before a call asks.
 *
 * The input: which machine, then changes, each an operation, a file by number, and bytes with
 * their length before them.
 */
#include <fcntl.h>
#include <ftw.h>
#include <json-c/json.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "doctor/doctor.h"
#include "fuzz.h"
#include "topo/topo.h"
#include "machine/gpu_names.h"
#include "machine/tree_inside.h"

#define FILES_MAX	1024
#define MACHINES_MAX	16
#define CHANGES_MAX	24
#define LENGTH_MAX	(1U << 16)

/* What moves data is not for captured machines, and is not linked. */
static bool never(const struct doctor *d)
{
	MUST(!d->probe);
	return false;
}

const struct check check_probe = { "probe", "", never, NULL }, check_probe_nic = { "probe-nic", "", never, NULL },
	check_probe_nvme = { "probe-nvme", "", never, NULL }, check_probe_view = { "probe-view", "", never, NULL };

struct file {
	char *path, *data;
	size_t length;
	bool gone;
};

struct set {
	struct file files[FILES_MAX];
	size_t count;
};

static struct set machines[MACHINES_MAX], now;
static size_t machine_count;

/* ---- the machines ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static const char *top;

static int load(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	struct set *s = &machines[machine_count];
	struct file *f = &s->files[s->count];
	FILE *in;

	(void)ftw;
	if (type != FTW_F)
		return 0;
	MUST(s->count < FILES_MAX && (in = fopen(name, "re")));
	f->path = strdup(name + strlen(top));
	f->length = (size_t)st->st_size;
	f->data = malloc(f->length + 1);
	MUST(f->path && f->data && fread(f->data, 1, f->length, in) == f->length);
	fclose(in);
	s->count++;
	return 0;
}

/* In the order of the makefile, so that an input means the same everywhere. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char names[] = FUZZ_MACHINES, *rest = names;

	(void)argc;
	(void)argv;
	while ((top = strsep(&rest, " "))) {
		struct set *s = &machines[machine_count];

		if (!*top)
			continue;
		MUST(machine_count < MACHINES_MAX && !nftw(top, load, 16, FTW_PHYS) && s->count);
		qsort(s->files, s->count, sizeof(s->files[0]), by_path);
		machine_count++;
	}
	MUST(machine_count);
	return 0;
}

/* ---- changes ---- */

static void set_data(struct file *f, const void *data, size_t length)
{
	char *copy = malloc(length + 1);

	MUST(copy);
	memcpy(copy, data, length);
	copy[length] = 0;
	free(f->data);
	f->data = copy;
	f->length = length;
}

static void copy_machine(const struct set *from)
{
	now.count = from->count;
	for (size_t i = 0; i < from->count; i++) {
		now.files[i] = (struct file){ .path = strdup(from->files[i].path) };
		MUST(now.files[i].path);
		set_data(&now.files[i], from->files[i].data, from->files[i].length);
	}
}

static void forget_machine(void)
{
	for (size_t i = 0; i < now.count; i++) {
		free(now.files[i].path);
		free(now.files[i].data);
	}
	now.count = 0;
}

static struct file *find(const char *path)
{
	for (size_t i = 0; i < now.count; i++)
		if (!now.files[i].gone && !strcmp(now.files[i].path, path))
			return &now.files[i];
	return NULL;
}

static void grow(struct file *f, size_t at, const void *data, size_t length)
{
	size_t total = at + length > f->length ? at + length : f->length;
	char *whole = calloc(1, total + 1);

	if (total <= LENGTH_MAX) {
		memcpy(whole, f->data, f->length);
		memcpy(whole + at, data, length);
		set_data(f, whole, total);
	}
	free(whole);
}

/* A path is absolute, and each part of it a name that a folder can have. */
static bool fit_path(const char *p)
{
	if (*p != '/')
		return false;
	for (; *p; p += strcspn(p + 1, "/") + 1) {
		size_t length = strcspn(p + 1, "/");

		if (!length || length > 255 || (length == 1 && p[1] == '.') || (length == 2 && p[1] == '.' && p[2] == '.'))
			return false;
	}
	return true;
}

static void add(const char *path, const void *data, size_t length)
{
	struct file *f = find(path);

	if (!f) {
		if (now.count == FILES_MAX || !fit_path(path))
			return;
		f = &now.files[now.count++];
		*f = (struct file){ .path = strdup(path) };
		MUST(f->path);
	}
	set_data(f, data, length);
}

static void drop_below(const char *path, unsigned int levels)
{
	size_t length = strlen(path);

	while (levels-- && length)
		do
			length--;
		while (length && path[length] != '/');
	for (size_t i = 0; i < now.count && length; i++)
		if (!strncmp(now.files[i].path, path, length) && now.files[i].path[length] == '/')
			now.files[i].gone = true;
}

/* The same files once more, in a folder beside it. */
static void copy_folder(const char *path, const char *name)
{
	size_t folder = (size_t)(strrchr(path, '/') - path), before = folder, count = now.count;
	char to[600];

	while (before && path[before - 1] != '/')
		before--;
	for (size_t i = 0; i < count && before; i++) {
		struct file *f = &now.files[i];

		if (f->gone || strncmp(f->path, path, folder) || f->path[folder] != '/')
			continue;
		if (snprintf(to, sizeof(to), "%.*s%s%s", (int)before, path, name, f->path + folder) < (int)sizeof(to))
			add(to, f->data, f->length);
	}
}

static void change(unsigned int operation, struct file *f, const uint8_t *bytes, size_t length)
{
	char *text = fuzz_text(bytes, length), path[300];
	size_t first = strlen(text);
	FILE *line;

	switch (operation % 9) {
	case 0:
		set_data(f, bytes, length);
		break;
	case 1:		/* there: two bytes say where */
		if (length > 2)
			grow(f, (bytes[0] | (size_t)bytes[1] << 8) % (f->length + 1), bytes + 2, length - 2);
		break;
	case 2:
		grow(f, f->length, bytes, length);
		break;
	case 3:
		f->gone = true;
		break;
	case 4:
		if (length)
			drop_below(f->path, 1 + bytes[0] % 3);
		break;
	case 5:
		if (length > 1)
			set_data(f, f->data, (bytes[0] | (size_t)bytes[1] << 8) % (f->length + 1));
		break;
	case 6:		/* a link in its place */
		f->gone = true;
		snprintf(path, sizeof(path), "%s", f->path);
		f = find(TREE_INDEX);
		if (f && !strpbrk(text, "\t\n")) {
			char *out = NULL;
			size_t n = 0;

			line = open_memstream(&out, &n);
			fprintf(line, "link\t%s\t%s\n", path, text);
			fclose(line);
			grow(f, f->length, out, n);
			free(out);
		}
		break;
	case 7:		/* a new file: its path, a NUL, what is in it */
		if (first < length)
			add(text, bytes + first + 1, length - first - 1);
		break;
	case 8:
		if (first && first < 256)
			copy_folder(f->path, text);
		break;
	}
	free(text);
}

/* ---- the tree ---- */

int tree_open_below(const struct tree *t, const char *path, int flags)
{
	(void)t;
	(void)flags;
	/* Folders are in the tree already, links are the index's. */
	errno = find(path) ? ENOTDIR : ENOENT;
	return -1;
}

int tree_open_file(const struct tree *t, const char *path)
{
	struct file *f = find(path);
	int fd;

	(void)t;
	if (!f)
		return -ENOENT;
	fd = memfd_create("file", MFD_CLOEXEC);
	MUST(fd >= 0 && write(fd, f->data, f->length) == (ssize_t)f->length && !lseek(fd, 0, SEEK_SET));
	return fd;
}

static void put_entry(struct tree *t, enum tree_kind kind, const char *path, const char *data, size_t length)
{
	struct tree_entry *e = tree_entry_find(t, kind, path) ? NULL : tree_entry_add(t, kind, path);

	if (!e)
		return;
	e->data = malloc(length + 1);
	MUST(e->data);
	memcpy(e->data, data, length);
	e->data[length] = 0;
	e->length = length;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names below it, of files and of folders on the way to files. */
static void put_list(struct tree *t, const char *folder)
{
	size_t length = strlen(folder), count = 0, total = 0;
	char *names[FILES_MAX], *list, *to;

	for (size_t i = 0; i < now.count; i++) {
		const char *p = now.files[i].path;

		if (now.files[i].gone || strncmp(p, folder, length) || p[length] != '/')
			continue;
		names[count] = strndup(p + length + 1, strcspn(p + length + 1, "/"));
		MUST(names[count]);
		total += strlen(names[count++]) + 1;
	}
	qsort(names, count, sizeof(names[0]), by_text);
	to = list = malloc(total + 1);
	MUST(list);
	for (size_t i = 0; i < count; i++)
		if (!i || strcmp(names[i], names[i - 1]))
			to = stpcpy(to, names[i]) + 1;
	*to = 0;
	put_entry(t, TREE_LIST, folder, list, (size_t)(to - list) + 1);
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(list);
}

static struct tree *tree_make(void)
{
	/* Nothing is read there: files are opened by the functions above. */
	struct tree *t = tree_open("/");

	if (!t)
		return NULL;
	for (size_t i = 0; i < now.count; i++) {
		const struct file *f = &now.files[i];
		char *folder = f->gone ? NULL : strdup(f->path), *slash;

		if (!folder)
			continue;
		put_entry(t, TREE_READ, f->path, f->data, f->length);
		while ((slash = strrchr(folder, '/')) && slash > folder) {
			*slash = 0;
			if (tree_entry_find(t, TREE_LIST, folder))
				break;
			put_list(t, folder);
		}
		free(folder);
	}
	return t;
}

/* ---- what is printed ---- */

static char *printed;
static size_t printed_length;
static FILE *real;

static void begin(void)
{
	real = stdout;
	stdout = open_memstream(&printed, &printed_length);
	MUST(stdout);
}

static void end(bool json)
{
	fclose(stdout);
	stdout = real;
	for (size_t i = 0; i < printed_length; i++)
		MUST((unsigned char)printed[i] >= ' ' ? printed[i] != 0x7f : printed[i] == '\n');
	if (json) {
		enum json_tokener_error error;
		struct json_object *o = json_tokener_parse_verbose(printed, &error);

		MUST(o && error == json_tokener_success);
		json_object_put(o);
	}
	free(printed);
	printed = NULL;
}

static void topo(struct machine *m)
{
	struct nears n;

	MUST(!gpu_names_read(m) && !nears_read(m, &n));
	begin();
	MUST(topo_json(&n) == EXIT_OK);
	end(true);
	begin();
	topo_svg(m);
	topo_matrix(m, 0);
	topo_matrix(m, 30);
	topo_legend();
	topo_near(&n);
	topo_tree(m, false);
	topo_tree(m, true);
	end(false);
	nears_free(&n);
}

static void findings(struct machine *m, int a, int b)
{
	struct tool tool = { .root = "/", .columns = 80 };
	struct doctor d;

	MUST(!doctor_run(&d, m, &(struct doctor_options){ .a = a, .b = b }));
	for (unsigned int i = 0; i < d.count; i++) {
		const struct finding *f = &d.findings[i];

		MUST(f->subject && *f->subject && f->check);
		MUST(f->verdict != VERDICT_BROKEN || f->consequence);
		MUST(!f->counts || doctor_verdict(&d) != VERDICT_OK);
	}
	begin();
	render_text(&d, &tool, true);
	render_text(&d, &tool, false);
	end(false);
	begin();
	MUST(render_json(&d) == EXIT_OK);
	end(true);
	doctor_free(&d);
}

static void look(struct tree *t)
{
	struct machine m;
	int ret = machine_read(&m, t), out;

	MUST(!ret || ret == -ENOENT || ret == -E2BIG);
	if (!ret)
		topo(&m);
	if (!ret || m.tegra) {
		findings(&m, -1, -1);
		if (m.shown_count >= 2)
			findings(&m, (int)m.shown[0], (int)m.shown[m.shown_count - 1]);
	}
	for (unsigned int i = 0; i < m.shown_count; i++)
		MUST(machine_find(&m, m.devices[m.shown[i]].label) >= 0);
	out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	MUST(out >= 0 && !tree_bundle(t, out));
	close(out);
	machine_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;
	struct tree *t;

	if (!size)
		return 0;
	copy_machine(&machines[*data++ % machine_count]);
	for (int i = 0; i < CHANGES_MAX && end - data >= 4; i++) {
		struct file *f = &now.files[(data[1] | data[2] << 8) % now.count];
		size_t length = data[3] < end - data - 4 ? data[3] : (size_t)(end - data - 4);

		change(data[0], f, data + 4, length);
		data += 4 + length;
	}
	t = tree_make();
	if (t)
		look(t);
	tree_close(t);
	forget_machine();
	return 0;
}
