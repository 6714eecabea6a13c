// SPDX-License-Identifier: MIT
/*
 * kept_text.c - a call that succeeds leaves the text of the last failed call alone, whatever it tried on the way; a call that
 * fails has its own. The first back-ends have none of the memory here: there is no module, and no CUDA.
 */
#include <sys/mman.h>

#include "../ipc/other.h"
#include "peerdma_cache.h"
#include "peerdma_monitor.h"

#define LENGTH 65536UL
#define KEEPS(call) keeps(__LINE__, #call, (mark(), (call)))

static char text[300];

/* A call that fails, and its text. */
static void mark(void)
{
	peerdma_ipc_free((void *)0x1234);
	snprintf(text, sizeof(text), "%s", peerdma_last_error());
}

static int keeps(int line, const char *call, int ret)
{
	return CHECK_AT(line, !ret && strstr(text, "0x1234") && !strcmp(text, peerdma_last_error()), "%s: %d", call, ret);
}

static void of_pins(char *memory)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_region *region = NULL;
	struct peerdma *ctx = NULL;
	void *view;

	setenv("PEERDMA_PROVIDER", "kernel,dmabuf,soft", 1);
	if (!KEEPS(peerdma_open(&ctx, 0)))
		return;
	KEEPS(peerdma_query(ctx, memory, &m));
	if (KEEPS(peerdma_pin(ctx, memory, LENGTH, 0, NULL, &region))) {
		CHECK(*peerdma_why(region), "others were tried: %s", peerdma_why(region));
		KEEPS(peerdma_status(region, &status));
		KEEPS(peerdma_cpu_view(region, &view));
		KEEPS(peerdma_unpin(region));
	}
	mark();
	CHECK(peerdma_pin(ctx, NULL, 100, 0, NULL, &region) == -EFAULT && !strncmp(peerdma_last_error(), "peerdma_pin: ", 13) &&
	      strstr(peerdma_last_error(), "no memory behind it"), "one that fails has its own: %s", peerdma_last_error());
	mark();
	peerdma_close(ctx);
	CHECK(!strcmp(text, peerdma_last_error()), "peerdma_close");
}

static void of_caches(char *memory)
{
	struct peerdma_cache_counters counters = { .size = sizeof(counters) };
	struct peerdma_cache *cache = NULL;
	struct peerdma_cached *hold = NULL;
	struct peerdma *ctx = NULL;

	CHECK(!peerdma_open(&ctx, 0), "a context");
	if (!KEEPS(peerdma_cache_open(ctx, NULL, &cache)))
		return;
	for (int i = 0; i < 3; i++) {		/* a miss, a hit, and more */
		KEEPS(peerdma_cache_get(cache, memory, i == 2 ? LENGTH : 4096, &hold));
		mark();
		peerdma_cache_put(cache, hold);
		CHECK(!strcmp(text, peerdma_last_error()), "peerdma_cache_put");
	}
	KEEPS(peerdma_cache_counters(cache, &counters));
	mark();
	CHECK(peerdma_cache_trim(cache, 100) > 0 && !strcmp(text, peerdma_last_error()), "peerdma_cache_trim");
	mark();
	peerdma_cache_close(cache);
	CHECK(!strcmp(text, peerdma_last_error()), "peerdma_cache_close");
	peerdma_close(ctx);
}

/* ---- a cache's own functions ---- */

static struct peerdma *pins;
static char *pinned;
static int add_returns;

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *registration)
{
	struct peerdma_region *region;
	int ret = peerdma_pin(pins, pinned, 4096, 0, NULL, &region);

	if (!ret)
		ret = peerdma_unpin(region);
	return ret ? ret : add_returns;
}

static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
}

/* It calls one that tries several ways, which works, and then fails by itself. */
static void of_own_functions(char *memory)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = drop };
	struct peerdma_cache *cache = NULL;
	struct peerdma_cached *hold;

	pinned = memory;
	CHECK(!peerdma_open(&pins, 0) && !peerdma_cache_create(&ops, NULL, NULL, &cache), "a cache");
	mark();
	add_returns = -EIO;
	CHECK(peerdma_cache_get(cache, memory, 100, &hold) == -EIO && !strncmp(peerdma_last_error(), "peerdma_cache_get: add() returned -5", 35),
	      "what is said is the failure's own: %s", peerdma_last_error());
	add_returns = 0;
	KEEPS(peerdma_cache_get(cache, memory, 100, &hold));
	peerdma_cache_close(cache);
	peerdma_close(pins);
}

static void of_ipc(struct other *o)
{
	struct other_answer a = ASK(o, OTHER_ALLOC, .value = LENGTH, .fill = 7), b = ASK(o, OTHER_SIGNAL, .value = 5);
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_signal *s = NULL;
	struct peerdma_ipc_transfer t = { .size = sizeof(t), .flags = PEERDMA_IPC_READ, .length = 8 };
	struct peerdma_ipc_handle h;
	char bytes[8];
	void *p, *file;
	int fd;

	CHECK(!a.ret && !b.ret, "exported");
	for (int i = 0; i < 2; i++)		/* the second is a lookup */
		KEEPS(peerdma_ipc_open(&a.handle, sizeof(a.handle), 0, &m));
	t.memory = m;
	t.local = bytes;
	KEEPS(peerdma_ipc_query(m->ptr, &info));
	KEEPS(peerdma_ipc_copy(&t, 1, NULL, 0));
	KEEPS(peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &s));
	KEEPS(peerdma_ipc_copy(&t, 1, s, 6));
	KEEPS(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 6, 0, NULL));
	KEEPS(peerdma_ipc_signal_set(s, 7));
	KEEPS(peerdma_ipc_signal_close(s));
	KEEPS(peerdma_ipc_close(m));
	KEEPS(peerdma_ipc_close(m));
	KEEPS(peerdma_ipc_trim());
	KEEPS(peerdma_ipc_alloc(LENGTH, 0, &p));
	KEEPS(peerdma_ipc_export(p, LENGTH, 0, &h));
	KEEPS(peerdma_ipc_unexport(&h));
	KEEPS(peerdma_ipc_free(p));
	fd = memfd_create("kept-text", MFD_CLOEXEC);
	file = fd < 0 || ftruncate(fd, LENGTH) ? MAP_FAILED : mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	KEEPS(peerdma_ipc_export(file, LENGTH, 0, &h));
	mark();
	munmap(file, LENGTH);
	CHECK(!strcmp(text, peerdma_last_error()), "munmap");
	KEEPS(peerdma_ipc_signal_create(1, 0, &s));
	KEEPS(peerdma_ipc_signal_close(s));
	mark();
	CHECK(peerdma_ipc_open(&a.handle, 3, 0, &m) == -EINVAL && !strncmp(peerdma_last_error(), "peerdma_ipc_open: the handle has 3 bytes", 40),
	      "one that fails has its own");
	mark();
	peerdma_monitor_name(PEERDMA_MEMORY_DEVICE);
	CHECK(!strcmp(text, peerdma_last_error()), "peerdma_monitor_name");
}

int main(void)
{
	struct other o = other_make(getuid());
	char *memory = aligned_alloc(LENGTH, LENGTH);

	CHECK(!strcmp(peerdma_last_error(), ""), "no text yet");
	of_pins(memory);
	of_caches(memory);
	of_own_functions(memory);
	of_ipc(&o);
	other_end(&o, SIGKILL);
	free(memory);
	return check_end(NULL);
}
