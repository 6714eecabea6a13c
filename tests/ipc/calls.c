// SPDX-License-Identifier: MIT
/*
 * calls.c - memory and signals between two processes, call by call: what each returns for
 * good and bad input, and what a query says of each.
 *
 * usage: calls TEST
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

#include "other.h"
#include "util.h"

#define MIB (1UL << 20)
#define NEVER_SET 1000
#define OPEN(handle, memory) peerdma_ipc_open(handle, sizeof(struct peerdma_ipc_handle), 0, memory)

static bool all_are(const void *p, size_t n, uint8_t value)
{
	const uint8_t *b = p;

	while (n && *b == value) {
		b++;
		n--;
	}
	return !n;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- memory ---- */

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

/* ---- handles ---- */

static void handles(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = MIB, .offset = 4096, .fill = 7), s = ASK(&o, OTHER_SIGNAL, .value = 1);
	struct peerdma_ipc_handle h = { { 0 } };
	struct peerdma_ipc_memory *m = NULL, *cached = NULL;
	struct peerdma_ipc_signal *signal;
	/* Fields, by their place in the handle: what a forger with the right checksum gets. */
	static const struct {
		const char *what;
		int at;
		int error;
	} forged[] = {
		{ "format", 8, -EPROTO }, { "a signal's", 10, -EINVAL }, { "reserved", 12, -EINVAL }, { "boot", 16, -EREMOTE },
		{ "process", 40, -EOWNERDEAD }, { "key", 48, -EKEYREJECTED }, { "key's end", 63, -EKEYREJECTED },
		{ "user", 64, -EACCES }, { "slot", 72, -EKEYREJECTED }, { "slot past the end", 74, -EINVAL },
		{ "reserved", 76, -EINVAL }, { "generation", 81, -EKEYREJECTED }, { "range", 91, -EINVAL }, { "length", 99, -EINVAL },
		{ "length wraps", 103, -EINVAL }, { "reserved", 104, -EINVAL }, { "reserved", 119, -EINVAL },
	};
	int wrong = 0, ret;

	CHECK(!a.ret && !s.ret, "something to open");
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(h); i++) {
			for (int bit = 0; bit < 8; bit++) {
				h = a.handle;
				h.bytes[i] ^= (unsigned char)(1 << bit);
				wrong += OPEN(&h, &m) != -EINVAL;
			}
		}
		CHECK(!wrong, "every bit of a handle turned round: -EINVAL (%s)", round ? "opened before" : "not opened yet");
		for (size_t size = 0; size < sizeof(h); size++)
			wrong += peerdma_ipc_open(&a.handle, size, 0, &m) != -EINVAL;
		wrong += peerdma_ipc_open(&a.handle, sizeof(h) + 1, 0, &m) != -EINVAL;
		CHECK(!wrong, "every other length: -EINVAL");
		for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
			h = a.handle;
			h.bytes[forged[i].at] ^= forged[i].at == 10 ? 3 : 0x80;
			handle_sign(&h);
			ret = OPEN(&h, &m);
			CHECK(ret == forged[i].error, "forged, %s: %d", forged[i].what, ret);
		}
		if (!round)
			CHECK(!OPEN(&a.handle, &cached), "the true one opens");
	}
	CHECK(peerdma_ipc_open(NULL, 0, 0, &m) == -EINVAL, "no handle");
	CHECK(peerdma_ipc_open(&a.handle, sizeof(h), 1, &m) == -EINVAL, "unknown flags");
	CHECK(peerdma_ipc_open(&a.handle, sizeof(h), 0, NULL) == -EINVAL, "nowhere to put it");
	CHECK(OPEN(&s.handle, &m) == -EINVAL, "a signal is no memory");
	CHECK(peerdma_ipc_signal_open(&a.handle, sizeof(h), &signal) == -EINVAL, "memory is no signal");
	CHECK(peerdma_ipc_unexport(&a.handle) == -EINVAL, "another's export is not taken back");
	CHECK(peerdma_ipc_valid(cached), "nothing of this ended what is open");
	peerdma_ipc_close(cached);
	other_end(&o, SIGKILL);
}

/* A process of another user, with and without leave. */
static void users(void)
{
	struct other o, stranger;
	struct other_answer a, b, c;

	if (getuid()) {
		printf("skipped: only root can be another user\n");
		exit(77);
	}
	o = other_make(1000);
	stranger = other_make(1001);
	a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 4);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(!a.ret && b.ret == -EACCES, "another user: %d", b.ret);
	ASK(&o, OTHER_FREE);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(b.ret == -EACCES, "also of what was freed: it learns no more: %d", b.ret);
	a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 6, .flags = PEERDMA_IPC_ANY_USER);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(!a.ret && !b.ret && b.value == 6, "with leave and the key: %d", b.ret);
	c = a;
	c.handle.bytes[50] ^= 1;
	handle_sign(&c.handle);
	b = ASK(&stranger, OTHER_OPEN, .handle = c.handle);
	CHECK(b.ret == -EKEYREJECTED, "a guess, where it is open: %d", b.ret);
	other_end(&stranger, SIGKILL);
	stranger = other_make(1001);
	b = ASK(&stranger, OTHER_OPEN, .handle = c.handle);
	CHECK(b.ret == -EACCES, "a guess: %d", b.ret);
	a = ASK(&o, OTHER_SIGNAL, .value = 3);
	b = ASK(&stranger, OTHER_OPEN_SIGNAL, .handle = a.handle);
	CHECK(!a.ret && b.ret == -EACCES, "a signal: %d", b.ret);
	a = ASK(&o, OTHER_SIGNAL, .value = 3, .flags = PEERDMA_IPC_ANY_USER);
	b = ASK(&stranger, OTHER_OPEN_SIGNAL, .handle = a.handle);
	CHECK(!a.ret && !b.ret && ASK(&stranger, OTHER_GET).value == 3, "with leave: %d", b.ret);
	ASK(&stranger, OTHER_SET, .value = 8);
	CHECK(!ASK(&o, OTHER_WAIT, .value = 8).ret, "and it works");
	other_end(&stranger, SIGKILL);
	other_end(&o, SIGKILL);
}

/* ---- what can be exported ---- */

static void exports(void)
{
	struct other o = other_make(getuid());
	struct peerdma_ipc_handle h, h2, first = { { 0 } };
	struct other_answer b;
	char name[] = "/tmp/peerdma-ipc-XXXXXX", *p, *plain = malloc(MIB);
	struct peerdma_ipc_counters counters = { .size = sizeof(counters) };
	void *v;
	int fd = mkstemp(name);

	CHECK(peerdma_ipc_export(plain, 100, 0, &h) == -EOPNOTSUPP, "private memory");
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

	if (ftruncate(fd, 65536))
		abort();
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
	if (mmap(again + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	CHECK(ASK(&o, OTHER_OPEN, .handle = h2).ret == -ESTALE, "a page of it replaced: ended");
	other_end(&o, SIGKILL);
}

/* ---- signals ---- */

static void *set_later(void *arg)
{
	usleep(100000);
	peerdma_ipc_signal_set(arg, 77);
	return NULL;
}

static void interrupted(int sig)
{
	(void)sig;
}

/* Sleeps until another process is killed, which the signal has to do with. */
static int wait_for_killed(struct peerdma_ipc_signal *s, pid_t pid)
{
	pid_t killer = fork();
	uint64_t start;
	int ret;

	if (!killer) {
		usleep(100000);
		kill(pid, SIGKILL);
		_exit(0);
	}
	start = now_ns();
	ret = peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, NEVER_SET, UINT64_MAX, NULL);
	CHECK(now_ns() - start < 900000000, "noticed at once, in its sleep: %llu ms", (unsigned long long)(now_ns() - start) / 1000000);
	waitpid(killer, NULL, 0);
	return ret;
}

static void signals(void)
{
	struct other o = other_make(getuid()), o2 = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_SIGNAL, .value = 5), b;
	struct peerdma_ipc_signal *s = NULL, *mine = NULL, *twice;
	struct peerdma_ipc_handle h = { { 0 } };
	struct peerdma_ipc_memory *m = NULL;
	struct itimerval soon = { .it_value.tv_usec = 50000 };
	uint64_t seen, start;
	pthread_t thread;
	void *unused;

	CHECK(!a.ret && !peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &s), "opened");
	CHECK(OPEN(&a.handle, &m) == -EINVAL, "it is no memory");
	CHECK(peerdma_ipc_signal_get(s) == 5, "its value");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 5, 0, &seen) && seen == 5, "eq");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_NE, 4, 0, NULL), "ne");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_GE, 5, 0, NULL), "ge");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_LT, 6, 0, NULL), "lt");
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_LT, (uint64_t)-1, 0, NULL) == -EAGAIN, "signed");
	CHECK(peerdma_ipc_signal_wait(s, 9, 5, 0, NULL) == -EINVAL, "no such condition");
	start = now_ns();
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 6, 50000000, &seen) == -EAGAIN && seen == 5, "a timeout");
	CHECK(now_ns() - start >= 50000000 && now_ns() - start < 5000000000ULL, "after that time");
	b = ASK(&o, OTHER_SET, .value = 6);
	CHECK(!b.ret && !peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 6, UINT64_MAX, NULL), "set by the other");
	CHECK(!peerdma_ipc_signal_add(s, 3) && peerdma_ipc_signal_get(s) == 9, "add");
	b = ASK(&o, OTHER_WAIT, .value = 9);
	CHECK(!b.ret, "seen by the other");
	CHECK(peerdma_ipc_signal_export(s, &h) == -EINVAL, "a process that opened it does not export it");
	CHECK(!peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &twice), "opened twice");
	CHECK(!peerdma_ipc_signal_close(twice), "closed once");
	pthread_create(&thread, NULL, set_later, s);
	start = now_ns();
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 77, UINT64_MAX, NULL), "woken in its sleep");
	CHECK(now_ns() - start >= 80000000, "it slept");
	pthread_join(thread, &unused);
	sigaction(SIGALRM, &(struct sigaction) { .sa_handler = interrupted }, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 78, UINT64_MAX, NULL) == -EINTR, "a handler ran");
	CHECK(peerdma_ipc_signal_stream_wait(s, NULL, PEERDMA_IPC_EQ, 1) == -ENODEV, "no CUDA");
	CHECK(peerdma_ipc_signal_stream_set(s, NULL, 1) == -ENODEV, "no CUDA");
	CHECK(peerdma_ipc_signal_stream_wait(s, NULL, PEERDMA_IPC_NE, 1) == -EOPNOTSUPP, "which CUDA cannot");
	CHECK(!peerdma_ipc_signal_hsa(s), "not HSA's");
	CHECK(peerdma_ipc_signal_create(1, PEERDMA_IPC_HSA, &mine) == -ENODEV, "no HSA");
	CHECK(peerdma_ipc_signal_create(1, 4, &mine) == -EINVAL, "unknown flags");

	/* The creator closes it. */
	ASK(&o, OTHER_CLOSE);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 78, UINT64_MAX, NULL) == -ESTALE, "closed by its creator");
	CHECK(peerdma_ipc_signal_set(s, 1) == -ESTALE && peerdma_ipc_signal_get(s) == 77, "nothing is written");
	CHECK(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 77, 0, NULL), "its last value counts");
	b = ASK(&o, OTHER_SIGNAL, .value = 100);
	CHECK(peerdma_ipc_signal_get(s) == 77, "its place is not another's as long as it is open");
	CHECK(peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &twice) == -ESTALE, "the handle opens nothing");
	CHECK(!peerdma_ipc_signal_close(s), "closed");

	/* The creator dies while it is waited for. */
	CHECK(!peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &s), "another one");
	CHECK(wait_for_killed(s, o.pid) == -EOWNERDEAD, "its creator was killed");
	CHECK(peerdma_ipc_signal_set(s, 1) == -EOWNERDEAD, "nothing is set any more");
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, UINT64_MAX, NULL) == -EOWNERDEAD, "each time");
	peerdma_ipc_signal_close(s);

	/* A process that opened it dies. */
	CHECK(!peerdma_ipc_signal_create(1, 0, &mine) && !peerdma_ipc_signal_export(mine, &h), "created here");
	CHECK(peerdma_ipc_signal_open(&h, sizeof(h), &s) == -EEXIST, "not opened here");
	b = ASK(&o2, OTHER_OPEN_SIGNAL, .handle = h);
	CHECK(!b.ret, "opened there");
	CHECK(wait_for_killed(mine, o2.pid) == -EOWNERDEAD, "a process that had it open was killed");
	CHECK(peerdma_ipc_signal_wait(mine, PEERDMA_IPC_EQ, 9, 1000000, NULL) == -EAGAIN, "once");
	CHECK(!peerdma_ipc_signal_set(mine, 2) && !peerdma_ipc_signal_close(mine), "and the signal works on");
	other_end(&o, SIGKILL);
	other_end(&o2, SIGKILL);
}

/* ---- copies ---- */

static void copies(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = MIB, .offset = 4096, .fill = 7);
	struct peerdma_ipc_counters counters = { .size = sizeof(counters) };
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
	t[1].flags = 2;
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

/* ---- fork ---- */

static void forks(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 7), b = ASK(&o, OTHER_SIGNAL, .value = 7);
	struct peerdma_ipc_memory *m = NULL, *again;
	struct peerdma_ipc_signal *s = NULL, *own_signal = NULL;
	struct peerdma_ipc_handle h = { { 0 } };
	int status = -1;
	void *v;
	pid_t pid;

	CHECK(!OPEN(&a.handle, &m) && !peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &s), "opened");
	CHECK(!peerdma_ipc_alloc(4096, 0, &v) && !peerdma_ipc_export(v, 4096, 0, &h), "exported");
	CHECK(!peerdma_ipc_signal_create(0, 0, &own_signal), "created");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct peerdma_ipc_transfer t = { .size = sizeof(t), .memory = m, .local = v, .length = 1 };
		struct peerdma_ipc_handle mine;

		failures = 0;
		CHECK(peerdma_ipc_signal_set(s, 1) == -EPERM && peerdma_ipc_signal_wait(s, 0, 9, 0, NULL) == -EPERM &&
		      peerdma_ipc_signal_export(own_signal, &mine) == -EPERM && peerdma_ipc_signal_set(own_signal, 1) == -EPERM, "child: -EPERM");
		CHECK(peerdma_ipc_copy(&t, 1, NULL, 0) == -EPERM, "child: no copy");
		CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_signal_close(s) && !peerdma_ipc_signal_close(own_signal) &&
		      !peerdma_ipc_unexport(&h) && !peerdma_ipc_free(v), "child: left alone");
		CHECK(*(char *)v == 0 && *(char *)m->ptr == 7, "child: the memory is there");
		CHECK(!OPEN(&a.handle, &again) && *(char *)again->ptr == 7, "child: opens for itself");
		CHECK(!OPEN(&h, &again), "child: opens its parent's");
		CHECK(!peerdma_ipc_alloc(4096, 0, &v) && !peerdma_ipc_export(v, 10, 0, &mine) && memcmp(&mine, &h, sizeof(h)), "child: exports");
		_exit(failures);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "a forked child: %d", status);
	CHECK(peerdma_ipc_valid(m) && !ASK(&o, OTHER_OPEN, .handle = h).ret, "nothing of the parent's has ended");
	CHECK(!peerdma_ipc_signal_set(s, 8) && !ASK(&o, OTHER_WAIT, .value = 8).ret, "and the signal works");
	CHECK(!peerdma_ipc_signal_set(own_signal, 8), "both");
	peerdma_ipc_signal_close(s);
	peerdma_ipc_signal_close(own_signal);
	peerdma_ipc_close(m);
	peerdma_ipc_free(v);
	other_end(&o, SIGKILL);
}

/* ---- threads ---- */

static struct peerdma_ipc_handle shared_handle;
static int thread_failures;

static void *opens(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2000; i++) {
		struct peerdma_ipc_memory *m = NULL;
		int ret = OPEN(&shared_handle, &m);

		if (ret || *(char *)m->ptr != 7 || peerdma_ipc_close(m) || (i % 50 == 0 && peerdma_ipc_trim()))
			__atomic_fetch_add(&thread_failures, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *waits(void *arg)
{
	peerdma_ipc_signal_wait(arg, PEERDMA_IPC_EQ, 12345, UINT64_MAX, NULL);
	return NULL;
}

static void threads(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 7);
	struct peerdma_ipc_signal *s = NULL;
	pthread_t t[4];
	void *result;

	shared_handle = a.handle;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, opens, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(!thread_failures, "four threads open, close and trim: %d failures", thread_failures);
	CHECK(!peerdma_ipc_signal_create(0, 0, &s), "a signal");
	pthread_create(&t[0], NULL, waits, s);
	usleep(50000);
	pthread_cancel(t[0]);
	pthread_join(t[0], &result);
	CHECK(result == PTHREAD_CANCELED, "a thread that waits is cancelled");
	CHECK(!peerdma_ipc_signal_set(s, 1) && !peerdma_ipc_signal_close(s), "no lock is left locked");
	other_end(&o, SIGKILL);
}

/* ---- limits ---- */

static void limits(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 7), b = ASK(&o, OTHER_SIGNAL, .value = 7);
	struct peerdma_ipc_handle h = { { 0 } };
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_signal *s = NULL;
	struct rlimit was, now;
	unsigned int before;
	int first, ret, fd = memfd_create("test", MFD_CLOEXEC);
	void *v, *file;

	if (ftruncate(fd, 4096))
		abort();
	file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	getrlimit(RLIMIT_NOFILE, &was);
	before = descriptors(getpid());
	first = dup(0);		/* the lowest that is free */
	close(first);
	for (int spare = 0; spare < 12; spare++) {
		/* From none to enough: each call fails with -EMFILE, or not at all, and leaves nothing behind. */
		now = was;
		now.rlim_cur = (rlim_t)(first + spare);
		setrlimit(RLIMIT_NOFILE, &now);
		ret = OPEN(&a.handle, &m);
		if (!ret) {
			peerdma_ipc_close(m);
			peerdma_ipc_trim();
		}
		if (ret != -EMFILE && ret)
			CHECK(0, "open with %d descriptors: %d", spare, ret);
		ret = peerdma_ipc_signal_open(&b.handle, sizeof(b.handle), &s);
		if (!ret)
			peerdma_ipc_signal_close(s);
		if (ret != -EMFILE && ret)
			CHECK(0, "signal_open with %d descriptors: %d", spare, ret);
		setrlimit(RLIMIT_NOFILE, &was);
		if (descriptors(getpid()) != before)
			CHECK(0, "with %d spare: %u descriptors, before %u", spare, descriptors(getpid()), before);
	}
	CHECK(!ret, "at last there are enough");
	for (int spare = 0; spare < 12; spare++) {
		now.rlim_cur = (rlim_t)(first + spare);
		setrlimit(RLIMIT_NOFILE, &now);
		ret = peerdma_ipc_alloc(4096, 0, &v);
		if (!ret) {
			ret = peerdma_ipc_export(v, 100, 0, &h);
			peerdma_ipc_free(v);
		}
		if (!ret) {
			ret = peerdma_ipc_export(file, 100, PEERDMA_IPC_I_UNEXPORT, &h);
			if (!ret)
				peerdma_ipc_unexport(&h);
		}
		setrlimit(RLIMIT_NOFILE, &was);
		if (ret && ret != -EMFILE)
			CHECK(0, "export with %d descriptors: %d", spare, ret);
	}
	CHECK(!ret, "exported at last");
	CHECK(descriptors(getpid()) <= before + 4, "what stays is the exporter's: %u more", descriptors(getpid()) - before);

	/* More exports than there are descriptors of importers. */
	now.rlim_cur = 64;
	setrlimit(RLIMIT_NOFILE, &now);
	for (int i = 0; i < 200; i++) {
		struct other_answer each = ASK(&o, OTHER_ALLOC, .value = 4096, .fill = (uint8_t)i);

		if (each.ret || OPEN(&each.handle, &m) || *(uint8_t *)m->ptr != (uint8_t)i)
			CHECK(0, "the %dth import: %d", i, each.ret);
	}
	setrlimit(RLIMIT_NOFILE, &was);
	CHECK(1, "200 imports take no descriptors");
	other_end(&o, SIGKILL);
}

/* An exporter that is stopped: others are not held up for good. */
static void stopped(void)
{
	struct other o = other_make(getuid()), o2 = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 7), b = ASK(&o2, OTHER_ALLOC, .value = 8192, .fill = 6);
	struct peerdma_ipc_memory *m = NULL;
	uint64_t start;

	/* It is stopped when waitpid() returns, not yet when kill() does. */
	kill(o.pid, SIGSTOP);
	CHECK(waitpid(o.pid, NULL, WUNTRACED) == o.pid, "it is stopped");
	start = now_ns();
	CHECK(OPEN(&a.handle, &m) == -ETIMEDOUT, "it does not answer");
	CHECK(now_ns() - start < 15000000000ULL, "and that is said in time");
	CHECK(!OPEN(&b.handle, &m) && *(char *)m->ptr == 6, "another does");
	kill(o.pid, SIGCONT);
	CHECK(!OPEN(&a.handle, &m) && *(char *)m->ptr == 7, "it goes on");
	other_end(&o, SIGKILL);
	other_end(&o2, SIGKILL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {
		{ "memory", memory }, { "ends", ends }, { "handles", handles }, { "users", users }, { "exports", exports },
		{ "monitored", monitored }, { "signals", signals }, { "copies", copies }, { "structs", structs }, { "forks", forks },
		{ "threads", threads }, { "limits", limits }, { "stopped", stopped },
	};

	for (size_t i = 0; argc == 2 && i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (!strcmp(argv[1], tests[i].name)) {
			tests[i].fn();
			return failures ? 1 : 0;
		}
	}
	fprintf(stderr, "usage: calls TEST\n");
	return 2;
}
