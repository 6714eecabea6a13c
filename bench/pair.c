// SPDX-License-Identifier: MIT
/*
 * pair.c - two threads that are measured together and apart: they are there all
 * the time, warm, each on its processor, and asleep unless they have a task.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "cache_bench.h"
#include "cache_subjects.h"
#include "spread.h"

struct member {
	struct pair *pair;
	pthread_t thread;
	int index, cpu;
	double from, to, own;
} __attribute__((aligned(128)));

struct pair {
	struct member members[THREADS_MAX];
	pthread_barrier_t begin, end;
	const struct task *task;	/* NULL: no more */
	int threads;
	int ready __attribute__((aligned(128)));
};

/* What the calling thread had of a processor: beside others' work, that is what can be compared. */
double cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void stay_on(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		die("--cpus: no such processor");
}

static void *member_run(void *arg)
{
	struct member *m = arg;
	struct pair *p = m->pair;

	stay_on(m->cpu);
	for (;;) {
		pthread_barrier_wait(&p->begin);
		if (!p->task)
			return NULL;
		if (m->index < p->threads) {
			/* Being woken takes its time, and another for each: the last one awake is the signal. */
			__atomic_add_fetch(&p->ready, 1, __ATOMIC_ACQ_REL);
			while (__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) < p->threads)
				;
			m->from = now_ns();
			m->own = -cpu_ns();
			p->task->step(p->task->on[m->index], p->task->which[m->index], p->task->n);
			m->own += cpu_ns();
			m->to = now_ns();
		}
		pthread_barrier_wait(&p->end);
	}
}

struct pair *pair_begin(const int cpus[THREADS_MAX])
{
	struct pair *p = aligned_alloc(128, sizeof(*p));

	if (!p)
		die("out of memory");
	pthread_barrier_init(&p->begin, NULL, THREADS_MAX + 1);
	pthread_barrier_init(&p->end, NULL, THREADS_MAX + 1);
	for (int i = 0; i < THREADS_MAX; i++) {
		p->members[i] = (struct member){ .pair = p, .index = i, .cpu = cpus[i] };
		if (pthread_create(&p->members[i].thread, NULL, member_run, &p->members[i]))
			die("pthread_create");
	}
	return p;
}

void pair_end(struct pair *p)
{
	p->task = NULL;
	pthread_barrier_wait(&p->begin);
	for (int i = 0; i < THREADS_MAX; i++)
		pthread_join(p->members[i].thread, NULL);
	pthread_barrier_destroy(&p->begin);
	pthread_barrier_destroy(&p->end);
	free(p);
}

struct pair_times pair_time(struct pair *p, const struct task *task, int threads)
{
	double steps = (double)task->n * threads, from, to, own;

	p->task = task;
	p->threads = threads;
	p->ready = 0;
	pthread_barrier_wait(&p->begin);
	pthread_barrier_wait(&p->end);
	from = p->members[0].from;
	to = p->members[0].to;
	own = p->members[0].own;
	for (int i = 1; i < threads; i++) {
		from = p->members[i].from < from ? p->members[i].from : from;
		to = p->members[i].to > to ? p->members[i].to : to;
		own += p->members[i].own;
	}
	/* Of the time of so many threads at once: what the clock would say, were they never interrupted. */
	return (struct pair_times){ (to - from) / steps, own / threads / steps };
}
