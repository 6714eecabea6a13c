// SPDX-License-Identifier: MIT
/*
 * stress - rounds of processes that allocate, pin, map, view, export and copy
 * GPU memory and end in every order, with modules unloaded under them; after
 * each round everything must have come back.
 *
 * Run as root in the virtual machine: tests/vm/random-rounds.sh.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "modules.h"
#include "state.h"

#define CHILDREN	4
#define ROUND_DEADLINE	60	/* seconds */
#define SLOW_EVERY	10	/* rounds between looks at what lags behind */
#define UNLOAD_EVERY	50	/* rounds between unloads of everything */

static struct {
	uint64_t seed;
	int rounds, first;
	uint32_t fpga_percent;
	bool tegra;
} options = { .rounds = 1000, .fpga_percent = 3 };

static struct {
	int children, killed, removals, refusals, unloads, cuda, amd;
} counts;

static const struct gpu_ops *libcuda, *raw;
static struct state idle;
unsigned long *child_did;
uint32_t revoke_every;

static void nap_us(uint32_t us)
{
	struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

static void failed(int round, const char *what)
{
	printf("round %d: %s\n", round, what);
	printf("FAILED; the same round again: stress%s --seed %llu --first %d --rounds 1 (times differ, so it may take several tries)\n",
	       options.tegra ? " --tegra" : "", (unsigned long long)options.seed, round);
	exit(1);
}

/* ---- children ---- */

static pid_t start(int round, int n, uint64_t seed, const struct gpu_ops *gpu, bool churn)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		failed(round, strerror(errno));
	if (!pid) {
		snprintf(child_name, sizeof(child_name), "round %d, child %d (%s)", round, n,
			 gpu->name);
		_exit(child_main(seed, gpu, churn, options.fpga_percent));
	}
	counts.children++;
	return pid;
}

/* Where the processes that do not end are. */
static void show_stuck(void)
{
	fflush(stdout);
	if (system("for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = stress ] || continue;"
		   " for t in $p/task/*; do echo \"${t#/proc/}:\"; cat $t/stack; done; done"))
		return;
}

/* Waits for all descendants: those that lost their parent are ours. */
static void reap(int round)
{
	time_t end = time(NULL) + ROUND_DEADLINE * patience();
	char text[128];
	int status;
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0)
			return;
		if (!pid) {
			if (time(NULL) > end) {
				show_stuck();
				failed(round, "processes do not end");
			}
			nap_us(500);
			continue;
		}
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			continue;
		if (WIFSIGNALED(status)) {
			snprintf(text, sizeof(text), "a child was ended by signal %d",
				 WTERMSIG(status));
			failed(round, text);
		}
		if (WEXITSTATUS(status)) {
			snprintf(text, sizeof(text), "a child ended with exit code %d",
				 WEXITSTATUS(status));
			failed(round, text);
		}
	}
}

/* ---- modules ---- */

/* Takes away the modules that are not in use, from the last one on, and loads it again. */
static void churn_modules(int round)
{
	char text[128];
	int i, err;

	for (i = MODULES - 1; i >= 0; i--) {
		err = module_unload(i);
		if (!err)
			counts.removals++;
		else if (err == EAGAIN)
			counts.refusals++;
		else if (err != ENOENT) {
			snprintf(text, sizeof(text), "rmmod %s: %s", module_names[i], strerror(err));
			failed(round, text);
		}
	}
	for (i = 0; i < MODULES; i++) {
		err = module_load(i);
		if (err && err != EEXIST) {
			snprintf(text, sizeof(text), "insmod %s: %s", module_names[i], strerror(err));
			failed(round, text);
		}
	}
}

/* A process that has a pin of each make: none of what it uses may go. */
static void refuse_unload(int round)
{
	struct timespec forever = { .tv_sec = 1000 };
	int ready[2], i, err;
	char text[128], byte;
	pid_t pid;

	if (pipe(ready))
		failed(round, strerror(errno));
	pid = fork();
	if (!pid) {
		static struct child c;
		struct area *a = &c.areas[0];

		snprintf(child_name, sizeof(child_name), "round %d, holder", round);
		if (!child_hold(&c, raw, a) || write(ready[1], "", 1) != 1)
			_exit(1);
		nanosleep(&forever, NULL);
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		failed(round, "the process that holds a pin did not get one");
	close(ready[0]);
	for (i = 0; i < MODULES - 1; i++) {
		err = module_unload(i);
		counts.refusals += err == EAGAIN;
		if (err == EAGAIN)
			continue;
		snprintf(text, sizeof(text), "rmmod %s while a pin is held: %s", module_names[i],
			 err ? strerror(err) : "it went");
		failed(round, text);
	}
	kill(pid, SIGKILL);
	reap(round);
}

/*
 * They are not in use only when the last reference is gone, which is not at once:
 * peerdma_nvidia keeps one until the process is gone whose pin another process
 * gave back, and looks once a second.
 */
static void unload_all(int round)
{
	char text[1024];
	int i, err;

	if (!state_settled(&idle, true, text, sizeof(text)))
		failed(round, text);
	for (i = MODULES - 1; i >= 0; i--) {
		err = module_unload(i);
		if (!err)
			continue;
		snprintf(text, sizeof(text), "rmmod %s, which is not in use: %s", module_names[i],
			 strerror(err));
		failed(round, text);
	}
	counts.unloads++;
	modules_load_all();
}

/* ---- rounds ---- */

/* Not while a process must have the pin that it holds; and softgpu.ko may be out. */
static void chaos(uint32_t every)
{
	FILE *f = fopen("/sys/kernel/debug/softgpu/chaos/revoke_every", "w");

	if (f) {
		fprintf(f, "%u", every);
		fclose(f);
	}
}

static void run_round(int round)
{
	struct rnd rnd = rnd_of(options.seed, round + 1);
	int n = 1 + rnd_below(&rnd, CHILDREN), i;
	bool churn = rnd_chance(&rnd, 8);
	pid_t pids[CHILDREN];
	char why[1024];

	if (revoke_every)
		chaos(revoke_every);
	for (i = 0; i < n; i++) {
		bool cuda = rnd_chance(&rnd, 25) && libcuda, amd = !cuda && rnd_chance(&rnd, 40);

		counts.cuda += cuda;
		counts.amd += amd;
		pids[i] = start(round, i, rnd_next(&rnd), cuda ? libcuda : amd ? &gpu_raw_amd : raw, churn);
	}
	if (churn) {
		nap_us(rnd_below(&rnd, 20000));
		churn_modules(round);
	}
	/* Not reaped yet, so the numbers are still theirs. */
	for (i = 0; i < n; i++) {
		if (!rnd_chance(&rnd, 25))
			continue;
		nap_us(rnd_below(&rnd, 30000));
		kill(pids[i], SIGKILL);
		counts.killed++;
	}
	reap(round);
	if (revoke_every)
		chaos(0);
	if (!state_settled(&idle, !(round % SLOW_EVERY) || churn, why, sizeof(why)))
		failed(round, why);
	if (!(round % UNLOAD_EVERY)) {
		refuse_unload(round);
		unload_all(round);
		if (!state_settled(&idle, true, why, sizeof(why)))
			failed(round, why);
	}
}

static void say_what_was_done(void)
{
	static const char *const names[DIDS] = {
		"allocations", "frees", "pins", "unpins", "mappings", "views", "reads of a view",
		"SIGBUS", "dma-bufs", "copies", "copies by a card", "events", "revocations checked",
		"races", "heirs", "dma-bufs of others", "pins of those", "moves", "revocations by their exporter",
	};
	int i;

	printf("stress:");
	for (i = 0; i < DIDS; i++)
		printf("%s %lu %s", i ? "," : "", child_did[i], names[i]);
	printf("\n");
}

static void usage(FILE *out)
{
	fprintf(out, "usage: stress [--seed N] [--rounds N] [--first N] [--fpga PERCENT] [--revoke PINS] [--tegra]\n"
		"Runs random rounds in a virtual machine with softgpu, as root, with the modules in $MODDIR.\n");
}

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'n' },
		{ "first", required_argument, NULL, 'f' },
		{ "fpga", required_argument, NULL, 'p' },
		{ "revoke", required_argument, NULL, 'r' },
		{ "tegra", no_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (opt) {
		case 's':
			options.seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			options.rounds = atoi(optarg);
			break;
		case 'f':
			options.first = atoi(optarg);
			break;
		case 'p':
			options.fpga_percent = atoi(optarg);
			break;
		case 'r':
			revoke_every = atoi(optarg);
			break;
		case 't':
			options.tegra = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	int round, end;
	time_t began;

	options.seed = (uint64_t)time(NULL) << 16 ^ getpid();
	parse(argc, argv);
	if (geteuid()) {
		fprintf(stderr, "stress: it loads kernel modules and maps memory for devices: run it as root, in the virtual machine (tests/run stress)\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Children of children come to us. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	child_did = mmap(NULL, DIDS * sizeof(*child_did), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (child_did == MAP_FAILED)
		return 1;
	if (options.tegra)
		state_of_tegra();
	raw = options.tegra ? &gpu_raw_tegra : &gpu_raw;
	modules_load_all();
	libcuda = gpu_cuda(options.tegra);
	state_read(&idle, true);
	if (!idle.gpus) {
		fprintf(stderr, "stress: no software GPU: is debugfs mounted on /sys/kernel/debug?\n");
		return 1;
	}
	printf("stress: seed %llu, rounds %d to %d, %d GPUs, %d cards, %s libcuda\n",
	       (unsigned long long)options.seed, options.first,
	       options.first + options.rounds - 1, idle.gpus, idle.cards,
	       libcuda ? "with" : "without");
	began = time(NULL);
	end = options.first + options.rounds;
	for (round = options.first; round < end; round++) {
		run_round(round);
		if (round % 100 == 99)
			printf("round %d done, %lld s\n", round, (long long)(time(NULL) - began));
	}
	unload_all(round - 1);
	say_what_was_done();
	printf("stress: %d rounds: %d processes (%d by libcuda, %d with AMD's memory), %d of them killed; modules: %d removed and %d refused under load, all unloaded %d times; everything came back\n",
	       options.rounds, counts.children, counts.cuda, counts.amd, counts.killed, counts.removals,
	       counts.refusals, counts.unloads);
	return 0;
}
