// SPDX-License-Identifier: MIT
/*
 * nomem_outputs.c - memory that is not there: each allocation in turn fails once. What was being read ends with -ENOMEM, or
 * goes on without what is then told as not readable. test_outputs.py compares what is printed with nomem.txt: how many do
 * which. NOMEM_TELL=1 in the environment tells which ones.
 *
 *   nomem_outputs FOLDER       a machine with pins, GPUs and devices
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "pins/accounts.h"
#include "doctor/doctor.h"
#include "bar1/gpu_aperture.h"
#include "metrics/metrics.h"
#include "base/tool.h"
#include "top/top.h"

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n);
FILE *__real_open_memstream(char **data, size_t *length);
FILE *__wrap_open_memstream(char **data, size_t *length);
DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
void *__real_tsearch(const void *key, void **root, int (*compare)(const void *a, const void *b));
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *a, const void *b));

static long left = -1;		/* allocations until one fails; below 0: none does */

static bool fails(void)
{
	if (left < 0 || left--)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails() ? NULL : __real_strndup(s, n);
}

FILE *__wrap_open_memstream(char **data, size_t *length)
{
	return fails() ? NULL : __real_open_memstream(data, length);
}

DIR *__wrap_opendir(const char *path)
{
	return fails() ? NULL : __real_opendir(path);
}

void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *a, const void *b))
{
	return fails() ? NULL : __real_tsearch(key, root, compare);
}

/* ---- what is read ---- */

static struct tool tool;

static int look(void)
{
	struct top_sample s;
	int ret = top_look(&tool, &s);

	if (!ret)
		top_free(&s);
	return ret;
}

static int collect(void)
{
	struct metrics m;
	int ret = metrics_collect(&tool, true, false, &m);

	metrics_free(&m);
	return ret;
}

static int apertures(void)
{
	struct gpu_aperture v;
	struct pins_table pins = { 0 };
	struct gpus gpus;
	int ret = pins_read(tool.root, &pins);

	if (ret)
		return ret;
	ret = gpus_read(tool.root, &gpus);
	for (size_t i = 0; !ret && i < gpus.count; i++) {
		ret = gpu_aperture_fill(tool.root, &gpus.gpus[i], &pins, &v);
		if (!ret)
			aperture_free(&v.aperture);
	}
	gpus_free(&gpus);
	pins_free(&pins);
	return ret;
}

static int users(void)
{
	struct accounts a;
	int ret = accounts_read(tool.root, &a);

	if (!ret)
		accounts_free(&a);
	return ret;
}

/* By NVML, a stand-in for it.  What is read is nobody's to free if it fails. */
static int live_gpus(void)
{
	struct gpus gpus;
	int ret = gpus_read("", &gpus);

	if (!ret)
		gpus_free(&gpus);
	return ret;
}

static int devices(void)
{
	struct tree *t = tree_open(tool.root);
	struct machine m;
	int ret;

	if (!t)
		return -errno;
	ret = machine_read(&m, t);
	machine_free(&m);
	tree_close(t);
	return ret;
}

static int doctor(void)
{
	struct tree *t = tree_open(tool.root);
	struct machine m;
	struct doctor d;
	int ret;

	if (!t)
		return -errno;
	ret = machine_read(&m, t);
	if (!ret) {
		ret = doctor_run(&d, &m, &(struct doctor_options){ .a = -1, .b = -1 });
		doctor_free(&d);
	}
	machine_free(&m);
	tree_close(t);
	return ret;
}

/* `step`: not each of them, where there are many. */
static void each(const char *name, int (*read)(void), unsigned int step)
{
	unsigned int ends = 0, others = 0;
	int ret = read();

	if (ret)
		printf("%s fails with memory, too: %d\n", name, ret);
	for (long n = 0;; n += n < 50 ? 1 : step) {
		left = n;
		ret = read();
		/* So many there are not. */
		if (left >= 0)
			break;
		if (getenv("NOMEM_TELL"))
			printf("%s: %ld: %d\n", name, n, ret);
		ends += ret == -ENOMEM;
		others += ret != -ENOMEM;
	}
	left = -1;
	printf("%s: %u end with -ENOMEM, %u otherwise; the last one: %d\n", name, ends, others, ret);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	tool.root = argv[1];
	each("top", look, 1);
	each("metrics", collect, 1);
	each("apertures", apertures, 1);
	each("accounts", users, 1);
	each("GPUs by NVML", live_gpus, 1);
	each("devices", devices, 1);
	each("doctor", doctor, 13);
	return 0;
}
