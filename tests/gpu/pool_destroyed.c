// SPDX-License-Identifier: MIT
/*
 * pool_destroyed.c - whether cuMemPoolDestroy() of an imported memory pool is safe while other threads use CUDA. Uses
 * nothing of this project.
 *
 *	pool_destroyed [SECONDS [THREADS]]	for each way, once its threads run; default: 60 seconds, 10 threads
 *
 * A process imports a pool of another one, imports an allocation of it, frees that, and destroys the pool, again and again.
 * There are three ways: its other threads copy memory of their own meanwhile; they wait (idle); they copy, and the pool
 * stays imported a second time (kept). With NVIDIA's libcuda 580.159.04 the first way ends by an assertion or hangs, after
 * 270 to 1,100 destructions. Exit code: 0: no way failed; 1: one did, which is the driver's fault; 2: CUDA does not start,
 * or has no such pools. Runs on softgpu, too.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_calls.h"
#include "now.h"

enum { FD = 1, LENGTH = 2 << 20, THREADS_MOST = 64, HANGS_S = 10, NO_CUDA = 2 };

/* CUmemPoolPtrExportData */
struct exported {
	unsigned char data[64];
};

static struct cuda_calls cu;
static int (*pool_create)(void **pool, const struct cuda_pool_props *props);
static int (*pool_destroy)(void *pool);
static int (*pool_alloc)(gpu_ptr *p, size_t size, void *pool, void *stream);
static int (*pool_access)(void *pool, const struct cuda_access *list, size_t count);
static int (*pool_export)(int *fd, void *pool, int type, unsigned long long flags);
static int (*pool_import)(void **pool, void *fd, int type, unsigned long long flags);
static int (*pointer_export)(struct exported *e, gpu_ptr p);
static int (*pointer_import)(gpu_ptr *p, void *pool, struct exported *e);
static int (*stream_create)(void **stream, unsigned int flags);
static int (*synchronize)(void);

static const struct {
	const char *name;
	void *at;
} names[] = {
	{ "cuMemPoolCreate", &pool_create }, { "cuMemPoolDestroy", &pool_destroy }, { "cuMemAllocFromPoolAsync", &pool_alloc },
	{ "cuMemPoolSetAccess", &pool_access }, { "cuMemPoolExportToShareableHandle", &pool_export },
	{ "cuMemPoolImportFromShareableHandle", &pool_import }, { "cuMemPoolExportPointer", &pointer_export },
	{ "cuMemPoolImportPointer", &pointer_import }, { "cuStreamCreate", &stream_create }, { "cuCtxSynchronize", &synchronize },
};

static void *context;
static enum way { BUSY, IDLE, KEPT, WAYS } way;
static const char *const ways[WAYS] = { "threads copy", "threads idle", "threads copy, imported twice" };
static int seconds = 60, threads = 10, stop;
static struct shared {
	struct exported exported;
	_Atomic unsigned long times, copies;
	_Atomic int begun, ready, error, finished;	/* threads that have begun; that go round; the first error of CUDA's */
} *shared;

static int start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol;

	if (!library || !cuda_calls_load(&cu))
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		symbol = dlsym(library, names[i].name);
		if (!symbol)
			return 0;
		memcpy(names[i].at, &symbol, sizeof(symbol));
	}
	return !cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) && !cu.cuCtxSetCurrent(context);
}

/* ---- the exporter ---- */

static int send_fd(int to, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(to, &m, 0) == 1;
}

static int exports(int to)
{
	const struct cuda_pool_props props = { .type = 1, .handle_types = FD, .location_type = 1 };
	void *pool;
	gpu_ptr p;
	int fd;

	if (!start() || pool_create(&pool, &props) || pool_alloc(&p, LENGTH, pool, NULL) || synchronize() ||
	    pool_export(&fd, pool, FD, 0) || pointer_export(&shared->exported, p) || !send_fd(to, fd))
		return NO_CUDA;
	close(fd);
	pause();	/* until it is killed */
	return 0;
}

/* ---- the importer ---- */

static int receive_fd(int from)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(from, &m, 0) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static void *copies(void *unused)
{
	static char bytes[THREADS_MOST][4096];
	char *to = bytes[shared->begun++];
	void *stream = NULL;
	gpu_ptr p = 0;
	int r = cu.cuCtxSetCurrent(context);

	if (!r)
		r = stream_create(&stream, 1);
	if (!r)
		r = cu.cuMemAlloc_v2(&p, LENGTH);
	for (int rounds = 0; !r && !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); rounds++) {
		if (rounds == 1)
			shared->ready++;
		if (way == IDLE) {
			usleep(1000);
			continue;
		}
		r = cu.cuMemcpyDtoH_v2(to, p, sizeof(bytes[0]));
		if (!r)
			r = cu.cuStreamSynchronize(stream);
		shared->copies += !r;
	}
	if (r)
		shared->error = r;
	return NULL;
}

static int import(void **pool, int fd)
{
	return pool_import(pool, (void *)(intptr_t)fd, FD, 0);
}

/* 0, or an error of CUDA's. */
static int once(int fd)
{
	const struct cuda_access access = { 1, 0, 3 };
	void *pool;
	gpu_ptr p;
	int r;

	r = import(&pool, fd);
	if (!r)
		r = pool_access(pool, &access, 1);
	if (!r)
		r = pointer_import(&p, pool, &shared->exported);
	if (!r)
		r = cu.cuMemFree_v2(p);
	return r ? r : pool_destroy(pool);
}

static int imports(int from)
{
	int fd = receive_fd(from), r = 0;
	pthread_t all[THREADS_MOST];
	double end;
	void *kept;

	if (fd < 0 || !start() || (way == KEPT && import(&kept, fd)))
		return NO_CUDA;
	for (int i = 0; i < threads; i++) {
		if (pthread_create(&all[i], NULL, copies, NULL))
			return NO_CUDA;
	}
	/* Not from the start: on a slow machine the time would be over before a thread has copied. */
	while (shared->ready < threads && !shared->error)
		usleep(1000);
	end = now() + seconds;
	do {
		r = once(fd);
		shared->times += !r;
	} while (!r && !shared->error && now() < end);
	if (r)
		shared->error = r;
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	shared->finished = !shared->error;
	return 0;
}

/* ---- */

static pid_t child(int (*run)(int), int own, int others)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(others);	/* so that the importer sees the exporter end */
		_exit(run(own));
	}
	return pid;
}

/* 0: it went well, 1: it failed, 2: there is nothing to try. */
static int try(void)
{
	unsigned long last = 0;
	int pair[2], status = 0, still = 0;
	pid_t exporter, importer;

	memset(shared, 0, sizeof(*shared));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return NO_CUDA;
	exporter = child(exports, pair[0], pair[1]);
	importer = child(imports, pair[1], pair[0]);
	close(pair[0]);
	close(pair[1]);
	while (!waitpid(importer, &status, WNOHANG)) {
		sleep(1);
		still = shared->times == last && shared->begun ? still + 1 : 0;
		last = shared->times;
		if (still == HANGS_S) {
			kill(importer, SIGKILL);
			waitpid(importer, &status, 0);
			break;
		}
	}
	kill(exporter, SIGKILL);
	waitpid(exporter, NULL, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_CUDA)
		return NO_CUDA;
	printf("%lu times", (unsigned long)shared->times);
	if (shared->finished)
		printf(", beside %lu copies\n", (unsigned long)shared->copies);
	else if (still == HANGS_S)
		printf(", then it hung\n");
	else if (shared->error)
		printf(", then an error of CUDA's: %d\n", shared->error);
	else
		printf(", then: %s\n", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended");
	return !shared->finished;
}

static int number(const char *text, int most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < 1 || n > most) {
		fprintf(stderr, "pool_destroyed: '%s' is no number from 1 to %d\nusage: pool_destroyed [SECONDS [THREADS]]\n", text, most);
		exit(2);
	}
	return (int)n;
}

int main(int argc, char **argv)
{
	int failed = 0, r;

	if (argc > 3) {
		fprintf(stderr, "usage: pool_destroyed [SECONDS [THREADS]]\n");
		return 2;
	}
	if (argc > 1)
		seconds = number(argv[1], 86400);
	if (argc > 2)
		threads = number(argv[2], THREADS_MOST);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	for (way = 0; way < WAYS; way++) {
		printf("%s: ", ways[way]);
		fflush(stdout);
		r = try();
		if (r == NO_CUDA) {
			printf("CUDA does not start, or has no pools that can be shared\n");
			return 2;
		}
		failed |= r;
	}
	return failed;
}
