// SPDX-License-Identifier: MIT
/*
 * pools.c - memory of CUDA's stream-ordered pools, between processes: on a stand-in for libcuda
 * (stand-in/fake_pool.h), whose pools reuse freed addresses at once, and whose calls fail on demand.
 *
 * usage: pools TEST
 */
#include <pthread.h>

#ifdef NOMEM
#include "../lib/failing_malloc.h"
#endif
#include "pool_importer.h"

static int copy(struct peerdma_ipc_memory *m, void *local, uint32_t flags, enum peerdma_ipc_path *path)
{
	struct peerdma_ipc_transfer t = { .size = sizeof(t), .flags = flags, .memory = m, .local = local, .length = LENGTH };
	int ret = peerdma_ipc_copy(&t, 1, NULL, 0);

	*path = t.path;
	return ret;
}

/* Many small pieces in another order: what a kernel is faster for, where one can make them. */
static int copy_scattered(struct peerdma_ipc_memory *m, unsigned long long local, enum peerdma_ipc_path *path)
{
	struct peerdma_ipc_transfer t[16];
	int ret;

	for (unsigned int i = 0; i < 16; i++)
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .flags = PEERDMA_IPC_READ | PEERDMA_IPC_KERNEL, .memory = m, .offset = i * 7 % 16 * 64,
			.local = (char *)(uintptr_t)local + i * 64, .length = 64 - i,
		};
	ret = peerdma_ipc_copy(t, 16, NULL, 0);
	*path = t[0].path;
	return ret;
}

static void shared(void)
{
	struct peerdma_ipc_memory *m[2] = { NULL }, *again = NULL;
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	struct peerdma_ipc_handle h[2];
	enum peerdma_ipc_path path;
	static uint8_t local[LENGTH];

	begin_with(h, 2);
	for (int i = 0; i < 2; i++)
		CHECK(!OPEN(&h[i], &m[i]) && byte_at(m[i], 0) == i + 7 && byte_at(m[i], LENGTH - 1) == i + 7, "allocation %d of a pool", i);
	CHECK(log_is("iapp"), "the pool is imported once, and made accessible once");
	CHECK(!OPEN(&h[0], &again) && again == m[0] && !peerdma_ipc_close(again) && log_is(""), "opened again: a lookup");
	CHECK(!peerdma_ipc_query((char *)m[1]->ptr + 5, &info) && !strcmp(info.provider, "cuda-pool") && info.pid == exporter &&
	      info.length == LENGTH && info.live && !strcmp(info.pci, "0000:0a:00.0"), "whose it is: %s", info.provider);
	CHECK(peerdma_ipc_export(m[0]->ptr, 1, PEERDMA_IPC_I_UNEXPORT, &h[0]) == -EEXIST, "an import is not exported");
	memset(local, 3, sizeof(local));
	CHECK(!copy(m[1], local, 0, &path) && path == PEERDMA_IPC_PATH_CUDA && ASK(READ, .n = 1).byte == 3 && ASK(READ, .n = 0).byte == 7,
	      "CUDA copies to it, and to no other");
	CHECK(!copy(m[0], local, PEERDMA_IPC_READ, &path) && path == PEERDMA_IPC_PATH_CUDA && local[LENGTH - 1] == 7, "and from it");
	peerdma_ipc_close(m[0]);
	peerdma_ipc_close(m[1]);
	CHECK(log_is("") && !peerdma_ipc_trim_pools() && log_is("ffd"), "closed: all memory of the pool first");
	CHECK(nothing_left(), "nothing is left");
	end();
}

/* Of two GPUs: a kernel copies what its GPU may touch. */
static void devices(void)
{
	struct peerdma_ipc_memory *m = NULL, *second = NULL;
	struct peerdma_ipc_handle h[2];
	unsigned long long mine[2];
	enum peerdma_ipc_path path;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	for (int i = 0; i < 2; i++)
		h[i] = exported(0, i, 5);
	fake_pools.devices = 3;
	fake_pools.no_access = 2;
	CHECK(!OPEN(&h[0], &m) && log_is("iaap"), "two of three GPUs may touch it");
	for (int i = 0; i < 2; i++) {
		fake_ipc_cuda.device = i;
		fake_ipc_cuda.shareable = 1;
		CHECK(!cuMemAlloc_v2(&mine[i], LENGTH), "memory of GPU %d", i);
		CHECK(!copy_scattered(m, mine[i], &path) &&
		      path == PEERDMA_IPC_PATH_KERNEL && *(uint8_t *)(uintptr_t)mine[i] == 5, "its kernel copies");
	}
	CHECK(!OPEN(&h[1], &second) && log_is("p"), "by the other GPU");
	CHECK(!copy_scattered(second, mine[1], &path) && path == PEERDMA_IPC_PATH_KERNEL,
	      "a kernel copies from that, too");
	peerdma_ipc_close(second);
	fake_ipc_cuda.device = 2;
	CHECK(!peerdma_ipc_trim_pools() && log_is("f") && OPEN(&h[1], &second) == -EIO && strstr(peerdma_last_error(), "cuMemPoolSetAccess") &&
	      log_is(""), "a GPU that cannot: %s", peerdma_last_error());
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is("fd") && nothing_left(), "closed");
	end();
}

static void frees(void)
{
	struct peerdma_ipc_memory *m[2] = { NULL }, *next = NULL, *again;
	struct peerdma_ipc_handle h[2], after;
	enum peerdma_ipc_path path;
	static uint8_t local[LENGTH];
	unsigned long long was;
	char other_context;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	for (int i = 0; i < 2; i++) {
		h[i] = exported(0, i, (uint8_t)(i + 7));
		CHECK(!OPEN(&h[i], &m[i]), "opened");
	}
	CHECK(!ASK(FREE, .n = 0).ret && !peerdma_ipc_valid(m[0]) && peerdma_ipc_valid(m[1]), "one is freed: known, and of that one only");
	CHECK(OPEN(&h[0], &again) == -ESTALE, "its handle opens nothing");
	CHECK(copy(m[0], local, PEERDMA_IPC_READ, &path) == -ESTALE, "nor is it copied");
	/* What peerdma_ipc.h says of pools. */
	was = (uintptr_t)m[0]->ptr;
	after = exported(0, 0, 9);
	CHECK(byte_at(m[0], 0) == 7, "the pool has given the address again; what is open has the old bytes");
	forget_log();
	CHECK(OPEN(&after, &next) == -EADDRINUSE && strstr(peerdma_last_error(), "close it first"), "what is there now, while that is open: %s",
	      peerdma_last_error());
	CHECK(byte_at(m[0], 0) == 7 && !peerdma_ipc_valid(m[0]) && fake_pools.pointers == 2 && log_is(""), "nor does that see it");
	/* In another context CUDA is asked whether it is there still. */
	fake_ipc_cuda.context = &other_context;
	CHECK(!peerdma_ipc_close(m[0]) && log_is("f") && !OPEN(&after, &next) && log_is("p"), "the old one closed: opened");
	CHECK((uintptr_t)next->ptr == was && byte_at(next, 1) == 9 && peerdma_ipc_valid(next), "at that address");
	CHECK(byte_at(m[1], 0) == 8, "the pool's other memory is there");
	peerdma_ipc_close(next);
	peerdma_ipc_close(m[1]);
	CHECK(!ASK(DESTROY, .pool = 0).ret && !peerdma_ipc_trim_pools() && log_is("ffd") && nothing_left(), "nothing is left");
	end();
}

/* The next pool has the handle that the last one had. */
static void another_pool(void)
{
	struct peerdma_ipc_memory *old = NULL, *m = NULL;
	struct peerdma_ipc_handle h;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	CHECK(!OPEN(&h, &old) && log_is("iap"), "memory of a pool");
	CHECK(!ASK(FREE, .n = 0).ret && !ASK(DESTROY, .pool = 0).ret && !ASK(MAKE, .pool = 0, .flags = true).ret, "another pool");
	h = exported(0, 0, 8);
	CHECK(OPEN(&h, &m) == -EADDRINUSE && log_is("") && byte_at(old, 0) == 7, "its memory, at the same address: %s", peerdma_last_error());
	CHECK(!peerdma_ipc_close(old) && log_is("f") && !OPEN(&h, &m) && byte_at(m, 0) == 8 && log_is("iap") && fake_pools.pools == 2,
	      "the old one closed: opened");
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is("fdd") && nothing_left(), "closed");
	end();
}

/* NVIDIA's driver may map only a part of what is imported beside memory that the exporter has freed already. */
static void beside(void)
{
	struct peerdma_ipc_memory *old = NULL, *m = NULL;
	struct peerdma_ipc_handle h[3];

	begin_with(h, 2);
	CHECK(!OPEN(&h[0], &old) && !ASK(FREE, .n = 0).ret && log_is("iap"), "memory of a pool, which is freed");
	h[2] = exported(0, 2, 9);
	for (int i = 1; i < 3; i++)
		CHECK(OPEN(&h[i], &m) == -EADDRINUSE && strstr(peerdma_last_error(), "close it first") && log_is(""), "%s memory of the pool: %s",
		      i == 1 ? "older" : "newer", peerdma_last_error());
	CHECK(!peerdma_ipc_close(old) && log_is("f") && !OPEN(&h[2], &m) && byte_at(m, 0) == 9 && log_is("p"), "closed: it can be opened");
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is("fd") && nothing_left(), "closed");
	fake_pools.partly = 1;
	CHECK(OPEN(&h[2], &m) == -EIO && strstr(peerdma_last_error(), "less memory") && log_is("iapf"), "mapped but for a byte: %s",
	      peerdma_last_error());
	CHECK(!peerdma_ipc_trim_pools() && log_is("d") && nothing_left(), "closed");
	end();
}

/* While a graph is recorded, and before anything else in this process has asked CUDA. */
static void captured(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	fake_ipc_cuda.capturing = 1;
	CHECK(!OPEN(&h, &m) && log_is("iap") && !fake_ipc_cuda.unsafe, "opened: %s", peerdma_last_error());
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && nothing_left() && !fake_ipc_cuda.unsafe, "closed");
	end();
}

/* The same memory is exported again. */
static void anew(void)
{
	struct peerdma_ipc_memory *old = NULL, *m = NULL;
	struct answer a;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	a.handle = exported(0, 0, 7);
	CHECK(!OPEN(&a.handle, &old) && !ASK(UNEXPORT, .n = 0).ret, "opened, and the export ended");
	a = ASK(EXPORT, .n = 0);
	CHECK(OPEN(&a.handle, &m) == -EADDRINUSE && byte_at(old, 0) == 7, "exported anew, and not opened beside");
	CHECK(!peerdma_ipc_close(old) && !OPEN(&a.handle, &m) && byte_at(m, 0) == 7, "opened when the first one is closed");
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && nothing_left(), "closed");
	end();
}

/* It has ended, and has no reference: it is closed. */
static void cached(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	CHECK(!OPEN(&h, &m) && !peerdma_ipc_close(m) && !ASK(FREE, .n = 0).ret && log_is("iap"), "opened, closed, freed");
	h = exported(0, 0, 8);
	CHECK(!OPEN(&h, &m) && byte_at(m, 0) == 8 && log_is("fip"), "closed for the next one, by which the pool is known then");
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && nothing_left(), "closed");
	end();
}

static unsigned int exchanges;

/*
 * After the look at what has ended, and before the import: the first time, and the second one. Between them are the end of the
 * first, and the beginning and end of a close.
 */
static void frees_next(void)
{
	exchanges++;
	if (exchanges == 1 || exchanges == 5)
		ASK(FREE, .n = (int)(exchanges / 5));
}

/* What is cached ends while something else is opened, one after the other: nothing that the program has open is in the way. */
static void cached_meanwhile(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h[3];

	begin_with(h, 3);
	for (int i = 0; i < 2; i++)
		CHECK(!OPEN(&h[i], &m) && !peerdma_ipc_close(m), "opened and closed");
	fake_ipc_cuda.exchanging = frees_next;
	CHECK(!OPEN(&h[2], &m) && byte_at(m, 0) == 9 && !peerdma_ipc_trim_pools() && log_is("iappffp"), "opened: %s", peerdma_last_error());
	fake_ipc_cuda.exchanging = NULL;
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && nothing_left(), "closed");
	end();
}

/* ---- two threads ---- */

static _Atomic unsigned int at_once, most;

/* Gives the other thread time to come by. */
static void importing(void)
{
	unsigned int now = ++at_once;

	if (now > most)
		most = now;
	usleep(20000);
	at_once--;
}

/* In the thread that is slow: between what it decides and what it does. */
static _Thread_local bool slow;
static _Atomic bool in_between;

static void exchanging(void)
{
	if (!slow)
		return;
	in_between = true;
	usleep(100000);
}

static void *closes_slowly(void *memory)
{
	slow = true;
	return peerdma_ipc_close(memory) ? NULL : memory;
}

static void *opens(void *handle)
{
	struct peerdma_ipc_memory *m = NULL;

	return OPEN((struct peerdma_ipc_handle *)handle, &m) ? NULL : m;
}

static void two_at_once(struct peerdma_ipc_handle h[2], struct peerdma_ipc_memory *m[2])
{
	pthread_t threads[2];
	void *opened;

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, opens, &h[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &opened);
		m[i] = opened;
	}
}

static void threads(void)
{
	struct peerdma_ipc_memory *m[2] = { NULL };
	struct peerdma_ipc_handle h[2];
	pthread_t thread;
	void *closed;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	for (int i = 0; i < 2; i++)
		h[i] = exported(0, i, (uint8_t)(i + 1));
	fake_pools.imported = importing;
	two_at_once(h, m);
	if (CHECK(m[0] && m[1] && fake_pools.pools == 1 && most == 1, "two threads, one after the other: %u", most))
		CHECK(byte_at(m[0], 0) == 1 && byte_at(m[1], 0) == 2, "each has its memory");
	CHECK(!peerdma_ipc_close(m[0]) && !peerdma_ipc_close(m[1]) && !peerdma_ipc_trim_pools() && nothing_left(), "closed");
	fake_pools.import_error = 999;
	two_at_once(h, m);
	CHECK(!m[0] && !m[1] && nothing_left(), "neither, if it cannot be imported");
	fake_pools.import_error = 0;
	/* The thread that closes what the exporter has freed takes its time: the open of what is there now waits for that. */
	CHECK(!OPEN(&h[0], &m[0]) && !ASK(FREE, .n = 0).ret, "opened, and freed");
	h[0] = exported(0, 0, 4);
	fake_pools.imported = NULL;
	fake_ipc_cuda.exchanging = exchanging;
	pthread_create(&thread, NULL, closes_slowly, m[0]);
	while (!in_between)
		usleep(100);
	CHECK(!OPEN(&h[0], &m[0]) && byte_at(m[0], 0) == 4, "opened when that is closed: %s", peerdma_last_error());
	pthread_join(thread, &closed);
	CHECK(closed && !peerdma_ipc_close(m[0]) && !peerdma_ipc_trim_pools() && nothing_left(), "nothing is left");
	end();
}

/* What another thread is closing is unmapped, too, when a trim returns. */
static void trimmed(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;
	pthread_t thread;
	void *closed;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 1);
	CHECK(!OPEN(&h, &m) && !ASK(FREE, .n = 0).ret && log_is("iap"), "opened, and freed");
	fake_ipc_cuda.exchanging = exchanging;
	pthread_create(&thread, NULL, closes_slowly, m);
	while (!in_between)
		usleep(100);
	CHECK(!peerdma_ipc_trim() && log_is("f"), "unmapped by another thread");
	pthread_join(thread, &closed);
	CHECK(closed && !peerdma_ipc_trim_pools() && nothing_left(), "nothing is left");
	end();
}

static struct peerdma_ipc_memory *overtaking;

/* Once, and in another thread than the one that opens. */
static void *frees_and_opens(void *arg)
{
	struct peerdma_ipc_handle h;

	ASK(FREE, .n = 0);
	h = exported(0, 0, 8);
	CHECK(!OPEN(&h, &overtaking) && byte_at(overtaking, 0) == 8, "what is there now is opened meanwhile");
	return NULL;
}

static void overtake(void)
{
	pthread_t thread;

	fake_ipc_cuda.exchanging = NULL;
	pthread_create(&thread, NULL, frees_and_opens, NULL);
	pthread_join(thread, NULL);
}

/* An exporter's answer is late: its memory is not shown in the place of what another thread has opened there. */
static void overtaken(void)
{
	struct peerdma_ipc_memory *first = NULL, *m = NULL;
	struct peerdma_ipc_handle h[2];

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	for (int i = 0; i < 2; i++)
		h[i] = exported(0, i, (uint8_t)(i + 6));
	CHECK(!OPEN(&h[1], &first), "other memory");
	forget_log();
	fake_ipc_cuda.exchanging = overtake;
	CHECK(OPEN(&h[0], &m) == -ESTALE && overtaking, "freed after the exporter has answered");
	CHECK(byte_at(overtaking, 0) == 8 && peerdma_ipc_valid(overtaking) && log_is("p"), "what is there now stays there");
	CHECK(!peerdma_ipc_close(overtaking) && !peerdma_ipc_close(first) && !peerdma_ipc_trim_pools() && nothing_left(), "closed");
	end();
}

static pthread_mutex_t posts = PTHREAD_MUTEX_INITIALIZER;
static struct peerdma_ipc_handle posted;
static uint8_t posted_fill;
static _Atomic bool stop;
static _Atomic unsigned int opened_all, refused_all, wrong_all;

/* While another thread's open may put other memory there: ThreadSanitizer takes that for a race. */
__attribute__((noinline, no_sanitize("thread")))
static uint8_t first_byte(const struct peerdma_ipc_memory *m)
{
	return *(volatile uint8_t *)m->ptr;
}

static void *opens_and_closes(void *arg)
{
	struct peerdma_ipc_memory *m[2] = { NULL };
	struct peerdma_ipc_handle h;

	for (unsigned int i = 0; !stop; i++) {
		struct peerdma_ipc_memory **one = &m[i % 2];
		uint8_t fill, byte;
		int ret;

		peerdma_ipc_close(*one);
		*one = NULL;
		pthread_mutex_lock(&posts);
		h = posted;
		fill = posted_fill;
		pthread_mutex_unlock(&posts);
		ret = OPEN(&h, one);
		if (ret) {
			refused_all++;
			wrong_all += ret != -EADDRINUSE && ret != -ESTALE;
			continue;
		}
		opened_all++;
		byte = first_byte(*one);
		wrong_all += peerdma_ipc_valid(*one) && byte != fill;
	}
	for (int i = 0; i < 2; i++)
		wrong_all += !!peerdma_ipc_close(m[i]);
	return NULL;
}

/* Two threads open and close what is at one address, which is freed and exported again and again. */
static void races(void)
{
	pthread_t all[2];

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	ASK(ALLOC, .pool = 0, .n = 0, .fill = 0);
	posted = ASK(EXPORT, .n = 0).handle;
	for (int i = 0; i < 2; i++)
		pthread_create(&all[i], NULL, opens_and_closes, NULL);
	for (unsigned int i = 1; i <= 1000; i++) {
		struct answer a;

		wrong_all += !!ASK(FREE, .n = 0).ret || !!ASK(ALLOC, .pool = 0, .n = 0, .fill = (uint8_t)i).ret;
		a = ASK(EXPORT, .n = 0);
		wrong_all += !!a.ret;
		pthread_mutex_lock(&posts);
		posted = a.handle;
		posted_fill = (uint8_t)i;
		pthread_mutex_unlock(&posts);
		usleep(i % 8 * 50);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(all[i], NULL);
	CHECK(!wrong_all && opened_all > 20, "%u opens, %u refused, %u wrong", opened_all, refused_all, wrong_all);
	CHECK(!peerdma_ipc_trim_pools() && nothing_left(), "nothing is left");
	end();
}

/* ---- errors ---- */

static void refuses(struct ask q, int ret, const char *text)
{
	struct answer a;

	q.op = EXPORT;
	q.n = q.pool;
	a = ask(q);
	CHECK(a.ret == ret && strstr(a.text, text), "%d: %s", a.ret, a.text);
}

static void not_exported(void)
{
	unsigned int before, inherited;

	begin();
	for (int i = 0; i < 2; i++) {
		ASK(MAKE, .pool = i, .flags = !i);
		ASK(ALLOC, .pool = i, .n = i);
	}
	exported(0, 2, 1);	/* what the first export makes is there */
	before = ASK(COUNT).descriptors;
	inherited = ASK(COUNT).inherited;
	refuses((struct ask) { .pool = 1 }, -EOPNOTSUPP, "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
	refuses((struct ask) { .pool = 1, .call = GPU }, -EOPNOTSUPP, "inside a process");
	refuses((struct ask) { .flags = PEERDMA_IPC_ANY_USER }, -EOPNOTSUPP, "PEERDMA_IPC_ANY_USER");
	refuses((struct ask) { .call = HOST }, -EOPNOTSUPP, "host memory cannot be exported");
	refuses((struct ask) { .call = LONG }, -EOPNOTSUPP, "more than 4 GiB");
	refuses((struct ask) { .call = EXPORT_POOL, .error = 801 }, -EOPNOTSUPP, "not made to be shared");
	refuses((struct ask) { .call = EXPORT_POOL, .error = 999 }, -EIO, "cuMemPoolExportToShareableHandle failed with CUDA error 999");
	refuses((struct ask) { .call = EXPORT_POOL, .error = 304 }, -EIO, "CUDA error 304");
	refuses((struct ask) { .call = FULL, .error = 304 }, -EMFILE, "from now on");
	refuses((struct ask) { .call = EXPORT_POINTER, .error = 999 }, -EIO, "cuMemPoolExportPointer failed with CUDA error 999");
	CHECK(ASK(COUNT).descriptors == before, "no descriptor is left");
	CHECK(!ASK(EXPORT, .n = 0).ret && ASK(COUNT).descriptors == before + 1 && ASK(COUNT).inherited == inherited,
	      "it can be exported: with one descriptor, which no program inherits");
	CHECK(!ASK(UNEXPORT, .n = 0).ret && ASK(COUNT).descriptors == before, "which is closed with it");
	CHECK(!ASK(FAIL, .flags = true).ret && !ASK(EXPORT, .n = 0).ret, "while a graph is recorded");
	end();
}

static void not_opened_then(const struct peerdma_ipc_handle *h, int *error, int value, int ret, const char *text, const char *calls)
{
	struct peerdma_ipc_memory *m = NULL;
	int got;

	*error = value;
	got = OPEN(h, &m);
	CHECK(got == ret && strstr(peerdma_last_error(), text), "%d: %s", got, peerdma_last_error());
	*error = 0;
	CHECK(!peerdma_ipc_trim_pools() && log_is(calls) && nothing_left(), "undone");
}

static void not_opened(void)
{
	struct peerdma_ipc_memory *m = NULL;
	void *context = fake_ipc_cuda.context;
	struct peerdma_ipc_handle h;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	not_opened_then(&h, &fake_pools.import_error, 999, -EIO, "cuMemPoolImportFromShareableHandle failed with CUDA error 999", "");
	not_opened_then(&h, &fake_pools.import_error, 2, -ENOMEM, "cuMemPoolImportFromShareableHandle", "");
	not_opened_then(&h, &fake_pools.access_error, 999, -EIO, "cuMemPoolSetAccess failed with CUDA error 999", "id");
	not_opened_then(&h, &fake_pools.access_error, 2, -ENOMEM, "cuMemPoolSetAccess", "id");
	not_opened_then(&h, &fake_pools.import_pointer_error, 999, -EIO, "cuMemPoolImportPointer failed with CUDA error 999", "iad");
	/* It is tried twice: what is in the way may be closed. */
	not_opened_then(&h, &fake_pools.import_pointer_error, 208, -EADDRINUSE, "close it first", "iad");
	fake_ipc_cuda.context = NULL;
	CHECK(OPEN(&h, &m) == -ENODEV && log_is(""), "no context");
	fake_ipc_cuda.context = context;
	fake_ipc_cuda.capturing = 1;
	CHECK(!OPEN(&h, &m) && !peerdma_ipc_close(m) && !peerdma_ipc_trim_pools() && log_is("iapfd") && !fake_ipc_cuda.unsafe,
	      "while a graph is recorded");
	fake_ipc_cuda.capturing = 0;

	CHECK(!OPEN(&h, &m) && !peerdma_ipc_close(m) && log_is("iap"), "opened");
	fake_pools.destroy_error = 999;
	CHECK(!peerdma_ipc_trim_pools() && log_is("f"), "not destroyed, about which the caller can do nothing");
	fake_pools.destroy_error = 0;
	CHECK(!OPEN(&h, &m) && !peerdma_ipc_close(m) && log_is("iap"), "opened");
	fake_pools.free_error = 999;
	CHECK(peerdma_ipc_trim_pools() == -EIO && strstr(peerdma_last_error(), "cuMemFree failed with CUDA error 999") && log_is(""),
	      "not freed");
	fake_pools.free_error = 0;
	fake_pools.wrong = 0;		/* the stand-in counts the destruction of a pool with memory */
	CHECK(OPEN(&h, &m) == -EIO && strstr(peerdma_last_error(), "could not be unmapped") && log_is(""), "nothing of that exporter's is opened any more");
	end();
}

/* ---- contexts ---- */

static void contexts(void)
{
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	void *context = fake_ipc_cuda.context;
	struct peerdma_ipc_handle h;
	char other_context;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	CHECK(!OPEN(&h, &m) && log_is("iap"), "opened");
	fake_ipc_cuda.context = &other_context;
	CHECK(!OPEN(&h, &again) && again == m && !peerdma_ipc_close(again) && log_is(""), "in another context: the same");
	CHECK(!ASK(FREE, .n = 0).ret, "freed");
	fake_ipc_cuda.context = NULL;
	CHECK(!peerdma_ipc_close(m) && log_is("") && peerdma_ipc_trim() == -ENODEV && log_is(""), "without a context it cannot be unmapped: %s",
	      peerdma_last_error());
	fake_ipc_cuda.context = &other_context;
	fake_ipc_cuda.destroyed = true;
	CHECK(peerdma_ipc_trim() == -ENODEV && log_is(""), "nor in one that was destroyed");
	h = exported(0, 1, 8);
	CHECK(OPEN(&h, &again) == -ENODEV && strstr(peerdma_last_error(), "was destroyed") && log_is(""), "nor is anything opened: %s",
	      peerdma_last_error());
	fake_ipc_cuda.destroyed = false;
	CHECK(!peerdma_ipc_trim_pools() && log_is("fd") && nothing_left(), "in any other it can");
	fake_ipc_cuda.context = context;
	end();
}

static void killed(void)
{
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	struct peerdma_ipc_handle h;
	enum peerdma_ipc_path path;
	static uint8_t local[LENGTH];

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	CHECK(!OPEN(&h, &m), "opened");
	ASK(KILL);
	waitpid(exporter, NULL, 0);
	CHECK(!peerdma_ipc_valid(m) && byte_at(m, 0) == 7, "the exporter was killed; the bytes are there");
	CHECK(OPEN(&h, &again) == -EOWNERDEAD && copy(m, local, PEERDMA_IPC_READ, &path) == -EOWNERDEAD, "nothing is opened or copied");
	CHECK(!peerdma_ipc_close(m) && log_is("iapfd") && nothing_left(), "closed");
}

#ifdef NOMEM
/* The first, second, third ... allocation of an open fails. */
static void nomem(void)
{
	struct peerdma_ipc_memory *m;
	struct peerdma_ipc_handle h;
	unsigned int n;
	int ret = 0;

	begin();
	ASK(MAKE, .pool = 0, .flags = true);
	h = exported(0, 0, 7);
	for (n = 1; n < 50; n++) {
		failed = false;
		fail_in = n;
		ret = OPEN(&h, &m);
		fail_in = 0;
		if (!ret)
			peerdma_ipc_close(m);
		peerdma_ipc_trim_pools();
		if (!failed)
			break;
		CHECK((!ret || ret == -ENOMEM) && nothing_left(), "allocation %u fails: %d", n, ret);
	}
	CHECK(n > 3 && !ret && nothing_left(), "without failures after %u: %d", n - 1, ret);
	end();
}
#endif

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "shared", shared }, { "devices", devices }, { "frees", frees }, { "another-pool", another_pool },
		{ "beside", beside }, { "captured", captured },
		{ "anew", anew }, { "cached", cached }, { "cached-meanwhile", cached_meanwhile }, { "threads", threads }, { "trimmed", trimmed }, { "overtaken", overtaken },
		{ "races", races },
		{ "not-exported", not_exported }, { "not-opened", not_opened },
		{ "contexts", contexts }, { "killed", killed },
#ifdef NOMEM
		{ "nomem", nomem },
#endif
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
