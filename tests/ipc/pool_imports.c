// SPDX-License-Identifier: MIT
/*
 * pool_imports.c - how often the library imports a CUDA pool, and when it destroys the import: on the same stand-in for
 * libcuda as pools.c.
 *
 * usage: pool_imports TEST
 */
#include <sys/syscall.h>

#include "pool_importer.h"

/* The program has freed it, no export of the pool is left, and then other memory of it is exported: it is imported twice. */
static void again(void)
{
	struct peerdma_ipc_memory *old = NULL, *m = NULL;
	struct peerdma_ipc_handle h;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	CHECK(!OPEN(&h, &old) && log_is("iap"), "memory of a pool");
	fake_pool_lose(false);
	CHECK(!OPEN(&h, &m) && m != old && !peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is("pf"), "freed by the program, opened again, closed");
	CHECK(!ASK(UNEXPORT, .n = 0).ret, "no export of the pool is left");
	h = exported(0, 1, 8);
	CHECK(!OPEN(&h, &m) && byte_at(m, 0) == 8 && log_is("ip") && fake_pools.pools == 1, "other memory of it is opened");
	CHECK(!peerdma_ipc_close(old) && byte_at(m, 0) == 8 && log_is(""), "and stays so when the first one is closed");
	fake_pools.destroy_error = 999;
	CHECK(!ASK(FREE, .n = 1).ret && !peerdma_ipc_close(m) && log_is("f"), "closed, and an import of two is not destroyed");
	fake_pools.destroy_error = 0;
	CHECK(!peerdma_ipc_trim_pools() && log_is("dd") && nothing_left(), "destroyed as often as imported");
	end();
}

/* The first two exports of a pool are made at once: it is imported once for both. */
static void numbered(void)
{
	struct peerdma_ipc_memory *m[2] = { NULL };
	struct peerdma_ipc_handle h;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	for (int i = 0; i < 2; i++)
		CHECK(!ASK(ALLOC, .pool = 0, .n = i, .fill = (uint8_t)i).ret, "memory");
	CHECK(!ASK(EXPORT_TWO, .n = 0).ret, "exported by two threads");
	for (int i = 0; i < 2; i++) {
		h = ASK(EXPORT, .n = i).handle;
		CHECK(!OPEN(&h, &m[i]) && byte_at(m[i], 0) == i, "opened");
	}
	CHECK(log_is("iapp"), "one pool");
	for (int i = 0; i < 2; i++)
		CHECK(!peerdma_ipc_close(m[i]), "closed");
	CHECK(!peerdma_ipc_trim_pools() && log_is("ffd") && nothing_left(), "nothing is left");
	end();
}

static time_t seconds_later;

/* The library's clock, too. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, t);

	t->tv_sec += seconds_later;
	return ret;
}

/* Opened, closed, and unmapped, but not given back: memory of a pool, which the exporter then frees. */
static void used(int pool)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h = exported(pool, 0, 7);

	CHECK(!OPEN(&h, &m) && !ASK(FREE, .n = 0).ret && !peerdma_ipc_close(m), "memory of pool %d was open", pool);
}

/* The import of a pool outlives what is open of it, because its destruction beside other threads may fail in NVIDIA's driver. */
static void kept(void)
{
	struct peerdma_ipc_memory *m = NULL, *host = NULL;
	struct peerdma_ipc_handle h;
	void *context = fake_ipc_cuda.context;

	begin();
	h = ASK(EXPORT_HOST).handle;
	CHECK(!OPEN(&h, &host), "host memory");
	for (int i = 0; i < 18; i++)
		ASK(MAKE, .pool = i, .flags = true);
	ASK(ALLOC, .pool = 17, .n = 1, .fill = 5);
	h = ASK(EXPORT, .n = 1).handle;
	for (int i = 0; i < 3; i++)
		used(0);
	CHECK(log_is("iapfipfdipfd"), "imported again by another number, and never destroyed to the last");
	CHECK(fake_pools.pools == 1, "it stays");
	fake_ipc_cuda.context = NULL;
	CHECK(!peerdma_ipc_trim() && peerdma_ipc_trim_pools() == -ENODEV && log_is(""), "without a context it is not given back: %s",
	      peerdma_last_error());
	fake_ipc_cuda.context = context;
	CHECK(!peerdma_ipc_trim() && log_is("") && !peerdma_ipc_trim_pools() && log_is("d") && !fake_pools.pools, "by a trim of pools it is");

	used(0);
	seconds_later += 9;
	CHECK(!OPEN(&h, &m) && !peerdma_ipc_close(m) && log_is("iapfiap"), "9 seconds later it is still there");
	seconds_later += 2;
	CHECK(!OPEN(&h, &m) && log_is("") && !peerdma_ipc_close(host) && log_is("d"), "after 11 the next close destroys it, of any memory");
	peerdma_ipc_close(m);
	CHECK(!peerdma_ipc_trim_pools() && log_is("fd") && nothing_left(), "nothing is left");

	for (int i = 0; i < 16; i++)
		used(i);
	CHECK(fake_pools.pools == 16, "16 stay");
	forget_log();
	used(16);
	CHECK(fake_pools.pools == 16 && log_is("iapfd"), "the one that was used first goes for the next");
	used(16);
	CHECK(fake_pools.pools == 16 && log_is("ipfd"), "which stays");

	CHECK(!OPEN(&h, &m) && log_is("iap"), "of another pool");
	ASK(KILL);
	waitpid(exporter, NULL, 0);
	CHECK(fake_pools.pools == 17 && !peerdma_ipc_close(m) && log_is("fddddddddddddddddd") && nothing_left(), "all go when the exporter has ended");
}

/* The program has freed it itself: it is not freed again, and the pool is given back. */
static void gone(void)
{
	struct peerdma_ipc_memory *m = NULL, *other = NULL, *again = NULL;
	struct peerdma_ipc_handle h[2];

	begin_with(h, 2);
	CHECK(!OPEN(&h[0], &m) && log_is("iap"), "opened");
	fake_pool_lose(false);
	CHECK(!OPEN(&h[1], &other) && byte_at(other, 0) == 8 && log_is("p"), "freed; other memory of that pool is opened");
	CHECK(!OPEN(&h[0], &again) && again != m && byte_at(again, 0) == 7 && log_is("p"), "and the same, again");
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is("") && byte_at(again, 0) == 7, "the first one, closed");
	CHECK(!peerdma_ipc_close(again) && !peerdma_ipc_close(other) && !peerdma_ipc_trim_pools() && log_is("ffd") && nothing_left(), "and the others");
	for (int others = 0; others < 2; others++) {
		CHECK(!OPEN(&h[0], &m) && !OPEN(&h[1], &other) && log_is("iapp"), "opened");
		fake_pool_lose(others);
		CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_close(other) && !peerdma_ipc_trim_pools() && log_is(others ? "" : "d"),
		      "freed, and %s there: closed", others ? "other memory is" : "nothing is");
	}
	fake_pool_lose(false);
	end();
}

/* The one that has the pool's import was freed by the program; then the other is closed, and after that the first. */
static void gone_heir(void)
{
	struct peerdma_ipc_memory *m = NULL, *other = NULL;
	struct peerdma_ipc_handle h[2];

	begin_with(h, 2);
	CHECK(!OPEN(&h[0], &m) && !OPEN(&h[1], &other) && log_is("iapp"), "opened");
	fake_pool_lose(false);
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is(""), "the one that imported the pool is closed: the pool stays");
	CHECK(!OPEN(&h[0], &m) && byte_at(m, 0) == 7 && log_is("p"), "and is not imported again");
	CHECK(!peerdma_ipc_close(other) && !peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is("fd") && nothing_left(), "closed");
	end();
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "again", again }, { "numbered", numbered }, { "kept", kept }, { "gone", gone }, { "gone-heir", gone_heir },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
