// SPDX-License-Identifier: MIT
/*
 * test_components.c - peerdma_components(), with stand-ins for the kernel and for CUDA: each part is what the calls find, with
 * their reason. Each test has a process of its own, because libraries stay loaded and monitors stay begun.
 */
#include <dlfcn.h>

#include "checks.h"
#include "fake_cuda.h"
#include "fake_sys.h"
#include "peerdma_monitor.h"

#define MOST 64

static struct peerdma_component all[MOST];
static size_t count;

static void list(struct peerdma *ctx)
{
	memset(all, 0, sizeof(all));
	all[0].size = sizeof(all[0]);
	MUST(!peerdma_components(ctx, all, MOST, &count), "%s", peerdma_last_error());
	MUST(count <= MOST);
}

static const struct peerdma_component *get(uint32_t type, const char *name)
{
	static const struct peerdma_component none = { .state = 99 };

	for (size_t i = 0; i < count; i++) {
		if (all[i].type == type && !strcmp(all[i].name, name))
			return &all[i];
	}
	check_failed(__FILE__, __LINE__, "it is listed", " %s", name);
	return &none;
}

#define IS(type, name, wanted, text) is(__LINE__, PEERDMA_COMPONENT_##type, name, PEERDMA_COMPONENT_##wanted, text)
static void is(int line, uint32_t type, const char *name, uint32_t state, const char *text)
{
	const struct peerdma_component *c = get(type, name);

	CHECK_AT(line, c->state == state && strstr(c->why, text), "%s: state %u, '%s'; wanted %u, '%s'", name, c->state, c->why, state, text);
}

static bool direct(const char *name)
{
	return get(PEERDMA_COMPONENT_BACKEND, name)->flags & PEERDMA_COMPONENT_DIRECT;
}

static struct fake_cuda *load_cuda(void)
{
	struct fake_cuda *(*fake_cuda)(void);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	MUST(library, "%s", dlerror());
	*(void **)&fake_cuda = dlsym(library, "fake_cuda");
	return fake_cuda();
}

/* ---- what the caller gets ---- */

static void room(void)
{
	struct peerdma_component two[3];
	size_t n = 0;

	list(NULL);
	CHECK(!peerdma_components(NULL, NULL, 0, &n) && n == count, "only the number");
	memset(two, 0xee, sizeof(two));
	two[0].size = sizeof(two[0]);
	n = 0;
	CHECK(!peerdma_components(NULL, two, 2, &n) && n == count, "all are counted");
	CHECK(!memcmp(two, all, 2 * sizeof(two[0])), "the first two");
	CHECK(two[2].size == 0xeeeeeeee, "no more than there is room for");
	for (size_t i = 0; i < count; i++)
		CHECK(all[i].size == sizeof(all[i]) && *all[i].name && *all[i].why, "%zu: '%s'", i, all[i].name);
	CHECK(!strcmp(get(PEERDMA_COMPONENT_LIBRARY, "libpeerdma")->version, peerdma_version()), "the library's own version");
}

/* A call that succeeds leaves the text of the last error, whatever reasons it has found. */
static void text(void)
{
	struct peerdma *ctx;
	char before[512];

	CHECK(peerdma_open(&ctx, 0x80) == -EINVAL);
	snprintf(before, sizeof(before), "%s", peerdma_last_error());
	fake.open_error = -ENOENT;
	list(NULL);
	CHECK(!strcmp(before, peerdma_last_error()), "'%s'", peerdma_last_error());
}

static int of_a_parent(void *ctx)
{
	size_t n = 77;

	CHECK(peerdma_components(ctx, NULL, 0, &n) == -EPERM && n == 77);
	CHECK(!peerdma_components(NULL, NULL, 0, &n) && n != 77, "what the child itself would have");
	return 0;
}

static void child(void)
{
	struct peerdma *ctx;

	MUST(!peerdma_open(&ctx, 0));
	CHECK(!check_in_child(of_a_parent, ctx));
	peerdma_close(ctx);
}

/* ---- back-ends ---- */

static void kernel(void)
{
	fake.info.providers = 3;
	list(NULL);
	IS(BACKEND, "kernel", ON, "3 providers");
	CHECK(direct("kernel"));
	CHECK(!strcmp(get(PEERDMA_COMPONENT_BACKEND, "kernel")->file, "/dev/peerdma"));
	CHECK(!strcmp(get(PEERDMA_COMPONENT_BACKEND, "kernel")->version, "ABI 1"));
	fake.info.providers = 1;
	list(NULL);
	IS(BACKEND, "kernel", ON, "modprobe peerdma_nvidia");
	CHECK(!direct("kernel"), "it has host memory only");
	fake.abi = 99;
	list(NULL);
	IS(BACKEND, "kernel", OFF, "speaks ABI 99");
	fake.open_error = -ENOENT;
	list(NULL);
	IS(BACKEND, "kernel", OFF, "modprobe peerdma");
	fake.open_error = -EACCES;
	list(NULL);
	IS(BACKEND, "kernel", OFF, "may not open it");
	IS(BACKEND, "host", ON, "locks host memory");
	CHECK(!direct("host"));
	CHECK(fake.opens == fake.closes && fake.mmaps == fake.munmaps, "nothing stays open");
}

/* What the context has, not what a new one would have. */
static void context(void)
{
	struct peerdma *ctx, *strict;

	fake.info.providers = 2;
	MUST(!peerdma_open(&ctx, 0));
	fake.open_error = -ENOENT;
	list(ctx);
	IS(BACKEND, "kernel", ON, "2 providers");
	fake.info_error = -ENOTTY;
	list(ctx);
	IS(BACKEND, "kernel", UNKNOWN, "does not answer any more");
	list(NULL);
	IS(BACKEND, "kernel", OFF, "not there");
	fake.info_error = fake.open_error = 0;
	MUST(!peerdma_open(&strict, PEERDMA_OPEN_DIRECT));
	fake.open_error = -ENOENT;
	list(strict);
	IS(BACKEND, "host", OFF, "PEERDMA_OPEN_DIRECT");
	IS(BACKEND, "kernel", ON, "2 providers");
	peerdma_close(strict);
	peerdma_close(ctx);
}

/* The reasons are there although peerdma_open() fails. */
static void no_context(void)
{
	static const char *const names[] = { "kernel", "soft", "dmabuf", "staging", "host" };
	struct peerdma *ctx;

	setenv("PEERDMA_PROVIDER", "kernel", 1);
	fake.open_error = -ENOENT;
	CHECK(peerdma_open(&ctx, 0) == -ENODEV);
	list(NULL);
	IS(BACKEND, "kernel", OFF, "not there");
	IS(BACKEND, "host", OFF, "PEERDMA_PROVIDER does not name it");
	IS(BACKEND, "soft", OFF, "PEERDMA_PROVIDER does not name it");

	setenv("PEERDMA_PROVIDER", "host,\033[31mred", 1);
	list(NULL);
	for (size_t i = 0; i < 5; i++)
		IS(BACKEND, names[i], OFF, "PEERDMA_PROVIDER names '\\x1b[31mred'");

	unsetenv("PEERDMA_PROVIDER");
	fake.open_error = -EMFILE;
	list(NULL);
	for (size_t i = 0; i < 5; i++)
		IS(BACKEND, names[i], OFF, "RLIMIT_NOFILE");
}

/* Those that are tried come first, in that order. */
static void order(void)
{
	static const char *const wanted[] = { "host", "kernel", "soft", "dmabuf", "staging" };
	size_t n = 0;

	setenv("PEERDMA_PROVIDER", "host,kernel", 1);
	list(NULL);
	for (size_t i = 0; i < count; i++) {
		if (all[i].type != PEERDMA_COMPONENT_BACKEND)
			continue;
		CHECK(n < 5 && !strcmp(all[i].name, wanted[n]), "%zu: %s", n, all[i].name);
		n++;
	}
	CHECK(n == 5);
}

/* ---- CUDA, and what depends on it ---- */

static int after_use(void *unused)
{
	list(NULL);
	IS(GPU, "cuda", OFF, "forked by one that used CUDA");
	IS(BACKEND, "dmabuf", OFF, "forked by one that used CUDA");
	IS(IPC, "cuda", OFF, "forked by one that used CUDA");
	return 0;
}

static void with_cuda(void)
{
	struct fake_cuda *cuda;

	list(NULL);
	IS(GPU, "cuda", OFF, "has not loaded libcuda.so.1");
	IS(BACKEND, "dmabuf", OFF, "has not loaded libcuda.so.1");
	IS(BACKEND, "staging", OFF, "has not loaded libcuda.so.1");
	IS(IPC, "cuda", OFF, "has not loaded libcuda.so.1");
	CHECK(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "the call loads nothing");

	cuda = load_cuda();
	cuda->state = 3;
	list(NULL);
	IS(GPU, "cuda", ON, "once the program has called cuInit()");
	IS(BACKEND, "dmabuf", UNKNOWN, "decided per allocation");
	IS(BACKEND, "staging", UNKNOWN, "PEERDMA_STAGING");
	CHECK(direct("dmabuf") && !direct("staging"));
	CHECK(strstr(get(PEERDMA_COMPONENT_GPU, "cuda")->file, "libcuda.so.1"));

	cuda->state = 0;
	list(NULL);
	IS(GPU, "cuda", ON, "the program has initialized CUDA");
	CHECK(!check_in_child(after_use, NULL));
}

static void without_cuda(void)
{
	setenv("PEERDMA_CUDA", "off", 1);
	load_cuda();
	list(NULL);
	IS(GPU, "cuda", OFF, "PEERDMA_CUDA=off");
	IS(BACKEND, "dmabuf", OFF, "PEERDMA_CUDA=off");
	IS(IPC, "cuda-vmm", OFF, "PEERDMA_CUDA=off");
	IS(VARIABLE, "PEERDMA_CUDA", ON, "off: does not use CUDA");
}

/* ---- monitors, the environment ---- */

static void ignore(void *arg, const struct peerdma_hook_event *event)
{
}

static void monitor(void)
{
	static const char own[] = "system calls of the C library";

	list(NULL);
	IS(MONITOR, own, UNKNOWN, "first use");
	IS(MONITOR, "ucm", UNKNOWN, "tried only");
	IS(MONITOR, "libpeerdma-hooks", OFF, "has not loaded");
	CHECK(!peerdma_monitor_name(PEERDMA_MEMORY_HOST), "the call began none");
	if (!peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, ignore, NULL)) {
		list(NULL);
		IS(MONITOR, peerdma_monitor_name(PEERDMA_MEMORY_HOST), ON, "host memory");
		IS(MONITOR, "ucm", OFF, "not needed");
	} else {
		list(NULL);
		CHECK(strstr(peerdma_last_error(), get(PEERDMA_COMPONENT_MONITOR, own)->why + strlen("host memory: ")), "the same reason");
	}
}

static void other_monitor(void)
{
	MUST(!peerdma_monitor_start(PEERDMA_MEMORY_HOST, "mine"));
	list(NULL);
	IS(MONITOR, "mine", ON, "host memory");
	IS(MONITOR, "system calls of the C library", OFF, "'mine' monitors it");
}

/* ucm has one row, also if the program and not the library started it. */
static void started_ucm(void)
{
	size_t n = 0;

	MUST(!peerdma_monitor_start(PEERDMA_MEMORY_HOST, "ucm"));
	list(NULL);
	for (size_t i = 0; i < count; i++)
		n += !strcmp(all[i].name, "ucm");
	CHECK(n == 1, "%zu rows", n);
	IS(MONITOR, "ucm", ON, "host memory");
}

static void environment(void)
{
	setenv("PEERDMA_CACHE", "of", 1);
	setenv("PEERDMA_COPY", "quickly", 1);
	setenv("PEERDMA_CACHE_REPORT", "1", 1);
	list(NULL);
	IS(VARIABLE, "PEERDMA_CACHE", OFF, "no meaning");
	IS(VARIABLE, "PEERDMA_COPY", OFF, "no such method");
	IS(VARIABLE, "PEERDMA_CACHE_REPORT", ON, "counters");
	IS(VARIABLE, "PEERDMA_PROVIDER", OFF, "in this order");
	setenv("PEERDMA_CACHE", "off", 1);
	list(NULL);
	IS(VARIABLE, "PEERDMA_CACHE", ON, "off");
}

static const struct check_test tests[] = {
	TEST(room), TEST(text), TEST(child), TEST(kernel), TEST(context), TEST(no_context), TEST(order), TEST(with_cuda), TEST(without_cuda),
	TEST(monitor), TEST(other_monitor), TEST(started_ucm), TEST(environment),
};

static int run(void *test)
{
	fake_reset();
	((const struct check_test *)test)->run();
	return 0;
}

int main(void)
{
	for (size_t i = 0; i < CHECK_COUNT(tests); i++) {
		printf("%s\n", tests[i].name);
		fflush(stdout);
		EXPECT(check_in_child(run, (void *)&tests[i]), 0);
	}
	return check_end(NULL);
}
