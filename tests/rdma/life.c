// SPDX-License-Identifier: MIT
/*
 * life.c - random lives of registered memory: in each round, processes register memory of every kind with one adapter, and
 * write, read, send and add; meanwhile they free the memory, deregister, destroy queue pairs, in every order, end without
 * a word, or are killed; modules are unloaded and the adapter is deleted under them.  After each round, everything is back:
 * pins, mappings, memory, the adapter's objects, references to modules.
 *
 *	life ADAPTER NETDEV SEED ROUNDS		MODDIR names the modules' folder
 *
 * The seed repeats what each process and the rounds choose; the times at which they meet are the machine's.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "../stress/modules.h"
#include "../stress/rnd.h"
#include "../stress/state.h"
#include "memory.h"
#include "pair.h"

#define CHILDREN 3
#define SUBJECTS 3
#define BATCH 24
#define HOST_SIZE (1UL << 20)

/* What a process holds, for the parent to see; a number that changes with it. */
enum { HOLDS_ADAPTER = 1, HOLDS_PIN = 2, HOLDS = 3, CHANGE = 4 };

static struct shared {
	uint32_t holds[CHILDREN];
	/* What has happened at all: a run in which something never does shows nothing of it. */
	uint32_t done, failed, freed, killed, refused, unloaded, deleted;
} *shared;

static void count(uint32_t *what)
{
	__atomic_fetch_add(what, 1, __ATOMIC_RELAXED);
}

/* ---- a process ---- */

static struct rnd dice;
static uint32_t *holds;
static struct pair p;
static struct memory host;
static struct ibv_mr *host_mr;
static struct subject {
	struct memory memory;
	struct ibv_mr *mr;
	pthread_t thread;
	unsigned int delay_us;
	int freed_by_thread;
} subjects[SUBJECTS];
static uint32_t number_of_subjects;

static void hold(uint32_t set, uint32_t clear)
{
	__atomic_store_n(holds, (((*holds | set) & ~clear) + CHANGE), __ATOMIC_SEQ_CST);
}

static void *free_later(void *arg)
{
	struct subject *s = arg;

	usleep(s->delay_us);
	memory_free(&s->memory);
	count(&shared->freed);
	return NULL;
}

static void begin_subject(struct subject *s)
{
	static const enum memory_kind kinds[] = { MEMORY_PEER, MEMORY_PEER, MEMORY_DMABUF, MEMORY_EXPORT, MEMORY_HOST };

	memory_alloc(&s->memory, kinds[rnd_below(&dice, sizeof(kinds) / sizeof(*kinds))], (size_t)65536 << rnd_below(&dice, 6));
	s->mr = memory_try_register(&s->memory, p.pd, 0, s->memory.size);
	/* The adapter still reaches the host's pages after free(). */
	s->freed_by_thread = rnd_chance(&dice, 60) && s->memory.kind != MEMORY_HOST;
	s->delay_us = rnd_below(&dice, 30000);
	MUST(s->mr, "registering memory of kind %d", (int)s->memory.kind);
	/* Such a pin holds each module below it. */
	if (s->memory.kind == MEMORY_PEER && !s->freed_by_thread)
		hold(HOLDS_PIN, 0);
}

static void post(void)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND };
	struct subject *s = &subjects[rnd_below(&dice, number_of_subjects)];
	struct request r = { .opcode = opcodes[rnd_below(&dice, 4)], .length = 1 + rnd_below(&dice, 65536), .compare_add = 1 };
	int local = rnd_chance(&dice, 50);

	if (r.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		r.length = 8;
	r.local = local ? s->mr : host_mr;
	r.local_addr = local ? s->memory.addr : host.addr;
	r.remote_addr = local ? host.addr : s->memory.addr;
	r.rkey = local ? host_mr->rkey : s->mr->rkey;
	if (r.opcode == IBV_WR_SEND)
		pair_receive(&p, 1, local ? host_mr : s->mr, r.remote_addr, 65536);
	errno = pair_post(&p, 0, &r);
	MUST(!errno, "posting a request");
}

static void load(void)
{
	int i, posted = 0, met = 0;

	for (i = 0; i < BATCH; i++, posted++)
		post();
	/* Or not: they are on their way when the queue pair is destroyed. */
	if (rnd_chance(&dice, 70)) {
		while (posted--) {
			if (pair_wait(&p, 0, NULL) == IBV_WC_SUCCESS) {
				count(&shared->done);
			} else {
				count(&shared->failed);
				met = 1;
			}
		}
		if (!met && rnd_chance(&dice, 50))
			return;
	}
	pair_connect(&p);
}

static void end_subject(struct subject *s)
{
	int first = rnd_chance(&dice, 50) || s->memory.kind == MEMORY_HOST;

	/* Beside the thread that frees, as it comes. */
	hold(0, HOLDS_PIN);
	if (!first && !s->freed_by_thread)
		memory_free(&s->memory);
	MUST(!ibv_dereg_mr(s->mr), "ibv_dereg_mr");
	if (first && !s->freed_by_thread)
		memory_free(&s->memory);
	MUST(!s->freed_by_thread || !pthread_join(s->thread, NULL), "pthread_join");
	if (s->memory.kind == MEMORY_EXPORT)
		memory_release(&s->memory);
}

__attribute__((noreturn)) static void child(const char *adapter)
{
	uint32_t i, loads = 1 + rnd_below(&dice, 3), silent = rnd_chance(&dice, 20);

	check_word = "ended";
	pair_open(&p, adapter, rnd_chance(&dice, 50));
	memory_alloc(&host, MEMORY_HOST, HOST_SIZE);
	host_mr = memory_register(&host, p.pd);
	hold(HOLDS_ADAPTER, 0);
	number_of_subjects = 1 + rnd_below(&dice, SUBJECTS);
	for (i = 0; i < number_of_subjects; i++)
		begin_subject(&subjects[i]);
	for (i = 0; i < number_of_subjects; i++)
		if (subjects[i].freed_by_thread && pthread_create(&subjects[i].thread, NULL, free_later, &subjects[i]))
			die("pthread_create");
	for (i = 0; i < loads; i++)
		load();
	hold(0, HOLDS);
	if (silent)
		_exit(0);
	for (i = 0; i < number_of_subjects; i++)
		end_subject(&subjects[i]);
	MUST(!ibv_dereg_mr(host_mr), "ibv_dereg_mr");
	pair_close(&p);
	_exit(0);
}

/* ---- the parent, which has nothing of the adapter or the GPU itself ---- */

/* In the places of state.h's; those of this list are unloaded under load. */
enum { CORE = 2, ADAPTER = 3, PROVIDER = 5, CLIENT = 6 };

static const char *adapter, *netdev;
static uint64_t round_number;

static void say_round(void)
{
	printf("\tin round %llu\n", (unsigned long long)round_number);
}

static void must(int err, const char *what)
{
	MUST(!err, "%s: %s", what, strerror(err));
}

static void link_add(void)
{
	char command[200];

	snprintf(command, sizeof(command), "rdma link add %s type rxe netdev %s", adapter, netdev);
	MUST(!system(command), "%s", command);
}

static void link_delete(void)
{
	char command[200];

	snprintf(command, sizeof(command), "rdma link delete %s", adapter);
	MUST(!system(command), "%s", command);
	count(&shared->deleted);
}

/* The adapter's objects; what stands before its name is another number each time. */
static void objects(char *line, int size)
{
	FILE *f = popen("rdma resource show", "r");
	char *at = f && fgets(line, size, f) ? strchr(line, ' ') : NULL;

	if (f)
		pclose(f);
	MUST(at, "rdma resource show says nothing");
	memmove(line, at, strlen(at) + 1);
}

static uint32_t held(uint32_t what, uint32_t *seen)
{
	uint32_t i, all = 0;

	for (i = 0; i < CHILDREN; i++) {
		seen[i] = __atomic_load_n(&shared->holds[i], __ATOMIC_SEQ_CST);
		all |= seen[i];
	}
	return all & what;
}

/* Was one of those that held it holding it all the time? */
static int held_on(uint32_t what, const uint32_t *before)
{
	uint32_t i, now[CHILDREN];

	held(what, now);
	for (i = 0; i < CHILDREN; i++)
		if (before[i] & what && before[i] == now[i])
			return 1;
	return 0;
}

/* True: it was unloaded. It must not be while it is needed. */
static int unload(int module, uint32_t need)
{
	uint32_t before[CHILDREN];
	int err;

	held(need, before);
	err = module_unload(module);
	MUST(!err || err == EAGAIN || err == EBUSY, "%s does not unload: %s", module_names[module], strerror(err));
	MUST(err || !held_on(need, before), "%s unloads while it is needed", module_names[module]);
	count(err ? &shared->refused : &shared->unloaded);
	return !err;
}

/* True: processes may have met a machine without it. */
static int disturb(struct rnd *r)
{
	int gone = 0;

	switch (rnd_below(r, 4)) {
	case 0:
		gone = unload(CLIENT, HOLDS_PIN);
		if (gone && unload(CORE, HOLDS_PIN))
			must(module_load(CORE), "loading the core again");
		if (gone)
			must(module_load(CLIENT), "loading the client again");
		return gone;
	case 1:
		gone = unload(PROVIDER, HOLDS_PIN);
		if (gone)
			must(module_load(PROVIDER), "loading the provider again");
		return gone;
	case 2:
		gone = unload(ADAPTER, HOLDS_ADAPTER);
		if (gone) {
			must(module_load(ADAPTER), "loading the adapter again");
			link_add();
		}
		return gone;
	default:
		/* Waits for what is under way, and takes its objects from the programs. */
		link_delete();
		link_add();
		return 1;
	}
}

/* One of them holds something, or was quicker. */
static void wait_for_change(const pid_t *pids, uint32_t n)
{
	siginfo_t info;
	uint32_t i;
	int tries;

	for (tries = 0; tries < 10000; tries++) {
		for (i = 0; i < n; i++) {
			info.si_pid = 0;
			if (__atomic_load_n(&shared->holds[i], __ATOMIC_SEQ_CST) ||
			    waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid)
				return;
		}
		usleep(1000);
	}
}

static void one_round(struct rnd *r, uint64_t seed)
{
	uint32_t n = 1 + rnd_below(r, CHILDREN), i, disturbs = rnd_chance(r, 40);
	pid_t pids[CHILDREN];
	int disturbed = 0;
	int doomed[CHILDREN];

	for (i = 0; i < n; i++) {
		shared->holds[i] = 0;
		doomed[i] = rnd_chance(r, 50);
		fflush(NULL);
		pids[i] = fork();
		if (!pids[i]) {
			dice = rnd_of(seed, round_number * CHILDREN + i + 1);
			holds = &shared->holds[i];
			child(adapter);
		}
		MUST(pids[i] >= 0, "fork: %s", strerror(errno));
	}
	/* At different points of what the processes do, from their beginning on. */
	wait_for_change(pids, n);
	usleep(rnd_below(r, 60000));
	if (disturbs)
		disturbed = disturb(r);
	for (i = 0; i < n; i++) {
		int status;

		if (doomed[i]) {
			usleep(rnd_below(r, 60000));
			kill(pids[i], SIGKILL);
		}
		MUST(waitpid(pids[i], &status, 0) == pids[i], "waitpid: %s", strerror(errno));
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && doomed[i])
			count(&shared->killed);
		else if (status && !(disturbed && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT))
			die("process %u ends with status %#x", i, (unsigned int)status);
		shared->holds[i] = 0;
	}
}

static void all_back(const struct state *idle, const char *idle_objects)
{
	char why[1000], now[200];
	int i;

	MUST(state_settled(idle, true, why, sizeof(why)), "%s", why);
	for (i = 0; i < 500; i++) {
		objects(now, sizeof(now));
		if (!strcmp(now, idle_objects))
			return;
		usleep(10000);
	}
	die("the adapter has%s, not%s", now, idle_objects);
}

int main(int argc, char **argv)
{
	uint64_t seed, rounds;
	char idle_objects[200];
	struct state idle;

	MUST(argc == 5, "usage: life ADAPTER NETDEV SEED ROUNDS");
	adapter = argv[1];
	netdev = argv[2];
	seed = strtoull(argv[3], NULL, 0);
	rounds = strtoull(argv[4], NULL, 0);
	module_names[CORE] = "peerdma_peer_core";
	module_names[ADAPTER] = "peerdma_hca";
	module_names[CLIENT] = "peerdma_peermem";
	module_names[7] = "ib_uverbs";
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(shared != MAP_FAILED, "mmap");
	printf("seed %llu\n", (unsigned long long)seed);
	check_says = say_round;
	state_read(&idle, true);
	objects(idle_objects, sizeof(idle_objects));
	for (round_number = 0; round_number < rounds; round_number++) {
		struct rnd r = rnd_of(seed, round_number << 32);

		one_round(&r, seed);
		all_back(&idle, idle_objects);
	}
	printf("%llu rounds: %u requests done, %u failed; %u times memory freed, %u processes killed; modules: %u times refused, %u unloaded; %u adapters deleted\n",
	       (unsigned long long)rounds, shared->done, shared->failed, shared->freed, shared->killed, shared->refused,
	       shared->unloaded, shared->deleted);
	/* Few rounds may miss some of it. */
	if (rounds < 200)
		return 0;
	if (!shared->done || !shared->failed || !shared->freed || !shared->killed || !shared->refused || !shared->deleted)
		die("something never happened: more rounds, or another seed");
	return 0;
}
