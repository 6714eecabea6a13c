// SPDX-License-Identifier: MIT
/*
 * test_remembered.c - what peerdma_query() remembers of mapped memory where
 * libpeerdma-hooks sees all, against stand-ins for both: the hooks' word is this
 * program's, and CUDA knows what the test says.
 *
 *	test_remembered seen		all that follows
 *	test_remembered missed		one call can be missed: nothing is remembered
 *	test_remembered inactive	the hooks are not in front: likewise
 *	test_remembered old		they have no word: likewise
 *	test_remembered views		the library maps a view; the kernel is a stand-in, too
 *
 * The order of what is tried in "seen" matters.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <dlfcn.h>

#include "fake_cuda.h"
#include "peerdma.h"
#include "peerdma_hooks.h"
#include "checks.h"
#ifdef VIEWS
#include "fake_sys.h"
#endif

#define PAGE 4096UL
#define EXPORT __attribute__((visibility("default")))

/* ---- the hooks ---- */

static _Atomic uint64_t word = PEERDMA_HOOKS_MAKING_ONE;
static int missed, inactive;

EXPORT int peerdma_hooks_active(void)
{
	return !inactive;
}

EXPORT unsigned int peerdma_hooks_report(struct peerdma_hook_report *reports, unsigned int n)
{
	static const struct peerdma_hook_report all = { .call = "cuMemAlloc", .ways = PEERDMA_HOOK_BY_NAME };

	if (n)
		reports[0] = all;
	if (n && missed)
		reports[0].missed = PEERDMA_HOOK_BY_DLSYM;
	return 1;
}

EXPORT int peerdma_hooks_subscribe(peerdma_hook_fn fn, void *arg)
{
	return 0;
}

EXPORT void peerdma_hooks_unsubscribe(peerdma_hook_fn fn, void *arg)
{
}

#ifndef OLD_HOOKS
EXPORT const uint64_t *peerdma_hooks_making(void)
{
	return (const uint64_t *)&word;
}
#endif

static void begins(void)
{
	atomic_fetch_add(&word, PEERDMA_HOOKS_MAKING_ONE + 1);
}

static void ends(void)
{
	atomic_fetch_sub(&word, 1);
}

/* ---- CUDA ---- */

static struct fake_cuda *cuda;
static void (*put)(unsigned int slot, const struct fake_memory *memory);

static void take(unsigned int slot, void *p)
{
	put(slot, &(struct fake_memory){ .base = (uintptr_t)p, .size = PAGE, .type = 2, .context = cuda, .id = 7, .device = 1 });
}

static void leave(unsigned int slot)
{
	put(slot, &(struct fake_memory){ 0 });
}

static void load(void)
{
	struct fake_cuda *(*get)(void);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	*(void **)&get = library ? dlsym(library, "fake_cuda") : NULL;
	*(void **)&put = library ? dlsym(library, "fake_cuda_put") : NULL;
	if (!get || !put) {
		printf("not ok - the stand-in for libcuda\n");
		exit(1);
	}
	cuda = get();
	cuda->state = 0;
}

/* ---- what is asked ---- */

static uint32_t kind(const void *p)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	return peerdma_query(NULL, p, &m) ? 99 : m.kind;
}

/* How often CUDA was asked for one query. */
static int asked(const void *p, uint32_t expected)
{
	int before = cuda->calls;
	uint32_t k = kind(p);

	return k == expected ? cuda->calls - before : -1;
}

static void *page(void)
{
	return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void facts(void)
{
	struct {
		struct peerdma_memory m;
		char later[8];
	} longer;
	struct peerdma_memory first = { .size = sizeof(first) }, again = { .size = sizeof(again) };
	char *p = page();

	kind(p);	/* whether the hooks see all is looked for now */
	CHECK(asked(p, PEERDMA_KIND_HOST) == 1, "it is asked for, and remembered");
	CHECK(asked(p, PEERDMA_KIND_HOST) == 0, "it is not asked for again");
	peerdma_query(NULL, p + 8, &first);
	peerdma_query(NULL, p + 8, &again);
	CHECK(!memcmp(&first, &again, sizeof(first)), "what is remembered is what was said");
	CHECK(asked(p + 9, PEERDMA_KIND_HOST) == 1, "another address of the page is");
	memset(&longer, 0xff, sizeof(longer));
	longer.m.size = sizeof(longer);
	CHECK(!peerdma_query(NULL, p, &longer.m) && longer.m.kind == PEERDMA_KIND_HOST && longer.m.size == sizeof(longer) &&
	      !longer.later[0] && !longer.later[7], "a longer struct is filled to its end");

	begins();
	CHECK(asked(p, PEERDMA_KIND_HOST) == 1, "while something is allocated it is asked for");
	CHECK(asked(p, PEERDMA_KIND_HOST) == 1, "each time");
	ends();
	CHECK(asked(p, PEERDMA_KIND_HOST) == 1 && asked(p, PEERDMA_KIND_HOST) == 0, "after that once more");
	munmap(p, PAGE);
	CHECK(asked(p, PEERDMA_KIND_HOST) == 0, "munmap() is not reported");
	begins();
	ends();
	CHECK(asked(p, PEERDMA_KIND_UNKNOWN) == 1, "until something is allocated");
	CHECK(asked(p, PEERDMA_KIND_UNKNOWN) == 1, "what is not the host's is not remembered");
	cuda->state = 700;
	CHECK(kind(p) == 99, "nor is an error");
	cuda->state = 0;
}

/* Each has its place in a small table, with many others. */
static void collisions(void)
{
	char *mine = page(), *gpus = (char *)(1UL << 40);
	int wrong = 0;

	put(0, &(struct fake_memory){ .base = (uintptr_t)gpus, .size = 4096 * PAGE, .type = 2, .context = cuda, .id = 9, .device = 1 });
	kind(mine);
	for (unsigned int i = 0; i < 4096; i++)
		wrong += kind(gpus + i * PAGE) != PEERDMA_KIND_DEVICE;
	CHECK(!wrong && asked(mine, PEERDMA_KIND_HOST) == 0, "others' places in the table are not theirs");
	leave(0);
	munmap(mine, PAGE);
}

/* ---- views ---- */

#ifdef VIEWS
#define GPU_PAGE 65536UL	/* the stand-in's: what a view has at least */

/* Host memory is unmapped, which is not reported, and the library maps a view of device memory there. */
static void views(void)
{
	char *host = mmap(NULL, GPU_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *pinned = aligned_alloc(GPU_PAGE, GPU_PAGE), *view = NULL;
	struct peerdma_region *region;
	struct peerdma *ctx;

	fake_reset();
	fake.device_memory = 1;
	if (!CHECK(pinned && !peerdma_open(&ctx, 0), "a context") ||
	    !CHECK(!peerdma_pin(ctx, pinned, GPU_PAGE, PEERDMA_NO_SYNC_MEMOPS, NULL, &region), "a pin"))
		return;
	CHECK(asked(host, PEERDMA_KIND_HOST) == 1 && asked(host, PEERDMA_KIND_HOST) == 0, "host memory is remembered");
	munmap(host, GPU_PAGE);
	fake.view_at = host;
	CHECK(!peerdma_cpu_view(region, &view) && view == host, "a view is where it was");
	CHECK(asked(view, PEERDMA_KIND_UNKNOWN) == 1, "it is asked for, and is not host memory");
	peerdma_close(ctx);
	free(pinned);
}
#endif

/* ---- in every order ---- */

enum { BEGINS, TAKES, ENDS, STEPS };

struct order {
	int at[STEPS];		/* 0 before the query, 1 before CUDA looks, 2 after it, 3 after the query */
	void *page;
};

static void steps(struct order *o, int at)
{
	if (o->at[BEGINS] == at)
		begins();
	if (o->at[TAKES] == at)
		take(0, o->page);
	if (o->at[ENDS] == at)
		ends();
}

static void on_asked(void *arg, int after)
{
	steps(arg, 1 + after);
}

/*
 * The page stays the host's, so that a query that CUDA does not answer says host, and
 * a wrong memory of it would stay.
 */
static int order_right(struct order *o)
{
	int right = 1;

	o->page = page();
	begins();	/* another page was remembered there */
	ends();
	steps(o, 0);
	cuda->arg = o;
	cuda->asked = on_asked;
	kind(o->page);
	cuda->asked = NULL;
	for (int at = 3; at <= 4; at++) {
		if (at == 3 && o->at[TAKES] < 3)
			right &= kind(o->page) == PEERDMA_KIND_DEVICE;
		if (at == 3)
			steps(o, 3);
		right &= kind(o->page) == PEERDMA_KIND_DEVICE;
	}
	begins();	/* freed, and the page is the host's again */
	leave(0);
	ends();
	right &= kind(o->page) == PEERDMA_KIND_HOST;
	munmap(o->page, PAGE);
	return right;
}

static void orders(void)
{
	int tried = 0, wrong = 0;
	struct order o;

	for (int b = 0; b < 4; b++)
		for (int t = b; t < 4; t++)
			for (int e = t; e < 4; e++) {
				o = (struct order){ .at = { b, t, e } };
				tried++;
				if (!order_right(&o)) {
					printf("# begins at %d, takes at %d, ends at %d\n", b, t, e);
					wrong++;
				}
			}
	CHECK(!wrong && tried == 20, "%d of %d orders of a query and an allocation are right", tried - wrong, tried);
}

/* ---- processes and threads ---- */

static void children(void)
{
	char *mine = page(), *both = page();
	int status;

	kind(mine);
	kind(both);
	CHECK(!madvise(mine, PAGE, MADV_DONTFORK), "a page that children do not get");
	CHECK(!asked(mine, PEERDMA_KIND_HOST) && !asked(both, PEERDMA_KIND_HOST), "is remembered");
	if (!fork())
		_exit(kind(mine) != PEERDMA_KIND_UNKNOWN || kind(both) != PEERDMA_KIND_HOST);
	wait(&status);
	CHECK(!status, "and the child does not say that it has it");
	CHECK(!asked(mine, PEERDMA_KIND_HOST), "the parent still does");
	munmap(mine, PAGE);
	munmap(both, PAGE);
}

/* KiB of this process that the kernel wipes in children: tables, and a page or two. */
static int wiped(void)
{
	FILE *maps = fopen("/proc/self/smaps", "re");
	int sum = 0, size = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		sscanf(line, "Size: %d", &size);
		if (!strncmp(line, "VmFlags:", 8) && strstr(line, " wf"))
			sum += size;
	}
	if (maps)
		fclose(maps);
	return sum;
}

static void *in_thread(void *p)
{
	return (void *)(uintptr_t)(kind(p) != PEERDMA_KIND_HOST || kind(p) != PEERDMA_KIND_HOST);
}

static void thread_ends(void)
{
	char *p = page();
	int before = wiped();
	void *wrong = NULL, *w;

	for (int i = 0; i < 300; i++) {
		pthread_t t;

		if (!pthread_create(&t, NULL, in_thread, p)) {
			pthread_join(t, &w);
			wrong = w ? w : wrong;
		}
	}
	CHECK(!wrong, "threads come and go");
	CHECK(wiped() == before, "what a thread remembered goes with it (%d KiB, %d before)", wiped(), before);
	munmap(p, PAGE);
}

/* ---- at random ---- */

#define SLOTS 8
#define ASKERS 2

/*
 * Pages that go to CUDA and come back.  `version' is odd while one changes hands;
 * who asks compares only when it did not change meanwhile.  4 * n: the host's;
 * 4 * n + 2: CUDA's.
 */
static struct {
	void *page;
	_Atomic unsigned int version;
} slots[SLOTS];
static _Atomic int over;
static unsigned int rounds = 3000;

static unsigned int next(unsigned int *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static void *mutator(void *arg)
{
	unsigned int seed = 1, n = (uintptr_t)arg;

	for (unsigned int i = 0; i < rounds; i++) {
		unsigned int s = next(&seed) % (SLOTS / 2) * 2 + n;	/* each has its own */
		int cudas = atomic_load(&slots[s].version) % 4 == 2;

		atomic_fetch_add(&slots[s].version, 1);
		if (!cudas)
			begins();
		if (cudas)
			leave(s);
		else
			take(s, slots[s].page);
		if (!cudas)
			ends();
		atomic_fetch_add(&slots[s].version, 1);
		for (int j = 0; j < 20; j++)
			(void)kind(slots[s].page);
	}
	return NULL;
}

static void *asker(void *arg)
{
	unsigned int seed = 100 + (uintptr_t)arg, wrong = 0, compared = 0;

	while (!atomic_load(&over) || !compared) {
		unsigned int s = next(&seed) % SLOTS, v = atomic_load(&slots[s].version);
		uint32_t k = kind((char *)slots[s].page + next(&seed) % 2);

		if (v & 1 || atomic_load(&slots[s].version) != v)
			continue;
		compared++;
		wrong += k != (v % 4 == 2 ? PEERDMA_KIND_DEVICE : PEERDMA_KIND_HOST);
	}
	return (void *)(uintptr_t)wrong;
}

static void at_random(void)
{
	pthread_t mutators[2], askers[ASKERS];
	uintptr_t wrong = 0;
	void *w;

	for (int s = 0; s < SLOTS; s++)
		slots[s].page = page();
	for (uintptr_t i = 0; i < ASKERS; i++)
		pthread_create(&askers[i], NULL, asker, (void *)i);
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&mutators[i], NULL, mutator, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(mutators[i], NULL);
	atomic_store(&over, 1);
	for (int i = 0; i < ASKERS; i++) {
		pthread_join(askers[i], &w);
		wrong += (uintptr_t)w;
	}
	CHECK(!wrong, "%u times a page goes to CUDA or comes back, while others ask: %u wrong answers", 2 * rounds, (unsigned int)wrong);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "seen";
	char *p = page();

	if (argc > 2)
		rounds = atoi(argv[2]);
	missed = !strcmp(mode, "missed");
	inactive = !strcmp(mode, "inactive");
	kind(p);	/* before there is a CUDA: nothing follows from that */
	load();
#ifdef VIEWS
	kind(p);
	views();
	return check_end(NULL);
#endif
	if (strcmp(mode, "seen")) {
		for (int i = 0; i < 4; i++)
			CHECK(asked(p, PEERDMA_KIND_HOST) == 1, "it is asked for each time");
		return check_end(NULL);
	}
	facts();
	collisions();
	orders();
	children();
	thread_ends();
	at_random();
	return check_end(NULL);
}
