// SPDX-License-Identifier: MIT
/*
 * memory.c - memory between two processes, call by call: exports, opens, copies and their ends, and what each
 * call returns for good and bad input.
 *
 * usage: memory TEST
 */
#include <sys/mman.h>

#include "other.h"
#include "util.h"

#define MIB (1UL << 20)

static bool all_are(const void *p, size_t n, uint8_t value)
{
	const uint8_t *b = p;

	while (n && *b == value) {
		b++;
		n--;
	}
	return !n;
}

static void memory(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = MIB, .offset = 4096, .fill = 7), b;
	struct peerdma_ipc_memory *m = NULL, *again = NULL, *part;
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	struct peerdma_ipc_counters counters = { .size = sizeof(counters) };
	uint64_t exporter = a.value;

	CHECK(!a.ret, "another process exports: %d", a.ret);
	CHECK(!OPEN(&a.handle, &m), "opens");
	CHECK(m->length == MIB - 4096 && all_are(m->ptr, m->length, 7), "every byte is the exporter's");
	memset(m->ptr, 9, 10);
	CHECK(!OPEN(&a.handle, &again) && again == m, "a second open is the same object");
	CHECK(peerdma_ipc_valid(m), "it is live");
	CHECK(!peerdma_ipc_query((char *)m->ptr + 100, &info), "a query knows it");
	CHECK(info.pid == o.pid && info.uid == getuid() && info.live && !strcmp(info.provider, "host") && info.length == MIB &&
	      info.offset == 4196 && info.exporter_ptr == exporter + 4196 && info.references == 2 &&
	      info.base + 4196 == (uintptr_t)m->ptr + 100, "whose it is");
	CHECK(peerdma_ipc_query(&info, &info) == -ENOENT, "the stack is not imported");
	b = ASK(&o, OTHER_OPEN, .handle = a.handle);
	CHECK(b.ret == -EEXIST, "its own memory it does not open: %d", b.ret);
	CHECK(peerdma_ipc_export(m->ptr, 10, PEERDMA_IPC_I_UNEXPORT, &a.handle) == -EEXIST, "an import is not exported");
	peerdma_ipc_counters(&counters);
	CHECK(counters.imports == 1 && counters.opens == 2 && counters.hits == 1, "counted");

	CHECK(!peerdma_ipc_close(again) && peerdma_ipc_valid(m), "one reference less");
	CHECK(!peerdma_ipc_close(m), "none left");
	b = ASK(&o, OTHER_FILL, .fill = 3);
	CHECK(!OPEN(&a.handle, &again) && all_are(again->ptr, again->length, 3), "cached, opened again, and not a copy");
	b = ASK(&o, OTHER_UNEXPORT);
	CHECK(!b.ret && !peerdma_ipc_valid(again), "the end of the export is seen");
	CHECK(OPEN(&a.handle, &part) == -ESTALE, "and the handle opens nothing");
	CHECK(all_are(again->ptr, again->length, 3), "what is open stays readable");
	peerdma_ipc_query(again->ptr, &info);
	CHECK(!info.live, "a query says that it ended");
	CHECK(!peerdma_ipc_close(again), "closed");
	peerdma_ipc_counters(&counters);
	CHECK(counters.imports == 0, "what has ended is not cached");
	CHECK(OPEN(&a.handle, &part) == -ESTALE, "asked anew, the exporter says so, too");

	/* The slot is used again: by other memory, whose handle is another. */
	b = ASK(&o, OTHER_ALLOC, .value = MIB, .fill = 5);
	CHECK(!b.ret && !OPEN(&b.handle, &m), "the next export");
	CHECK(OPEN(&a.handle, &part) == -ESTALE, "the old handle is not the new one's");
	other_end(&o, SIGKILL);
	CHECK(!peerdma_ipc_valid(m), "killed: seen");
	CHECK(all_are(m->ptr, m->length, 5), "and no fault");
	CHECK(OPEN(&b.handle, &part) == -EOWNERDEAD, "a dead exporter's handle");
	peerdma_ipc_close(m);
	CHECK(OPEN(&b.handle, &part) == -EOWNERDEAD, "also where nothing of it is open");
}

/* The exporter ends, in each way: the word changes by itself. */
static void ends(void)
{
	static const struct {
		const char *how;
		enum other_op op;
		int sig;
	} ways[] = { { "exit", OTHER_EXIT, 0 }, { "execve", OTHER_EXEC, 0 }, { "SIGKILL", OTHER_GET, SIGKILL }, { "SIGSEGV", OTHER_GET, SIGSEGV } };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct other o = other_make(getuid());
		struct other_answer a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 1), c;
		struct peerdma_ipc_memory *m, *second;
		uint64_t start;
		pid_t child;

		CHECK(!a.ret && !OPEN(&a.handle, &m) && peerdma_ipc_valid(m), "%s: live", ways[i].how);
		/* A child that it leaves behind keeps nothing alive. */
		c = ASK(&o, OTHER_FORK);
		child = (pid_t)c.value;
		if (ways[i].sig)
			kill(o.pid, ways[i].sig);
		else
			ASK(&o, ways[i].op);
		start = now_ns();
		while (peerdma_ipc_valid(m) && now_ns() - start < 5000000000ULL)
			;
		CHECK(!peerdma_ipc_valid(m), "%s: not live any more", ways[i].how);
		CHECK(OPEN(&a.handle, &second) == -EOWNERDEAD, "%s: -EOWNERDEAD", ways[i].how);
		peerdma_ipc_close(m);
		CHECK(OPEN(&a.handle, &second) == -EOWNERDEAD, "%s: not answered by a child either", ways[i].how);
		kill(child, SIGKILL);
		other_end(&o, SIGKILL);
	}
}

/* ---- what can be exported ---- */

static void exports(void)
{
	struct other o = other_make(getuid());
	struct peerdma_ipc_handle h, h2, first = { { 0 } };
	struct other_answer b;
	char name[] = "/tmp/peerdma-ipc-XXXXXX", *p, *plain = malloc(MIB), *reserved;
	struct peerdma_ipc_counters counters = { .size = sizeof(counters) };
	void *v;
	int fd = mkstemp(name);

	CHECK(peerdma_ipc_export(plain, 100, 0, &h) == -EOPNOTSUPP, "private memory");
	reserved = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(peerdma_ipc_export(reserved, 100, 0, &h) == -ENXIO && strstr(peerdma_last_error(), "reserved"), "addresses without memory: %s",
	      peerdma_last_error());
	munmap(reserved, 4096);
	CHECK(peerdma_ipc_export(plain, 0, 0, &h) == -EINVAL, "no bytes");
	CHECK(peerdma_ipc_export((void *)-8, 100, 0, &h) == -EINVAL, "past the end of addresses");
	CHECK(peerdma_ipc_export((void *)8, 100, 0, &h) == -ENXIO, "nothing there");
	CHECK(peerdma_ipc_export(plain, 1, 8, &h) == -EINVAL, "unknown flags");
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(peerdma_ipc_export(p, 100, PEERDMA_IPC_I_UNEXPORT, &h) == -EOPNOTSUPP, "shared memory without a file");
	munmap(p, 8192);

	CHECK(fd >= 0 && !ftruncate(fd, 16384), "a file");
	p = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(p, 2, 16384);
	CHECK(!peerdma_ipc_export(p + 4096, 100, PEERDMA_IPC_I_UNEXPORT, &h), "a file's mapping, by its descriptor");
	b = ASK(&o, OTHER_OPEN, .handle = h);
	CHECK(!b.ret && b.value == 2, "another opens it: %d", b.ret);
	CHECK(peerdma_ipc_export(p, 16385, PEERDMA_IPC_I_UNEXPORT, &h2) == -ENXIO, "a byte more than there is");
	CHECK(peerdma_ipc_export(p, 100, PEERDMA_IPC_I_UNEXPORT | PEERDMA_IPC_ANY_USER, &h2) == -EINVAL, "other flags");
	CHECK(!peerdma_ipc_export(p, 100, PEERDMA_IPC_I_UNEXPORT, &h2), "a second range");
	CHECK(!peerdma_ipc_unexport(&h), "taken back once");
	CHECK(!ASK(&o, OTHER_OPEN, .handle = h2).ret, "it is exported still");
	CHECK(!peerdma_ipc_unexport(&h2), "taken back");
	CHECK(ASK(&o, OTHER_OPEN, .handle = h2).ret == -ESTALE, "now it is not");
	CHECK(!peerdma_ipc_unexport(&h2), "once more does nothing");
	close(fd);
	CHECK(!peerdma_ipc_export(p, 100, PEERDMA_IPC_I_UNEXPORT, &h), "by its name");
	peerdma_ipc_unexport(&h);
	unlink(name);
	CHECK(peerdma_ipc_export(p, 100, PEERDMA_IPC_I_UNEXPORT, &h) == -EOPNOTSUPP, "neither descriptor nor name");
	munmap(p, 16384);

	CHECK(peerdma_ipc_alloc(0, 0, &v) == -EINVAL && peerdma_ipc_alloc(1, 1, &v) == -EINVAL, "no bytes, flags");
	CHECK(peerdma_ipc_alloc(SIZE_MAX - 5, 0, &v) == -ENOMEM, "all bytes");
	CHECK(!peerdma_ipc_alloc(100, 0, &v) && !peerdma_ipc_export(v, 4096, 0, &first), "allocated, and exported without a promise");
	CHECK(peerdma_ipc_export(v, 4097, 0, &h) == -ENXIO, "not past its pages");
	CHECK(peerdma_ipc_free((char *)v + 1) == -EINVAL && peerdma_ipc_free(plain) == -EINVAL && !peerdma_ipc_free(NULL), "what is no allocation");
	CHECK(!ASK(&o, OTHER_OPEN, .handle = first).ret, "opened");
	CHECK(!peerdma_ipc_free(v), "freed");
	CHECK(peerdma_ipc_free(v) == -EINVAL, "once");
	CHECK(ASK(&o, OTHER_OPEN, .handle = first).ret == -ESTALE, "no handle opens it");
	peerdma_ipc_counters(&counters);
	CHECK(!counters.exports && counters.ended == 1, "no export is left");
	free(plain);
	other_end(&o, SIGKILL);
}

/* munmap() of what is exported, seen by the monitor of host memory. */
static void monitored(void)
{
	struct other o = other_make(getuid());
	struct peerdma_ipc_handle h, h2;
	int fd = memfd_create("test", MFD_CLOEXEC), ret;
	char *p, *again;

	MUST(!ftruncate(fd, 65536));
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(p, 1, 65536);
	ret = peerdma_ipc_export(p, 65536, 0, &h);
	if (ret == -EOPNOTSUPP) {
		printf("skipped: %s\n", peerdma_last_error());
		exit(77);
	}
	CHECK(!ret, "exported without a promise");
	CHECK(!ASK(&o, OTHER_OPEN, .handle = h).ret, "opened");
	munmap(p, 65536);
	CHECK(ASK(&o, OTHER_OPEN, .handle = h).ret == -ESTALE, "unmapped: ended");
	again = mmap(p, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	memset(again, 2, 65536);
	CHECK(!peerdma_ipc_export(again, 65536, 0, &h2) && memcmp(&h, &h2, sizeof(h)), "at the same address: another handle");
	CHECK(ASK(&o, OTHER_OPEN, .handle = h2).value == 2 && ASK(&o, OTHER_OPEN, .handle = h).ret == -ESTALE, "only the new one opens");
	MUST(mmap(again + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	CHECK(ASK(&o, OTHER_OPEN, .handle = h2).ret == -ESTALE, "a page of it replaced: ended");
	other_end(&o, SIGKILL);
}

/* ---- copies ---- */

static void copies(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = MIB, .offset = 4096, .fill = 7), b;
	struct peerdma_ipc_counters counters = { .size = sizeof(counters) };
	struct peerdma_ipc_signal *late = NULL;
	struct peerdma_ipc_transfer t[3];
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_signal *done = NULL;
	char *local = calloc(1, MIB);
	static const struct {
		const char *what;
		uint64_t offset, length;
	} bad[] = {
		{ "a byte past the end", MIB - 4096, 1 }, { "one byte too long", 0, MIB - 4095 }, { "all", 0, UINT64_MAX },
		{ "wraps", UINT64_MAX, 2 }, { "wraps", 8, UINT64_MAX - 7 },
	};

	CHECK(!a.ret && !OPEN(&a.handle, &m) && !peerdma_ipc_signal_create(0, 0, &done), "ready");
	memset(t, 0, sizeof(t));
	for (int i = 0; i < 3; i++) {
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .memory = m, .local = local + 1000 * i, .length = 1000, .offset = 1000 * (uint64_t)i,
			.flags = PEERDMA_IPC_READ, .error = 1,
		};
	}
	CHECK(!peerdma_ipc_copy(t, 3, NULL, 0) && all_are(local, 3000, 7) && !local[3000], "read, in a batch");
	CHECK(!t[0].error && !t[2].error && t[0].path == PEERDMA_IPC_PATH_CPU, "by the CPU");
	memset(local, 8, 1000);
	t[0].flags = 0;
	CHECK(!peerdma_ipc_copy(t, 1, done, 4) && peerdma_ipc_signal_get(done) == 4, "written, with a signal");
	CHECK(all_are(m->ptr, 1000, 8) && all_are((char *)m->ptr + 1000, 1000, 7), "the bytes that were asked for");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		t[1].offset = bad[i].offset;
		t[1].length = bad[i].length;
		memset(local, 9, 1000);
		CHECK(peerdma_ipc_copy(t, 3, done, 5) == -EINVAL && all_are(m->ptr, 1000, 8) && peerdma_ipc_signal_get(done) == 4,
		      "%s: nothing was touched", bad[i].what);
	}
	t[1] = t[2];
	t[1].reserved[1] = 1;
	CHECK(peerdma_ipc_copy(t, 2, NULL, 0) == -EINVAL, "something reserved");
	t[1] = t[2];
	t[1].flags = 1U << 31;
	CHECK(peerdma_ipc_copy(t, 2, NULL, 0) == -EINVAL, "unknown flags");
	t[1].flags = 0;
	t[1].size = 8;
	CHECK(peerdma_ipc_copy(t, 2, NULL, 0) == -EINVAL, "another size");
	t[0].size = 8;
	CHECK(peerdma_ipc_copy(t, 1, NULL, 0) == -EINVAL, "a size that no release has");
	t[0].size = sizeof(t[0]);
	CHECK(peerdma_ipc_copy(t, 0, NULL, 0) == -EINVAL, "no transfers");
	peerdma_ipc_counters(&counters);
	CHECK(counters.copies[PEERDMA_IPC_PATH_CPU] == 4 && counters.bytes[PEERDMA_IPC_PATH_CPU] == 4000, "counted by path");
	/* A signal that its creator has closed: no waiter could be notified. */
	b = ASK(&o, OTHER_SIGNAL);
	CHECK(!b.ret && !peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &late) && !ASK(&o, OTHER_CLOSE).ret, "another's signal");
	memset(local, 6, 3000);
	t[1] = t[0];
	t[1].path = PEERDMA_IPC_PATH_CPU;
	CHECK(peerdma_ipc_copy(t, 2, late, 1) == -ESTALE && t[0].error == -ESTALE && t[1].error == -ESTALE &&
	      t[1].path == PEERDMA_IPC_PATH_NONE && all_are(m->ptr, 1000, 8), "its creator closed it: nothing is written");
	peerdma_ipc_signal_close(late);
	ASK(&o, OTHER_UNEXPORT);
	memset(local, 5, 3000);
	CHECK(peerdma_ipc_copy(t, 1, NULL, 0) == -ESTALE && t[0].error == -ESTALE && t[0].path == PEERDMA_IPC_PATH_NONE, "ended");
	CHECK(all_are(m->ptr, 1000, 8), "and nothing is written");
	t[2].flags = PEERDMA_IPC_READ;
	CHECK(peerdma_ipc_copy(t + 2, 1, NULL, 0) == -ESTALE && all_are(local, 3000, 5), "nor read");
	other_end(&o, SIGKILL);
	CHECK(peerdma_ipc_copy(t + 2, 1, NULL, 0) == -EOWNERDEAD, "the exporter is gone");
	peerdma_ipc_close(m);
	peerdma_ipc_signal_close(done);
	free(local);
}

/* ---- structs ---- */

static void structs(void)
{
	struct peerdma_ipc_info info = { .size = 8 };
	struct {
		struct peerdma_ipc_counters c;
		uint64_t more;
	} longer = { .c.size = sizeof(longer), .more = 5 };
	struct peerdma_ipc_counters c = { .size = 5000 };

	CHECK(peerdma_ipc_query(&info, &info) == -EINVAL, "too short");
	CHECK(peerdma_ipc_counters(&c) == -E2BIG, "too long");
	CHECK(!peerdma_ipc_counters(&longer.c) && !longer.more, "longer: zeroed");
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "memory", memory }, { "ends", ends }, { "exports", exports }, { "monitored", monitored }, { "copies", copies
		}, { "structs", structs },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
