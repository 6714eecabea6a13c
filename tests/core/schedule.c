// SPDX-License-Identifier: MIT
/* schedule.c - see schedule.h. */
#include "schedule.h"

#include <ucontext.h>

#define STACK_SIZE	(64 * 1024)
#define MAX_CHOICES	4096

enum state { FREE, READY, WANTS_MUTEX, WAITS_COND, WAITS_JOIN, DONE };

struct thread {
	ucontext_t uc;
	enum state state;
	const void *on;			/* the mutex or condition */
	int join;
	void (*fn)(void *);
	void *arg;
	bool engine;			/* made before sched_apart(): not waited for */
};

static struct thread threads[SCHED_MAX_THREADS];
static char *stacks[SCHED_MAX_THREADS];
static int current;
static bool apart;			/* choices are made */

static struct {
	u8 taken, options;
} choices[MAX_CHOICES];
static int depth, given;		/* how many were made; how many are prescribed */
static int preemptions_left;
static char text[MAX_CHOICES + 1];

void (*sched_deadlock)(void);

int sched_self(void)
{
	return current;
}

static bool enabled(const struct thread *t)
{
	switch (t->state) {
	case READY:
		return true;
	case WANTS_MUTEX:
		return !((const struct sg_mutex *)t->on)->owner;
	case WAITS_JOIN:
		return threads[t->join].state == DONE;
	default:
		return false;
	}
}

/* Which of n options: as prescribed, or the first. */
static int choose(int n)
{
	int pick;

	if (n == 1)
		return 0;
	SG_WARN_ON(depth == MAX_CHOICES);
	pick = depth < given ? choices[depth].taken : 0;
	if (pick >= n)
		pick = n - 1;
	choices[depth].taken = (u8)pick;
	choices[depth].options = (u8)n;
	depth++;
	return pick;
}

/* Lets some thread go on; comes back when this one is picked again. */
static void reschedule(void)
{
	int options[SCHED_MAX_THREADS], n = 0, i, next, from = current;
	bool can_stay = enabled(&threads[from]);

	/* Nearly always. */
	if (can_stay && (!apart || !preemptions_left))
		return;
	/* The current one first, so that choice 0 is "no switch". */
	if (can_stay)
		options[n++] = from;
	for (i = 0; i < SCHED_MAX_THREADS; i++) {
		if (i != from && enabled(&threads[i]))
			options[n++] = i;
	}
	if (!n) {
		sched_deadlock();
		abort();
	}
	if (!apart)
		n = 1;
	next = options[choose(n)];
	if (next == from)
		return;
	if (can_stay && preemptions_left > 0)
		preemptions_left--;
	current = next;
	swapcontext(&threads[from].uc, &threads[next].uc);
}

void sched_yield_here(void)
{
	if (apart)
		reschedule();
}

void sched_mutex_lock(struct sg_mutex *m)
{
	struct thread *self = &threads[current];

	SG_WARN_ON(m->owner == current + 1);
	self->state = WANTS_MUTEX;
	self->on = m;
	if (apart || m->owner)
		reschedule();
	while (m->owner)
		reschedule();
	self->state = READY;
	m->owner = current + 1;
}

void sched_mutex_unlock(struct sg_mutex *m)
{
	SG_WARN_ON(m->owner != current + 1);
	m->owner = 0;
}

void sched_cond_wait(struct sg_cond *c, struct sg_mutex *m)
{
	sched_mutex_unlock(m);
	threads[current].state = WAITS_COND;
	threads[current].on = c;
	reschedule();
	sched_mutex_lock(m);
}

void sched_cond_broadcast(struct sg_cond *c)
{
	int i;

	for (i = 0; i < SCHED_MAX_THREADS; i++) {
		if (threads[i].state == WAITS_COND && threads[i].on == c)
			threads[i].state = READY;
	}
}

static void thread_main(void)
{
	threads[current].fn(threads[current].arg);
	threads[current].state = DONE;
	reschedule();
	abort();	/* a thread that is done is never picked */
}

static void make_context(struct thread *t, char *stack)
{
	getcontext(&t->uc);
	t->uc.uc_stack.ss_sp = stack;
	t->uc.uc_stack.ss_size = STACK_SIZE;
	t->uc.uc_link = NULL;
	makecontext(&t->uc, thread_main, 0);
}

int sched_thread_start(void (*fn)(void *), void *arg)
{
	struct thread *t;
	int i;

	for (i = 1; i < SCHED_MAX_THREADS && threads[i].state != FREE; i++)
		;
	if (i == SCHED_MAX_THREADS)
		return -1;
	t = &threads[i];
	if (!stacks[i])
		stacks[i] = malloc(STACK_SIZE);
	make_context(t, stacks[i]);
	t->fn = fn;
	t->arg = arg;
	t->state = READY;
	return i;
}

void sched_thread_join(int id)
{
	threads[current].join = id;
	threads[current].state = WAITS_JOIN;
	while (threads[id].state != DONE)
		reschedule();
	threads[current].state = READY;
	threads[id].state = FREE;
}

void sched_apart(void)
{
	int i;

	for (i = 1; i < SCHED_MAX_THREADS; i++) {
		threads[i].engine = threads[i].state != FREE;
		/* Engines get as far as they can first: they wait for work. */
		while (threads[i].state == READY) {
			int self = current;

			current = i;
			swapcontext(&threads[self].uc, &threads[i].uc);
		}
	}
	apart = true;
}

void sched_together(void)
{
	int i;

	for (i = 1; i < SCHED_MAX_THREADS; i++) {
		if (threads[i].state != FREE && !threads[i].engine)
			sched_thread_join(i);
	}
	apart = false;
}

const char *sched_choices(void)
{
	int i;

	for (i = 0; i < depth; i++)
		text[i] = (char)('0' + choices[i].taken);
	text[i] = 0;
	return text;
}

static void run(const struct sched_case *c)
{
	memset(threads, 0, sizeof(threads));
	threads[0].state = READY;
	current = 0;
	apart = false;
	depth = 0;
	preemptions_left = c->preemptions;
	c->body(c->arg);
}

struct sched_result sched_explore(const struct sched_case *c)
{
	struct sched_result r = { 0 };

	given = 0;
	for (;;) {
		run(c);
		r.runs++;
		/* The last choice that has another option left takes it. */
		while (depth && choices[depth - 1].taken + 1 == choices[depth - 1].options)
			depth--;
		if (!depth) {
			r.complete = true;
			break;
		}
		if (c->max_runs && r.runs == c->max_runs)
			break;
		choices[depth - 1].taken++;
		given = depth;
	}
	return r;
}

void sched_replay(const struct sched_case *c, const char *s)
{
	for (given = 0; s[given] && given < MAX_CHOICES; given++)
		choices[given].taken = (u8)(s[given] - '0');
	run(c);
}
