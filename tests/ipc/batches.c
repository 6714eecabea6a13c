// SPDX-License-Identifier: MIT
/*
 * batches.c - many copies in one call of peerdma_ipc_copy(): made by few CUDA calls, and as rows where
 * the list has rows. Each byte is compared with a copy made by the CPU. Runs on a stand-in for libcuda
 * (stand-in/).
 *
 *	ipc_batches [ROUNDS [SEED]]
 */
#include <sys/prctl.h>

#include "../lib/checks.h"
#include "fake_cuda.h"
#include "peerdma_ipc.h"
#include "util.h"

#define LENGTH	65536UL
#define LARGE	(8UL << 20)
#define MOST	200

enum { THERE = 2, HERE = 4 };

struct offered {
	struct peerdma_ipc_handle device[THERE], large, host;
};

/* ---- the other process ---- */

static void other(int to)
{
	unsigned long long p;
	struct offered o;
	void *host;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < THERE; i++) {
		if (cuMemAlloc_v2(&p, LENGTH) || peerdma_ipc_export((void *)(uintptr_t)p, LENGTH, PEERDMA_IPC_I_UNEXPORT, &o.device[i]))
			_exit(1);
	}
	if (cuMemAlloc_v2(&p, LARGE) || peerdma_ipc_export((void *)(uintptr_t)p, LARGE, PEERDMA_IPC_I_UNEXPORT, &o.large) ||
	    peerdma_ipc_alloc(LENGTH, 0, &host) || peerdma_ipc_export(host, LENGTH, 0, &o.host) ||
	    write(to, &o, sizeof(o)) != sizeof(o))
		_exit(1);
	for (;;)
		pause();
}

/* ---- here ---- */

static struct peerdma_ipc_memory *there[THERE];
static char *here[HERE];
static struct peerdma_ipc_transfer list[MOST];
static int listed;

static void add(struct peerdma_ipc_memory *m, uint64_t offset, char *local, uint64_t length, uint32_t flags)
{
	list[listed++] = (struct peerdma_ipc_transfer) {
		.size = sizeof(list[0]), .flags = flags, .memory = m, .local = local, .offset = offset, .length = length,
	};
}

static void forget_counts(void)
{
	fake_ipc_cuda.copies = 0;
	fake_ipc_cuda.batches = 0;
	fake_ipc_cuda.rows = 0;
	fake_ipc_cuda.looks = 0;
}

/* What the library called for the list. */
static bool made(unsigned int copies, unsigned int batches, unsigned int rows)
{
	bool ok;

	forget_counts();
	ok = !peerdma_ipc_copy(list, (size_t)listed, NULL, 0);
	for (int i = 0; i < listed; i++)
		ok = ok && !list[i].error && list[i].path == PEERDMA_IPC_PATH_CUDA &&
		     !memcmp(list[i].local, (char *)list[i].memory->ptr + list[i].offset, list[i].length);
	if (!ok || fake_ipc_cuda.copies != copies || fake_ipc_cuda.batches != batches || fake_ipc_cuda.rows != rows)
		printf("copies %u, batches %u, rows %u\n", fake_ipc_cuda.copies, fake_ipc_cuda.batches, fake_ipc_cuda.rows);
	listed = 0;
	return ok && fake_ipc_cuda.copies == copies && fake_ipc_cuda.batches == batches && fake_ipc_cuda.rows == rows;
}

/* n copies, each so much further than the one before. */
static void run_of(int n, uint64_t length, uint64_t offset, int64_t step, uint64_t local, int64_t local_step)
{
	for (int i = 0; i < n; i++)
		add(there[0], offset + (uint64_t)(step * i), here[0] + local + local_step * i, length, PEERDMA_IPC_READ);
}

static void fill(void)
{
	for (int i = 0; i < THERE; i++) {
		for (uint64_t k = 0; k < LENGTH; k++)
			((unsigned char *)there[i]->ptr)[k] = (unsigned char)rand();
	}
	for (int i = 0; i < HERE; i++) {
		for (uint64_t k = 0; k < LENGTH; k++)
			here[i][k] = (char)rand();
	}
}

static void rows(void)
{
	char *low, *high;

	fill();
	run_of(64, 100, 0, 300, 50, 128);
	CHECK(made(0, 0, 1), "64 at equal distances, those differ there and here: one call");
	run_of(64, 100, 40000, -300, 30000, -128);
	CHECK(made(0, 0, 1), "backwards");
	run_of(64, 256, 512, 256, 1024, 256);
	CHECK(made(1, 0, 0), "one behind the other: one plain copy");
	run_of(2, 256, 512, 256, 1024, 256);
	CHECK(made(1, 0, 0), "of two, too");
	run_of(2, 100, 0, 300, 50, 128);
	CHECK(made(0, 0, 1), "two");
	run_of(2, 100, 0, 300, 50, 128);
	run_of(2, 99, 2000, 300, 9000, 128);
	CHECK(made(0, 1, 0), "two, and two of another length: a batch takes no longer");
	run_of(3, 100, 0, 300, 50, 128);
	run_of(1, 99, 2000, 0, 9000, 0);
	CHECK(made(1, 0, 1), "three, and one of another length");
	run_of(2, 100, 0, 300, 50, 128);
	run_of(3, 100, 900, 400, 434, 200);
	CHECK(made(0, 1, 1), "the distance changes after two, which do not take the first of the next rows");
	run_of(8, 100, 0, 100, 50, 128);
	CHECK(made(0, 0, 1), "without a gap there, with one here");
	run_of(8, 100, 0, 50, 50, 128);
	CHECK(made(0, 1, 0), "overlapping there: no rows");
	run_of(8, 100, 5000, 0, 50, 128);
	CHECK(made(0, 1, 0), "one source for all: no rows");
	run_of(8, 100, 5000, 300, 9000, -128);
	CHECK(made(0, 1, 0), "forwards there, backwards here: no rows");
	run_of(200, 100, 0, 128, 0, 128);
	CHECK(made(0, 0, 2), "as many as the library gathers, and the others");
	for (int i = 0; i < 8; i++)
		add(there[0], (uint64_t)i * 300, here[0] + 50 + i * 128, 100, i < 4 ? PEERDMA_IPC_READ : 0);
	CHECK(made(0, 0, 2), "four are read, four written");
	for (int i = 0; i < 8; i++)
		add(there[i & 1], (uint64_t)i * 300, here[0] + 50 + i * 128, 100, PEERDMA_IPC_READ);
	CHECK(made(0, 1, 0), "in turns from two buffers");

	/* Two buffers of this process, the second right behind the first. */
	low = high = NULL;
	for (int i = 0; i < HERE; i++) {
		for (int j = 0; j < HERE; j++) {
			if (here[i] + LENGTH == here[j]) {
				low = here[i];
				high = here[j];
			}
		}
	}
	CHECK(low && high, "two buffers side by side");
	for (int i = 0; low && i < 16; i++)
		add(there[0], (uint64_t)i * 256, low + LENGTH - 8 * 256 + i * 256, 256, PEERDMA_IPC_READ);
	CHECK(made(2, 0, 0), "a copy does not go from one into the other");
	for (int i = 0; low && i < 16; i++)
		add(there[0], (uint64_t)i * 256, low + LENGTH - 8 * 512 + i * 512, 256, PEERDMA_IPC_READ);
	CHECK(made(0, 0, 2), "nor do rows");

	fake_ipc_cuda.rows_error = 1;
	run_of(8, 100, 0, 300, 50, 128);
	CHECK(made(0, 1, 1), "the driver fails a 2D copy: a batch");
	fake_ipc_cuda.batch_error = 801;
	run_of(8, 100, 0, 300, 50, 128);
	CHECK(made(8, 1, 1), "and a batch: one by one");
	fake_ipc_cuda.batch_error = fake_ipc_cuda.rows_error = 0;
	fake_ipc_cuda.copy_error = 700;
	run_of(8, 256, 0, 256, 0, 256);
	CHECK(made(1, 1, 0), "and a plain copy of all: a batch");
	fake_ipc_cuda.copy_error = 0;
	CHECK(!fake_ipc_cuda.crossing, "%u copies passed the end of a buffer", fake_ipc_cuda.crossing);
}

/* Two rows of a length that 2D copies are for, and of one that they are not for. */
static void long_rows(const struct offered *o)
{
	static const uint64_t most = 2 << 20;
	struct peerdma_ipc_memory *m = NULL;
	unsigned long long p = 0;

	CHECK(!OPEN(&o->large, &m) && !cuMemAlloc_v2(&p, LARGE), "larger buffers");
	for (uint64_t length = most; m && p && length <= most + 1; length++) {
		memset(m->ptr, (int)length | 2, LARGE);
		for (uint64_t i = 0; i < 2; i++)
			add(m, i * 5 * (most / 2), (char *)(uintptr_t)p + i * 2 * most, length, PEERDMA_IPC_READ);
		CHECK(made(0, length > most, length <= most), "rows of %lu bytes", (unsigned long)length);
	}
	CHECK(!cuMemFree_v2(p) && !peerdma_ipc_close(m), "given back");
}

/* No rows among them: one call for many; if the driver fails it, one for each. */
static void batches(const struct offered *o)
{
	static char host[16];
	struct peerdma_ipc_memory *m = NULL;
	int bad = 0;

	for (int round = 0; round < 2; round++) {
		memset(there[0]->ptr, 5, LENGTH);
		memset(here[0], 0, LENGTH);
		for (int i = 0; i < MOST; i++)
			add(there[0], (uint64_t)i * 64, here[0] + i * 64, (uint64_t)i % 60, PEERDMA_IPC_READ);
		list[7].local = host;
		forget_counts();
		fake_ipc_cuda.batch_error = round ? 801 : 0;
		CHECK(!peerdma_ipc_copy(list, MOST, NULL, 0) && fake_ipc_cuda.batches == 2 &&
		      fake_ipc_cuda.copies == (round ? MOST - 4 : 1), "%s", round ? "one call for each" : "two calls for all");
		CHECK(fake_ipc_cuda.looks <= 2, "the driver was asked %u times what memory it is", fake_ipc_cuda.looks);
		for (int i = 0; i < MOST; i++) {
			const char *at = list[i].local;

			bad += list[i].error || list[i].path != (list[i].length ? PEERDMA_IPC_PATH_CUDA : PEERDMA_IPC_PATH_NONE) ||
			       (list[i].length && (at[0] != 5 || at[list[i].length - 1] != 5)) || (i != 7 && at[list[i].length]);
		}
		listed = 0;
	}
	CHECK(!bad, "right ones, and no byte beside; of host memory by a call of its own");
	fake_ipc_cuda.copy_error = 700;
	CHECK(peerdma_ipc_copy(list, 8, NULL, 0) == -EIO && list[1].error == -EIO && list[1].path == PEERDMA_IPC_PATH_NONE &&
	      !list[0].error, "neither way: each says so");
	fake_ipc_cuda.batch_error = fake_ipc_cuda.copy_error = 0;
	forget_counts();
	CHECK(!peerdma_ipc_copy(list, 2, NULL, 0) && !fake_ipc_cuda.batches, "one is no batch");
	CHECK(!OPEN(&o->host, &m), "host memory of the other process");
	memset(m->ptr, 8, LENGTH);
	for (int i = 0; i < 8; i++)
		add(m, (uint64_t)i * 64, here[0] + i * 128, 64, PEERDMA_IPC_READ);
	CHECK(made(8, 0, 0) && here[0][7 * 128 + 63] == 8, "CUDA has not registered it: in no batch, and in no rows");
	CHECK(!peerdma_ipc_close(m), "closed");
}

/* ---- at random ---- */

static unsigned long any(unsigned long below)
{
	return (unsigned long)rand() % below;
}

/* Places that nothing is copied to yet: lists have no order. */
static bool taken[HERE + THERE][LENGTH];

/* A run at random distances; what does not fit, or would overlap, is left out. */
static void random_run(bool reads)
{
	unsigned long length = 1 + any(any(2) ? 40 : 900), from = any(LENGTH), to = any(LENGTH);
	long step = (long)any(3 * length) - (any(4) ? 0 : (long)(2 * length)), to_step = any(2) ? step : (long)any(3 * length) - (long)any(length);
	int n = any(3) ? 1 + (int)any(40) : 1, there_is = (int)any(THERE), here_is = (int)any(HERE), where = reads ? here_is : HERE + there_is;

	if (!any(3))
		step = to_step = (long)length;
	for (int i = 0; i < n && listed < MOST; i++, from += (unsigned long)step, to += (unsigned long)to_step) {
		if (from > LENGTH - length || to > LENGTH - length || memchr(&taken[where][to], true, length))
			return;
		memset(&taken[where][to], true, length);
		add(there[there_is], reads ? from : to, here[here_is] + (reads ? to : from), length, reads ? PEERDMA_IPC_READ : 0);
	}
}

static void random_lists(int rounds)
{
	static char expected[HERE + THERE][LENGTH];
	unsigned long few = 0, all = 0;
	int bad = 0;

	for (int round = 0; round < rounds; round++) {
		bool reads = round & 1;

		memset(taken, 0, sizeof(taken));
		for (int i = 0; i < HERE + THERE; i++)
			memcpy(expected[i], i < HERE ? here[i] : there[i - HERE]->ptr, LENGTH);
		for (int i = 1 + (int)any(12); i; i--)
			random_run(reads);
		for (int i = 0; i < listed; i++) {
			int t = list[i].memory == there[1], h = 0;

			while ((uintptr_t)list[i].local - (uintptr_t)here[h] >= LENGTH)
				h++;
			if (reads)
				memcpy(expected[h] + ((char *)list[i].local - here[h]), (char *)there[t]->ptr + list[i].offset, list[i].length);
			else
				memcpy(expected[HERE + t] + list[i].offset, list[i].local, list[i].length);
		}
		forget_counts();
		bad += listed && peerdma_ipc_copy(list, (size_t)listed, NULL, 0);
		few += fake_ipc_cuda.copies + fake_ipc_cuda.batches + fake_ipc_cuda.rows;
		all += (unsigned long)listed;
		listed = 0;
		for (int i = 0; i < HERE + THERE; i++)
			bad += !!memcmp(expected[i], i < HERE ? here[i] : there[i - HERE]->ptr, LENGTH);
	}
	CHECK(!bad, "every byte as the CPU copies it: %d rounds, %d wrong", rounds, bad);
	CHECK(!fake_ipc_cuda.crossing, "%u copies passed the end of a buffer", fake_ipc_cuda.crossing);
	CHECK(few * 2 < all, "%lu copies by %lu calls", all, few);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1000, pair[2];
	unsigned long long p;
	struct offered o;
	pid_t pid;

	srand(argc > 2 ? (unsigned int)atoi(argv[2]) : 1);
	if (pipe(pair))
		return 1;
	/* Before this process uses CUDA: children of one that has do not. */
	pid = fork();
	if (!pid)
		other(pair[1]);
	close(pair[1]);
	if (read(pair[0], &o, sizeof(o)) != sizeof(o))
		return 1;
	for (int i = 0; i < HERE; i++) {
		CHECK(!cuMemAlloc_v2(&p, LENGTH), "memory of this process");
		here[i] = (char *)(uintptr_t)p;
	}
	for (int i = 0; i < THERE; i++)
		CHECK(!OPEN(&o.device[i], &there[i]), "memory of the other process");
	if (!check_counts.failures) {
		rows();
		long_rows(&o);
		batches(&o);
		random_lists(rounds);
	}
	for (int i = 0; i < THERE; i++)
		CHECK(!peerdma_ipc_close(there[i]), "closed");
	for (int i = 0; i < HERE; i++)
		CHECK(!cuMemFree_v2((uintptr_t)here[i]), "freed");
	CHECK(!peerdma_ipc_trim(), "given back");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	fflush(stdout);
	return check_end(NULL);
}
