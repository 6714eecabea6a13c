// SPDX-License-Identifier: MIT
/*
 * calls.c - what each call of peerdma_ipc.h returns for wrong arguments, in a forked child, and without free descriptors:
 * the errno, and a text that names the call and the reason. Also what a successful call fills in and counts.
 *
 * usage: calls TEST
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "other.h"
#include "peerdma_cache.h"
#include "util.h"

#define LENGTH 8192UL
#define REFUSED(call, error, begins, says) refused(__LINE__, (call), error, begins, says)

static void refused(int line, int ret, int error, const char *begins, const char *says)
{
	const char *text = peerdma_last_error();

	CHECK_AT(line, ret == error && !strncmp(text, begins, strlen(begins)) && strstr(text, says), "%s %s: %d", begins, says, ret);
}

/* ---- wrong arguments ---- */

static void wrong(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = LENGTH, .fill = 7), b = ASK(&o, OTHER_SIGNAL, .value = 5);
	struct peerdma_ipc_transfer t[2], good = { .size = sizeof(good), .flags = PEERDMA_IPC_READ, .length = 8 };
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	struct peerdma_ipc_counters counters = { .size = 4 };
	struct peerdma_ipc_signal *s = NULL, *mine = NULL;
	struct peerdma_ipc_handle h, mine_h;
	struct peerdma_ipc_memory *m = NULL;
	char bytes[LENGTH];
	void *p = (void *)1;

	CHECK(!OPEN(&a.handle, &m) && !peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &s), "opened");

	REFUSED(peerdma_ipc_alloc(0, 0, &p), -EINVAL, "peerdma_ipc_alloc: 0 bytes", "give a length");
	REFUSED(peerdma_ipc_alloc(1, 1, &p), -EINVAL, "peerdma_ipc_alloc: 1 bytes, flags 0x1", "0 for flags");
	REFUSED(peerdma_ipc_alloc(SIZE_MAX, 0, &p), -ENOMEM, "peerdma_ipc_alloc: ", "more than the address space");
	REFUSED(peerdma_ipc_alloc(SIZE_MAX / 2, 0, &p), -ENOMEM, "peerdma_ipc_alloc: ", "more than the address space");
	CHECK(p == (void *)1, "nothing is given");
	REFUSED(peerdma_ipc_free(bytes), -EINVAL, "peerdma_ipc_free: ", "is not what peerdma_ipc_alloc() returned");
	CHECK(!peerdma_ipc_free(NULL), "NULL is ignored");
	CHECK(!peerdma_ipc_alloc(LENGTH, 0, &p), "memory");
	REFUSED(peerdma_ipc_free((char *)p + 1), -EINVAL, "peerdma_ipc_free: ", "is not what");

	REFUSED(peerdma_ipc_export(p, 8, 0, NULL), -EINVAL, "peerdma_ipc_export: ", "'handle' is NULL");
	REFUSED(peerdma_ipc_export(p, 0, 0, &h), -EINVAL, "peerdma_ipc_export: ", "the length is 0");
	for (unsigned int bit = 2; bit < 32; bit++)
		REFUSED(peerdma_ipc_export(p, 8, 1U << bit, &h), -EINVAL, "peerdma_ipc_export: ", "unknown flags");
	REFUSED(peerdma_ipc_export(p, SIZE_MAX, 0, &h), -EINVAL, "peerdma_ipc_export: ", "the end of addresses");
	REFUSED(peerdma_ipc_export((char *)p + 1, LENGTH, 0, &h), -ENXIO, "peerdma_ipc_export: ",
	      "passes the end of its allocation");
	REFUSED(peerdma_ipc_export(NULL, 1, 0, &h), -ENXIO, "peerdma_ipc_export: ", "nothing is mapped there");
	REFUSED(peerdma_ipc_export(bytes, 1, 0, &h), -EOPNOTSUPP, "peerdma_ipc_export: ", "private memory");
	REFUSED(peerdma_ipc_export(m->ptr, 1, 0, &h), -EEXIST, "peerdma_ipc_export: ", "let its owner export it");
	REFUSED(peerdma_ipc_export((char *)m->ptr + LENGTH - 1, 1, 0, &h), -EEXIST, "peerdma_ipc_export: ",
	      "let its owner export it");
	CHECK(!peerdma_ipc_export((char *)p + LENGTH - 1, 1, 0, &h), "the last byte");
	REFUSED(peerdma_ipc_export(p, 8, PEERDMA_IPC_ANY_USER, &mine_h), -EINVAL, "peerdma_ipc_export: flags 0x1",
	      "is exported with 0");
	REFUSED(peerdma_ipc_unexport(NULL), -EINVAL, "peerdma_ipc_unexport: ", "'handle' is NULL");
	REFUSED(peerdma_ipc_unexport(&a.handle), -EINVAL, "peerdma_ipc_unexport: ", "no export of this handle");
	REFUSED(peerdma_ipc_unexport(&b.handle), -EINVAL, "peerdma_ipc_unexport: ", "peerdma_ipc_signal_open()");
	CHECK(!peerdma_ipc_unexport(&h) && !peerdma_ipc_unexport(&h), "unexport; it has ended");

	REFUSED(peerdma_ipc_open(&a.handle, sizeof(a.handle), 0, NULL), -EINVAL, "peerdma_ipc_open: ", "'memory' is NULL");
	REFUSED(peerdma_ipc_open(&a.handle, sizeof(a.handle), 1, &m), -EINVAL, "peerdma_ipc_open: ", "unknown flags");
	REFUSED(peerdma_ipc_open(NULL, sizeof(a.handle), 0, &m), -EINVAL, "peerdma_ipc_open: ", "'handle' is NULL");
	REFUSED(peerdma_ipc_open(&a.handle, 0, 0, &m), -EINVAL, "peerdma_ipc_open: the handle has 0 bytes", "128");
	REFUSED(peerdma_ipc_open(&a.handle, 127, 0, &m), -EINVAL, "peerdma_ipc_open: the handle has 127 bytes", "128");
	REFUSED(peerdma_ipc_open(&a.handle, 129, 0, &m), -EINVAL, "peerdma_ipc_open: the handle has 129 bytes", "128");
	REFUSED(peerdma_ipc_open(&b.handle, sizeof(a.handle), 0, &m), -EINVAL, "peerdma_ipc_open: ", "peerdma_ipc_signal_open()");
	REFUSED(peerdma_ipc_open(&h, sizeof(h), 0, &m), -EEXIST, "peerdma_ipc_open: ", "made by this process");
	REFUSED(peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &mine), -EINVAL, "peerdma_ipc_signal_open: ",
	      "peerdma_ipc_open()");
	REFUSED(peerdma_ipc_signal_open(NULL, 5, &mine), -EINVAL, "peerdma_ipc_signal_open: ", "'handle' is NULL");
	REFUSED(peerdma_ipc_signal_open(&b.handle, 5, &mine), -EINVAL, "peerdma_ipc_signal_open: ", "5 bytes");
	CHECK(!peerdma_ipc_close(NULL) && !peerdma_ipc_signal_close(NULL), "NULL is ignored");

	REFUSED(peerdma_ipc_signal_create(0, 0, NULL), -EINVAL, "peerdma_ipc_signal_create: ", "'signal' is NULL");
	for (unsigned int bit = 1; bit < 32; bit++) {
		if (1U << bit != PEERDMA_IPC_HSA)
			REFUSED(peerdma_ipc_signal_create(0, 1U << bit, &mine), -EINVAL, "peerdma_ipc_signal_create: ",
			      "unknown flags");
	}
	REFUSED(peerdma_ipc_signal_export(s, &h), -EINVAL, "peerdma_ipc_signal_export: ", "another process's signal");
	REFUSED(peerdma_ipc_signal_wait(s, 4, 0, 0, NULL), -EINVAL, "peerdma_ipc_signal_wait: condition 4", "enum");
	REFUSED(peerdma_ipc_signal_wait(s, -1, 0, 0, NULL), -EINVAL, "peerdma_ipc_signal_wait: condition -1", "enum");
	REFUSED(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 6, 0, NULL), -EAGAIN, "peerdma_ipc_signal_wait: timed out",
	      "the value, 5,");
	REFUSED(peerdma_ipc_signal_stream_wait(s, NULL, PEERDMA_IPC_NE, 1), -EOPNOTSUPP, "peerdma_ipc_signal_stream_wait: ", "");
	REFUSED(peerdma_ipc_signal_stream_wait(s, NULL, PEERDMA_IPC_LT, 1), -EOPNOTSUPP, "peerdma_ipc_signal_stream_wait: ", "");
	REFUSED(peerdma_ipc_signal_stream_set(s, NULL, 1), -ENODEV, "peerdma_ipc_signal_stream_set: ", "");

	REFUSED(peerdma_ipc_query(m->ptr, &(struct peerdma_ipc_info){ .size = 4 }), -EINVAL, "peerdma_ipc_query: ",
	      "size field is 4");
	REFUSED(peerdma_ipc_query(bytes, &info), -ENOENT, "peerdma_ipc_query: ", "not in memory that this process has opened");
	REFUSED(peerdma_ipc_counters(&counters), -EINVAL, "peerdma_ipc_counters: ", "size field is 4");

	good.memory = m;
	good.local = bytes;
	REFUSED(peerdma_ipc_copy(&good, 0, NULL, 0), -EINVAL, "peerdma_ipc_copy: no transfers", "");
	REFUSED(peerdma_ipc_copy(NULL, 1, NULL, 0), -EINVAL, "peerdma_ipc_copy: ", "'transfers' is NULL");
#define COPY(error, begins, says, ...) do {								\
	t[0] = t[1] = good;										\
	__VA_ARGS__;											\
	REFUSED(peerdma_ipc_copy(t, 2, NULL, 0), error, "peerdma_ipc_copy: " begins, says);		\
} while (0)
	memset(bytes, 1, sizeof(bytes));
	COPY(-EINVAL, "the struct's size field is 8", "", t[0].size = 8);
	COPY(-E2BIG, "the struct's size field is 4100", "", t[0].size = 4100);
	COPY(-E2BIG, "transfers: the struct has something set", "", t[0].size = 2 * sizeof(t[0]));
	COPY(-EINVAL, "the struct's size field is 60", "", t[0].size = t[1].size = sizeof(good) + 4);
	COPY(-EINVAL, "transfer 1: its size field is 0", "", t[1].size = 0);
	for (unsigned int bit = 3; bit < 32; bit++)
		COPY(-EINVAL, "transfer 1: unknown flags", "", t[1].flags |= 1U << bit);
	COPY(-EINVAL, "transfer 1: unknown flags", "reserved", t[1].reserved[0] = 1);
	COPY(-EINVAL, "transfer 1: unknown flags", "reserved", t[1].reserved[1] = 1U << 31);
	COPY(-EINVAL, "transfer 1: memory is NULL", "offset", t[1].memory = NULL);
	COPY(-EINVAL, "transfer 1: local is NULL", "", t[1].local = NULL);
	COPY(-EINVAL, "transfer 1: [0, +8193)", "8192 bytes", t[1].length = LENGTH + 1);
	COPY(-EINVAL, "transfer 1: [8185, +8)", "8192 bytes", t[1].offset = LENGTH - 7);
	COPY(-EINVAL, "transfer 1: [18446744073709551615, +8)", "8192 bytes", t[1].offset = UINT64_MAX);
	COPY(-EINVAL, "transfer 1: 8 bytes pass", "address space", t[1].local = (void *)(UINTPTR_MAX - 6));
	COPY(-EINVAL, "transfer 1: 8 bytes pass", "address space", (t[1].memory = NULL, t[1].offset = UINT64_MAX - 6));
	CHECK(bytes[0] == 1, "nothing was copied");
	t[0] = t[1] = good;
	t[1].offset = LENGTH - 8;
	t[1].local = bytes + 100;
	CHECK(!peerdma_ipc_copy(t, 2, NULL, 0) && bytes[0] == 7 && bytes[7] == 7 && bytes[8] == 1 && bytes[99] == 1 &&
	      bytes[107] == 7 && bytes[108] == 1, "the last bytes");
	CHECK(!t[0].error && t[0].path == PEERDMA_IPC_PATH_CPU && !t[1].error && t[1].path == PEERDMA_IPC_PATH_CPU, "by the CPU");
	t[0].length = 0;
	t[0].local = NULL;
	t[0].error = t[0].path = 77;
	CHECK(!peerdma_ipc_copy(t, 1, NULL, 0) && !t[0].error && t[0].path == PEERDMA_IPC_PATH_NONE, "nothing to copy");
	ASK(&o, OTHER_CLOSE);
	REFUSED(peerdma_ipc_copy(t, 1, s, 0), -ESTALE, "peerdma_ipc_copy: ", "signal");
	ASK(&o, OTHER_FREE);
	t[0] = good;
	bytes[0] = 1;
	REFUSED(peerdma_ipc_copy(t, 1, NULL, 0), -ESTALE, "peerdma_ipc_copy: the exporter (pid ", "get a new handle");
	CHECK(t[0].error == -ESTALE && t[0].path == PEERDMA_IPC_PATH_NONE && bytes[0] == 1, "so says the transfer");
	other_end(&o, SIGKILL);
	REFUSED(peerdma_ipc_copy(t, 1, NULL, 0), -EOWNERDEAD, "peerdma_ipc_copy: the exporter (pid ", "has ended");
	CHECK(t[0].error == -EOWNERDEAD, "so says the transfer");
	peerdma_ipc_close(m);
	peerdma_ipc_signal_close(s);
	peerdma_ipc_free(p);
}

/* ---- a parent's objects ---- */

static void child(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = LENGTH, .fill = 7), b = ASK(&o, OTHER_SIGNAL, .value = 5);
	struct peerdma_ipc_signal *both[2] = { NULL };
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle h;
	int status = -1;
	char byte;
	pid_t pid;

	CHECK(!OPEN(&a.handle, &m) && !peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &both[0]) &&
	      !peerdma_ipc_signal_create(5, 0, &both[1]), "opened");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct peerdma_ipc_transfer t = { .size = sizeof(t), .memory = m, .local = &byte, .length = 1,
			.flags = PEERDMA_IPC_READ };

		check_counts.failures = 0;
		for (int i = 0; i < 2; i++) {
			struct peerdma_ipc_signal *s = both[i];

			REFUSED(peerdma_ipc_signal_export(s, &h), -EPERM, "peerdma_ipc_signal_export: ", "parent");
			REFUSED(peerdma_ipc_signal_set(s, 1), -EPERM, "peerdma_ipc_signal_set: ", "parent");
			REFUSED(peerdma_ipc_signal_add(s, 1), -EPERM, "peerdma_ipc_signal_add: ", "parent");
			REFUSED(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 5, 0, NULL), -EPERM, "peerdma_ipc_signal_wait: ",
			      "parent");
			REFUSED(peerdma_ipc_signal_stream_set(s, NULL, 1), -EPERM, "peerdma_ipc_signal_stream_set: ", "parent");
			REFUSED(peerdma_ipc_signal_stream_wait(s, NULL, PEERDMA_IPC_EQ, 1), -EPERM,
			      "peerdma_ipc_signal_stream_wait: ", "parent");
			CHECK(!peerdma_ipc_signal_close(s), "close");
		}
		REFUSED(peerdma_ipc_copy(&t, 1, NULL, 0), -EPERM, "peerdma_ipc_copy: transfer 0: ", "parent");
		CHECK(!peerdma_ipc_close(m), "close");
		_exit(check_counts.failures);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "the child: %d", status);
	CHECK(peerdma_ipc_signal_get(both[0]) == 5 && peerdma_ipc_signal_get(both[1]) == 5, "nothing was set");
	CHECK(!peerdma_ipc_signal_set(both[0], 6) && !peerdma_ipc_signal_set(both[1], 6), "nor closed");
	CHECK(!peerdma_ipc_signal_close(both[0]) && !peerdma_ipc_signal_close(both[1]) && !peerdma_ipc_close(m), "close");
	other_end(&o, SIGKILL);
}

/* ---- no descriptors ---- */

static struct other_answer there[2];
static void *shared;		/* a file of this process's, mapped */

static int alloc(void)
{
	void *p = NULL;
	int ret = peerdma_ipc_alloc(1, 0, &p);

	if (!ret)
		peerdma_ipc_free(p);
	return ret;
}

static int export(void)
{
	struct peerdma_ipc_handle h;
	int ret = peerdma_ipc_export(shared, 1, PEERDMA_IPC_I_UNEXPORT, &h);

	if (!ret)
		peerdma_ipc_unexport(&h);
	return ret;
}

static int create(void)
{
	struct peerdma_ipc_signal *s;
	int ret = peerdma_ipc_signal_create(0, PEERDMA_IPC_ANY_USER, &s);

	if (!ret)
		peerdma_ipc_signal_close(s);
	return ret;
}

static int open_memory(void)
{
	struct peerdma_ipc_memory *m;
	int ret = OPEN(&there[0].handle, &m);

	if (!ret) {
		peerdma_ipc_close(m);
		peerdma_ipc_trim();
	}
	return ret;
}

static int open_signal(void)
{
	struct peerdma_ipc_signal *s;
	int ret = peerdma_ipc_signal_open(&there[1].handle, sizeof(there[1].handle), &s);

	if (!ret)
		peerdma_ipc_signal_close(s);
	return ret;
}

/* With room for none, one, two ... more descriptors, until it is enough: each time -EMFILE, and none is left open. */
static void descriptors_out(void)
{
	static const struct {
		const char *name;
		int (*call)(void);
	} calls[] = {
		{ "peerdma_ipc_alloc: ", alloc }, { "peerdma_ipc_export: ", export }, { "peerdma_ipc_signal_create: ", create },
		{ "peerdma_ipc_open: ", open_memory }, { "peerdma_ipc_signal_open: ", open_signal },
	};
	struct other o = other_make(getuid());
	struct rlimit was, now;
	int fd = memfd_create("shared", MFD_CLOEXEC), free_one;

	there[0] = ASK(&o, OTHER_ALLOC, .value = LENGTH, .fill = 7);
	there[1] = ASK(&o, OTHER_SIGNAL, .value = 5);
	MUST(!ftruncate(fd, LENGTH));
	shared = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	getrlimit(RLIMIT_NOFILE, &was);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int ret = -1;

		for (rlim_t more = 0; more < 20 && ret; more++) {
			now = was;
			free_one = dup(0);
			close(free_one);
			now.rlim_cur = (rlim_t)free_one + more;
			setrlimit(RLIMIT_NOFILE, &now);
			ret = calls[i].call();
			setrlimit(RLIMIT_NOFILE, &was);
			if (ret)
				REFUSED(ret, -EMFILE, calls[i].name, "RLIMIT_NOFILE");
			CHECK(more || ret, "%s needs one", calls[i].name);
			if (ret && (fd = dup(0)) != free_one && i != 1)
				CHECK(0, "%s: %d is left open", calls[i].name, free_one);
			if (ret)
				close(fd);
		}
		CHECK(!ret, "%s with enough", calls[i].name);
	}
	other_end(&o, SIGKILL);
}

/* ---- no room in files ---- */

static int open_cache(void)
{
	struct peerdma_cache *cache;
	struct peerdma *ctx;
	int ret = peerdma_open(&ctx, 0);

	if (ret)
		return ret;
	ret = peerdma_cache_open(ctx, NULL, &cache);
	if (!ret)
		peerdma_cache_close(cache);
	peerdma_close(ctx);
	return ret;
}

static int alloc_much(void)
{
	void *p;

	return peerdma_ipc_alloc(65537, 0, &p);
}

static int alloc_shared(void)
{
	return peerdma_ipc_alloc(65536, 0, &shared);
}

static int create_in_arena(void)
{
	struct peerdma_ipc_signal *s;
	int ret = peerdma_ipc_signal_create(0, 0, &s);

	if (!ret)
		peerdma_ipc_signal_close(s);
	return ret;
}

/* What this program prints may go to a file, too, so only the call is under the limit. */
static int limited(rlim_t size, int (*call)(void))
{
	struct rlimit was, now;
	int ret;

	getrlimit(RLIMIT_FSIZE, &was);
	now = was;
	now.rlim_cur = size;
	setrlimit(RLIMIT_FSIZE, &now);
	ret = call();
	setrlimit(RLIMIT_FSIZE, &was);
	return ret;
}

/* In a process of its own, which the kernel would kill. */
static void small_files(void)
{
	REFUSED(limited(65536, alloc_much), -EFBIG, "peerdma_ipc_alloc: ", "RLIMIT_FSIZE");
	CHECK(!limited(65536, alloc_shared), "as much as a file may have");
	REFUSED(limited(65536, export), -EFBIG, "peerdma_ipc_export: ", "RLIMIT_FSIZE");
	REFUSED(limited(65536, create_in_arena), -EFBIG, "peerdma_ipc_signal_create: ", "RLIMIT_FSIZE");
	CHECK(!export(), "later it works");
	REFUSED(limited(0, create_in_arena), -EFBIG, "peerdma_ipc_signal_create: ", "RLIMIT_FSIZE");
	REFUSED(limited(0, create), -EFBIG, "peerdma_ipc_signal_create: ", "RLIMIT_FSIZE");
	CHECK(!create_in_arena() && !create() && !limited(0, create_in_arena), "later it works, and what is there is enough");
	CHECK(!limited(0, open_cache), "a cache does without a file");
	peerdma_ipc_free(shared);
}

static void file_size(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		small_files();
		fflush(stdout);
		_exit(check_counts.failures);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "it lives: %#x", status);
}

/* ---- what is filled in, and counted ---- */

static bool counted(struct peerdma_ipc_counters *expected, int line)
{
	struct peerdma_ipc_counters c;

	memset(&c, 0xff, sizeof(c));
	c.size = expected->size = sizeof(c);
	return CHECK_AT(line, !peerdma_ipc_counters(&c) && !memcmp(&c, expected, sizeof(c)), "counted");
}

static void facts(void)
{
	struct other o = other_make(getuid()), o2 = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = LENGTH, .offset = 100, .fill = 7);
	struct peerdma_ipc_counters c = { 0 };
	struct peerdma_ipc_info i, none = { 0 };
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	struct peerdma_ipc_transfer t = { .size = sizeof(t), .length = 30 };
	struct peerdma_ipc_handle h[2];
	struct other_answer b;
	char bytes[100];
	void *p;

	counted(&c, __LINE__);
	CHECK(!OPEN(&a.handle, &m), "open");
	c.imports = c.opens = 1;
	counted(&c, __LINE__);
	CHECK(!OPEN(&a.handle, &again), "again");
	c.opens = 2;
	c.hits = 1;
	counted(&c, __LINE__);
	memset(&i, 0xff, sizeof(i));
	i.size = sizeof(i);
	CHECK(!peerdma_ipc_query((char *)m->ptr + 5, &i) && i.size == sizeof(i) && i.live == 1 && i.pid == o.pid &&
	      i.uid == getuid() &&
	      i.base == (uintptr_t)m->ptr - 100 && i.length == LENGTH && i.offset == 105 && i.exporter_ptr == a.value + 105 &&
	      i.references == 2 && !strcmp(i.provider, "host") && !memcmp(i.pci, none.pci, sizeof(i.pci)) &&
	      !memcmp(i.reserved, none.reserved, sizeof(i.reserved)), "query");
	CHECK(!peerdma_ipc_query((char *)m->ptr - 100, &i) && !peerdma_ipc_query((char *)m->ptr - 101 + LENGTH, &i),
	      "from end to end");
	CHECK(peerdma_ipc_query((char *)m->ptr - 101, &i) == -ENOENT || i.base != (uintptr_t)m->ptr - 100, "and no further");
	CHECK(peerdma_ipc_query((char *)m->ptr - 100 + LENGTH, &i) == -ENOENT || i.base != (uintptr_t)m->ptr - 100,
	      "on either side");
	t.memory = m;
	t.local = bytes;
	memset(bytes, 3, sizeof(bytes));
	CHECK(!peerdma_ipc_copy(&t, 1, NULL, 0), "copy");
	c.copies[PEERDMA_IPC_PATH_CPU] = 1;
	c.bytes[PEERDMA_IPC_PATH_CPU] = 30;
	counted(&c, __LINE__);
	t.length = 0;
	CHECK(!peerdma_ipc_copy(&t, 1, NULL, 0), "nothing");
	counted(&c, __LINE__);
	peerdma_ipc_close(m);
	CHECK(!peerdma_ipc_query(m->ptr, &i) && i.references == 1, "one reference");
	peerdma_ipc_close(again);
	CHECK(!peerdma_ipc_query(m->ptr, &i) && i.references == 0, "none");
	counted(&c, __LINE__);
	CHECK(!peerdma_ipc_trim(), "trim");
	c.imports = 0;
	counted(&c, __LINE__);

	CHECK(!peerdma_ipc_alloc(LENGTH, 0, &p) && !peerdma_ipc_export(p, LENGTH, 0, &h[0]) &&
	      !peerdma_ipc_export(p, 1, 0, &h[1]), "export");
	c.exports = 1;
	counted(&c, __LINE__);
	b = ASK(&o, OTHER_OPEN, .handle = h[1]);
	CHECK(!b.ret, "it is opened: %d", b.ret);
	c.served = 1;
	counted(&c, __LINE__);
	CHECK(!peerdma_ipc_unexport(&h[0]), "once");
	counted(&c, __LINE__);
	CHECK(!peerdma_ipc_unexport(&h[1]), "twice");
	c.exports = 0;
	counted(&c, __LINE__);
	CHECK(ASK(&o2, OTHER_OPEN, .handle = h[0]).ret == -ESTALE, "gone");
	c.refused = 1;
	counted(&c, __LINE__);
	CHECK(!peerdma_ipc_export(p, LENGTH, 0, &h[0]) && !peerdma_ipc_free(p), "freed");
	c.ended = 1;
	counted(&c, __LINE__);
	other_end(&o, SIGKILL);
	other_end(&o2, SIGKILL);
}

/* ---- the thread ---- */

/* The signals that the thread of that name blocks; 0: there is none. */
static unsigned long long blocked_by(const char *thread)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned long long mask = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		char path[64], line[128];
		bool is = false;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", e->d_name);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			if (!strncmp(line, "Name:", 5))
				is = strstr(line, thread);
			if (is)
				sscanf(line, "SigBlk: %llx", &mask);
		}
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return mask;
}

/* The program's handlers do not run in the thread that answers importers, and its own threads block what they did. */
static void thread(void)
{
	static const int of_programs[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCHLD, SIGIO, SIGPROF,
		SIGVTALRM };
	struct peerdma_ipc_signal *s = NULL;
	unsigned long long mask;
	sigset_t before, after;
	bool same = true;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	CHECK(!blocked_by("peerdma-ipc"), "there is no thread");
	CHECK(!peerdma_ipc_signal_create(0, 0, &s), "until something is made");
	mask = blocked_by("peerdma-ipc");
	for (size_t i = 0; i < sizeof(of_programs) / sizeof(of_programs[0]); i++)
		CHECK(mask >> (of_programs[i] - 1) & 1, "it blocks signal %d", of_programs[i]);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < 32; sig++)
		same &= sigismember(&before, sig) == sigismember(&after, sig);
	CHECK(same, "the caller's mask is what it was");
	peerdma_ipc_signal_close(s);
}

/* ---- a handler ---- */

static void handler(int sig)
{
}

/* Again and again, so that one comes while it sleeps. */
static void interrupted(void)
{
	struct itimerval often = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 10000 }, never = { 0 };
	struct peerdma_ipc_signal *s = NULL;

	CHECK(!peerdma_ipc_signal_create(1, 0, &s), "created");
	sigaction(SIGALRM, &(struct sigaction) { .sa_handler = handler }, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	REFUSED(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 2, 60000000000, NULL), -EINTR, "peerdma_ipc_signal_wait: ",
	      "interrupted by a signal");
	setitimer(ITIMER_REAL, &never, NULL);
	peerdma_ipc_signal_close(s);
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "wrong", wrong }, { "child", child }, { "no-descriptors", descriptors_out }, { "file-size", file_size }, { "facts", facts },
		{ "thread", thread },
		{ "interrupted", interrupted },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
