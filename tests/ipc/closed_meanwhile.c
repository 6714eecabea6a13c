// SPDX-License-Identifier: MIT
/*
 * closed_meanwhile.c - a thread that sees a signal's value closes the signal before the setter has woken the waiters.
 *
 * The test holds the setter where it wakes waiters, in this program's syscall(), until the signal has been closed. The
 * signal's line must still be there at that moment, and must be given back after the wake. The setter is a thread in a
 * call, or CUDA's callback at the end of a copy.
 */
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "fake_cuda.h"
#include "other.h"
#include "util.h"

#define LENGTH 4096

enum way { SET, ADD, CPU_COPY, CUDA_COPY, WAYS };
enum kind { OWN, OWN_PAGE, OPENED, OPENED_PAGE, KINDS };

static const char *const way_names[] = { "set", "add", "a copy by the CPU", "a copy by CUDA" };
static const char *const kind_names[] = { "this process's", "this process's, with a page of its own", "opened", "opened, with a page of its own" };

static _Atomic(pthread_t) closer;
static atomic_bool armed, waking, closed, woken, was_there;
static void *_Atomic line;

static bool mapped(void *p)
{
	unsigned char resident;

	return !mincore((void *)((uintptr_t)p & ~4095UL), 1, &resident);
}

/* The library calls this one: it is the first of its name that the loader finds. It reads more arguments than there may be. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	static long (*libc_syscall)(long number, ...);
	bool held = false;
	va_list args;
	long a[6], ret;

	if (!libc_syscall)
		libc_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE && !pthread_equal(pthread_self(), closer))
		held = atomic_exchange(&armed, false);
	if (held) {
		atomic_store(&line, (void *)a[0]);
		atomic_store(&waking, true);
		while (!atomic_load(&closed))
			usleep(100);
		atomic_store(&was_there, mapped((void *)a[0]));
	}
	ret = libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (held)
		atomic_store(&woken, true);
	return ret;
}

struct job {
	enum way way;
	struct peerdma_ipc_signal *signal;
	struct peerdma_ipc_memory *memory;
	char *local;
	int ret;
};

static void *set(void *arg)
{
	struct job *job = arg;
	struct peerdma_ipc_transfer t = {
		.size = sizeof(t), .flags = PEERDMA_IPC_READ, .memory = job->memory, .local = job->local, .length = LENGTH,
	};

	if (job->way == SET)
		job->ret = peerdma_ipc_signal_set(job->signal, 1);
	else if (job->way == ADD)
		job->ret = peerdma_ipc_signal_add(job->signal, 1);
	else
		job->ret = peerdma_ipc_copy(&t, 1, job->signal, 1);
	/* t is the library's until then. */
	while (!atomic_load(&woken))
		usleep(100);
	return NULL;
}

static struct peerdma_ipc_signal *signal_of(enum kind kind, struct other *creator)
{
	uint32_t flags = kind == OWN_PAGE || kind == OPENED_PAGE ? PEERDMA_IPC_ANY_USER : 0;
	struct peerdma_ipc_signal *s = NULL;
	struct other_answer a;

	if (kind == OWN || kind == OWN_PAGE) {
		CHECK(!peerdma_ipc_signal_create(0, flags, &s), "created");
		return s;
	}
	a = ASK(creator, OTHER_SIGNAL, .value = 0, .flags = flags);
	CHECK(!a.ret && !peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &s), "opened");
	return s;
}

/* What CUDA has to be told is told by the next trim. */
static bool trims = true;

static void one(enum way way, enum kind kind, struct other *creator, struct peerdma_ipc_memory *memory, char *host, char *device, void *stream)
{
	struct job job = { .way = way, .memory = memory, .local = way == CUDA_COPY ? device : host };
	pthread_t thread;
	bool streams = kind == OPENED && way == CUDA_COPY;

	atomic_store(&waking, false);
	atomic_store(&closed, false);
	atomic_store(&woken, false);
	job.signal = signal_of(kind, creator);
	if (!job.signal)
		return;
	/* CUDA has the creator's signals, and is told when they go; and not in a callback. */
	if (streams)
		CHECK(!peerdma_ipc_signal_stream_wait(job.signal, stream, PEERDMA_IPC_EQ, 0), "CUDA's stream has it");
	/* So that the setter has to wake. */
	CHECK(peerdma_ipc_signal_wait(job.signal, PEERDMA_IPC_EQ, 1, 1000000, NULL) == -EAGAIN, "not set yet");
	atomic_store(&closer, pthread_self());
	atomic_store(&armed, true);
	pthread_create(&thread, NULL, set, &job);
	while (!atomic_load(&waking))
		usleep(100);
	CHECK(peerdma_ipc_signal_get(job.signal) == 1 && !peerdma_ipc_signal_close(job.signal), "%s, %s: seen and closed", way_names[way],
	      kind_names[kind]);
	atomic_store(&closed, true);
	pthread_join(thread, NULL);
	/* The callback is over, too. */
	CHECK(!job.ret && !cuStreamSynchronize(stream), "set");
	CHECK(atomic_load(&was_there), "the signal's line is there until the waiters are woken");
	if (streams && trims)
		peerdma_ipc_trim();
	if (kind != OWN && (!streams || trims))
		CHECK(!mapped(atomic_load(&line)), "and is given back");
}

int main(void)
{
	struct other exporter = other_make(getuid()), creator = other_make(getuid()), second = other_make(getuid());
	struct other_answer a = ASK(&exporter, OTHER_ALLOC, .value = LENGTH, .fill = 7);
	struct peerdma_ipc_memory *memory = NULL;
	unsigned int registered;
	unsigned long long device = 0;
	static char host[LENGTH], context;
	void *stream = NULL;

	fake_ipc_cuda.context = &context;
	if (!CHECK(!a.ret && !OPEN(&a.handle, &memory) && !cuMemAlloc_v2(&device, LENGTH) && !cuStreamCreate(&stream, 1), "memory"))
		return 1;
	registered = fake_ipc_cuda.registered - fake_ipc_cuda.unregistered;
	for (enum way way = 0; way < WAYS; way++) {
		for (enum kind kind = 0; kind < KINDS; kind++)
			one(way, kind, &creator, memory, host, (char *)(uintptr_t)device, stream);
	}
	/* A callback that ends one creator does not tell CUDA of another one, that CUDA has. */
	trims = false;
	one(CUDA_COPY, OPENED, &creator, memory, host, (char *)(uintptr_t)device, stream);
	one(CUDA_COPY, OPENED_PAGE, &second, memory, host, (char *)(uintptr_t)device, stream);
	peerdma_ipc_trim();
	CHECK(fake_ipc_cuda.registered - fake_ipc_cuda.unregistered == registered && !fake_ipc_cuda.in_callback,
	      "CUDA was told of all that went, and never in a callback");
	peerdma_ipc_close(memory);
	other_end(&exporter, SIGKILL);
	other_end(&creator, SIGKILL);
	other_end(&second, SIGKILL);
	return check_end(NULL);
}
