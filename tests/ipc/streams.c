// SPDX-License-Identifier: MIT
/*
 * streams.c - CUDA's calls, as peerdma_ipc.h makes them: signals on streams, asynchronous copies,
 * contexts, and what CUDA refuses. Runs on a stand-in for libcuda (stand-in/), because no GPU shows
 * all of these.
 */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "../lib/checks.h"
#include "fake_cuda.h"
#include "peerdma_ipc.h"
#include "peerdma_monitor.h"
#include "until_woken.h"
#include "util.h"

#define LENGTH	65536UL

struct offered {
	struct peerdma_ipc_handle memory, signal, watched, host;
};

static int sock;

/* ---- the other process: exports, then does a step for each byte ---- */

static void other(void)
{
	struct peerdma_ipc_signal *s;
	unsigned long long p, q;
	struct offered o;
	void *stream = NULL, *host;
	char step;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (peerdma_monitor_start(PEERDMA_MEMORY_DEVICE, "this test") || cuMemAlloc_v2(&q, LENGTH) ||
	    peerdma_ipc_export((void *)(uintptr_t)q, LENGTH, 0, &o.watched) || cuMemAlloc_v2(&p, LENGTH) || peerdma_ipc_export((void *)(uintptr_t)p, LENGTH, PEERDMA_IPC_I_UNEXPORT, &o.memory) ||
	    peerdma_ipc_alloc(LENGTH, 0, &host) || peerdma_ipc_export(host, LENGTH, 0, &o.host) ||
	    peerdma_ipc_signal_create(0, 0, &s) || peerdma_ipc_signal_export(s, &o.signal) || cuStreamCreate(&stream, 1)) {
		fprintf(stderr, "the other process: %s\n", peerdma_last_error());
		_exit(1);
	}
	memset((void *)(uintptr_t)p, 5, LENGTH);
	memset(host, 8, LENGTH);
	if (write(sock, &o, sizeof(o)) != sizeof(o))
		_exit(1);
	while (read(sock, &step, 1) == 1) {
		int ret = 0;

		switch (step) {
		case 's':	/* sets the signal on a stream, later */
			usleep(50000);
			ret = peerdma_ipc_signal_stream_set(s, stream, 7);
			break;
		case 'w':	/* its stream waits, then sets */
			ret = peerdma_ipc_signal_stream_wait(s, stream, PEERDMA_IPC_GE, 8);
			if (!ret)
				ret = peerdma_ipc_signal_stream_set(s, stream, 9);
			break;
		case 'u':
			ret = peerdma_ipc_unexport(&o.memory);
			break;
		case 'm':	/* what frees other memory of CUDA's, as far as is known */
			peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, (void *)(uintptr_t)(q + LENGTH), 4096, 0);
			peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, (void *)(uintptr_t)q, LENGTH, 1);
			break;
		case 'n':
			peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, (void *)(uintptr_t)(q + LENGTH - 1), 1, 0);
			ret = cuMemFree_v2(q);
			peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, (void *)(uintptr_t)q, LENGTH, 1);
			break;
		case 'f':	/* as a program does that uses its memory for something else */
			memset((void *)(uintptr_t)p, 6, LENGTH);
			ret = cuMemFree_v2(p);
			break;
		}
		step = (char)ret;
		if (write(sock, &step, 1) != 1)
			break;
	}
	_exit(0);
}

static int step(char what)
{
	if (write(sock, &what, 1) != 1 || read(sock, &what, 1) != 1)
		return -EPIPE;
	return (signed char)what;
}

static struct offered begin(pid_t *pid)
{
	struct offered o;
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	*pid = fork();
	sock = pair[!*pid];
	close(pair[!!*pid]);
	if (!*pid)
		other();
	if (read(sock, &o, sizeof(o)) != sizeof(o))
		exit(1);
	return o;
}

/* ---- here ---- */

static void handler(int sig)
{
}

static void signals(const struct offered *o)
{
	struct itimerval often = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 10000 }, never = { 0 };
	struct sigaction was;
	struct peerdma_ipc_signal *s = NULL, *mine = NULL;
	void *stream = NULL;
	uint64_t seen;

	CHECK(!peerdma_ipc_signal_open(&o->signal, sizeof(o->signal), &s) && !cuStreamCreate(&stream, 1), "a signal, opened");
	if (!fork()) {
		_exit(step('s') ? 1 : 0);
	}
	until_woken = true;
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 7, UINT64_MAX, &seen),
	      "a stream of the other process set it, and a sleeper noticed");
	until_woken = false;
	wait(NULL);
	CHECK(!step('w'), "its stream waits");
	usleep(20000);
	CHECK(peerdma_ipc_signal_get(s) == 7, "until");
	CHECK(!peerdma_ipc_signal_stream_set(s, stream, 8), "a stream here sets it");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 9, 10000000000, NULL), "and it went on");
	CHECK(fake_ipc_cuda.registered == 1, "registered once");
	/* Again and again, so that one comes in one of its short sleeps. */
	sigaction(SIGALRM, &(struct sigaction) { .sa_handler = handler }, &was);
	setitimer(ITIMER_REAL, &often, NULL);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 77, 60000000000, NULL) == -EINTR, "a handler ran");
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &was, NULL);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 77, 1000000, &seen) == -EAGAIN && seen == 9,
	      "or none, and it is not set");
	CHECK(!peerdma_ipc_signal_stream_wait(s, stream, PEERDMA_IPC_EQ, 9) && !cuStreamSynchronize(stream), "a stream here waits");
	CHECK(peerdma_ipc_signal_stream_wait(s, stream, PEERDMA_IPC_LT, 9) == -EOPNOTSUPP, "not so");
	fake_ipc_cuda.wait_error = fake_ipc_cuda.write_error = 801;
	CHECK(peerdma_ipc_signal_stream_wait(s, stream, PEERDMA_IPC_EQ, 9) == -EOPNOTSUPP &&
	      peerdma_ipc_signal_stream_set(s, stream, 9) == -EOPNOTSUPP, "a GPU that cannot");
	fake_ipc_cuda.wait_error = fake_ipc_cuda.write_error = 700;
	CHECK(peerdma_ipc_signal_stream_wait(s, stream, PEERDMA_IPC_EQ, 9) == -EIO &&
	      peerdma_ipc_signal_stream_set(s, stream, 9) == -EIO, "a GPU that fails");
	fake_ipc_cuda.wait_error = fake_ipc_cuda.write_error = 0;
	CHECK(!peerdma_ipc_signal_create(0, PEERDMA_IPC_ANY_USER, &mine), "one with a page of its own");
	fake_ipc_cuda.register_error = 2;
	CHECK(peerdma_ipc_signal_stream_set(mine, stream, 3) == -EIO, "CUDA does not register it");
	fake_ipc_cuda.register_error = 712;
	CHECK(!peerdma_ipc_signal_stream_set(mine, stream, 3) && !peerdma_ipc_signal_wait(mine, PEERDMA_IPC_EQ, 3, 10000000000, NULL),
	      "or says that another thread has done so meanwhile");
	fake_ipc_cuda.register_error = 0;
	CHECK(!peerdma_ipc_signal_close(mine) && fake_ipc_cuda.registered == 1 && fake_ipc_cuda.unregistered == 1, "given back");
	fake_ipc_cuda.unregistered = 0;
	CHECK(!peerdma_ipc_signal_create(0, PEERDMA_IPC_ANY_USER, &mine) && !peerdma_ipc_signal_stream_set(mine, stream, 3) &&
	      !peerdma_ipc_signal_wait(mine, PEERDMA_IPC_EQ, 3, 10000000000, NULL), "one with a page of its own");
	CHECK(!peerdma_ipc_signal_close(mine) && fake_ipc_cuda.registered == 2 && fake_ipc_cuda.unregistered == 1, "given back");
	CHECK(!peerdma_ipc_signal_close(s), "closed");
}

static struct peerdma_ipc_transfer reads(struct peerdma_ipc_memory *m, void *local, uint64_t offset, uint64_t length)
{
	return (struct peerdma_ipc_transfer) {
		.size = sizeof(struct peerdma_ipc_transfer), .flags = PEERDMA_IPC_READ, .memory = m, .local = local, .offset = offset,
		.length = length,
	};
}

/* What was there before ends while this is opened: it is closed, and this opened after all. */
static struct peerdma_ipc_memory *before;

static int in_its_way(void)
{
	if (fake_ipc_cuda.closes)
		return 0;
	if (before) {
		CHECK(!peerdma_ipc_close(before) && !step('n'), "what was there before is freed, and closed");
		before = NULL;
	}
	return 208;
}

static void replaced(const struct offered *o)
{
	struct peerdma_ipc_memory *m = NULL;

	fake_ipc_cuda.closes = 0;
	CHECK(!OPEN(&o->watched, &before), "opened");
	fake_ipc_cuda.opening = in_its_way;
	CHECK(!OPEN(&o->memory, &m) && fake_ipc_cuda.closes == 1, "the next one there, opened");
	fake_ipc_cuda.opening = NULL;
	CHECK(!peerdma_ipc_close(m), "closed");
}

/* Many small copies by one launch. */
#define SMALL 200

static void kernels(const struct offered *o)
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };
	static struct peerdma_ipc_transfer t[SMALL];
	struct peerdma_ipc_signal *done = NULL;
	struct peerdma_ipc_memory *m = NULL;
	unsigned long long device = 0;
	static char host[16];
	char *local;
	int bad = 0;

	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&device, LENGTH) && !peerdma_ipc_signal_create(0, 0, &done), "memory of this process");
	local = (char *)(uintptr_t)device;
	for (int i = 0; i < SMALL; i++) {
		t[i] = reads(m, local + i * 64, (uint64_t)i * 64, 1 + (uint64_t)i % 60);
		t[i].flags |= PEERDMA_IPC_KERNEL;
	}
	t[7].local = host;
	t[7].length = sizeof(host);
	fake_ipc_cuda.copies = 0;
	CHECK(!peerdma_ipc_copy(t, SMALL, NULL, 0) && fake_ipc_cuda.kernels == 2 && fake_ipc_cuda.copies == 1, "%d copies by two launches",
	      SMALL - 1);
	for (int i = 0; i < SMALL; i++) {
		const char *at = t[i].local;

		bad += t[i].error || t[i].path != (i == 7 ? PEERDMA_IPC_PATH_CUDA : PEERDMA_IPC_PATH_KERNEL) || at[0] != 5 ||
		       at[t[i].length - 1] != 5 || (i != 7 && at[t[i].length]);
	}
	peerdma_ipc_counters(&c);
	CHECK(!bad && c.copies[PEERDMA_IPC_PATH_KERNEL] == SMALL - 1, "right ones, and no byte beside; of host memory by an engine");
	CHECK(!peerdma_ipc_copy(t, 20, done, 1) && !peerdma_ipc_signal_wait(done, PEERDMA_IPC_EQ, 1, 10000000000, NULL) && !t[2].error &&
	      fake_ipc_cuda.modules == 1, "with a signal; compiled once");
	fake_ipc_cuda.kernel_error = 700;
	CHECK(peerdma_ipc_copy(t, 20, NULL, 0) == -EIO && t[0].error == -EIO && t[0].path == PEERDMA_IPC_PATH_NONE && !t[7].error,
	      "no launch: only those fail");
	fake_ipc_cuda.kernel_error = 0;
	t[0].length = 1 + (16 << 20);
	CHECK(peerdma_ipc_copy(t, 1, NULL, 0) == -EINVAL, "too long for the memory");
	peerdma_ipc_signal_close(done);
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
}

/* So many as a kernel is faster for, where one can make them; and no rows. */
#define SCATTERED 16

static enum peerdma_ipc_path path_of(struct peerdma_ipc_memory *m, unsigned long long local)
{
	struct peerdma_ipc_transfer t[SCATTERED];

	for (unsigned int i = 0; i < SCATTERED; i++) {
		t[i] = reads(m, (char *)(uintptr_t)local + i * 64, i * 7 % SCATTERED * 64, 64 - i);
		t[i].flags |= PEERDMA_IPC_KERNEL;
	}
	if (peerdma_ipc_copy(t, SCATTERED, NULL, 0))
		return PEERDMA_IPC_PATH_NONE;
	for (unsigned int i = 1; i < SCATTERED; i++) {
		if (t[i].error || t[i].path != t[0].path)
			return PEERDMA_IPC_PATH_NONE;
	}
	return t[0].path;
}

/* The kernel only where it is faster: one copy, and rows, are an engine's. */
static void faster(const struct offered *o)
{
	static struct peerdma_ipc_transfer t[64];
	struct peerdma_ipc_memory *m = NULL;
	unsigned long long device = 0;
	unsigned int kernels = fake_ipc_cuda.kernels;
	char *local;

	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&device, LENGTH), "memory of this process");
	local = (char *)(uintptr_t)device;
	t[0] = reads(m, local, 0, 4096);
	t[0].flags |= PEERDMA_IPC_KERNEL;
	CHECK(!peerdma_ipc_copy(t, 1, NULL, 0) && t[0].path == PEERDMA_IPC_PATH_CUDA, "one copy: an engine");
	for (int i = 0; i < 64; i++) {
		t[i] = reads(m, local + i * 128, (uint64_t)i * 96, 64);
		t[i].flags |= PEERDMA_IPC_KERNEL;
	}
	CHECK(!peerdma_ipc_copy(t, 64, NULL, 0) && t[0].path == PEERDMA_IPC_PATH_CUDA && t[63].path == PEERDMA_IPC_PATH_CUDA,
	      "64 rows of another GPU: an engine");
	CHECK(fake_ipc_cuda.kernels == kernels, "no kernel ran");
	for (int i = 0; i < 64; i++)
		t[i].offset = (uint64_t)(i * 11 % 64) * 96;
	CHECK(!peerdma_ipc_copy(t, 64, NULL, 0) && t[0].path == PEERDMA_IPC_PATH_KERNEL && fake_ipc_cuda.kernels == kernels + 1,
	      "64 in another order: a kernel");
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
}

/* A whole list that the kernel leaves to the engines fills theirs: the next copy comes after it. */
#define WHOLE 128

static void left_to_engines(const struct offered *o)
{
	static struct peerdma_ipc_transfer t[WHOLE + 1];
	struct peerdma_ipc_memory *m = NULL;
	unsigned long long device = 0;
	int bad = 0;
	char *local;

	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&device, LENGTH), "memory of this process");
	local = (char *)(uintptr_t)device;
	memset(local, 0, (WHOLE + 1) * 128);
	for (int i = 0; i <= WHOLE; i++) {
		t[i] = reads(m, local + i * 128, (uint64_t)i * 96, 64);
		t[i].flags |= i < WHOLE ? PEERDMA_IPC_KERNEL : 0;
	}
	CHECK(!peerdma_ipc_copy(t, WHOLE + 1, NULL, 0), "a whole list of rows, and one more");
	for (int i = 0; i <= WHOLE; i++) {
		const char *at = t[i].local;

		bad += t[i].error || t[i].path != PEERDMA_IPC_PATH_CUDA || at[0] != 5 || at[63] != 5 || at[64];
	}
	CHECK(!bad, "all are copied, by engines: %d are not", bad);
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
}

/* A kernel might not reach host memory that was opened here: an engine copies it. */
static void from_host(const struct offered *o)
{
	struct peerdma_ipc_memory *m = NULL;
	unsigned long long device = 0;

	CHECK(!OPEN(&o->host, &m) && !cuMemAlloc_v2(&device, LENGTH), "host memory of the other process");
	CHECK(path_of(m, device) == PEERDMA_IPC_PATH_CUDA && *(char *)(uintptr_t)device == 8, "an engine copies it");
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
}

/* Copies within the process: by the same paths, with an address in place of opened memory. */
static void within_process(void)
{
	static char from[256], to[256];
	struct peerdma_ipc_transfer t[SCATTERED] = { { .size = sizeof(t[0]), .offset = (uintptr_t)to, .local = from, .length = 200 } };
	unsigned long long a = 0, b = 0;

	memset(from, 6, sizeof(from));
	CHECK(!peerdma_ipc_copy(t, 1, NULL, 0) && t[0].path == PEERDMA_IPC_PATH_CPU && to[199] == 6 && !to[200], "host to host: the CPU");
	t[0].flags = PEERDMA_IPC_READ;
	to[0] = 9;
	CHECK(!peerdma_ipc_copy(t, 1, NULL, 0) && from[0] == 9, "the other way");
	CHECK(!cuMemAlloc_v2(&a, LENGTH) && !cuMemAlloc_v2(&b, LENGTH), "device memory");
	memset((void *)(uintptr_t)a, 1, LENGTH);
	memset((void *)(uintptr_t)b, 2, LENGTH);
	t[0] = (struct peerdma_ipc_transfer) { .size = sizeof(t[0]), .offset = a, .local = (void *)(uintptr_t)b, .length = 100 };
	CHECK(!peerdma_ipc_copy(t, 1, NULL, 0) && t[0].path == PEERDMA_IPC_PATH_CUDA && ((char *)(uintptr_t)a)[99] == 2 &&
	      ((char *)(uintptr_t)a)[100] == 1, "device to device: an engine");
	t[0].local = from;
	CHECK(!peerdma_ipc_copy(t, 1, NULL, 0) && t[0].path == PEERDMA_IPC_PATH_CUDA && *(char *)(uintptr_t)a == 9, "host to device");
	for (unsigned int i = 0; i < SCATTERED; i++)
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .flags = PEERDMA_IPC_KERNEL, .offset = a + i * 64, .local = (char *)(uintptr_t)b + i * 7 % SCATTERED * 64,
			.length = 64,
		};
	CHECK(!peerdma_ipc_copy(t, SCATTERED, NULL, 0) && t[0].path == PEERDMA_IPC_PATH_KERNEL && t[SCATTERED - 1].path == PEERDMA_IPC_PATH_KERNEL &&
	      ((char *)(uintptr_t)a)[SCATTERED * 64 - 1] == 2, "scattered: a kernel");
	CHECK(!cuMemFree_v2(a) && !cuMemFree_v2(b), "given back");
}

/* A kernel that touches what its context does not reach ends the context. */
static void reach(const struct offered *o)
{
	unsigned long long mine = 0, others = 0, shareable[2] = { 0 };
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	void *context = fake_ipc_cuda.context;
	int other_context;

	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&mine, LENGTH), "memory of one context");
	fake_ipc_cuda.shareable = 1;
	for (fake_ipc_cuda.device = 0; fake_ipc_cuda.device < 2; fake_ipc_cuda.device++)
		cuMemAlloc_v2(&shareable[fake_ipc_cuda.device], LENGTH);
	fake_ipc_cuda.shareable = fake_ipc_cuda.device = 0;
	CHECK(path_of(m, mine) == PEERDMA_IPC_PATH_KERNEL, "a kernel of that context copies");
	CHECK(path_of(m, shareable[0]) == PEERDMA_IPC_PATH_KERNEL, "to what the GPU's contexts share, too");
	CHECK(path_of(m, shareable[1]) == PEERDMA_IPC_PATH_CUDA, "to another GPU's, an engine does");

	fake_ipc_cuda.context = &other_context;
	CHECK(!OPEN(&o->memory, &again) && again != m && !cuMemAlloc_v2(&others, LENGTH), "and of another context");
	CHECK(path_of(again, others) == PEERDMA_IPC_PATH_KERNEL, "a kernel of that one copies");
	CHECK(path_of(again, mine) == PEERDMA_IPC_PATH_CUDA, "to the first context's memory, an engine does");
	CHECK(path_of(m, others) == PEERDMA_IPC_PATH_CUDA, "and from what was opened there");
	CHECK(!peerdma_ipc_close(again), "closed");
	CHECK(!peerdma_ipc_trim(), "given back");
	fake_ipc_cuda.context = context;
	CHECK(!cuMemFree_v2(mine) && !cuMemFree_v2(others) && !cuMemFree_v2(shareable[0]) && !cuMemFree_v2(shareable[1]) &&
	      !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "all given back");
}

/* One small copy by a kernel that is running. */
static int poll_copy(struct peerdma_ipc_transfer *t, enum peerdma_ipc_path path)
{
	int ret;

	t->flags |= PEERDMA_IPC_POLL;
	ret = peerdma_ipc_copy(t, 1, NULL, 0);
	return ret ? ret : t->error || t->path != path;
}

/* Until it went that way: a kernel begins and ends when it likes.  Each try copies.  -EINVAL: it never will. */
static int until(struct peerdma_ipc_transfer *t, enum peerdma_ipc_path path)
{
	int ret;

	t->flags |= PEERDMA_IPC_POLL;
	do {
		ret = peerdma_ipc_copy(t, 1, NULL, 0);
		if (t->path != path)
			usleep(100);
	} while (!ret && t->path != path && !fake_ipc_cuda.wrong);
	return !ret && fake_ipc_cuda.wrong ? -EINVAL : ret;
}

struct poller {
	struct peerdma_ipc_memory *memory;
	char *local;
	int bad;
	unsigned int paths[PEERDMA_IPC_PATHS];
};

static void *polls_beside(void *arg)
{
	struct poller *p = arg;

	for (int i = 0; i < 2000; i++) {
		struct peerdma_ipc_transfer t = reads(p->memory, p->local + i % 7, 0, 1 + (uint64_t)i % 100);

		memset(p->local, 0, 128);
		t.flags |= PEERDMA_IPC_POLL;
		p->bad += peerdma_ipc_copy(&t, 1, NULL, 0) || p->local[i % 7] != 5 || p->local[i % 7 + i % 100] != 5 ||
			  p->local[i % 7 + i % 100 + 1];
		p->paths[t.path]++;
	}
	return NULL;
}

/* In a context of its own, which can do nothing more. */
static void polls_and_fails(const struct offered *o)
{
	void *context = fake_ipc_cuda.context;
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_transfer t;
	unsigned long long device = 0;
	char failing;

	fake_ipc_cuda.context = &failing;
	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&device, LENGTH), "memory of another context");
	t = reads(m, (void *)(uintptr_t)device, 0, 8);
	fake_ipc_cuda.query_error = 700;
	CHECK(until(&t, PEERDMA_IPC_PATH_POLL) == -EIO && t.error == -EIO && t.path == PEERDMA_IPC_PATH_NONE,
	      "a kernel that fails: an error");
	fake_ipc_cuda.query_error = 0;
	CHECK(!poll_copy(&t, PEERDMA_IPC_PATH_CUDA), "then engines");
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
	fake_ipc_cuda.context = context;
}

static void polls(const struct offered *o)
{
	enum peerdma_ipc_path poll = PEERDMA_IPC_PATH_POLL, engine = PEERDMA_IPC_PATH_CUDA;
	struct peerdma_ipc_counters before = { .size = sizeof(before) }, c = { .size = sizeof(c) };
	struct poller beside[2] = { { 0 } };
	struct peerdma_ipc_signal *done = NULL;
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_transfer t[2];
	unsigned long long device = 0;
	pthread_t threads[2];
	char host[16], *local;
	unsigned int by_poll = 0, tries = 0;
	int bad = 0;

	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&device, 2 * LENGTH) && !peerdma_ipc_signal_create(0, 0, &done), "memory");
	local = (char *)(uintptr_t)device;
	t[0] = reads(m, local, 0, 100);
	fake_ipc_cuda.module_error = 906;
	CHECK(!poll_copy(t, engine), "no kernel while the program records a graph");
	fake_ipc_cuda.module_error = 0;
	fake_ipc_cuda.kernel_error = 2;
	CHECK(!poll_copy(t, engine), "no memory to launch it: an engine");
	fake_ipc_cuda.kernel_error = 0;
	memset(local, 0, 128);
	if (!CHECK(!until(t, poll) && local[99] == 5 && !local[100], "later it copies, and nothing beside"))
		return;		/* what follows would wait for ever */
	t[0] = reads(m, local, 0, LENGTH);
	CHECK(!until(t, poll) && local[LENGTH - 1] == 5, "64 KiB");
	t[0] = reads(m, local + 8, 0, LENGTH - 8);
	CHECK(!poll_copy(t, engine), "not if it can move 8 bytes at a time only");
	t[0] = reads(m, local + 1, 0, 4096);
	CHECK(!poll_copy(t, engine), "or one");
	t[0] = reads(m, local, 16, 0);
	CHECK(!poll_copy(t, PEERDMA_IPC_PATH_NONE), "nothing");
	t[0] = reads(m, host, 0, sizeof(host));
	CHECK(!poll_copy(t, engine) && host[15] == 5, "to host memory an engine");
	t[0] = t[1] = reads(m, local, 0, 16);
	t[0].flags |= PEERDMA_IPC_POLL;
	CHECK(!peerdma_ipc_copy(t, 2, NULL, 0) && t[0].path == engine, "of two, engines");
	CHECK(!peerdma_ipc_copy(t, 1, done, 1) && !peerdma_ipc_signal_wait(done, PEERDMA_IPC_EQ, 1, 10000000000, NULL) &&
	      t[0].path == engine, "with a signal, too");
	/* It ends after any number of looks; then that copy goes by an engine, and is not made again later. */
	fake_ipc_cuda.poll_looks = 200;
	fake_ipc_cuda.polls = 0;
	fake_ipc_cuda.polled = 0;
	peerdma_ipc_counters(&before);
	fake_ipc_cuda.copies = 0;
	for (int i = 0; i < 5000 || by_poll < 1000 || fake_ipc_cuda.polls < 20; i++, tries++) {
		char value = (char)(i % 100 + 10);
		size_t at = LENGTH + (size_t)i % 11, offset = 100 + (size_t)i % 200, length = 1 + (size_t)i % 64;

		/* There, and back to another place. */
		memset(local + LENGTH, 0, 512);
		memset(local + at, value, length);
		t[0] = reads(m, local + at, offset, length);
		t[0].flags = PEERDMA_IPC_POLL;
		t[1] = reads(m, local + LENGTH + 256, offset - 1, length + 2);
		t[1].flags |= PEERDMA_IPC_POLL;
		bad += peerdma_ipc_copy(&t[0], 1, NULL, 0) || peerdma_ipc_copy(&t[1], 1, NULL, 0) || local[LENGTH + 256] != 5 ||
		       local[LENGTH + 257] != value || local[LENGTH + 256 + length] != value || local[LENGTH + 257 + length] != 5;
		by_poll += (t[0].path == poll) + (t[1].path == poll);
		/* As it was. */
		memset(local + at, 5, length);
		t[0].flags = 0;
		bad += peerdma_ipc_copy(&t[0], 1, NULL, 0);
	}
	CHECK(!bad && by_poll == fake_ipc_cuda.polled && by_poll + fake_ipc_cuda.copies == 3 * tries,
	      "%u copies, %u of them by %u kernels, one after another", 2 * tries, by_poll, fake_ipc_cuda.polls);
	t[0] = reads(m, local, 0, 8);
	fake_ipc_cuda.poll_held = 1;
	fake_ipc_cuda.poll_ends = 1;
	CHECK(!until(t, engine) && !until(t, engine) && !poll_copy(t, engine), "a GPU that is full of other kernels: an engine");
	fake_ipc_cuda.poll_held = 0;
	fake_ipc_cuda.poll_ends = 0;
	CHECK(!until(t, poll), "later");
	for (int i = 0; i < 2; i++) {
		beside[i] = (struct poller) { .memory = m, .local = local + i * 4096 };
		pthread_create(&threads[i], NULL, polls_beside, &beside[i]);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		bad += beside[i].bad + (beside[i].paths[poll] + beside[i].paths[engine] != 2000);
	}
	CHECK(!bad, "two threads: %u and %u by the kernel", beside[0].paths[poll], beside[1].paths[poll]);
	peerdma_ipc_counters(&c);
	CHECK(c.copies[poll] - before.copies[poll] == fake_ipc_cuda.polled && fake_ipc_cuda.polled > by_poll, "all counted");
	t[0] = reads(m, local, 0, LENGTH + 1);
	CHECK(poll_copy(t, poll) == -EINVAL, "too long for the memory");
	fake_ipc_cuda.kernel_error = 700;
	t[0] = reads(m, local, 0, 8);
	fake_ipc_cuda.poll_ends = 1;
	/* Once because the kernel has ended, and once because there is no other. */
	CHECK(!until(t, engine) && !poll_copy(t, engine), "a GPU that launches no more: an engine");
	fake_ipc_cuda.kernel_error = 0;
	fake_ipc_cuda.poll_ends = 0;
	CHECK(!poll_copy(t, engine), "from then on");
	polls_and_fails(o);
	peerdma_ipc_signal_close(done);
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
}

static pthread_barrier_t both;

static void meet(void)
{
	pthread_barrier_wait(&both);
}

/* While a thread of the program records a graph: nothing is refused, and the recording goes on. */
static void captures(const struct offered *o)
{
	void *context = fake_ipc_cuda.context;
	struct peerdma_ipc_signal *s = NULL;
	struct peerdma_ipc_handle handle;
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_transfer t;
	unsigned long long local = 0;
	static char another;
	void *stream = NULL;
	int mode = 0;

	fake_ipc_cuda.context = &another;	/* where nothing has been made yet */
	CHECK(!cuMemAlloc_v2(&local, LENGTH) && !cuStreamCreate(&stream, 1) && !peerdma_ipc_signal_create(0, PEERDMA_IPC_ANY_USER, &s), "a graph is recorded");
	fake_ipc_cuda.capturing = 1;
	CHECK(!peerdma_ipc_export((void *)(uintptr_t)local, LENGTH, PEERDMA_IPC_I_UNEXPORT, &handle) && !peerdma_ipc_unexport(&handle), "export");
	CHECK(!peerdma_ipc_open(&o->memory, sizeof(o->memory), 0, &m), "open: %s", peerdma_last_error());
	t = reads(m, (void *)(uintptr_t)local, 0, LENGTH);
	CHECK(!peerdma_ipc_copy(&t, 1, NULL, 0), "an engine copies: %s", peerdma_last_error());
	CHECK(!peerdma_ipc_copy(&t, 1, s, 3) && !peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 3, 10000000000, NULL) && !t.error, "and sets a signal");
	CHECK(path_of(m, local) == PEERDMA_IPC_PATH_KERNEL, "a kernel copies, which is loaded now");
	t.flags |= PEERDMA_IPC_KERNEL | PEERDMA_IPC_POLL;
	t.length = 64;
	CHECK(!until(&t, PEERDMA_IPC_PATH_POLL), "one that waits copies");
	CHECK(!peerdma_ipc_signal_stream_set(s, stream, 4) && !peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 4, 10000000000, NULL), "a stream sets a signal");
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim(), "close: %s", peerdma_last_error());
	peerdma_ipc_signal_close(s);
	CHECK(!cuThreadExchangeStreamCaptureMode(&mode) && mode == 0, "the thread's own mode is back");
	CHECK(!fake_ipc_cuda.unsafe, "%u calls would have ended the recording", fake_ipc_cuda.unsafe);
	fake_ipc_cuda.capturing = 0;
	cuMemFree_v2(local);
	fake_ipc_cuda.context = context;
}

static void *first_copy(void *t)
{
	return (void *)(intptr_t)peerdma_ipc_copy(t, 1, NULL, 0);
}

/* The first copies of a context: two threads at once; and while no kernel can be loaded. */
static void firsts(const struct offered *o)
{
	void *context = fake_ipc_cuda.context, *ret[2] = { NULL };
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_transfer t[2];
	unsigned long long device = 0;
	char third_context, local[2];
	pthread_t threads[2];
	unsigned int streams;

	fake_ipc_cuda.context = &third_context;
	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&device, LENGTH), "a new context");
	streams = fake_ipc_cuda.streams;
	pthread_barrier_init(&both, NULL, 2);
	fake_ipc_cuda.creating = meet;
	for (int i = 0; i < 2; i++) {
		t[i] = reads(m, &local[i], 0, 1);
		pthread_create(&threads[i], NULL, first_copy, &t[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], &ret[i]);
	fake_ipc_cuda.creating = NULL;
	CHECK(!ret[0] && !ret[1] && fake_ipc_cuda.streams == streams + 1, "two threads' first copies: one stream is kept, not %u",
	      fake_ipc_cuda.streams - streams);
	fake_ipc_cuda.module_error = 2;
	CHECK(path_of(m, device) == PEERDMA_IPC_PATH_CUDA, "no memory for the kernel: an engine copies");
	fake_ipc_cuda.module_error = 906;
	CHECK(path_of(m, device) == PEERDMA_IPC_PATH_CUDA, "nor while the program records a graph");
	fake_ipc_cuda.module_error = 0;
	CHECK(path_of(m, device) == PEERDMA_IPC_PATH_KERNEL, "later it does");
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
	pthread_barrier_destroy(&both);
	fake_ipc_cuda.context = context;
}

/* Frees that a monitor reports. */
static void frees(const struct offered *o)
{
	struct peerdma_ipc_memory *m = NULL, *again;

	CHECK(!OPEN(&o->watched, &m) && !step('m') && peerdma_ipc_valid(m), "other memory is freed, or this was before it was exported");
	CHECK(!step('n') && !peerdma_ipc_valid(m), "this is freed");
	CHECK(OPEN(&o->watched, &again) == -ESTALE && !peerdma_ipc_close(m), "not opened again");
}

static void memory(const struct offered *o)
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };
	struct peerdma_ipc_memory *m = NULL, *second = NULL;
	struct peerdma_ipc_signal *done = NULL, *gate = NULL;
	struct peerdma_ipc_transfer t[2];
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	void *context = fake_ipc_cuda.context, *stream = NULL;
	char *local = calloc(1, LENGTH);
	int other_context;

	fake_ipc_cuda.context = NULL;
	CHECK(OPEN(&o->memory, &m) == -ENODEV, "no context");
	fake_ipc_cuda.context = context;
	fake_ipc_cuda.open_error = 208;
	CHECK(OPEN(&o->memory, &m) == -EADDRINUSE && strstr(peerdma_last_error(), "close it first"), "other memory is open in its place");
	fake_ipc_cuda.open_error = 2;
	CHECK(OPEN(&o->memory, &m) == -ENOMEM, "out of memory");
	fake_ipc_cuda.open_error = 0;
	CHECK(!OPEN(&o->memory, &m) && !OPEN(&o->memory, &second) && m == second && fake_ipc_cuda.opens == 1, "opened, once");
	CHECK(!peerdma_ipc_query(m->ptr, &info) && !strcmp(info.provider, "cuda") && !strcmp(info.pci, "0000:0a:00.0"), "whose it is");
	peerdma_ipc_close(second);

	/* Copies. */
	CHECK(!peerdma_ipc_signal_create(0, 0, &done) && !peerdma_ipc_signal_create(0, 0, &gate) && !cuStreamCreate(&stream, 1), "signals");
	t[0] = reads(m, local, 0, 100);
	t[1] = reads(m, local + 100, 100, 100);
	CHECK(!peerdma_ipc_copy(t, 2, NULL, 0) && local[0] == 5 && local[199] == 5 && !local[200], "a batch");
	CHECK(t[0].path == PEERDMA_IPC_PATH_CUDA && !t[0].error, "by CUDA");
	CHECK(!peerdma_ipc_signal_stream_wait(gate, stream, PEERDMA_IPC_EQ, 1), "streams are held");
	memset(local, 0, LENGTH);
	CHECK(!peerdma_ipc_copy(t, 2, done, 1) && t[0].error == -EINPROGRESS && !peerdma_ipc_signal_get(done), "started, and not complete");
	peerdma_ipc_signal_set(gate, 1);
	CHECK(!peerdma_ipc_signal_wait(done, PEERDMA_IPC_EQ, 1, 10000000000, NULL) && !t[0].error && !t[1].error && local[199] == 5,
	      "the signal, and the bytes");
	fake_ipc_cuda.copy_error = 700;
	CHECK(peerdma_ipc_copy(t, 2, done, 2) == -EIO && t[0].error == -EIO && t[0].path == PEERDMA_IPC_PATH_NONE &&
	      peerdma_ipc_signal_get(done) == 2, "CUDA refuses: said, and nothing waits");
	fake_ipc_cuda.copy_error = 0;
	fake_ipc_cuda.sync_error = 700;
	CHECK(peerdma_ipc_copy(t, 2, NULL, 0) == -EIO && t[1].error == -EIO, "CUDA fails");
	fake_ipc_cuda.sync_error = 0;
	CHECK(!peerdma_ipc_copy(t, 2, NULL, 0), "and works again");

	fake_ipc_cuda.stream_error = 700;
	CHECK(!peerdma_ipc_copy(t, 2, done, 7) && !peerdma_ipc_signal_wait(done, PEERDMA_IPC_EQ, 7, 10000000000, NULL) &&
	      t[0].error == -EIO && t[1].error == -EIO, "it fails later: the signal is set, and the error is there");
	fake_ipc_cuda.stream_error = 0;

	/* The export ends while copies wait for their turn: the bytes are of the next use. */
	CHECK(!peerdma_ipc_signal_stream_wait(gate, stream, PEERDMA_IPC_EQ, 2), "streams are held");
	CHECK(!peerdma_ipc_copy(t, 2, done, 3) && !step('u'), "started; then the export ends");
	peerdma_ipc_signal_set(gate, 2);
	CHECK(!peerdma_ipc_signal_wait(done, PEERDMA_IPC_EQ, 3, 10000000000, NULL) && t[0].error == -ESTALE && t[1].error == -ESTALE,
	      "what was read is worthless, and that is said");
	CHECK(!step('f') && *(char *)m->ptr == 6, "freed there: mapped here still");

	/* Another context has no right to close it. */
	fake_ipc_cuda.context = &other_context;
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim() && !fake_ipc_cuda.closes, "not in another context");
	fake_ipc_cuda.context = context;
	fake_ipc_cuda.close_error = 700;
	CHECK(peerdma_ipc_trim() == -EIO, "CUDA fails to close it");
	fake_ipc_cuda.close_error = 0;
	peerdma_ipc_counters(&c);
	CHECK(!c.imports, "it is forgotten all the same");
	peerdma_ipc_signal_close(done);
	peerdma_ipc_signal_close(gate);
	free(local);
}

/* There contexts have no number, and another one may get the address. */
static void before_12(const struct offered *o)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_transfer t;
	unsigned long long device = 0;

	CHECK(!OPEN(&o->memory, &m) && !cuMemAlloc_v2(&device, LENGTH), "memory");
	t = reads(m, (void *)(uintptr_t)device, 0, 64);
	for (int i = 0; i < 3; i++)
		CHECK(!poll_copy(&t, PEERDMA_IPC_PATH_CUDA), "contexts without numbers: an engine");
	CHECK(!fake_ipc_cuda.launched && !fake_ipc_cuda.registered, "no kernel looks for commands");
	CHECK(!cuMemFree_v2(device) && !peerdma_ipc_close(m) && !peerdma_ipc_trim(), "given back");
}

int main(int argc, char **argv)
{
	struct offered o[2];
	int socks[2];
	pid_t pids[2];

	/* Before this process uses CUDA: children of one that has do not. */
	for (int i = 0; i < 2; i++) {
		o[i] = begin(&pids[i]);
		socks[i] = sock;
	}
	sock = socks[0];
	if (argc > 1 && !strcmp(argv[1], "before-12")) {
		before_12(&o[0]);
		goto end;
	}
	frees(&o[0]);
	signals(&o[0]);
	kernels(&o[0]);
	faster(&o[0]);
	left_to_engines(&o[0]);
	from_host(&o[0]);
	within_process();
	polls(&o[0]);
	reach(&o[0]);
	captures(&o[0]);
	firsts(&o[0]);
	fake_ipc_cuda.opens = 0;
	fake_ipc_cuda.closes = 0;
	memory(&o[0]);
	sock = socks[1];
	replaced(&o[1]);
end:
	for (int i = 0; i < 2; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	fflush(stdout);
	return check_end(NULL);
}
