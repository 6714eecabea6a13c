// SPDX-License-Identifier: MIT
/*
 * processors.c - two processors for two threads, which are not one core's.
 *
 * The kernel says which are, but a virtual machine's kernel knows what it was told
 * and no more.  So each that may be one is also tried: the control gains nearly
 * nothing with a second thread on the same core.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_bench.h"
#include "cache_subjects.h"
#include "spread.h"

#define TRIED_MAX	32
#define TRIES		15
#define STEPS		40000	/* under a millisecond */

/* "0,8": those of the same core; "": not known. */
static void told(int cpu, const char *what, char *text, size_t size)
{
	char name[96];
	FILE *f;

	snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
	*text = 0;
	f = fopen(name, "re");
	if (!f)
		return;
	if (!fgets(text, (int)size, f))
		*text = 0;
	text[strcspn(text, "\n")] = 0;
	fclose(f);
}

static bool same(int a, int b, const char *what)
{
	char one[256], other[256];

	told(a, what, one, sizeof(one));
	told(b, what, other, sizeof(other));
	return !strcmp(one, other);
}

static double gain_on(const int cpus[THREADS_MAX], void *own[THREADS_MAX], const uint32_t *which)
{
	struct task task = { control_steps, { own[0], own[1] }, { which, which }, STEPS };
	struct pair *p = pair_begin(cpus);
	double gains[TRIES];

	pair_time(p, &task, THREADS_MAX);
	for (int i = 0; i < TRIES; i++) {
		double one = pair_time(p, &task, 1).own;

		gains[i] = one / pair_time(p, &task, THREADS_MAX).own;
	}
	pair_end(p);
	return spread_of(gains, TRIES).median;
}

void processors_choose(int cpus[THREADS_MAX], bool quiet)
{
	int given = cpus[1], tried = 0, first = cpus[0];
	void *own[THREADS_MAX] = { control_open(), control_open() };
	uint32_t *which = some_numbers(STEPS, 65536);
	double best = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		die("sched_getaffinity");
	for (int cpu = 0; first < 0 && cpu < CPU_SETSIZE; cpu++)
		first = CPU_ISSET(cpu, &set) ? cpu : first;
	if (!quiet)
		printf("processor %d and the control's gain with:", first);
	for (int cpu = 0; cpu < CPU_SETSIZE && tried < TRIED_MAX; cpu++) {
		int pair[THREADS_MAX] = { first, cpu };
		double gain;

		if (cpu == first || !CPU_ISSET(cpu, &set) || (given >= 0 && cpu != given))
			continue;
		tried++;
		gain = gain_on(pair, own, which);
		if (!quiet)
			printf(" %d%s %.2f", cpu, same(first, cpu, "thread_siblings_list") ? " (same core)" :
			       same(first, cpu, "physical_package_id") ? "" : " (other package)", gain);
		/* What the kernel says are two threads of a core is none, whatever it gains. */
		if (gain > best && (cpu == given || !same(first, cpu, "thread_siblings_list"))) {
			best = gain;
			cpus[1] = cpu;
		}
	}
	cpus[0] = first;
	if (!quiet)
		printf(cpus[1] < 0 ? "; there is no second core\n" : "; chosen: %d and %d\n", cpus[0], cpus[1]);
	for (int i = 0; i < THREADS_MAX; i++)
		free(own[i]);
	free(which);
}
