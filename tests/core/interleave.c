// SPDX-License-Identifier: MIT
/*
 * interleave.c - every order in which short threads can meet on the core.
 *
 * Each thread is a short list of operations on one allocation of one process.
 * All lists up to a length are formed, and for each set of threads every order of
 * their critical sections and client callbacks is run.  What must hold in all:
 *
 *   - a pin ends once: by put, or by one callback; unmap and free run once, in
 *     that order, and after the callback
 *   - put waits for a callback in flight; no callback starts after put has returned
 *   - the core's lock is free while a client's code runs, and a client may hold its
 *     own lock across any call, also one that its callback takes
 *   - no DMA address outlives its pin, and VRAM is not free while a pin may reach it
 *   - in the end every count is back; and no order ends in a deadlock
 *
 * usage: interleave [--deep] | --replay PROGRAM CHOICES | --random N [SEED]
 */
#include "util.h"

#include "schedule.h"
#include "clients/clients.h"

#define MAX_OPS		3
#define MAX_THREADS	3

/*
 * g get and put   m get, map, put (the mapping is swept)   u get, map, unmap, put
 * l get, map and unmap under the client's lock, put        p the same as g, persistent
 * k get, and leave it to the callback                      f free of the memory
 * d context destroyed   c file closed   a alloc and free of other memory
 */
static const char alphabet[] = "gmulpkfdca";

struct client_pin {
	struct tpin t;
	struct sg_mutex client_lock;	/* a driver's own */
	int dma;			/* addresses that reach the memory now */
	bool put_returned, in_callback, used;
};

static struct machine m;
static struct user owner, closer;
static u64 va;
static bool freed, closed;
static int key;
static u8 vram[16 * 65536];
static char program[MAX_THREADS * (MAX_OPS + 1) + 1];
static struct client_pin pins[MAX_THREADS][MAX_OPS];

static void say_where(void)
{
	fprintf(stderr, "repeat with: interleave --replay %s %s\n", program, sched_choices());
}

static void deadlock(void)
{
	fprintf(stderr, "no thread can go on\n");
	say_where();
	abort();
}

static bool core_is_free(void)
{
	return m.sg->lock.owner != sched_self() + 1;
}

/* ---- a client as drivers are ---- */

static void callback(struct sg_pin *pin)
{
	struct client_pin *p = container_of(pin, struct client_pin, t.pin);

	MUST(core_is_free());
	MUST(!p->put_returned && !p->t.callbacks && !p->t.unmaps);
	p->t.callbacks++;
	p->in_callback = true;
	sched_yield_here();
	/* As picoevb does: the lock that is held across dma_map_pages. */
	sg_mutex_lock(&p->client_lock);
	MUST(sg_pin_put(m.sg, pin, false) == -EDEADLK);
	sg_mutex_unlock(&p->client_lock);
	sched_yield_here();
	p->in_callback = false;
}

static void unmap(struct sg_pin *pin)
{
	struct client_pin *p = container_of(pin, struct client_pin, t.pin);

	MUST(core_is_free());
	MUST(!p->in_callback && !p->t.unmaps && !p->t.frees);
	sched_yield_here();
	p->t.unmaps++;
	p->dma = 0;
}

static void release(struct sg_pin *pin)
{
	struct client_pin *p = container_of(pin, struct client_pin, t.pin);

	MUST(core_is_free());
	MUST(p->t.unmaps == 1 && !p->t.frees && !p->dma);
	p->t.frees++;
}

static const struct sg_pin_ops ops = { callback, unmap, release };

static int get(struct client_pin *p, bool persistent)
{
	struct sg_pin_who who = { .proc_key = &key };
	int err;

	p->used = true;
	err = sg_pin_get(m.sg, &p->t.pin, &ops, &who, va, PAGE, persistent);
	MUST(err == 0 || (err == -EINVAL && freed));
	return err;
}

/* What a personality's dma_map does: hold, look, map, let go. */
static void map(struct client_pin *p)
{
	struct sg_pin *pin = sg_pin_hold(m.sg, &p->t.pin);

	if (!pin)
		return;
	MUST(!p->t.unmaps);
	if (sg_pin_live(pin)) {
		sched_yield_here();
		MUST(!p->t.unmaps);
		p->dma++;
	}
	sg_pin_unhold(pin);
}

static void unmap_one(struct client_pin *p)
{
	struct sg_pin *pin = sg_pin_hold(m.sg, &p->t.pin);

	if (!pin)
		return;
	if (p->dma)
		p->dma--;
	sg_pin_unhold(pin);
}

static void put(struct client_pin *p, bool persistent)
{
	int err = sg_pin_put(m.sg, &p->t.pin, persistent);

	MUST(!p->in_callback);
	p->put_returned = true;
	MUST(err == 0 || (err == -ENOENT && !persistent));
	MUST(p->t.callbacks == (err ? 1 : 0));
	MUST(p->t.unmaps == 1 && !p->dma);
}

/* ---- operations ---- */

static void op_get(struct client_pin *p, char op)
{
	bool persistent = op == 'p';

	if (op == 'l')
		sg_mutex_lock(&p->client_lock);
	if (get(p, persistent)) {
		if (op == 'l')
			sg_mutex_unlock(&p->client_lock);
		p->used = false;
		return;
	}
	if (op == 'm' || op == 'u' || op == 'l')
		map(p);
	if (op == 'u' || op == 'l')
		unmap_one(p);
	if (op == 'l')
		sg_mutex_unlock(&p->client_lock);
	if (op != 'k')
		put(p, persistent);
}

static void op_end(char op)
{
	struct softgpu_handle h = { .handle = owner.ctx };
	int err;

	freed = true;
	switch (op) {
	case 'f':
		err = mem_free(&closer, va);
		MUST(err == 0 || err == -ENOENT);
		break;
	case 'd':
		err = CALL(closer.client, SOFTGPU_CTX_DESTROY, &h);
		MUST(err == 0 || err == -ENOENT);
		break;
	case 'c':
		/* A file is closed once: its last user is gone by then. */
		if (!closed) {
			closed = true;
			sg_client_close(owner.client);
		}
		break;
	}
}

static void op_other_memory(void)
{
	struct sg_gpu_stats st;
	u32 t, i;
	u64 other;

	if (mem_alloc(&closer, PAGE, &other))
		return;
	/* No DMA reaches what was just given out. */
	for (t = 0; t < MAX_THREADS; t++) {
		for (i = 0; i < MAX_OPS; i++) {
			struct client_pin *p = &pins[t][i];
			struct sg_range *r = sg_range_at(closer.client->proc, other);

			if (p->dma && r)
				MUST(p->t.pin.mem != r->mem);
		}
	}
	MUST(!sg_gpu_stats(m.sg, 0, &st));
	MUST(!mem_free(&closer, other));
}

static void thread(void *arg)
{
	u32 t = (u32)(uintptr_t)arg, i;
	const char *ops_of = program;

	for (i = 0; i < t; i++)
		ops_of = strchr(ops_of, '-') + 1;
	for (i = 0; ops_of[i] && ops_of[i] != '-'; i++) {
		switch (ops_of[i]) {
		case 'f': case 'd': case 'c':
			op_end(ops_of[i]);
			break;
		case 'a':
			op_other_memory();
			break;
		default:
			op_get(&pins[t][i], ops_of[i]);
			break;
		}
	}
}

/* ---- one run ---- */

static u64 phys(void *priv, u64 offset)
{
	(void)priv;
	return VRAM_PHYS + offset;
}

static void check_ends(void)
{
	u32 t, i;

	for (t = 0; t < MAX_THREADS; t++) {
		for (i = 0; i < MAX_OPS; i++) {
			struct client_pin *p = &pins[t][i];

			if (p->used)
				MUST(p->t.unmaps == 1 && p->t.frees == 1 && p->t.callbacks <= 1);
		}
	}
}

static void body(void *arg)
{
	struct sg_gpu_desc desc = { .name = "t", .vram_size = sizeof(vram), .engines = 1, .phys = phys,
				    .vram = vram };
	u32 index, threads = 1;
	const char *s;

	(void)arg;
	memset(pins, 0, sizeof(pins));
	freed = closed = false;
	MUST(!sg_create(&m.sg) && !sg_gpu_add(m.sg, &desc, &index));
	m.gpus = 1;
	user_up(&owner, &m, 0, &key);
	user_up(&closer, &m, 0, &key);
	MUST(!mem_alloc(&owner, PAGE, &va));
	for (s = program; *s; s++)
		threads += *s == '-';
	sched_apart();
	for (index = 0; index < threads; index++)
		MUST(sched_thread_start(thread, (void *)(uintptr_t)index) > 0);
	sched_together();
	if (!closed)
		sg_client_close(owner.client);
	sg_client_close(closer.client);
	check_ends();
	machine_idle(&m);
	sg_gpu_remove(m.sg, 0);
	sg_destroy(m.sg);
}

/* ---- all programs ---- */

static u64 programs, runs, incomplete;

static void explore(int preemptions)
{
	struct sched_case c = { .body = body, .preemptions = preemptions, .max_runs = 2000000 };
	struct sched_result r = sched_explore(&c);

	programs++;
	runs += r.runs;
	incomplete += !r.complete;
}

/*
 * Whether a program makes sense: a file is closed once; and where other memory
 * is allocated the first is freed once, or its stale address may be the other's.
 */
static bool sensible(const char *list)
{
	int closes = 0, ends = 0, others = 0;

	for (; *list; list++) {
		closes += *list == 'c';
		ends += *list == 'f' || *list == 'd' || *list == 'c';
		others += *list == 'a';
	}
	return closes <= 1 && (!others || ends <= 1);
}

static void all_lists(u32 threads, u32 ops, int preemptions)
{
	u32 letters = sizeof(alphabet) - 1, total = threads * ops, i;
	u64 n, count = 1;

	for (i = 0; i < total; i++)
		count *= letters;
	for (n = 0; n < count; n++) {
		char list[MAX_THREADS][MAX_OPS + 1] = { { 0 } };
		u64 rest = n;

		for (i = 0; i < total; i++) {
			list[i / ops][i % ops] = alphabet[rest % letters];
			rest /= letters;
		}
		/* Threads are alike: only one order of their lists is needed. */
		for (i = 1; i < threads && strcmp(list[i - 1], list[i]) <= 0; i++)
			;
		if (i < threads)
			continue;
		program[0] = 0;
		for (i = 0; i < threads; i++) {
			strcat(program, i ? "-" : "");
			strcat(program, list[i]);
		}
		if (sensible(program))
			explore(preemptions);
	}
	printf("interleave: %u threads of %u: %llu programs so far, %llu orders, up to %d switches\n",
	       threads, ops, programs, runs, preemptions);
	fflush(stdout);
}

/* What went wrong in the field, by name; --deep runs every order. */
static void named(const char *name, const char *list, int switches)
{
	u64 before = runs;

	snprintf(program, sizeof(program), "%s", list);
	explore(switches);
	printf("interleave: %s (%s): %llu orders\n", name, list, runs - before);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	bool deep = argc > 1 && !strcmp(argv[1], "--deep");
	struct sched_case c = { .body = body, .preemptions = -1 };

	sched_deadlock = deadlock;
	check_says = say_where;
	if (argc > 2 && !strcmp(argv[1], "--replay")) {
		snprintf(program, sizeof(program), "%s", argv[2]);
		sched_replay(&c, argc > 3 ? argv[3] : "");
		printf("interleave: %s: holds in this order\n", program);
		return 0;
	}
	named("free callback against put_pages", "k-f", deep ? -1 : 4);
	named("free callback against put_pages, mapped", "m-f", deep ? -1 : 4);
	named("free against get_pages", "g-f", deep ? -1 : 4);
	named("lock inversion between client and provider", "l-f", deep ? -1 : 4);
	named("context destroyed against free, pinned", "k-d", deep ? -1 : 4);
	all_lists(2, 1, deep ? 6 : 3);
	all_lists(2, 2, deep ? 3 : 1);
	all_lists(3, 1, deep ? 3 : 1);
	printf("interleave: %llu programs, %llu orders, %llu of the programs cut short\n", programs, runs,
	       incomplete);
	return 0;
}
