// SPDX-License-Identifier: MIT
/*
 * cmd_info.c - `peerdma info`: what this process, and a program that is started in the same way,
 * gets from libpeerdma, and why not the rest.
 */
#include <dlfcn.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tool.h"
#include "info/info.h"
#include "peerdma_copy.h"
#include "peerdma_monitor.h"

static const char usage[] =
	"Usage: peerdma info [--json]\n"
	"\n"
	"Shows what libpeerdma gives to this process, and to programs that are started in\n"
	"the same way (user, environment, container): back-ends, GPU libraries, monitors,\n"
	"verbs and IPC; each on, off or unknown, and why. Then preloaded libraries that\n"
	"intercept calls for memory, limits and environment.\n"
	"Loads the libraries of CUDA, HSA and verbs, but initializes none.\n"
	"\n"
	"  --json   one JSON object, schema peerdma-info/1\n"
	"\n"
	"Exit code: 0 a back-end is on that pins GPU memory itself, not a copy; 1 none is;\n"
	"2 cannot tell, it is decided per allocation; 3 wrong usage or another error.\n";

enum { EXIT_NONE = 1, EXIT_FAILED = 3 };	/* 1 is a verdict here */
#define PREFIX		"PEERDMA_"

static void *need(void *p)
{
	if (!p) {
		warn("info: out of memory");
		exit(EXIT_FAILED);
	}
	return p;
}

static char *cleaned(const char *s, size_t length)
{
	return need(text_clean(s, length));
}

/* ---- the parts of the library ---- */

/*
 * Programs that use GPUs and RDMA have these libraries. They are loaded as such programs load them,
 * and stay loaded. Nothing of them is called: no context of CUDA is made.
 */
static void load_libraries(struct info *info)
{
	static const char *const names[INFO_LIBRARIES] = {
		"libcuda.so.1", "libhsa-runtime64.so.1", "libibverbs.so.1",
	};
	const char *why;

	for (size_t i = 0; i < INFO_LIBRARIES; i++) {
		info->libraries[i].name = names[i];
		if (dlopen(names[i], RTLD_LAZY | RTLD_LOCAL))
			continue;
		why = dlerror();
		if (!why)
			why = "cannot be loaded";
		info->libraries[i].why = cleaned(why, strlen(why));
	}
}

static void find_intercepted(struct info *info)
{
	const char *call, *file;

	for (size_t i = 0; i < INFO_CALLS; i++) {
		file = info_interceptor(i, &call);
		if (file)
			info->intercepted[info->intercepted_count++] = (struct info_interception){
				.call = call, .file = cleaned(file, strlen(file)),
			};
	}
}

static void ignore(void *arg, const struct peerdma_hook_event *event)
{
	(void)arg;
	(void)event;
}

/* The monitor of host memory begins with its first use. If it cannot, its component says why. */
static void begin_monitor(void)
{
	if (!peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, ignore, NULL))
		peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, ignore, NULL);
}

/* 0, or -errno with peerdma_last_error(). */
static int find_components(struct info *info)
{
	size_t count;
	int ret = peerdma_components(NULL, NULL, 0, &info->count);

	if (ret)
		return ret;
	info->components = need(calloc(info->count, sizeof(*info->components)));
	info->components[0].size = sizeof(*info->components);
	ret = peerdma_components(NULL, info->components, info->count, &count);
	if (!ret && count < info->count)
		info->count = count;
	return ret;
}

/* ---- the environment ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct info_variable *)a)->name,
		      ((const struct info_variable *)b)->name);
}

static struct info_variable *add_variable(struct info *info, const char *name, size_t length,
					  const char *value)
{
	size_t room = (info->variable_count + 1) * sizeof(*info->variables);
	struct info_variable *v;

	info->variables = need(realloc(info->variables, room));
	v = &info->variables[info->variable_count++];
	*v = (struct info_variable){ .name = cleaned(name, length),
				     .value = value ? cleaned(value, strlen(value)) : NULL };
	return v;
}

/* The variables that the library reads; returns their names. */
static const char **find_read(struct info *info, size_t *n)
{
	const char **names = need(calloc(info->count + 1, sizeof(*names)));

	*n = 0;
	for (size_t i = 0; i < info->count; i++) {
		const struct peerdma_component *c = &info->components[i];

		if (c->type != PEERDMA_COMPONENT_VARIABLE)
			continue;
		add_variable(info, c->name, strlen(c->name), getenv(c->name))->read = c;
		names[(*n)++] = c->name;
	}
	return names;
}

static bool is_one(const char *name, size_t length, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strlen(names[i]) == length && !memcmp(names[i], name, length))
			return true;
	}
	return false;
}

static void find_variables(struct info *info)
{
	size_t n, length;
	const char **names = find_read(info, &n);

	for (char **e = environ; e && *e; e++) {
		struct info_variable *v;

		length = strcspn(*e, "=");
		if (strncmp(*e, PREFIX, strlen(PREFIX)) != 0 || !(*e)[length] ||
		    is_one(*e, length, names, n))
			continue;
		v = add_variable(info, *e, length, *e + length + 1);
		v->meant = near_name(v->name, names, n, strlen(PREFIX));
	}
	free(names);
	qsort(info->variables, info->variable_count, sizeof(*info->variables), by_name);
}

/* ---- limits ---- */

static uint64_t soft_limit(int which)
{
	struct rlimit limit;

	return getrlimit(which, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX :
									     limit.rlim_cur;
}

static bool has_ipc_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	return !syscall(SYS_capget, &header, data) && data[0].effective & 1U << CAP_IPC_LOCK;
}

static void find_limits(struct info *info)
{
	info->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	info->memlock = soft_limit(RLIMIT_MEMLOCK);
	info->memlock_exempt = has_ipc_lock();
	info->files = soft_limit(RLIMIT_NOFILE);
	info->copy = peerdma_copy_method();
}

static void find_module(struct info *info)
{
	char *version;
	size_t length;

	if (!file_exists("", "/sys/module/peerdma"))
		return;
	if (file_read("", "/sys/module/peerdma/version", &version, &length)) {
		info->module = cleaned("", 0);
		return;
	}
	info->module = cleaned(version, strcspn(version, "\n"));
	free(version);
}

static void info_free(struct info *info)
{
	for (size_t i = 0; i < INFO_LIBRARIES; i++)
		free(info->libraries[i].why);
	for (size_t i = 0; i < info->intercepted_count; i++)
		free(info->intercepted[i].file);
	for (size_t i = 0; i < info->variable_count; i++) {
		free(info->variables[i].name);
		free(info->variables[i].value);
	}
	free(info->variables);
	free(info->components);
	free(info->module);
}

static int exit_code(const struct info *info)
{
	const struct peerdma_component *by;

	switch (info_direct(info, &by)) {
	case DIRECT_YES:
		return EXIT_OK;
	case DIRECT_NO:
		return EXIT_NONE;
	default:
		return EXIT_UNKNOWN;
	}
}

int cmd_info(struct tool *tool, int argc, char **argv)
{
	struct info info = { 0 };
	int ret = tool_options(tool, argc, argv, OPTION_JSON, usage);

	tool->failed = EXIT_FAILED;
	if (ret >= 0)
		return ret ? EXIT_FAILED : EXIT_OK;
	if (*tool->root) {
		warn("info: --root: a captured machine has no process to look at; run it on the machine itself");
		return EXIT_FAILED;
	}
	load_libraries(&info);
	find_intercepted(&info);
	begin_monitor();
	if (find_components(&info)) {
		warn("info: %s", peerdma_last_error());
		info_free(&info);
		return EXIT_FAILED;
	}
	find_variables(&info);
	find_limits(&info);
	find_module(&info);
	ret = exit_code(&info);
	if (!tool->json)
		info_text(tool, &info);
	else if (info_json(&info) != EXIT_OK)
		ret = EXIT_FAILED;
	info_free(&info);
	return ret;
}
