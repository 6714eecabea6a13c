// SPDX-License-Identifier: MIT
/*
 * orders.c - every order in which short threads can meet in the cache, stores
 * delayed as a processor may delay them.
 *
 * Each thread is a short list of operations; for each set of threads every order
 * with so many preemptions is run (a store that is late costs none: only to let it
 * out early does).  What must hold in all of them:
 *
 *   - a get that begins when a free has returned does not find what was registered before
 *   - what is held is registered; and in the end nothing is, and nothing waits for a put
 *   - no registration ends twice; no order ends in a deadlock
 *   - memory that is registered, or that another thread is registering, is not registered again
 *
 * usage: cache_orders [--deep] [--broken fence]
 *        cache_orders --replay PROGRAM CHOICES [fences|fails]
 */
#include "../../peerdma/lib/internal.h"
#include "cache/thread_cache.h"
#include "cache/lock.h"
#include "monitor/monitor.h"
#include "../check.h"
#include "orders.h"
#include "schedule.h"

#define PAGE		4096ULL
#define BASE		(1ULL << 40)
#define PAGES		3
#define REGISTRATIONS	16

/*
 * g get of the first page, and put    h get, for the next thread to put    p put of it
 * f free of the first page, which is allocated again at once    m get of both pages (merges), and put
 * n get of the second and the third page (lies beside that of the first two), and put
 * F free of the second page, likewise
 * s f by a signal handler, which came while the thread had the cache's lock; its thread gives it back later
 * t trim    w wait until a free has returned    - first of all: the thread has not had it yet, and its first hit is another than the next
 */
static const char *const programs[] = {
	"g/f", "gg/f", "g/ff", "gf/g", "gf/gf", "hg/p", "h/pf", "hf/p", "m/f", "mg/f", "m/g", "gm/m", "m/gf", "t/g", "tg/g",
	"t/m", "tf/g", "ht/p", "h/pt", "g/g/f", "m/g/f", "g/t/f", "h/p/f", "h/p/t", "g/f/f", "g/m/t",
	"f/-g", "f/-gg", "f/-gwg", "m/n", "mn/f", "n/mf", "m/nn", "n/m/f", "mg/n", "tm/n",
	"mn/F", "n/mF", "m/nF", "mF/n", "m/F", "n/n", "n/n/n",
	"s/g", "s/gg", "sg/g", "s/-gwg", "hs/p", "s/m", "s/s", "s/f", "s/s/g", "s/f/g", "s/g/g",
};

#define COUNT (sizeof(programs) / sizeof(programs[0]))

struct registration {
	bool there;
	uint32_t number[PAGES];
	uint32_t first, count;
};

static struct registration registrations[REGISTRATIONS];
static int registered;
static uint32_t truth[PAGES];
static struct sg_mutex waiting;		/* for truth[0] to be 2 */
static struct sg_cond freed;
static struct peerdma_cache *cache;
static struct peerdma_cached *passed;	/* from h to p, in memory as they share it */
static struct thread_cache *thread_caches[ORDER_THREADS];
static struct thread_state words[ORDER_THREADS];
static const char *program;

#define HOLDS(cond)									\
	do {										\
		if (!(cond)) {								\
			fprintf(stderr, "repeat with: cache_orders --replay %s %s%s\n",	\
				program, sched_choices(), order_fence_fails ? " fails" : order_others ? "" : " fences"); \
			MUST(cond);							\
		}									\
	} while (0)

static void deadlock(void)
{
	HOLDS(!"no thread can go on");
}

/* ---- in the place of current.c, memory.c, error.c, process.c and the monitor of host memory ---- */

int host_monitor_begin(void)
{
	return -EOPNOTSUPP;
}

static char memory[1 << 17] __attribute__((aligned(64)));
static size_t memory_used;

/* All of it is given back when the next run begins. */
void *memory_get(size_t size, bool wiped)
{
	char *p = memory + memory_used;

	(void)wiped;
	size = (size + 63) / 64 * 64;
	memory_used += size;
	MUST(memory_used <= sizeof(memory));
	memset(p, 0, size);
	return p;
}

void *memory_reserve(size_t size)
{
	return memory_get(size, false);
}

bool memory_use(void *p, size_t size, size_t length)
{
	(void)p;
	return length <= size;
}

void memory_ahead(void *p, size_t size, size_t offset, size_t length)
{
	(void)p;
	(void)size;
	(void)offset;
	(void)length;
}

void memory_put(void *p, size_t size)
{
	(void)p;
	(void)size;
}

struct thread_state *order_this_thread(void)
{
	return &words[order_self()];
}

struct thread_cache *thread_cache_find(const struct peerdma_cache *c)
{
	(void)c;
	return thread_caches[order_self()];
}

struct thread_cache *thread_cache_get(struct peerdma_cache *c)
{
	return thread_cache_find(c);
}

void thread_caches_orphan(struct peerdma_cache *c)
{
	for (int t = 0; t < ORDER_THREADS; t++) {
		struct thread_refs *refs = thread_caches[t]->refs;

		thread_cache_leave(c, thread_caches[t]);
		refs_free(refs, c->capacity);
		thread_cache_free(thread_caches[t]);
	}
}

int fail(int error, const char *fmt, ...)
{
	(void)fmt;
	return error;
}

uint32_t fail_count(void)
{
	return 0;
}

uint32_t attempt_begin(void)
{
	return 0;
}

int attempt_end(uint32_t was, int ret)
{
	(void)was;
	return ret;
}

int file_may_have(size_t size)
{
	(void)size;
	return 0;
}

const char *error_words(int error)
{
	return strerror(-error);
}

const char *peerdma_last_error(void)
{
	return "";
}

uint64_t process_id(void)
{
	return 1;
}

/* ---- the truth ---- */

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct registration *r = registrations;

	(void)arg;
	while (r < registrations + REGISTRATIONS && r->there)
		r++;
	HOLDS(r < registrations + REGISTRATIONS);
	r->first = (uint32_t)((addr - BASE) / PAGE);
	r->count = (uint32_t)(length / PAGE);
	for (uint32_t i = 0; i < r->count; i++) {
		r->number[i] = truth[r->first + i];
		if (r->number[i] & 1)
			return -EFAULT;
	}
	r->there = true;
	registered++;
	out->handle = r;
	sched_yield_here();
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	struct registration *r = handle;

	(void)arg;
	HOLDS(r->there && addr == BASE + r->first * PAGE && length == r->count * PAGE);
	r->there = false;
	registered--;
	sched_yield_here();
}

static struct peerdma_cached *get(uint32_t first, uint32_t count)
{
	struct peerdma_cached *hold;
	const struct registration *r;
	uint32_t before[PAGES];
	int ret;

	for (uint32_t i = first; i < first + count; i++)
		before[i] = truth[i] & ~1U;
	ret = peerdma_cache_get(cache, (void *)(BASE + first * PAGE), count * PAGE, &hold);

	if (ret) {
		HOLDS(ret == -EFAULT || ret == -ESTALE);
		return NULL;
	}
	r = hold->registration;
	HOLDS(r->there && r->first <= first && r->first + r->count >= first + count);
	for (uint32_t i = first; i < first + count; i++)
		HOLDS((int32_t)(r->number[i - r->first] - before[i]) >= 0);
	sched_yield_here();
	HOLDS(r->there);
	return hold;
}

static void put(struct peerdma_cached *hold)
{
	if (!hold)
		return;
	HOLDS(((struct registration *)hold->registration)->there);
	peerdma_cache_put(cache, hold);
}

static void free_page(uint32_t page)
{
	if (truth[page] & 1)
		return;		/* another thread frees it just now */
	truth[page]++;
	HOLDS(peerdma_cache_invalidate(cache, (void *)(BASE + page * PAGE), PAGE) >= 0);
	truth[page]++;
	sched_cond_broadcast(&freed);
	sched_yield_here();
}

static void operation(char op)
{
	struct peerdma_cached *hold;

	switch (op) {
	case 'g':
	case 'm':
		put(get(0, op == 'm' ? 2 : 1));
		break;
	case 'n':
		put(get(1, 2));
		break;
	case 'h':
		ord_store(&passed, get(0, 1));
		break;
	case 'p':
		hold = ord_load(&passed);
		if (hold)
			ord_store(&passed, NULL);
		put(hold);
		break;
	case 'f':
	case 'F':
		free_page(op == 'F');
		break;
	case 's':
		cache_lock(cache);
		free_page(0);
		cache_unlock(cache);
		break;
	case 'w':
		sched_mutex_lock(&waiting);
		while (truth[0] < 2)
			sched_cond_wait(&freed, &waiting);
		sched_mutex_unlock(&waiting);
		break;
	case 't':
		HOLDS(peerdma_cache_trim(cache, 2) >= 0);
		break;
	case '-':
		break;
	default:
		MUST(!"an operation");
	}
}

/* ---- running ---- */

static void thread(void *arg)
{
	for (const char *op = arg; *op && *op != '/'; op++)
		operation(*op);
}

static void start_machine(void)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end };
	struct peerdma_cache_options options = { .size = sizeof(options), .capacity = 16, .max_region = 2 * PAGE };

	memset(registrations, 0, sizeof(registrations));
	memset(truth, 0, sizeof(truth));
	registered = 0;
	memory_used = 0;
	order_act_as(0);
	passed = NULL;
	MUST(!peerdma_cache_create(&ops, NULL, &options, &cache));
	for (int t = 0; t < ORDER_THREADS; t++) {
		thread_caches[t] = thread_cache_make(cache);
		MUST(thread_caches[t]);
		thread_cache_join(thread_caches[t]);
		for (int i = 0; i < THREAD_LAST; i++)
			words[t].last[i] = &thread_cache_none;
		words[t].last[cache->gate % THREAD_LAST] = thread_caches[t];
	}
	/* All have it in their tables: what comes is a hit. */
	for (int round = 0; round < 2; round++) {
		const char *list = program;

		for (int t = 1; t < ORDER_THREADS; t++) {
			order_act_as(t);
			if (!list || *list != '-')
				put(get(0, 1));
			list = list && strchr(list, '/') ? strchr(list, '/') + 1 : NULL;
		}
	}
	order_act_as(-1);
}

/* Where fences fail, that is what the end of a region waits for. */
static void calls_of_all(void)
{
	for (int t = 0; t < ORDER_THREADS; t++) {
		order_act_as(t);
		HOLDS(peerdma_cache_drain(cache) >= 0);
	}
	order_act_as(0);
}

static void body(void *arg)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	int n = 0;

	(void)arg;
	for (const char *s = program; s; s = strchr(s, '/') ? strchr(s, '/') + 1 : NULL)
		n++;
	order_reset(n);
	start_machine();
	for (int t = 1; t <= n; t++)
		sched_thread_start(order_drainer, (void *)(intptr_t)t);
	sched_apart();
	for (const char *s = program; s; s = strchr(s, '/') ? strchr(s, '/') + 1 : NULL)
		sched_thread_start(thread, (void *)s);
	sched_together();
	order_settle();

	order_act_as(0);
	put(passed);
	calls_of_all();
	HOLDS(!peerdma_cache_counters(cache, &c));
	HOLDS(!c.dead && c.regions + c.deferred == (uint64_t)registered);
	/* These get one range, and nothing ends it. */
	HOLDS(program[strspn(program, "n/")] || !c.merges);
	peerdma_cache_invalidate(cache, (void *)BASE, PAGES * PAGE);
	calls_of_all();
	HOLDS(!registered);
	peerdma_cache_close(cache);
	order_act_as(-1);
}

int main(int argc, char **argv)
{
	struct sched_case c = { .body = body, .preemptions = -1 };
	uint64_t runs = 0;
	int deep = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sched_deadlock = deadlock;
	if (argc > 3 && !strcmp(argv[1], "--replay")) {
		program = argv[2];
		order_others = argc == 4 || !strcmp(argv[4], "fails");
		order_fence_fails = argc > 4 && order_others;
		sched_replay(&c, argv[3]);
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--deep"))
			deep = 1;
		else if (!strcmp(argv[i], "--broken"))
			order_broken_fence = true;
	}
	/* Then once more as on a machine where every hit makes a fence, and as where the fence of all fails from now on. */
	for (size_t i = 0; i < 3 * COUNT; i++) {
		struct sched_result r;

		program = programs[i % COUNT];
		order_others = i / COUNT != 1;
		order_fence_fails = i / COUNT == 2;
		/* Two threads have fewer orders than three. */
		c.preemptions = deep + !strchr(strchr(program, '/') + 1, '/');
		/* The second thread begins while the first one registers, and is stopped between two looks at that. */
		c.preemptions += i < COUNT && !strcmp(program, "n/n");
		r = sched_explore(&c);
		MUST(r.complete);
		printf("%-8s %8llu orders, up to %d preemptions\n", program, (unsigned long long)r.runs, c.preemptions);
		runs += r.runs;
	}
	printf("%llu orders\n", (unsigned long long)runs);
	return 0;
}
