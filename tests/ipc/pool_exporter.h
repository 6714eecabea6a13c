/* SPDX-License-Identifier: MIT */
/*
 * pool_exporter.h - for pools.c: a process that allocates from pools of the stand-in for libcuda, exports and frees as it
 * is asked to over a socket.
 */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "fake_cuda.h"
#include "fake_pool.h"
#include "peerdma_monitor.h"
#include "util.h"

#define LENGTH	4096UL
#define MANY	24

enum op { MAKE, ALLOC, EXPORT, EXPORT_TWO, EXPORT_HOST, FREE, UNEXPORT, READ, DESTROY, FAIL, COUNT, KILL };
enum call { NONE, EXPORT_POOL, EXPORT_POINTER, GPU, HOST, LONG, FULL };	/* LONG: 4 GiB, FULL: no descriptor is left, too */

struct ask {
	enum op op;
	int pool, n;			/* of the exporter's */
	uint8_t fill;
	unsigned int flags;
	enum call call;			/* what fails, with that error */
	int error;
};

struct answer {
	int ret;
	uint8_t byte;
	unsigned int descriptors, inherited;	/* inherited: those that a program has, too, which this process starts */
	unsigned long long at;
	struct peerdma_ipc_handle handle;
	char text[400];
};

static int sock;
static pid_t exporter;

static void fail_at(enum call call, int error)
{
	fake_pools.export_error = call == EXPORT_POOL || call == FULL ? error : 0;
	fake_pools.export_pointer_error = call == EXPORT_POINTER ? error : 0;
	fake_pools.gpu_shares_none = call == GPU;
	fake_pools.host = call == HOST;
	fake_pools.longer = call == LONG ? 4UL << 30 : 0;
}

static void full(bool is)
{
	static struct rlimit was;
	struct rlimit now;

	if (is) {
		getrlimit(RLIMIT_NOFILE, &was);
		now = was;
		now.rlim_cur = 0;
		setrlimit(RLIMIT_NOFILE, &now);
	} else if (was.rlim_max) {
		setrlimit(RLIMIT_NOFILE, &was);
	}
}

/* As libpeerdma-hooks reports it. */
static int free_it(unsigned long long p)
{
	int ret;

	peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, (void *)(uintptr_t)p, LENGTH, 0);
	ret = cuMemFree_v2(p);
	peerdma_monitor_notify(PEERDMA_MEMORY_DEVICE, (void *)(uintptr_t)p, LENGTH, 1);
	return ret;
}

static unsigned int inherited(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	return n;
}

static pthread_barrier_t both;

static void wait_for_both(void)
{
	pthread_barrier_wait(&both);
}

static void *exports(void *p)
{
	struct peerdma_ipc_handle handle;

	return peerdma_ipc_export(p, LENGTH, 0, &handle) ? p : NULL;
}

/* By two threads, each of which begins before the other ends. */
static int export_two(void *p, void *q)
{
	pthread_t threads[2];
	void *failed[2];

	pthread_barrier_init(&both, NULL, 2);
	fake_pools.exporting = wait_for_both;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, exports, i ? q : p);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], &failed[i]);
	fake_pools.exporting = NULL;
	return failed[0] || failed[1] ? -EIO : 0;
}

static void serve(void)
{
	struct peerdma_ipc_handle handles[MANY];
	unsigned long long p[MANY] = { 0 };
	void *pools[MANY] = { NULL }, *host;
	struct answer a;
	struct ask q;

	if (peerdma_monitor_start(PEERDMA_MEMORY_DEVICE, "this test"))
		_exit(1);
	while (read(sock, &q, sizeof(q)) == sizeof(q)) {
		memset(&a, 0, sizeof(a));
		switch (q.op) {
		case MAKE:
			a.ret = fake_pool_create(&pools[q.pool], q.flags);
			break;
		case ALLOC:
			a.ret = cuMemAllocFromPoolAsync(&p[q.n], LENGTH, pools[q.pool], NULL);
			memset((void *)(uintptr_t)p[q.n], q.fill, LENGTH);
			a.at = p[q.n];
			break;
		case EXPORT:
			fail_at(q.call, q.error);
			full(q.call == FULL);
			a.ret = peerdma_ipc_export((void *)(uintptr_t)p[q.n], LENGTH, q.flags, &handles[q.n]);
			snprintf(a.text, sizeof(a.text), "%.399s", peerdma_last_error());
			full(false);
			fail_at(NONE, 0);
			a.handle = handles[q.n];
			break;
		case EXPORT_TWO:
			a.ret = export_two((void *)(uintptr_t)p[q.n], (void *)(uintptr_t)p[q.n + 1]);
			break;
		case EXPORT_HOST:
			a.ret = peerdma_ipc_alloc(LENGTH, 0, &host) || peerdma_ipc_export(host, LENGTH, 0, &a.handle);
			break;
		case FREE:
			a.ret = free_it(p[q.n]);
			break;
		case UNEXPORT:
			a.ret = peerdma_ipc_unexport(&handles[q.n]);
			break;
		case READ:
			a.byte = *(uint8_t *)(uintptr_t)p[q.n];
			break;
		case DESTROY:
			a.ret = cuMemPoolDestroy(pools[q.pool]);
			break;
		case FAIL:
			fake_ipc_cuda.capturing = q.flags;
			break;
		case COUNT:
			a.descriptors = descriptors(getpid());
			a.inherited = inherited();
			break;
		case KILL:
			kill(getpid(), SIGKILL);
		}
		if (write(sock, &a, sizeof(a)) != sizeof(a))
			break;
	}
	_exit(0);
}

static struct answer ask(struct ask q)
{
	struct answer a = { .ret = -EPIPE };

	if (write(sock, &q, sizeof(q)) != sizeof(q) || read(sock, &a, sizeof(a)) != sizeof(a))
		a.ret = -EPIPE;
	return a;
}

#define ASK(...) ask((struct ask) { .op = __VA_ARGS__ })

/* Before this process uses CUDA. */
static void begin(void)
{
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	fflush(stdout);
	exporter = fork();
	sock = pair[!exporter];
	close(pair[!!exporter]);
	if (!exporter) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve();
	}
}

static void end(void)
{
	kill(exporter, SIGKILL);
	waitpid(exporter, NULL, 0);
}

static struct peerdma_ipc_handle exported(int pool, int n, uint8_t fill)
{
	struct answer a = ASK(ALLOC, .pool = pool, .n = n, .fill = fill);

	MUST(!a.ret);
	a = ASK(EXPORT, .n = n);
	CHECK(!a.ret, "exported: %s", a.text);
	return a.handle;
}

/* Begins with n exports of memory of one pool, filled with 7, 8 and so on. */
static void begin_with(struct peerdma_ipc_handle *h, int n)
{
	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	for (int i = 0; i < n; i++)
		h[i] = exported(0, i, (uint8_t)(i + 7));
}
