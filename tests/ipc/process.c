// SPDX-License-Identifier: MIT
/*
 * process.c - what happens to the processes themselves: forks, threads, descriptors that run out, and an exporter
 * that is stopped.
 *
 * usage: process TEST
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "other.h"
#include "util.h"

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

		check_counts.failures = 0;
		CHECK(peerdma_ipc_signal_set(s, 1) == -EPERM && peerdma_ipc_signal_wait(s, 0, 9, 0, NULL) == -EPERM &&
		      peerdma_ipc_signal_export(own_signal, &mine) == -EPERM && peerdma_ipc_signal_set(own_signal, 1) == -EPERM, "child: -EPERM");
		CHECK(peerdma_ipc_copy(&t, 1, NULL, 0) == -EPERM, "child: no copy");
		CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_signal_close(s) && !peerdma_ipc_signal_close(own_signal) &&
		      !peerdma_ipc_unexport(&h) && !peerdma_ipc_free(v), "child: left alone");
		CHECK(*(char *)v == 0 && *(char *)m->ptr == 7, "child: the memory is there");
		CHECK(!OPEN(&a.handle, &again) && *(char *)again->ptr == 7, "child: opens for itself");
		CHECK(!OPEN(&h, &again), "child: opens its parent's");
		CHECK(!peerdma_ipc_alloc(4096, 0, &v) && !peerdma_ipc_export(v, 10, 0, &mine) && memcmp(&mine, &h, sizeof(h)), "child: exports");
		_exit(check_counts.failures);
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

/* ---- descriptors ---- */

#define MOST	1024

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* By its name: for the thread sanitizer, fstat() would use what another thread makes. */
static bool is_socket(int fd)
{
	char path[32], name[8] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name)) > 0 && !memcmp(name, "socket:", 7);
}

static bool before[MOST];		/* descriptors that were open before the library's */

/* A forked child has what this process has, but for the library's sockets, which are so many. */
static void inherited(int sockets)
{
	bool was[MOST], lost[MOST];
	int status = -1, found = 0;
	pid_t pid;

	for (int fd = 0; fd < MOST; fd++) {
		was[fd] = is_open(fd);
		lost[fd] = !before[fd] && is_socket(fd);
		found += lost[fd];
	}
	CHECK(found == sockets, "%d sockets of the library's", found);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		check_counts.failures = 0;
		for (int fd = 0; fd < MOST; fd++) {
			if (is_open(fd) != (was[fd] && !lost[fd]))
				CHECK(0, "child: descriptor %d is %s", fd, is_open(fd) ? "open" : "closed");
		}
		_exit(check_counts.failures ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "a child has all descriptors but those");
	for (int fd = 0; fd < MOST; fd++) {
		if (is_open(fd) != was[fd])
			CHECK(0, "descriptor %d is %s", fd, is_open(fd) ? "open" : "closed");
	}
}

/* What is free below `first' is taken, by no sockets. */
static void fill_below(int first)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDONLY);
	} while (fd >= 0 && fd < first);
	close(fd);
}

/* Whatever numbers the library's sockets have. */
static void numbers(void)
{
	/* Before this process uses the library. */
	struct other o[4] = { other_make(getuid()), other_make(getuid()), other_make(getuid()), other_make(getuid()) };
	struct other_answer a[4];
	struct peerdma_ipc_signal *s[5];
	struct peerdma_ipc_handle h = { { 0 } };
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < MOST ? limit.rlim_max : MOST;
	CHECK(limit.rlim_cur == MOST && !setrlimit(RLIMIT_NOFILE, &limit), "%d descriptors", MOST);
	for (int i = 0; i < 4; i++)
		a[i] = ASK(&o[i], OTHER_SIGNAL, .value = 7);
	for (int fd = 0; fd < MOST; fd++)
		before[fd] = is_open(fd);
	/* The first of the numbers that share a word. */
	for (int i = 0; i < 2; i++) {
		int fd = 64 << i;

		fill_below(fd);
		CHECK(!peerdma_ipc_signal_open(&a[i].handle, sizeof(a[i].handle), &s[i]) && is_socket(fd), "a connection by descriptor %d", fd);
		inherited(1 + i);
	}
	/* The first fifteen of them, for all that is made now. */
	fill_below(15 * 64);
	CHECK(!peerdma_ipc_signal_open(&a[2].handle, sizeof(a[2].handle), &s[2]) && !peerdma_ipc_signal_create(1, 0, &s[3]) &&
	      !peerdma_ipc_signal_export(s[3], &h) && !ASK(&o[3], OTHER_OPEN_SIGNAL, .handle = h).ret,
	      "one that connects, one that listens, one that was accepted");
	inherited(5);
	CHECK(!peerdma_ipc_signal_open(&a[3].handle, sizeof(a[3].handle), &s[4]) && peerdma_ipc_signal_get(s[4]) == 7 &&
	      !ASK(&o[3], OTHER_OPEN_SIGNAL, .handle = h).ret, "and the library works");
	for (int i = 0; i < 5; i++)
		peerdma_ipc_signal_close(s[i]);
	for (int i = 0; i < 4; i++)
		other_end(&o[i], SIGKILL);
}

/* ---- threads ---- */

static struct peerdma_ipc_handle shared_handle;
static int thread_failures;

static void *opens(void *arg)
{
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

	MUST(!ftruncate(fd, 4096));
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

/* As many signals as a process can have: what was refused is there when one has been closed, and each has a value of its own. */
static void full(void)
{
	enum { SIGNALS = 16384 };
	static struct peerdma_ipc_signal *s[SIGNALS];
	struct peerdma_ipc_signal *more = NULL;
	struct peerdma_ipc_handle h;
	uint64_t value;
	int ret = 0, made = 0, wrong = 0;
	void *v;

	while (made < SIGNALS && !(ret = peerdma_ipc_signal_create((uint64_t)made, 0, &s[made])))
		made++;
	CHECK(made == SIGNALS, "%d signals: %d", made, ret);
	for (int i = 0; i < 2; i++) {
		ret = peerdma_ipc_signal_create(1, 0, &more);
		CHECK(ret == -ENOSPC && !more && strstr(peerdma_last_error(), "peerdma_ipc_signal_create: this process has 16384 signals"),
		      "one more: %s", peerdma_last_error());
	}
	for (int i = 0; i < SIGNALS; i++)
		wrong += peerdma_ipc_signal_wait(s[i], PEERDMA_IPC_EQ, (uint64_t)i, 0, &value) || value != (uint64_t)i;
	CHECK(!wrong, "%d have another's value", wrong);
	/* Memory, and signals of other kinds, are counted apart. */
	CHECK(!peerdma_ipc_alloc(4096, 0, &v) && !peerdma_ipc_export(v, 4096, 0, &h), "memory can be exported");
	CHECK(!peerdma_ipc_signal_create(7, PEERDMA_IPC_ANY_USER, &more) && !peerdma_ipc_signal_close(more), "a signal for any user made");
	CHECK(!peerdma_ipc_signal_close(s[77]) && !peerdma_ipc_signal_create(5, 0, &s[77]), "one closed, one made");
	CHECK(!peerdma_ipc_signal_wait(s[77], PEERDMA_IPC_EQ, 5, 0, NULL), "with its value");
	for (int i = 0; i < made; i++)
		wrong += !!peerdma_ipc_signal_close(s[i]);
	CHECK(!wrong && !peerdma_ipc_signal_create(1, 0, &more) && !peerdma_ipc_signal_close(more), "all closed");
	peerdma_ipc_free(v);
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
	static const struct named_test tests[] = {
		{ "forks", forks }, { "numbers", numbers }, { "threads", threads }, { "limits", limits }, { "full", full },
		{ "stopped", stopped },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
