// SPDX-License-Identifier: MIT
/*
 * info_outputs.c - prints what `peerdma info` tells of a library that is made up. test_outputs.py compares it with info.txt.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <linux/capability.h>
#include <unistd.h>

#include "base/tool.h"
#include "info/info.h"
#include "peerdma.h"
#include "peerdma_copy.h"
#include "peerdma_monitor.h"

/* ---- the library ---- */

#define ON	PEERDMA_COMPONENT_ON
#define OFF	PEERDMA_COMPONENT_OFF
#define UNKNOWN	PEERDMA_COMPONENT_UNKNOWN
#define DIRECT	PEERDMA_COMPONENT_DIRECT

static struct peerdma_component parts[] = {
	{ .type = PEERDMA_COMPONENT_LIBRARY, .state = ON, .name = "libpeerdma", .version = "9.8.7", .file = "/usr/lib/libpeerdma.so.0.9",
	  .why = "speaks ABI 1 of /dev/peerdma" },
	{ .type = PEERDMA_COMPONENT_BACKEND, .state = ON, .flags = DIRECT, .name = "kernel", .version = "ABI 1", .file = "/dev/peerdma",
	  .why = "pins memory of 2 providers, host memory among them" },
	{ .type = PEERDMA_COMPONENT_BACKEND, .state = UNKNOWN, .flags = DIRECT, .name = "dmabuf", .why = "decided per allocation: "
	  "a reason of many words, one of which (cuMemGetHandleForAddressRangeAndMuchMoreThanFitsIntoALineOfTheTerminal) is long" },
	{ .type = PEERDMA_COMPONENT_BACKEND, .state = UNKNOWN, .name = "staging", .why = "decided per allocation" },
	{ .type = PEERDMA_COMPONENT_BACKEND, .state = OFF, .flags = DIRECT, .name = "soft", .why = "PEERDMA_PROVIDER does not name it" },
	{ .type = PEERDMA_COMPONENT_GPU, .state = ON, .name = "cuda", .version = "CUDA 13.0", .why = "a version without a file" },
	{ .type = PEERDMA_COMPONENT_GPU, .state = OFF, .name = "hsa", .file = "/opt/rocm/lib/libhsa-runtime64.so.1", .why = "a file without a version" },
	{ .type = PEERDMA_COMPONENT_MONITOR, .state = ON, .name = "ein Monitor f\xc3\xbcr Dateien", .why = "host memory" },
	{ .type = PEERDMA_COMPONENT_VERBS, .state = OFF, .name = "libibverbs", .why = "this process has not loaded it" },
	{ .type = PEERDMA_COMPONENT_IPC, .state = ON, .name = "host", .why = "decided per allocation" },
	{ .type = 99, .state = ON, .name = "later", .why = "a part of a later release" },
	{ .type = PEERDMA_COMPONENT_VARIABLE, .state = ON, .name = "PEERDMA_CACHE", .why = "off: registration caches keep nothing" },
	{ .type = PEERDMA_COMPONENT_VARIABLE, .state = OFF, .name = "PEERDMA_CUDA", .why = "the value has no meaning; load: loads libcuda.so.1" },
	{ .type = PEERDMA_COMPONENT_VARIABLE, .state = OFF, .name = "PEERDMA_PROVIDER", .why = "the back-ends" },
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static int error, began, ended;

int peerdma_components(struct peerdma *ctx, struct peerdma_component *out, size_t n, size_t *count)
{
	*count = PARTS;
	for (size_t i = 0; i < PARTS && i < n; i++)
		out[i] = parts[i];
	return n ? error : 0;
}

const char *peerdma_last_error(void)
{
	return "peerdma_components: out of memory";
}

const char *peerdma_copy_method(void)
{
	return "plain";
}

int peerdma_monitor_subscribe(uint32_t memory, peerdma_hook_fn fn, void *arg)
{
	began += memory == PEERDMA_MEMORY_HOST;
	return 0;
}

void peerdma_monitor_unsubscribe(uint32_t memory, peerdma_hook_fn fn, void *arg)
{
	ended += memory == PEERDMA_MEMORY_HOST;
}

static struct peerdma_component *part(const char *name)
{
	size_t i = 0;

	while (strcmp(parts[i].name, name) != 0)
		i++;
	return &parts[i];
}

/* ---- the process ---- */

static bool intercepted;

const char *info_interceptor(size_t i, const char **call)
{
	static const struct { const char *call, *file; } made_up[] = {
		{ "malloc", "/usr/lib/libother\033[31mmalloc.so.2" },
		{ "munmap", "/usr/lib/libucm.so.0" },
		{ "free", "/usr/lib/libother\033[31mmalloc.so.2" },
	};

	if (!intercepted || i >= sizeof(made_up) / sizeof(made_up[0]))
		return NULL;
	*call = made_up[i].call;
	return made_up[i].file;
}

/* ---- the system ---- */

void *__wrap_dlopen(const char *name, int flags);
char *__wrap_dlerror(void);
int __wrap_getrlimit(int which, struct rlimit *limit);
int __wrap_getrlimit64(int which, struct rlimit *limit);
long __wrap_sysconf(int name);
long __wrap_syscall(long number, void *header, struct __user_cap_data_struct *data);
bool __wrap_file_exists(const char *root, const char *path);
int __wrap_file_read(const char *root, const char *path, char **data, size_t *length);

static bool limits, exempt, module;
static const char *version;

void *__wrap_dlopen(const char *name, int flags)
{
	return strcmp(name, "libhsa-runtime64.so.1") ? &error : NULL;
}

char *__wrap_dlerror(void)
{
	return (char *)"libhsa-runtime64.so.1: \033[31mno such file";
}

int __wrap_getrlimit(int which, struct rlimit *limit)
{
	limit->rlim_cur = !limits ? RLIM_INFINITY : which == RLIMIT_MEMLOCK ? 8 << 20 : 1024;
	return 0;
}

int __wrap_getrlimit64(int which, struct rlimit *limit)
{
	return __wrap_getrlimit(which, limit);
}

long __wrap_sysconf(int name)
{
	return 65536;
}

long __wrap_syscall(long number, void *header, struct __user_cap_data_struct *data)
{
	data[0].effective = exempt ? 1U << CAP_IPC_LOCK : ~(1U << CAP_IPC_LOCK);
	return 0;
}

bool __wrap_file_exists(const char *root, const char *path)
{
	return module && !*root && !strcmp(path, "/sys/module/peerdma");
}

int __wrap_file_read(const char *root, const char *path, char **data, size_t *length)
{
	if (!version || *root || strcmp(path, "/sys/module/peerdma/version") != 0)
		return -ENOENT;
	*data = strdup(version);
	*length = strlen(version);
	return 0;
}

/* ---- runs ---- */

static void run(const char *line, unsigned int columns)
{
	char copy[128], *argv[8], *save;
	struct tool tool = { .root = "", .columns = columns };
	int argc = 0, ret;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
	began = ended = 0;
	printf("$ %s\n", line);
	fflush(stdout);
	ret = cmd_info(&tool, argc, argv);
	fflush(stdout);
	printf("[%d]%s\n", ret, began != ended ? "  the monitor's subscription stays" : began ? "  with a monitor" : "");
}

int main(void)
{
	clearenv();
	printf("# a module, no limits\n");
	module = true;
	version = "9.8.6\nmore";
	run("info", 80);

	printf("# no version of the module, limits, an environment; narrow\n");
	version = NULL;
	limits = intercepted = true;
	setenv("PEERDMA_CACHE", "off", 1);
	setenv("PEERDMA_CUDA", "of\033[31m", 1);
	setenv("PEERDMA_PROVIDERS", "kernel", 1);
	setenv("PEERDMA_CASHE", "", 1);
	setenv("PEERDMA_VM", "1", 1);
	setenv("PEERDMA_", "1", 1);
	setenv("PEERDMA_NAME_THAT_IS_LONGER_THAN_ANY_THAT_THE_LIBRARY_READS_OR_EVER_WILL_READ", "1", 1);
	setenv("PEERDMA", "not one", 1);
	setenv("OTHER_PEERDMA_CACHE", "not one", 1);
	part("kernel")->state = OFF;
	run("info", 20);
	exempt = true;
	run("info --json", 80);

	printf("# a kernel without a GPU's provider; no dma-bufs, no module\n");
	module = limits = intercepted = false;
	part("kernel")->state = ON;
	part("kernel")->flags = 0;
	part("dmabuf")->state = OFF;
	*part("libpeerdma")->file = 0;
	run("info", 1000);
	run("info --json", 80);

	printf("# wrong\n");
	run("info x", 80);
	run("info --nothing", 80);
	run("info --root /", 80);
	run("info --help", 80);
	error = -ENOMEM;
	run("info", 80);
	return 0;
}
