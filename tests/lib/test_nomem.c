// SPDX-License-Identifier: MIT
/*
 * test_nomem.c - the first, second, third ... allocation of each sequence of calls fails, until the sequence needs no more:
 * the call that needed it says -ENOMEM or does without, nothing is left, and the next time the sequence works.
 * The kernel, CUDA and libibverbs are stand-ins.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include "failing_malloc.h"
#include "checks.h"
#include "fake_cuda.h"
#include "fake_sys.h"
#include "fake_verbs.h"
#include "backend.h"
#include "peerdma_cache.h"
#include "peerdma_file.h"
#include "peerdma_verbs.h"

#define PAGE 65536UL
#define MEMORY (16 * PAGE)

static char *memory;
static struct fake_cuda *cuda;
static struct fake_verbs *verbs;
static struct peerdma *ctx;
static struct ibv_pd *const one = (struct ibv_pd *)0x1000, *const two = (struct ibv_pd *)0x2000;

/* The first n allocations, of two pages each, are a GPU's. */
static void gpu(int n)
{
	memset(cuda, 0, sizeof(*cuda));
	fake.device_memory = n > 0;
	fake.allocation = n > 1 ? 2 * PAGE : 0;
	fake.origin = (uintptr_t)memory;
	cuda->state = n ? 0 : 3;
	for (int i = 0; i < n; i++)
		cuda->memory[i] = (struct fake_memory){
			.base = (uintptr_t)memory + (size_t)i * 2 * PAGE, .size = 2 * PAGE, .type = 2, .context = memory,
			.id = 5 + (uint64_t)i,
		};
}

/* ---- sequences: 0, or the first error ---- */

static int opening(void)
{
	struct peerdma *c;
	int ret = peerdma_open(&c, 0);

	if (!ret)
		peerdma_close(c);
	return ret;
}

static int use(struct peerdma_region *r)
{
	const struct peerdma_mr *mr;
	struct peerdma_mapping *m;
	void *view;
	int fd, ret = r->backend->map && !r->backend->move ? peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m) : 0;

	if (!ret)
		ret = peerdma_cpu_view(r, &view);
	if (!ret)
		ret = peerdma_verbs_mr(r, one, 0, &mr);
	if (!ret)
		ret = peerdma_verbs_mr(r, two, 1, &mr);
	/* Not of a range over several allocations. */
	if (!ret && !fake.allocation && r->backend->export && !r->backend->move) {
		ret = peerdma_export_dmabuf(r, 0, 0, &fd);
		if (!ret)
			close(fd);
	}
	return ret;
}

static int pinning(uint64_t length, unsigned int flags)
{
	struct peerdma_region *r = NULL;
	int ret = peerdma_pin(ctx, memory + 100, length, flags, NULL, &r);

	if (ret)
		return ret;
	ret = use(r);
	if (peerdma_unpin(r))
		CHECK(0, "unpin");
	return ret;
}

static int one_pin(void)
{
	return pinning(1000, 0);
}

static int segments(void)
{
	return pinning(5 * PAGE, 0);
}

static int copies(void)
{
	return pinning(1000, PEERDMA_STAGING);
}

/* A pin of the kernel's that no device reaches. */
static int stand_ins(void)
{
	verbs->dmabuf_error = EOPNOTSUPP;
	verbs->not_memory = memory + 100;
	return copies();
}

/* Nothing can, and each has its reason. */
static int refused(void)
{
	struct peerdma_region *r;
	int ret = peerdma_pin(ctx, memory + 100, 5 * PAGE, PEERDMA_STAGING | PEERDMA_PERSISTENT, NULL, &r);

	if (!ret)
		CHECK(0, "it is refused");
	return ret == -ENXIO || ret == -EOPNOTSUPP ? 0 : ret;
}

static int dmabufs(void)
{
	struct peerdma_region *r;
	int ret = peerdma_pin_dmabuf(ctx, 7, 0, PAGE, 0, NULL, &r);

	if (!ret)
		peerdma_unpin(r);
	return ret;
}

static int caching(void)
{
	struct peerdma_cache_options o = { .size = sizeof(o), .capacity = 1000 };
	struct peerdma_cached *hold[3] = { NULL };
	const struct peerdma_mr *mr;
	struct peerdma_mapping *m;
	struct peerdma_cache *cache;
	int ret = peerdma_cache_open(ctx, &o, &cache);

	if (ret)
		return ret;
	for (size_t i = 0; !ret && i < 3; i++)
		ret = peerdma_cache_get(cache, memory + i * PAGE, PAGE / 2, &hold[i]);
	if (!ret)
		ret = peerdma_cache_map(cache, hold[0], "03:00.0", PEERDMA_TO_DEVICE, &m);
	if (!ret)
		ret = peerdma_cache_mr(cache, hold[0], one, 0, &mr);
	for (size_t i = 0; i < 3; i++)
		if (hold[i])
			peerdma_cache_put(cache, hold[i]);
	peerdma_cache_close(cache);
	return ret;
}

static int transfers(struct peerdma_file *file, struct peerdma_file_queue *queue)
{
	static char bytes[2][100];
	struct peerdma_file_io io[2], *ios[2] = { &io[0], &io[1] }, *done[2];
	int ret;

	for (size_t i = 0; i < 2; i++)
		io[i] = (struct peerdma_file_io){ .size = sizeof(io[i]), .flags = PEERDMA_FILE_WRITE, .file = file, .ptr = bytes[i],
						  .length = sizeof(bytes[i]), .offset = 100 * i };
	ret = peerdma_file_submit(queue, ios, 2);
	if (!ret && peerdma_file_wait(queue, done, 2, 2, -1) != 2)
		CHECK(0, "both end");
	for (size_t i = 0; !ret && i < 2; i++)
		ret = io[i].result < 0 ? (int)io[i].result : 0;
	return ret;
}

static void *meet(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

/* The C library keeps stacks of threads that have ended, with what they have allocated: as many as a queue may need. */
static void make_stacks(void)
{
	pthread_barrier_t all;
	pthread_t of[4];

	pthread_barrier_init(&all, NULL, 4);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&of[i], NULL, meet, &all), "a thread");
	for (int i = 0; i < 4; i++)
		pthread_join(of[i], NULL);
	pthread_barrier_destroy(&all);
}

static int queue(void)
{
	struct peerdma_file_queue *queue = NULL;
	struct peerdma_cache *cache = NULL;
	struct peerdma_file *file = NULL;
	int fd = memfd_create("file", MFD_CLOEXEC), ret = peerdma_cache_open(ctx, NULL, &cache);

	if (!ret)
		ret = peerdma_file_open(cache, fd, 0, &file);
	if (!ret)
		ret = peerdma_file_queue_open(4, 0, &queue);
	if (!ret)
		ret = transfers(file, queue);
	peerdma_file_queue_close(queue);
	peerdma_file_close(file);
	peerdma_cache_close(cache);
	close(fd);
	/* The C library says so of threads. */
	return ret == -EAGAIN ? -ENOMEM : ret;
}

/* With a context of its own. */
static int components(void)
{
	size_t n;

	return peerdma_components(NULL, NULL, 0, &n);
}

/* ---- */

static int alive(void)
{
	int n = 0;

	for (int i = 0; i < FAKE_PINS; i++)
		n += fake.pins[i].live;
	for (int i = 0; i < FAKE_MRS; i++)
		n += verbs->mrs[i].live;
	return n;
}

static unsigned int next_descriptor(void)
{
	int fd = dup(0);

	close(fd);
	return (unsigned int)fd;
}

static void begin(const char *what, bool with_context)
{
	ctx = NULL;
	CHECK(!with_context || !peerdma_open(&ctx, 0), "%s: open", what);
}

static void sweep(const char *what, const char *provider, int gpus, bool with_context, int (*run)(void))
{
	unsigned int n, descriptor;
	size_t before, first;
	int ret = 0, kept;

	fake_reset();
	memset(verbs, 0, sizeof(*verbs));
	gpu(gpus);
	setenv("PEERDMA_PROVIDER", provider, 1);
	/* What is made once for all. */
	begin(what, with_context);
	CHECK(!run(), "%s: works", what);
	peerdma_close(ctx);
	first = allocated();
	begin(what, with_context);
	CHECK(!run(), "%s: works again", what);
	before = allocated();
	descriptor = next_descriptor();
	kept = fake.mmaps - fake.munmaps;
	for (n = 1; n < 300; n++) {
		failed = false;
		fail_in = n;
		ret = run();
		fail_in = 0;
		if (!failed)
			break;
		/* The reasons why a back-end was passed over are not worth an error. */
		if (ret && ret != -ENOMEM)
			CHECK(0, "%s: allocation %u fails: %d", what, n, ret);
		if (ret && !strstr(peerdma_last_error(), "memory"))
			CHECK(0, "%s: allocation %u fails, without a word of it", what, n);
		if (alive() || fake.mmaps - fake.munmaps != kept || next_descriptor() != descriptor)
			CHECK(0, "%s: allocation %u fails: something is pinned, mapped or open", what, n);
		/* A context keeps reasons. */
		if (allocated() > before + 2)
			CHECK(0, "%s: allocation %u fails: %zu are left", what, n, allocated() - before);
	}
	CHECK(n > 1 && n < 300 && !ret, "%s: after %u failures", what, n - 1);
	CHECK(!run() && !alive(), "%s: nothing is left", what);
	peerdma_close(ctx);
	CHECK(fake.mmaps == fake.munmaps && fake.opens == fake.closes && allocated() == first, "%s: all is closed and freed",
	      what);
}

int main(void)
{
	struct fake_cuda *(*get_cuda)(void);
	struct fake_verbs *(*get_verbs)(void);
	void *libcuda = dlopen("libcuda.so.1", RTLD_NOW), *library = dlopen("libibverbs.so.1", RTLD_NOW);

	*(void **)&get_cuda = libcuda ? dlsym(libcuda, "fake_cuda") : NULL;
	*(void **)&get_verbs = library ? dlsym(library, "fake_verbs") : NULL;
	memory = mmap(NULL, 2 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!get_cuda || !get_verbs || memory == MAP_FAILED)
		return 1;
	memory = (char *)(((uintptr_t)memory + PAGE - 1) & -PAGE);
	cuda = get_cuda();
	verbs = get_verbs();
	fake_reset();
	peerdma_open(&ctx, ~0U);	/* the thread's text is made once */

	sweep("opening", "kernel", 0, false, opening);
	sweep("opening several", "kernel,dmabuf,host,staging", 0, false, opening);
	sweep("what there is", "kernel,dmabuf,host,staging", 1, false, components);
	sweep("a pin", "kernel", 0, true, one_pin);
	sweep("a pin of GPU memory", "kernel", 1, true, one_pin);
	sweep("a pin of several allocations", "kernel", 4, true, segments);
	sweep("a copy", "staging,host", 1, true, copies);
	sweep("a copy of a kernel's pin", "kernel,staging,host", 1, true, stand_ins);
	sweep("host memory", "host", 0, true, one_pin);
	sweep("dma-bufs of CUDA's", "dmabuf,host", 1, true, one_pin);
	sweep("none", "dmabuf,staging", 0, true, refused);
	sweep("a dma-buf", "kernel", 1, true, dmabufs);
	sweep("a cache", "kernel", 0, true, caching);
	sweep("a cache of GPU memory", "kernel", 4, true, caching);
	make_stacks();
	sweep("a queue", "kernel", 0, true, queue);
	return check_end(NULL);
}
