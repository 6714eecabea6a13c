// SPDX-License-Identifier: MIT
/*
 * model - random programs on the core and on a naive second version of it.
 *
 *   model [STEPS [SEED]] [--jobs N]
 *	   small worlds, one after another, until STEPS operations are done; N at a time
 *   model --program FILE	one program, as a failure prints it
 *   model --world SEED		one world, by the number that a failure prints
 *   model --planted		with a mistake planted: it must be found, and shrunk to a few lines
 */
#include <getopt.h>
#include <sys/mman.h>

#include "model.h"

#define JOBS_MAX	16
#define WORLD_HANG_S	300

/* What a worker tells of itself, in shared memory. */
struct job {
	u64 seed, worlds, steps, revocations;
	u32 step;
};

static struct program program;

/* What the sanitizer finds is a failure, also when another program runs this. */
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
	return "halt_on_error=1:print_stacktrace=1";
}

static int report(u64 seed)
{
	fprintf(stderr, "model: world %llu failed (--world %llu repeats it); shrinking it\n", seed, seed);
	program_random(&program, seed);
	shrink(&program);
	if (!fails(&program, true, NULL)) {
		fprintf(stderr, "model: alone it does not fail again: chance, which load on the machine may bring back\n");
		return 1;
	}
	fprintf(stderr, "model: the shortest program that fails; in a file, --program FILE repeats it:\n");
	program_print(&program, stderr);
	return 1;
}

/* Every jobs-th world, from the index-th on. */
static void work(struct job *job, u64 steps, u64 seed, u32 index, u32 jobs)
{
	u64 done = 0, state = seed;
	u32 i;

	for (i = 0; done < steps; i++) {
		u64 world = rnd_u64(&state);

		done += program_length(world);
		if (i % jobs != index)
			continue;
		job->seed = world;
		test_seed = world;
		alarm(WORLD_HANG_S);
		program_random(&program, world);
		program_run(&program, &job->step);
		job->worlds++;
		job->steps += program.count;
		for (u32 g = 0; g < GPUS; g++)
			job->revocations += w.gpus[g].revocations;
		job->seed = 0;
	}
}

static int run_jobs(u64 steps, u64 seed, u32 jobs)
{
	struct job *job = mmap(NULL, JOBS_MAX * sizeof(*job), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct job sum = { 0 };
	pid_t pids[JOBS_MAX];
	int status, bad = 0;
	u32 i;

	if (job == MAP_FAILED)
		return 2;
	printf("model: seed %llu\n", seed);
	fflush(stdout);
	for (i = 0; i < jobs; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			return 2;
		if (!pids[i]) {
			work(&job[i], steps, seed, i, jobs);
			exit(0);
		}
	}
	for (i = 0; i < jobs; i++) {
		waitpid(pids[i], &status, 0);
		if (status && job[i].seed)
			bad = report(job[i].seed);
		else if (status)
			bad = 1;	/* at its end: memory that was lost, as the sanitizer has said */
		sum.worlds += job[i].worlds;
		sum.steps += job[i].steps;
		sum.revocations += job[i].revocations;
	}
	printf("model: %llu operations in %llu worlds, %llu revocations\n", sum.steps, sum.worlds,
	       sum.revocations);
	return bad;
}

static int run_file(const char *name)
{
	FILE *file = fopen(name, "r");
	u32 line, step;

	if (!file) {
		perror(name);
		return 2;
	}
	line = program_read(&program, file);
	fclose(file);
	if (line) {
		fprintf(stderr, "%s:%u: not understood\n", name, line);
		return 2;
	}
	program_run(&program, &step);
	printf("model: %u operations, no difference\n", program.count);
	return 0;
}

/* The tool itself: a mistake must be found, and its program be short, and fail again when read. */
static int run_planted(u64 seed)
{
	u64 state = seed;
	struct program again;
	FILE *file = tmpfile();

	planted = true;
	do {
		program_random(&program, rnd_u64(&state));
	} while (!fails(&program, false, NULL));
	shrink(&program);
	program_print(&program, stdout);
	MUST(file);
	program_print(&program, file);
	rewind(file);
	MUST(!program_read(&again, file));
	fclose(file);
	MUST(again.count <= 4);
	MUST(fails(&again, false, NULL));
	planted = false;
	MUST(!fails(&again, false, NULL));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "jobs", required_argument, NULL, 'j' },
		{ "program", required_argument, NULL, 'p' },
		{ "world", required_argument, NULL, 'w' },
		{ "planted", no_argument, NULL, 'x' },
		{ 0 }
	};
	u64 steps = 100000, seed = 1;
	u32 jobs = 1, step;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			jobs = (u32)atoi(optarg);
			break;
		case 'p':
			return run_file(optarg);
		case 'w':
			program_random(&program, strtoull(optarg, NULL, 0));
			return fails(&program, true, &step) ? report(strtoull(optarg, NULL, 0)) : 0;
		case 'x':
			return run_planted(seed);
		default:
			return 2;
		}
	}
	if (optind < argc)
		steps = strtoull(argv[optind++], NULL, 0);
	if (optind < argc)
		seed = strtoull(argv[optind], NULL, 0);
	if (!jobs || jobs > JOBS_MAX)
		return 2;
	return run_jobs(steps, seed, jobs);
}
