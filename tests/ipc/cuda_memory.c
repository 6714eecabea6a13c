// SPDX-License-Identifier: MIT
/*
 * cuda_memory.c - CUDA's memory, on a stand-in that does what CUDA does in rare cases: the memory is replaced while it is
 * exported, and an open gives less memory than the exporter said.
 */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "fake_cuda.h"
#include "peerdma.h"
#include "util.h"

#define LENGTH	65536

static unsigned long long memory;
static unsigned int look, replaced_at;	/* by which look at it */

/* Another thread frees it, without a word, and allocates as much: at the same address. */
static void replace(void)
{
	unsigned long long was = memory;

	if (++look != replaced_at)
		return;
	cuMemFree_v2(memory);
	cuMemAlloc_v2(&memory, LENGTH);
	CHECK(memory == was, "it is replaced at the same address");
}

/* Exports it, and returns what that returned. */
static int export(unsigned int at)
{
	struct peerdma_ipc_handle handle;
	int ret;

	look = 0;
	replaced_at = at;
	fake_ipc_cuda.looking = replace;
	ret = peerdma_ipc_export((void *)(uintptr_t)memory, LENGTH, PEERDMA_IPC_I_UNEXPORT, &handle);
	fake_ipc_cuda.looking = NULL;
	if (!ret)
		CHECK(!peerdma_ipc_unexport(&handle), "unexport");
	return ret;
}

static void test_replaced(void)
{
	unsigned int looks, refused = 0;
	int ret = 0;

	CHECK(!cuMemAlloc_v2(&memory, LENGTH) && !export(0), "an export: %s", peerdma_last_error());
	looks = look;
	CHECK(looks > 1, "it is looked at before it is published and after: %u times", looks);
	for (unsigned int at = 1; at <= looks; at++) {
		ret = export(at);
		CHECK(!ret || (ret == -ENXIO && strstr(peerdma_last_error(), "freed meanwhile")), "replaced by look %u: %d, %s", at, ret,
		      peerdma_last_error());
		refused += !!ret;
	}
	CHECK(refused && ret, "and by the last one it is noticed: %u of %u", refused, looks);
	CHECK(!export(0), "what is there now can be exported");
}

/* ---- */

static struct shared {
	struct peerdma_ipc_handle small, large;
	int ready;
} *shared;

static void exports(void)
{
	unsigned long long small, large;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cuMemAlloc_v2(&small, LENGTH) || cuMemAlloc_v2(&large, 4 << 20) ||
	    peerdma_ipc_export((void *)(uintptr_t)small, LENGTH, PEERDMA_IPC_I_UNEXPORT, &shared->small) ||
	    peerdma_ipc_export((void *)(uintptr_t)large, 4 << 20, PEERDMA_IPC_I_UNEXPORT, &shared->large))
		_exit(1);
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	pause();
	_exit(0);
}

static void test_less(void)
{
	struct peerdma_ipc_memory *m;
	pid_t pid;
	int ret;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (!pid)
		exports();
	while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) && !waitpid(pid, NULL, WNOHANG))
		usleep(1000);
	fake_ipc_cuda.less = 4096;
	ret = OPEN(&shared->large, &m);
	CHECK(ret == -EPROTO && strstr(peerdma_last_error(), "less memory"), "less than it is: %d, %s", ret, peerdma_last_error());
	ret = OPEN(&shared->small, &m);
	CHECK(ret == -EADDRINUSE, "of small memory, which CUDA has in a block: %d, %s", ret, peerdma_last_error());
	CHECK(fake_ipc_cuda.opens > 1 && fake_ipc_cuda.closes == fake_ipc_cuda.opens, "given back");
	fake_ipc_cuda.less = 0;
	ret = OPEN(&shared->large, &m);
	CHECK(!ret && m->length == 4 << 20 && !peerdma_ipc_close(m), "all of it: %d, %s", ret, peerdma_last_error());
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = { { "replaced", test_replaced }, { "less", test_less } };

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
