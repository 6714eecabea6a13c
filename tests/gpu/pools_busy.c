// SPDX-License-Identifier: MIT
/*
 * pools_busy.c - memory of CUDA's pools under load: exporters allocate, export and free without a pause, and destroy a pool now
 * and then; the threads of importers open, read and close it. Driver faults that occur once in 100,000 times show here.
 *
 *	LD_PRELOAD=.../libpeerdma-hooks.so pools_busy [SECONDS [IMPORTERS [THREADS]]]	(default: 20 3 10)
 *
 * The seconds count from when each importer has opened something.
 *
 * Runs on softgpu, too; exit code 77: no CUDA, or no such pools.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "pool_calls.h"

enum { EXPORTERS = 2, POOLS = 6, PLACES = 64, IMPORTERS_MOST = 16, THREADS_MOST = 64, LONGEST = 4 << 20, HANGS_S = 10, BEGINS_S = 60 };

/* What an exporter has exported. Its generation is odd while it is there, and changes before it is freed. */
struct place {
	_Atomic uint64_t generation;
	size_t length;
	uint8_t fill;
	struct peerdma_ipc_handle handle;
};

static struct shared {
	struct place places[EXPORTERS][PLACES];
	_Atomic bool stop;
	_Atomic uint64_t frees, pools;
	struct importer {
		_Atomic uint64_t rounds, opens, refused, wrong, errors;
	} importers[IMPORTERS_MOST];
} *shared;

static int seconds = 20, importers = 3, threads = 10;

static unsigned int next_random(unsigned int *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* ---- the exporter ---- */

struct exporter {
	void *pools[POOLS];
	gpu_ptr at[PLACES];
	int pool[PLACES];
	struct place *places;
};

static void make(void **pool)
{
	const struct cuda_pool_props props = { .type = 1, .handle_types = FD, .location_type = 1 };

	need(pool_create(pool, &props), "cuMemPoolCreate");
	shared->pools++;
}

static void put(struct exporter *e, unsigned int n, unsigned int *state)
{
	struct place *p = &e->places[n];

	e->pool[n] = (int)(next_random(state) % POOLS);
	p->length = 1 + next_random(state) % (next_random(state) % 4 ? 65536 : LONGEST);
	p->fill = (uint8_t)next_random(state);
	need(pool_alloc(&e->at[n], p->length, e->pools[e->pool[n]], NULL), "cuMemAllocFromPoolAsync");
	need(cu.cuMemsetD8_v2(e->at[n], p->fill, p->length) || cu.cuStreamSynchronize(NULL), "cuMemsetD8");
	need(peerdma_ipc_export((void *)(uintptr_t)e->at[n], p->length, 0, &p->handle), "peerdma_ipc_export");
	p->generation++;
}

static void take(struct exporter *e, unsigned int n)
{
	e->places[n].generation++;
	need(cu.cuMemFreeAsync(e->at[n], NULL) || cu.cuStreamSynchronize(NULL), "cuMemFreeAsync");
	e->at[n] = 0;
	shared->frees++;
}

static void exports(int number)
{
	static struct exporter e;
	unsigned int state = (unsigned int)number + 1;

	e.places = shared->places[number];
	start_cuda(0);
	for (int i = 0; i < POOLS; i++)
		make(&e.pools[i]);
	for (unsigned int step = 1; !shared->stop; step++) {
		unsigned int n = next_random(&state) % PLACES;

		if (e.at[n])
			take(&e, n);
		else
			put(&e, n, &state);
		if (step % 2000 == 0) {
			int pool = (int)(next_random(&state) % POOLS);

			for (n = 0; n < PLACES; n++) {
				if (e.at[n] && e.pool[n] == pool)
					take(&e, n);
			}
			need(pool_destroy(e.pools[pool]), "cuMemPoolDestroy");
			make(&e.pools[pool]);
		}
		usleep(150);
	}
	pause();	/* until the importers have seen that */
}

/* ---- the importer ---- */

static struct importer *me;

static void trouble(const char *what, int error)
{
	if (!me->errors++)
		printf("not ok - %s: %d, %s\n", what, error, peerdma_last_error());
}

/* Every page of it. */
static bool all_are(const uint8_t *bytes, size_t length, uint8_t fill)
{
	size_t i = 0;

	while (i < length && bytes[i] == fill)
		i += 4096;
	return i >= length && bytes[length - 1] == fill;
}

static void look(struct place *place, uint8_t *bytes, void *stream, bool async)
{
	uint64_t generation = place->generation;
	struct peerdma_ipc_handle handle = place->handle;
	struct peerdma_ipc_memory *m;
	uint8_t fill = place->fill;
	int ret;

	atomic_thread_fence(memory_order_acquire);
	if (!(generation & 1) || place->generation != generation)
		return;
	ret = peerdma_ipc_open(&handle, sizeof(handle), 0, &m);
	if (ret == -ESTALE || ret == -EADDRINUSE) {
		me->refused++;
		usleep(20);	/* other threads close what is in the way */
		return;
	}
	if (ret) {
		trouble("peerdma_ipc_open", ret);
		return;
	}
	me->opens++;
	ret = async ? copy_to_host(bytes, (uintptr_t)m->ptr, m->length, stream) : cu.cuMemcpyDtoH_v2(bytes, (uintptr_t)m->ptr, m->length);
	if (!ret)
		ret = cu.cuStreamSynchronize(stream);
	if (ret)
		trouble("a copy", ret);
	else if (!all_are(bytes, m->length, fill) && peerdma_ipc_valid(m))
		me->wrong++;
	ret = peerdma_ipc_close(m);
	if (ret)
		trouble("peerdma_ipc_close", ret);
}

static void *looks(void *number)
{
	unsigned int state = (unsigned int)(uintptr_t)number * 7919 + (unsigned int)getpid();
	uint8_t *bytes = malloc(LONGEST);
	void *stream;

	start_cuda(0);
	need(!bytes || stream_create(&stream, 1), "cuStreamCreate");
	while (!shared->stop) {
		struct place *place = &shared->places[next_random(&state) % EXPORTERS][next_random(&state) % PLACES];

		me->rounds++;
		look(place, bytes, stream, next_random(&state) & 1);
		if (next_random(&state) % 8 == 0)
			usleep(next_random(&state) % 500);
	}
	free(bytes);
	return NULL;
}

static void imports(int number)
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };
	pthread_t all[THREADS_MOST];

	me = &shared->importers[number];
	start_cuda(0);
	for (int i = 0; i < threads; i++)
		need(pthread_create(&all[i], NULL, looks, (void *)(uintptr_t)i), "pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	need(peerdma_ipc_trim_pools(), "peerdma_ipc_trim_pools");
	peerdma_ipc_counters(&c);
	need((int)c.imports, "everything is unmapped");
}

/* ---- */

static pid_t start(void (*run)(int), int number)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(number);
		fflush(stdout);
		_exit(me && (me->errors || me->wrong));
	}
	return pid;
}

/* Those that ended too early, or do nothing. */
static int watch(pid_t *pids)
{
	uint64_t last[IMPORTERS_MOST] = { 0 };
	int still[IMPORTERS_MOST] = { 0 }, bad = 0, waited = 0, s = 0, status;
	bool begun;

	while (s < seconds && bad < importers) {
		sleep(1);
		begun = true;
		for (int i = 0; i < importers; i++) {
			const struct importer *m = &shared->importers[i];

			if (!pids[i])
				continue;
			still[i] = m->rounds == last[i] ? still[i] + 1 : 0;
			last[i] = m->rounds;
			if (still[i] == HANGS_S) {
				printf("not ok - importer %d hangs, after %llu opens\n", i, (unsigned long long)m->opens);
				kill(pids[i], SIGKILL);
			}
			if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
				printf("not ok - importer %d has ended: status %#x, after %llu opens\n", i, status, (unsigned long long)m->opens);
				pids[i] = 0;
				bad++;
			}
			begun &= m->opens || !pids[i];
		}
		if (!begun && waited++ < BEGINS_S)
			continue;
		s++;
		if (s % 5 == 0)
			printf("# %d of %d seconds\n", s, seconds);
	}
	return bad;
}

static int number(const char *text, int most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < 1 || n > most) {
		fprintf(stderr, "pools_busy: '%s' is no number from 1 to %d\nusage: pools_busy [SECONDS [IMPORTERS [THREADS]]]\n", text, most);
		exit(2);
	}
	return (int)n;
}

int main(int argc, char **argv)
{
	uint64_t opens = 0, refused = 0, wrong = 0, errors = 0;
	pid_t exporters[EXPORTERS], pids[IMPORTERS_MOST];
	int bad, status, ret;

	if (argc > 1)
		seconds = number(argv[1], 86400);
	if (argc > 2)
		importers = number(argv[2], IMPORTERS_MOST);
	if (argc > 3)
		threads = number(argv[3], THREADS_MOST);
	setvbuf(stdout, NULL, _IOLBF, 0);
	ret = pools_there();
	if (ret)
		return ret;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(shared == MAP_FAILED, "mmap");
	for (int i = 0; i < EXPORTERS; i++)
		exporters[i] = start(exports, i);
	for (int i = 0; i < importers; i++)
		pids[i] = start(imports, i);
	bad = watch(pids);
	shared->stop = true;
	alarm(60);
	for (int i = 0; i < importers; i++) {
		const struct importer *m = &shared->importers[i];

		bad += pids[i] && waitpid(pids[i], &status, 0) == pids[i] && status;
		opens += m->opens;
		refused += m->refused;
		wrong += m->wrong;
		errors += m->errors;
	}
	for (int i = 0; i < EXPORTERS; i++) {
		bad += waitpid(exporters[i], &status, WNOHANG) == exporters[i];
		kill(exporters[i], SIGKILL);
	}
	if (!opens)
		bad++;
	printf("%s - %llu opens, %llu of memory that was freed meanwhile, %llu wrong, %llu errors; %llu frees, %llu pools; %d processes failed\n",
	       bad || wrong || errors ? "not ok" : "ok", (unsigned long long)opens, (unsigned long long)refused, (unsigned long long)wrong,
	       (unsigned long long)errors, (unsigned long long)shared->frees, (unsigned long long)shared->pools, bad);
	return bad || wrong || errors ? 1 : 0;
}
