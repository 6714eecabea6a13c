// SPDX-License-Identifier: MIT
/*
 * rounds.c - five processes export, open, copy, free, exit and kill each other, at random.
 *
 * Each allocation has a number that no other ever has, and each of its bytes is made of this number and the byte's
 * place. So an importer knows from the message with the handle which bytes must be there, and detects bytes of
 * other memory. As soon as memory was freed or unexported, this is recorded in memory of the test: an open or a
 * copy that succeeds and began after that is a fault.
 *
 * At the end nothing may be left: descriptors, mappings and exports of each process are counted.
 *
 * With GPU defined, the memory is that of a provider (gpu.h), of its kind KIND (default: 0), and libpeerdma-hooks
 * intercepts its frees.
 *
 * usage: rounds ROUNDS [SEED [KIND]]
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "other.h"
#include "util.h"

#ifdef GPU
#include "gpu.h"
static int kind;
#endif

#define PROCESSES	5
#define BOARD		16	/* handles that are on offer */
#define HELD		8	/* by each process */
#define PAGE		4096
#define KILL_EVERY	150	/* rounds, about */
#define TOO_LONG_S	300
#define ENOUGH		100	/* opens, of which some are refused */

/* On offer: read without a lock, so a reader looks twice. */
struct post {
	_Atomic uint64_t turn;	/* odd while it is written */
	uint64_t number;	/* of the allocation; 0: none */
	uint64_t length;
	uint64_t owner;		/* the exporter */
	struct peerdma_ipc_handle handle;
};

struct shared {
	_Atomic uint64_t next_number, rounds, opens, hits, stale, dead, copies, signals, kills, exits, frees, faults;
	_Atomic uint8_t ready[PROCESSES];	/* it has started, which takes long where it is to have CUDA */
	struct post board[BOARD];
	/* By allocation's number: 1 from when it was freed or unexported, or its process was found dead. */
	_Atomic uint8_t ended[1 << 22];
};

static struct shared *shared;
static uint64_t limit;
static uint64_t state;

static uint8_t byte_of(uint64_t number, uint64_t at)
{
	uint64_t h = (number * 0x9e3779b97f4a7c15ULL) ^ (at * 0xff51afd7ed558ccdULL);

	return (uint8_t)(h >> 56);
}

#define FAULT(...) do {								\
	fprintf(stderr, "rounds: fault: " __VA_ARGS__);				\
	fprintf(stderr, " (last error: %s)\n", peerdma_last_error());		\
	atomic_fetch_add(&shared->faults, 1);					\
} while (0)

struct mine {
	uint64_t number, length;
	char *memory;
	struct peerdma_ipc_handle handle;
};

struct theirs {
	uint64_t number;
	struct peerdma_ipc_memory *memory;
};

static struct mine mines[HELD];
static struct theirs open_now[HELD];
static unsigned int me;

/* After what was read before: an exchange, as a fence. */
static uint64_t turn_after(struct post *p)
{
	return atomic_fetch_add(&p->turn, 0);
}

/* ---- the exporter ---- */

static void post(const struct mine *m)
{
	struct post *p = &shared->board[below(&state, BOARD)];
	uint64_t turn = atomic_load(&p->turn);

	/* One that a killed process left half-written stays so; there are others. */
	if (turn & 1 || !atomic_compare_exchange_strong(&p->turn, &turn, turn + 1))
		return;
	p->number = m->number;
	p->length = m->length;
	p->owner = me;
	p->handle = m->handle;
	atomic_store(&p->turn, turn + 2);
}

static void fill(const struct mine *m, uint8_t with)
{
	static char bytes[8 * PAGE];

	for (uint64_t i = 0; i < m->length; i++)
		bytes[i] = (char)(byte_of(m->number, i) ^ with);
#ifdef GPU
	gpu_put(m->memory, bytes, m->length);
#else
	memcpy(m->memory, bytes, m->length);
#endif
}

static void make(void)
{
	struct mine *m = &mines[below(&state, HELD)];
	uint64_t length = PAGE * (1 + below(&state, 8));
	void *v;
	int ret;

	if (m->memory)
		return;
#ifdef GPU
	v = gpu_alloc(kind, length);
	ret = v ? 0 : -ENOMEM;
#else
	ret = peerdma_ipc_alloc(length, 0, &v);
#endif
	if (ret) {
		FAULT("alloc: %d", ret);
		return;
	}
	m->number = atomic_fetch_add(&shared->next_number, 1);
	m->length = length;
	m->memory = v;
	fill(m, 0);
	ret = peerdma_ipc_export(m->memory, length, 0, &m->handle);
	if (ret)
		FAULT("export: %d", ret);
	else
		post(m);
}

static void drop(struct mine *m)
{
	int ret;

	if (!m->memory)
		return;
	if (below(&state, 2)) {
		ret = peerdma_ipc_unexport(&m->handle);
		if (ret)
			FAULT("unexport: %d", ret);
		atomic_store(&shared->ended[m->number], 1);
		/* As the next user of the memory would: a copy that reads this has read what was not exported. */
		fill(m, 0xff);
	}
#ifdef GPU
	gpu_free(kind, m->memory, m->length);
#else
	ret = peerdma_ipc_free(m->memory);
	if (ret)
		FAULT("free: %d", ret);
#endif
	/* From here on no open that begins may succeed. */
	atomic_store(&shared->ended[m->number], 1);
	atomic_fetch_add(&shared->frees, 1);
	m->memory = NULL;
}

/* ---- the importer ---- */

static void take(void)
{
	struct theirs *t = &open_now[below(&state, HELD)];
	struct post *p = &shared->board[below(&state, BOARD)];
	uint64_t turn = atomic_load(&p->turn), number = p->number, length = p->length, owner = p->owner;
	struct peerdma_ipc_handle handle = p->handle;
	bool ended;
	int ret;

	if (t->memory || turn & 1 || turn_after(p) != turn || !number)
		return;
	ended = atomic_load(&shared->ended[number]);
	ret = peerdma_ipc_open(&handle, sizeof(handle), 0, &t->memory);
	switch (ret) {
	case 0:
		atomic_fetch_add(&shared->opens, 1);
		if (ended)
			FAULT("opened number %llu, which had ended", (unsigned long long)number);
		if (t->memory->length != length)
			FAULT("number %llu: %llu bytes", (unsigned long long)number, (unsigned long long)t->memory->length);
		t->number = number;
		return;
	case -ESTALE:
		atomic_fetch_add(&shared->stale, 1);
		break;
	case -EOWNERDEAD:
		atomic_fetch_add(&shared->dead, 1);
		break;
	case -EADDRINUSE:	/* small memory of CUDA's, or a pool's, in whose place this process has what was there before */
		break;
	case -EEXIST:
		if (owner != me)
			FAULT("number %llu of process %llu is said to be process %u's own", (unsigned long long)number,
			      (unsigned long long)owner, me);
		break;
	default:
		FAULT("open: %d", ret);
	}
	t->memory = NULL;
}

static void look(const struct theirs *t)
{
	static char buffer[8 * PAGE];
	struct peerdma_ipc_transfer copy = { .size = sizeof(copy), .memory = t->memory, .local = buffer, .flags = PEERDMA_IPC_READ };
	bool ended = false;
	int ret;

	if (!t->memory)
		return;
	ended = atomic_load(&shared->ended[t->number]);
	copy.offset = below(&state, t->memory->length);
	copy.length = 1 + below(&state, t->memory->length - copy.offset);
	ret = peerdma_ipc_copy(&copy, 1, NULL, 0);
	if (!ret && ended)
		FAULT("copied number %llu, which had ended", (unsigned long long)t->number);
	if (ret && ret != -ESTALE && ret != -EOWNERDEAD)
		FAULT("copy: %d", ret);
	if (ret)
		return;
	atomic_fetch_add(&shared->copies, 1);
	for (uint64_t i = 0; i < copy.length; i++) {
		if ((uint8_t)buffer[i] != byte_of(t->number, copy.offset + i)) {
			FAULT("number %llu, byte %llu is another's", (unsigned long long)t->number, (unsigned long long)(copy.offset + i));
			break;
		}
	}
}

static void put(struct theirs *t)
{
	int ret = t->memory ? peerdma_ipc_close(t->memory) : 0;

	if (ret)
		FAULT("close: %d", ret);
	t->memory = NULL;
}

/* ---- leaks ---- */

static void list_descriptors(void)
{
	char path[64], name[256];

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name));
		if (n > 0)
			fprintf(stderr, "rounds: process %d: descriptor %d is %.*s\n", getpid(), fd, (int)n, name);
	}
}

static unsigned int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:peerdma-ipc") != NULL;
	if (file)
		fclose(file);
	return n;
}

/* Everything is given back: then what is left is this process's own pages and its thread's. */
static void leaks(unsigned int before)
{
	unsigned int now = 0;
	struct peerdma_ipc_counters c = { .size = sizeof(c) };

	for (int i = 0; i < HELD; i++) {
		put(&open_now[i]);
		drop(&mines[i]);
	}
	peerdma_ipc_trim_pools();
	peerdma_ipc_counters(&c);
	atomic_fetch_add(&shared->hits, c.hits);
	if (c.exports || c.imports)
		FAULT("%llu exports and %llu imports are left", (unsigned long long)c.exports, (unsigned long long)c.imports);
	/* The pages that importers read. */
	if (mappings() > 1)
		FAULT("%u mappings are left", mappings());
	/* Those pages, the socket, the event, what waits for both; and what importers that hang up still have, for a moment. */
	/* One look decides: at each moment another process may connect. */
	for (int i = 0; i < 500 && (now = descriptors(getpid())) > before + 4; i++)
		usleep(10000);
	if (now > before + 4) {
		list_descriptors();
		FAULT("%u descriptors, and there were %u", now, before);
	}
}

/* Else most rounds are of few processes, while the others start, and nearly all handles are a dead one's. */
static void until_all_are_ready(void)
{
	unsigned int i = 0;

	while (i < PROCESSES && atomic_load(&shared->rounds) < limit) {
		if (atomic_load(&shared->ready[i]))
			i++;
		else
			usleep(200);
	}
}

static void process(unsigned int number, uint64_t seed)
{
	unsigned int before;

#ifdef GPU
	if (!gpu_begin())
		_exit(77);
	/* What its first allocation and copy leave behind, they may. */
	gpu_free(kind, gpu_alloc(kind, PAGE), PAGE);
#endif
	before = descriptors(getpid());
	me = number;
	state = seed;
	atomic_store(&shared->ready[number], 1);
	while (until_all_are_ready(), atomic_fetch_add(&shared->rounds, 1) < limit) {
		switch (below(&state, 16)) {
		case 0:
		case 1:
		case 2:
			make();
			break;
		case 3:
		case 4:
			drop(&mines[below(&state, HELD)]);
			break;
		case 5:
		case 6:
		case 7:
		case 8:
			take();
			break;
		case 9:
		case 10:
			put(&open_now[below(&state, HELD)]);
			break;
		case 11:
			if (below(&state, 16) == 0)
				peerdma_ipc_trim_pools();
			else if (below(&state, 15) == 0)
				peerdma_ipc_trim();
			break;
		default:
			look(&open_now[below(&state, HELD)]);
		}
		/* Its own end, with everything open: once in a few hundred rounds. */
		if (below(&state, 400) == 0) {
			atomic_fetch_add(&shared->exits, 1);
			_exit(0);
		}
	}
	leaks(before);
	_exit(0);
}

/* ---- the parent ---- */

/* From here on no open of what it had may succeed. */
static void mark_ended(unsigned int number)
{
	for (int i = 0; i < BOARD; i++) {
		struct post *p = &shared->board[i];
		uint64_t turn = atomic_load(&p->turn), posted = p->number, owner = p->owner;

		if (!(turn & 1) && turn_after(p) == turn && posted && owner == number)
			atomic_store(&shared->ended[posted], 1);
	}
}

/* Where each process is: nothing goes on any more. */
static void tell_of_all(const pid_t *pids)
{
	static const char *const files[] = { "wchan", "syscall", "stack" };
	char path[64], text[2000];

	for (unsigned int i = 0; i < PROCESSES; i++) {
		printf("rounds: process %u, %d, is %sready\n", i, pids[i], atomic_load(&shared->ready[i]) ? "" : "not ");
		for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", pids[i], files[f]);
			FILE *file = fopen(path, "re");
			size_t n = file ? fread(text, 1, sizeof(text), file) : 0;

			printf("%s: %.*s\n", files[f], (int)n, text);
			if (file)
				fclose(file);
		}
	}
}

/* It ended by itself, or was killed. */
static bool ended_well(int status, bool was_killed)
{
	return !status || (was_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static pid_t begin(unsigned int number, uint64_t seed)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		process(number, seed);
	}
	return pid;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	pid_t pids[PROCESSES], killed[PROCESSES] = { 0 };
	time_t start = time(NULL);
	uint64_t next = 0;
	int status = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: rounds ROUNDS [SEED [KIND]]\n");
		return 2;
	}
#ifdef GPU
	kind = argc > 3 ? atoi(argv[3]) : 0;
#endif
	limit = strtoull(argv[1], NULL, 0);
	state = seed;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared->next_number = 1;
	for (unsigned int i = 0; i < PROCESSES; i++)
		pids[i] = begin(i, below(&state, UINT64_MAX));
	while (shared->rounds < limit) {
		unsigned int i = (unsigned int)below(&state, PROCESSES);
		pid_t pid;

		/* By rounds, not by time: on a slow machine processes do as much before they are killed. */
		if (shared->rounds < next) {
			usleep(200);
		} else if (pids[i] > 0) {
			next = shared->rounds + below(&state, 2 * KILL_EVERY);
			kill(pids[i], SIGKILL);
			killed[i] = pids[i];
			atomic_fetch_add(&shared->kills, 1);
		}
		for (i = 0; i < PROCESSES; i++) {
			pid = waitpid(pids[i], &status, WNOHANG);
			if (pid == pids[i]) {
				if (!ended_well(status, killed[i] == pid)) {
					printf("rounds: process %u ended with %#x after %llu rounds\n", i, status,
					       (unsigned long long)shared->rounds);
					return WIFEXITED(status) && WEXITSTATUS(status) == 77 && !shared->rounds ? 77 : 1;
				}
				mark_ended(i);
				atomic_store(&shared->ready[i], 0);
				pids[i] = shared->rounds < limit ? begin(i, below(&state, UINT64_MAX)) : -1;
			}
		}
		if (time(NULL) - start > TOO_LONG_S) {
			printf("rounds: no end after %d s, but %llu rounds\n", TOO_LONG_S, (unsigned long long)shared->rounds);
			tell_of_all(pids);
			return 1;
		}
	}
	for (unsigned int i = 0; i < PROCESSES; i++) {
		status = 0;
		if (pids[i] > 0)
			waitpid(pids[i], &status, 0);
		if (!ended_well(status, killed[i] == pids[i])) {
			printf("rounds: process %u ended with %#x\n", i, status);
			shared->faults++;
		}
	}
	printf("%llu rounds, seed %llu: %llu exports, %llu frees; %llu opens, %llu of a freed and %llu of a dead exporter's memory refused; "
	       "%llu copies; %llu exits, %llu kills: %llu faults\n", (unsigned long long)limit, (unsigned long long)seed,
	       (unsigned long long)shared->next_number - 1, (unsigned long long)shared->frees, (unsigned long long)shared->opens,
	       (unsigned long long)shared->stale, (unsigned long long)shared->dead, (unsigned long long)shared->copies,
	       (unsigned long long)shared->exits, (unsigned long long)shared->kills, (unsigned long long)shared->faults);
	/* Few opens may by chance name nothing that was freed, or no process that is dead, and be followed by no copy. */
	if (shared->opens + shared->stale + shared->dead >= ENOUGH && (!shared->stale || !shared->dead))
		return 1;
	return shared->faults || (shared->opens >= ENOUGH / 5 && !shared->copies) ? 1 : 0;
}
