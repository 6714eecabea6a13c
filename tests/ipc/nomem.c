// SPDX-License-Identifier: MIT
/*
 * nomem.c - the first, second, third ... allocation of each sequence of calls fails, until the sequence
 * makes no further one. Each call must return 0 or -ENOMEM (or -EAGAIN: no thread), nothing may be left
 * over, and the next sequence must work. Then the same for lack of address space.
 */
#include <sys/resource.h>

#include "../lib/failing_malloc.h"
#include "other.h"
#include "util.h"

static struct other_answer memory, signals;

static int exporting(void)
{
	struct peerdma_ipc_signal *s;
	struct peerdma_ipc_handle h;
	void *p;
	int ret = peerdma_ipc_alloc(8192, 0, &p);

	if (ret)
		return ret;
	ret = peerdma_ipc_export(p, 100, 0, &h);
	if (!ret)
		ret = peerdma_ipc_signal_create(0, 0, &s);
	if (!ret)
		peerdma_ipc_signal_close(s);
	if (!ret) {
		ret = peerdma_ipc_signal_create(0, PEERDMA_IPC_ANY_USER, &s);
		if (!ret)
			peerdma_ipc_signal_close(s);
	}
	peerdma_ipc_free(p);
	return ret;
}

static int opening(void)
{
	struct peerdma_ipc_memory *m;
	struct peerdma_ipc_signal *s;
	char byte = 0;
	int ret = peerdma_ipc_open(&memory.handle, sizeof(memory.handle), 0, &m);

	if (ret)
		return ret;
	ret = peerdma_ipc_signal_open(&signals.handle, sizeof(signals.handle), &s);
	if (!ret) {
		struct peerdma_ipc_transfer t = { .size = sizeof(t), .memory = m, .local = &byte, .length = 1, .flags = PEERDMA_IPC_READ };

		ret = peerdma_ipc_copy(&t, 1, NULL, 0);
		if (!ret && byte != 7)
			ret = -EIO;
		peerdma_ipc_signal_close(s);
	}
	peerdma_ipc_close(m);
	peerdma_ipc_trim();
	return ret;
}

static void sweep(const char *what, int (*run)(void))
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };
	unsigned int before, n;
	int ret = 0;

	for (n = 1; n < 200; n++) {
		before = descriptors(getpid());
		failed = false;
		fail_in = n;
		ret = run();
		fail_in = 0;
		if (!failed)
			break;
		/* -EAGAIN: of a thread. */
		if (ret && ret != -ENOMEM && ret != -EAGAIN)
			CHECK(0, "%s: allocation %u fails: %d", what, n, ret);
		peerdma_ipc_counters(&c);
		if (c.exports || c.imports)
			CHECK(0, "%s: allocation %u fails: %llu exports, %llu imports left", what, n, (unsigned long long)c.exports,
			      (unsigned long long)c.imports);
		/* What an exporter shares and listens at stays for good. */
		if (descriptors(getpid()) > before + 4)
			CHECK(0, "%s: allocation %u fails: %u descriptors, before %u", what, n, descriptors(getpid()), before);
	}
	CHECK(n > 2 && n < 200 && !ret, "%s: without failures after %u: %d", what, n - 1, ret);
	before = descriptors(getpid());
	CHECK(!run() && descriptors(getpid()) == before, "%s: nothing is left", what);
}

int main(void)
{
	struct other o = other_make(getuid()), big = other_make(getuid());
	struct peerdma_ipc_memory *m;
	struct other_answer a;
	struct rlimit was, now;
	void *p;

	memory = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 7);
	signals = ASK(&o, OTHER_SIGNAL, .value = 7);
	a = ASK(&big, OTHER_ALLOC, .value = 64 << 20, .fill = 7);
	CHECK(!memory.ret && !signals.ret && !a.ret, "something to open");
	sweep("opening", opening);
	sweep("exporting", exporting);

	/* The process may have no more address space than it has, nearly. */
	getrlimit(RLIMIT_AS, &was);
	now = was;
	now.rlim_cur = 1;
	setrlimit(RLIMIT_AS, &now);
	CHECK(peerdma_ipc_open(&a.handle, sizeof(a.handle), 0, &m) == -ENOMEM, "no addresses to open at");
	CHECK(peerdma_ipc_alloc(64 << 20, 0, &p) == -ENOMEM, "nor to allocate at");
	setrlimit(RLIMIT_AS, &was);
	CHECK(!peerdma_ipc_open(&a.handle, sizeof(a.handle), 0, &m) && *(char *)m->ptr == 7, "with addresses it opens");
	peerdma_ipc_close(m);
	other_end(&o, SIGKILL);
	other_end(&big, SIGKILL);
	return check_end(NULL);
}
