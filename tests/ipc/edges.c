// SPDX-License-Identifier: MIT
/*
 * edges.c - what ordinary programs meet at the edges: a process that is stopped, descriptors that run
 * out, a free beside an export, a fork beside an open.
 *
 * usage: edges TEST
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "../lib/main_ended.h"
#include "other.h"
#include "peerdma_monitor.h"
#include "util.h"

#define OPEN_SIGNAL(handle, signal) peerdma_ipc_signal_open(handle, sizeof(struct peerdma_ipc_handle), signal)
#define MANY 2000

static struct shared {
	_Atomic int ready, go;
	struct peerdma_ipc_handle h[MANY];
	_Atomic uint64_t value[3];
} *shared;

static uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

static void await(_Atomic int *word, int value)
{
	while (atomic_load(word) < value)
		usleep(500);
}

static pid_t process(void (*fn)(void))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn();
		fflush(stdout);
		_exit(check_counts.failures);
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* All its threads. */
static void halt(pid_t pid)
{
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
}

static void create(int n, struct peerdma_ipc_signal **s, uint64_t value)
{
	for (int i = 0; i < n; i++) {
		MUST(!peerdma_ipc_signal_create(value + (uint64_t)i, 0, &s[i]) && !peerdma_ipc_signal_export(s[i], &shared->h[i]));
	}
	atomic_store(&shared->ready, 1);
}

/* ---- signals of an exporter that is stopped ---- */

static void three_signals(void)
{
	struct peerdma_ipc_signal *s[3];

	create(3, s, 100);
	for (;;) {
		for (int i = 0; i < 3; i++)
			atomic_store(&shared->value[i], peerdma_ipc_signal_get(s[i]));
		usleep(1000);
	}
}

/* An answer that comes late is not taken for the next one. */
static void late(void)
{
	pid_t pid = process(three_signals);
	struct peerdma_ipc_signal *a = NULL, *b = NULL, *c = NULL;

	await(&shared->ready, 1);
	CHECK(!OPEN_SIGNAL(&shared->h[0], &a), "the first");
	halt(pid);
	CHECK(OPEN_SIGNAL(&shared->h[1], &b) == -ETIMEDOUT, "the second, of a stopped exporter");
	kill(pid, SIGCONT);
	usleep(200000);
	CHECK(!OPEN_SIGNAL(&shared->h[2], &c) && peerdma_ipc_signal_get(c) == 102, "the third is the third");
	CHECK(!peerdma_ipc_signal_set(c, 7), "set");
	usleep(100000);
	CHECK(shared->value[0] == 100 && shared->value[1] == 101 && shared->value[2] == 7, "no other was");
	peerdma_ipc_signal_close(a);
	peerdma_ipc_signal_close(c);
	end(pid);
}

static void many_signals(void)
{
	static struct peerdma_ipc_signal *s[MANY];
	int deaths = 0;

	create(MANY, s, 0);
	await(&shared->go, 1);
	usleep(500000);
	for (int i = 0; i < MANY; i++)
		deaths += peerdma_ipc_signal_wait(s[i], PEERDMA_IPC_EQ, 1 << 20, 0, NULL) == -EOWNERDEAD;
	CHECK(!deaths, "the creator: %d of %d signals that were closed are reported as of processes that ended", deaths, MANY);
}

static void close_many(bool stop)
{
	static struct peerdma_ipc_signal *s[MANY];
	pid_t pid = process(many_signals);
	unsigned int before = descriptors(getpid());
	int opened = 0, status;

	await(&shared->ready, 1);
	for (int i = 0; i < MANY; i++)
		opened += !OPEN_SIGNAL(&shared->h[i], &s[i]);
	CHECK(opened == MANY && descriptors(getpid()) - before <= MANY / 64 + 1, "%d signals are open, by %u descriptors", opened,
	      descriptors(getpid()) - before);
	if (stop)
		halt(pid);
	for (int i = 0; i < MANY; i++)
		peerdma_ipc_signal_close(s[i]);
	kill(pid, SIGCONT);
	CHECK(descriptors(getpid()) == before, "closed, without a descriptor left");
	atomic_store(&shared->go, 1);
	waitpid(pid, &status, 0);
	CHECK(!status, "%s", stop ? "while it was stopped" : "while it ran");
	atomic_store(&shared->go, 0);
	atomic_store(&shared->ready, 0);
}

static void closes(void)
{
	close_many(false);
	close_many(true);
}

static void *open_first(void *unused)
{
	struct peerdma_ipc_signal *s;

	atomic_store(&shared->go, 1);
	CHECK(OPEN_SIGNAL(&shared->h[0], &s) == -ETIMEDOUT, "of the one that is stopped");
	return NULL;
}

/* One exporter that is stopped does not hold up opens of another's signals. */
static void apart(void)
{
	struct other o = other_make(getuid());
	pid_t pid = process(three_signals);
	struct peerdma_ipc_signal *s = NULL;
	struct peerdma_ipc_handle h = ASK(&o, OTHER_SIGNAL, .value = 5).handle;
	pthread_t thread;
	uint64_t start;
	int ret;

	await(&shared->ready, 1);
	halt(pid);
	pthread_create(&thread, NULL, open_first, NULL);
	await(&shared->go, 1);
	usleep(200000);
	start = now_ms();
	ret = OPEN_SIGNAL(&h, &s);
	start = now_ms() - start;
	CHECK(!ret && start < 2000, "another's signal: %d after %llu ms", ret, (unsigned long long)start);
	peerdma_ipc_signal_close(s);
	pthread_join(thread, NULL);
	end(pid);
	other_end(&o, SIGKILL);
}

/* ---- an exporter that answers what no release does ---- */

static int listener;
static struct peerdma_ipc_handle forged;
static struct answers {
	uint32_t provider;
	uint64_t base, length;		/* length: 0: 4096 */
	bool file;			/* one comes with it */
	uint32_t uid;			/* whose exporter it is */
} answers;

static void false_exporter(void)
{
	struct {
		uint32_t magic;
		int32_t error;
		uint32_t provider, line;
		uint64_t base, length, fd_offset;
		uint8_t blob[64];
		char pci[20];
		uint32_t fds;
	} reply = { .magic = 0x32637069, .provider = answers.provider, .base = answers.base,
		    .length = answers.length ? answers.length : 4096, .fds = answers.file ? 3 : 1 };
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { .iov_base = &reply, .iov_len = sizeof(reply) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int home = memfd_create("home", MFD_ALLOW_SEALING), conn;
	size_t size = 4096 + 65536 * 8;
	char *p, request[64];
	uint32_t slot;

	MUST(!ftruncate(home, (off_t)size));
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, home, 0);
	memcpy(p, "pdmahome", 8);
	*(uint32_t *)(void *)(p + 8) = 65536;
	memcpy(&slot, forged.bytes + 72, 4);
	memcpy(p + 4096 + 8 * slot, forged.bytes + 80, 8);
	fcntl(home, F_ADD_SEALS, F_SEAL_SHRINK);
	conn = accept(listener, NULL, NULL);
	MUST(recv(conn, request, sizeof(request), 0) >= 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &home, sizeof(int));
	if (answers.file) {
		c->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(c) + sizeof(int), &home, sizeof(int));
	} else {
		msg.msg_controllen = CMSG_SPACE(sizeof(int));
	}
	sendmsg(conn, &msg, 0);
	pause();
}

/* Of what the handle names, in a process that there is not. */
static pid_t start_false_exporter(const struct peerdma_ipc_handle *handle, struct answers what)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pid_t pid;
	int n;

	forged = *handle;
	answers = what;
	memcpy(forged.bytes + 64, &what.uid, sizeof(what.uid));
	for (int i = 32; i < 48; i++)
		forged.bytes[i] ^= 0x5a;
	handle_sign(&forged);
	n = sprintf(address.sun_path + 1, "peerdma-ipc/");
	for (int i = 32; i < 48; i++)
		n += sprintf(address.sun_path + 1 + n, "%02x", forged.bytes[i]);
	listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	MUST(!seteuid(what.uid));
	MUST(!bind(listener, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) && !listen(listener, 5));
	MUST(!seteuid(getuid()));
	pid = process(false_exporter);
	close(listener);
	return pid;
}

/* Later releases have other providers. */
static void provider(void)
{
	struct peerdma_ipc_signal *own = NULL, *s = NULL;
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_handle handle;
	void *p = NULL;
	pid_t pid;
	int ret;

	create(1, &own, 1);
	pid = start_false_exporter(&shared->h[0], (struct answers) { .provider = 9, .uid = getuid() });
	ret = OPEN_SIGNAL(&forged, &s);
	CHECK(ret == -EPROTO, "a signal of a provider that there is not: %d", ret);
	end(pid);
	CHECK(!peerdma_ipc_alloc(4096, 0, &p) && !peerdma_ipc_export(p, 4096, 0, &handle), "memory");
	pid = start_false_exporter(&handle, (struct answers) { .provider = 9, .uid = getuid() });
	ret = OPEN(&forged, &m);
	CHECK(ret == -EPROTO && strstr(peerdma_last_error(), "does not know"), "memory of such a provider: %d", ret);
	end(pid);
	peerdma_ipc_signal_close(own);
	peerdma_ipc_free(p);
}

/* It answers in the name of a process of another user, of which something is open. */
static void pretender(void)
{
	struct peerdma_ipc_memory *m = NULL, *other = NULL;
	struct peerdma_ipc_handle handle[2];
	void *p[2] = { NULL };
	pid_t pid;
	int ret;

	for (int i = 0; i < 2; i++)
		CHECK(!peerdma_ipc_alloc(4096, 0, &p[i]) && !peerdma_ipc_export(p[i], 4096, 0, &handle[i]), "memory");
	pid = start_false_exporter(&handle[0], (struct answers) { .provider = 1, .file = true, .uid = getuid() });
	CHECK(!OPEN(&forged, &m), "opened: %s", peerdma_last_error());
	end(pid);
	if (getuid()) {
		printf("# not tried: only root can be another user\n");
	} else {
		pid = start_false_exporter(&handle[1], (struct answers) { .provider = 1, .file = true, .uid = 1001 });
		ret = OPEN(&forged, &other);
		CHECK(ret == -EACCES && strstr(peerdma_last_error(), "the exporter runs as user 0"), "by another user: %d, %s", ret,
		      peerdma_last_error());
		end(pid);
	}
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim(), "closed");
	for (int i = 0; i < 2; i++)
		peerdma_ipc_free(p[i]);
}

/* What it says of memory of CUDA's pool, of which a descriptor comes, is refused before CUDA is asked. */
static void pool_of(const struct peerdma_ipc_handle *handle, struct answers what, int ret, const char *text)
{
	struct peerdma_ipc_memory *m = NULL;
	pid_t pid;
	int got;

	what.provider = 5;
	what.base = 1 << 20;
	pid = start_false_exporter(handle, what);
	got = OPEN(&forged, &m);
	CHECK(got == ret && strstr(peerdma_last_error(), text), "%llu bytes of a pool of user %u: %d, %s", (unsigned long long)what.length,
	      what.uid, got, peerdma_last_error());
	end(pid);
}

static void pool(void)
{
	struct answers what = { .length = 1 << 20, .uid = getuid() };
	struct peerdma_ipc_handle handle;
	void *p = NULL;

	CHECK(!peerdma_ipc_alloc(4096, 0, &p) && !peerdma_ipc_export(p, 4096, 0, &handle), "memory");
	pool_of(&handle, what, -EPROTO, "no descriptor");
	what.file = true;
	what.length = 4UL << 30;
	pool_of(&handle, what, -ENODEV, "libcuda");
	what.length++;
	pool_of(&handle, what, -EOPNOTSUPP, "more than 4 GiB");
	what.uid = 1001;
	if (getuid())
		printf("# not tried: only root can be another user\n");
	else
		pool_of(&handle, what, -EACCES, "only that user may open");
	peerdma_ipc_free(p);
}

/* ---- a free beside an export ---- */

static char *freed_at;
static _Atomic int state;	/* 1: freeing, 2: exported meanwhile */
static int export_error = 1;

static void *export_meanwhile(void *unused)
{
	while (atomic_load(&state) < 1)
		usleep(100);
	export_error = peerdma_ipc_export(freed_at, 4096, 0, &shared->h[0]);
	atomic_store(&state, 2);
	return NULL;
}

static uint64_t ended(void)
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };

	return peerdma_ipc_counters(&c) ? 0 : c.ended;
}

static uint64_t ended_before;		/* of exports, when the free of `freed_at` was about to happen */

static void subscriber(void *arg, const struct peerdma_hook_event *event)
{
	if (event->after || event->addr != (uintptr_t)freed_at)
		return;
	ended_before = ended();
	if (atomic_load(&state))
		return;
	atomic_store(&state, 1);
	while (atomic_load(&state) < 2)
		usleep(100);
}

static void *map_file(void *at, const char *text)
{
	int fd = memfd_create(text, MFD_CLOEXEC);

	MUST(!ftruncate(fd, 4096) && pwrite(fd, text, strlen(text), 0) >= 0);
	return mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
}

/* This process's descriptors of map_file()'s file: map_file()'s own, and those of exports. */
static unsigned int open_of(const char *text)
{
	char path[64], target[64], wanted[64];
	unsigned int n = 0;
	ssize_t length;

	snprintf(wanted, sizeof(wanted), "/memfd:%s ", text);
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, target, sizeof(target));
		n += length > 0 && (size_t)length > strlen(wanted) && !memcmp(target, wanted, strlen(wanted));
	}
	return n;
}

static void freeing(void)
{
	struct other o = other_make(getuid());
	struct peerdma_ipc_handle h;
	char *unrelated = map_file(NULL, "unrelated");
	pthread_t thread;
	int ret = peerdma_ipc_export(unrelated, 4096, 0, &h), first;
	unsigned int had;

	if (ret == -EOPNOTSUPP) {
		printf("skipped: %s\n", peerdma_last_error());
		exit(77);
	}
	freed_at = map_file(NULL, "old");
	CHECK(!ret && !peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, subscriber, NULL), "the library hears of frees before this test does");
	pthread_create(&thread, NULL, export_meanwhile, NULL);
	munmap(freed_at, 4096);
	pthread_join(thread, NULL);
	CHECK(!export_error, "exported inside of munmap(), by another thread: %d", export_error);
	/* The thread that answers looks at it. */
	for (int i = 0; i < 300 && ASK(&o, OTHER_OPEN, .handle = shared->h[0]).ret != -ESTALE; i++)
		usleep(10000);
	CHECK(ASK(&o, OTHER_OPEN, .handle = shared->h[0]).ret == -ESTALE, "it has ended with the free");
	map_file(freed_at, "new");
	first = peerdma_ipc_export(freed_at, 4096, 0, &h);
	CHECK(!first && ASK(&o, OTHER_OPEN, .handle = h).value == 'n', "what is there now is what is exported now");
	/* The end of a free, when another allocation is there: not its end. */
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, freed_at, 4096, 1);
	usleep(200000);
	CHECK(!ASK(&o, OTHER_OPEN, .handle = h).ret, "the end of a free is not the end of what came after it");
	/* More of them than the thread that looks can keep up with. */
	for (int i = 0; i < 20000; i++)
		peerdma_monitor_notify(PEERDMA_MEMORY_HOST, i % 3 ? freed_at : unrelated, 4096, 1);
	CHECK(!ASK(&o, OTHER_OPEN, .handle = h).ret, "20,000 times");
	had = open_of("new");
	munmap(freed_at, 4096);
	CHECK(ended_before == 2 && ended() == 2, "its own free ends it before it happens");
	/* The thread is through with them, and closes the export's descriptor. */
	for (int i = 0; i < 1000 && open_of("new") == had; i++)
		usleep(10000);
	CHECK(had == 2 && open_of("new") == 1, "and its descriptor is closed (%u before)", had);
	other_end(&o, SIGKILL);
}

/* A copy of the library's file is another library to the loader. */
static void second_copy(void)
{
	int (*subscribe)(uint32_t memory, peerdma_hook_fn fn, void *arg);
	const char *(*last_error)(void);
	char bytes[4096], path[64];
	int in, out = memfd_create("libpeerdma.so.0", 0), ret;
	void *copy;
	Dl_info info;
	ssize_t n;

	if (peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, subscriber, NULL)) {
		printf("skipped: %s\n", peerdma_last_error());
		exit(77);
	}
	CHECK(dladdr((void *)(uintptr_t)peerdma_last_error, &info) && info.dli_fname, "the library's file");
	in = open(info.dli_fname, O_RDONLY);
	while ((n = read(in, bytes, sizeof(bytes))) > 0) {
		MUST(write(out, bytes, (size_t)n) == n);
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
	copy = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(copy != NULL, "a copy: %s", copy ? "loaded" : dlerror());
	if (!copy)
		return;
	*(void **)&subscribe = dlsym(copy, "peerdma_monitor_subscribe");
	*(void **)&last_error = dlsym(copy, "peerdma_last_error");
	ret = subscribe(PEERDMA_MEMORY_HOST, subscriber, NULL);
	CHECK(ret == -EOPNOTSUPP && strstr(last_error(), "another copy of libpeerdma in this process"), "it says why it sees no frees: %s",
	      last_error());
}

/* Frees that nothing reports: the same address is another file's. */
static void replaced(void)
{
	struct other o = other_make(getuid());
	struct peerdma_ipc_handle h[2];
	char *p = map_file(NULL, "old");

	CHECK(!peerdma_ipc_export(p, 4096, PEERDMA_IPC_I_UNEXPORT, &h[0]), "exported, with a promise that is not held");
	map_file(p, "new");
	CHECK(!peerdma_ipc_export(p, 4096, PEERDMA_IPC_I_UNEXPORT, &h[1]) && memcmp(&h[0], &h[1], sizeof(h[0])), "another file: another handle");
	CHECK(ASK(&o, OTHER_OPEN, .handle = h[1]).value == 'n', "which opens that one");
	other_end(&o, SIGKILL);
}

/* ---- files ---- */

static void files(void)
{
	struct other o = other_make(getuid());
	struct peerdma_ipc_handle h;
	struct peerdma_ipc_memory *m = NULL;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), status;
	const unsigned int any = PEERDMA_IPC_ANY_USER | PEERDMA_IPC_I_UNEXPORT;
	char *p;
	pid_t pid;

	MUST(!ftruncate(fd, 8192));
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(peerdma_ipc_export(p, 4096, any, &h) == -EOPNOTSUPP, "a file that can be shortened is not every user's");
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	CHECK(!peerdma_ipc_export(p, 4096, any, &shared->h[0]), "one that cannot is");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		check_counts.failures = 0;
		CHECK(!OPEN(&shared->h[0], &m), "opened");
		CHECK(mprotect(m->ptr, 4096, PROT_READ | PROT_WRITE) && errno == EACCES, "to read only, as the mapping is");
		fflush(stdout);
		_exit(check_counts.failures);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "in another process");

	/* Not from its beginning. */
	CHECK(pwrite(fd, "second", 6, 4096) == 6, "written");
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
	CHECK(!peerdma_ipc_export(p, 4096, PEERDMA_IPC_I_UNEXPORT, &shared->h[1]), "the file's second page");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		check_counts.failures = 0;
		CHECK(!OPEN(&shared->h[1], &m) && !memcmp(m->ptr, "second", 7), "is what another process opens");
		fflush(stdout);
		_exit(check_counts.failures);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "there");
	other_end(&o, SIGKILL);
}

/* ---- descriptors ---- */

/* Without room for descriptors the thread sleeps. */
static void quiet(void)
{
	struct rlimit was, one = { .rlim_cur = 1 };
	struct rusage before, after;
	long us;
	void *v;

	getrlimit(RLIMIT_NOFILE, &was);
	one.rlim_max = was.rlim_max;
	CHECK(!peerdma_ipc_alloc(4096, 0, &v) && !peerdma_ipc_export(v, 4096, 0, &shared->h[0]), "exported");
	setrlimit(RLIMIT_NOFILE, &one);
	/* Wakes it once. */
	if (!fork()) {
		struct peerdma_ipc_memory *m;

		setrlimit(RLIMIT_NOFILE, &was);
		alarm(2);
		_exit(OPEN(&shared->h[0], &m));
	}
	wait(NULL);
	getrusage(RUSAGE_SELF, &before);
	sleep(2);
	getrusage(RUSAGE_SELF, &after);
	us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000L +
	     after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec;
	CHECK(us < 500000, "of 2 s, %ld us at work", us);
	setrlimit(RLIMIT_NOFILE, &was);
	/* And if the program closes all that it does not know, behind a sanitizer's back: it means to. */
	for (int fd = 3; fd < 64; fd++)
		syscall(SYS_close, fd);
	getrusage(RUSAGE_SELF, &before);
	sleep(1);
	getrusage(RUSAGE_SELF, &after);
	CHECK(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec < 1 &&
	      after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec - before.ru_stime.tv_usec < 500000,
	      "nor when its descriptors are closed");
}

static void none_left(void)
{
	struct peerdma_ipc_handle h;
	struct peerdma_ipc_memory *m = NULL;
	void *v;
	char *p;
	int ret;

	CHECK(!peerdma_ipc_alloc(4096, 0, &v) && !peerdma_ipc_export(v, 4096, 0, &h), "exported");
	p = map_file(NULL, "file");
	while (dup(0) >= 0)
		;
	ret = peerdma_ipc_export(p, 4096, PEERDMA_IPC_I_UNEXPORT, &h);
	CHECK(ret == -EMFILE, "a mapping, without descriptors: %d", ret);
	ret = peerdma_ipc_export(v, 4096, 0, &h);
	CHECK(!ret, "a block needs none: %d", ret);
	h.bytes[32] ^= 1;
	handle_sign(&h);
	ret = OPEN(&h, &m);
	CHECK(ret == -EMFILE, "an open: %d", ret);
	for (int fd = 64; !close(fd); fd++)
		;
}

/* ---- threads ---- */

static bool came_through;

/*
 * A daemon closes all descriptors, and has files of its own under these numbers: what the library does afterwards reaches none
 * of them.
 */
#define NUMBERS 200

static void close_all(int but)
{
	for (int fd = 3; fd < NUMBERS; fd++) {
		if (fd != but)
			syscall(SYS_close, fd);		/* behind a sanitizer's back */
	}
}

/* Under each number that is free: a file, or an epoll that has something to report, once. */
static void take_all(bool epolls)
{
	static int full;
	int fd, pair[2];

	if (epolls && !full) {
		MUST(!pipe(pair) && write(pair[1], "", 1) == 1);
		full = fcntl(pair[0], F_DUPFD, NUMBERS);
	}
	do {
		struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = &full };

		fd = epolls ? epoll_create1(0) : memfd_create("the program's", 0);
		if (fd >= 0 && epolls)
			epoll_ctl(fd, EPOLL_CTL_ADD, full, &event);
	} while (fd >= 0 && fd < NUMBERS);
	close(fd);
}

static void check_all(const char *when, int but, bool epolls)
{
	int gone = 0, written = 0, taken = 0;

	for (int fd = 3; fd < NUMBERS; fd++) {
		struct epoll_event event;
		struct stat st;

		if (fd == but)
			continue;
		gone += fcntl(fd, F_GETFD) < 0;
		written += !epolls && !fstat(fd, &st) && st.st_size;
		taken += epolls && !epoll_wait(fd, &event, 1, 0);
	}
	CHECK(!gone && !written && !taken, "%s: of the program's descriptors, %d are closed; %d files were written to, %d epolls have lost "
	      "their event", when, gone, written, taken);
}

/* A connection that asks nothing, from a process that does not use the library: the thread hangs up on it some time later. */
static pid_t silent_importer(const struct peerdma_ipc_handle *handle)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char byte, *at = address.sun_path + 1;
	int ready[2];
	pid_t pid;

	MUST(!pipe(ready));
	at += sprintf(at, "peerdma-ipc/");
	for (int i = 32; i < 48; i++)		/* where a handle has it */
		at += sprintf(at, "%02x", handle->bytes[i]);
	pid = fork();
	if (!pid) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		if (connect(fd, (struct sockaddr *)&address, (socklen_t)(at - (char *)&address)))
			_exit(1);
		byte = 0;
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1, "a connection");
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* One descriptor was closed: the importer does not get what has its number. */
static void one_is_closed(struct other *o)
{
	struct peerdma_ipc_handle h = { { 0 } };
	int fd = dup(0), secret;
	void *p;

	close(fd);
	CHECK(!peerdma_ipc_alloc(4096, 0, &p) && !peerdma_ipc_export(p, 4096, 0, &h) && fcntl(fd, F_GET_SEALS) > 0,
	      "memory, of descriptor %d", fd);
	syscall(SYS_close, fd);
	secret = memfd_create("the program's", MFD_ALLOW_SEALING);
	CHECK(secret == fd && !ftruncate(secret, 4096), "which is another file then");
	CHECK(ASK(o, OTHER_OPEN, .handle = h).ret == -ESTALE, "that no importer gets");
	CHECK(peerdma_ipc_export(p, 4096, 0, &h) == 0 && !peerdma_ipc_free(p) && fcntl(fd, F_GETFD) >= 0, "nor is it closed");
	syscall(SYS_close, fd);
}

static void daemon_closes(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_SIGNAL, .value = 1);
	struct peerdma_ipc_signal *of_other = NULL, *s = NULL, *any = NULL;
	struct peerdma_ipc_handle h = { { 0 } }, of_block, of_any;
	char *file = map_file(NULL, "exported");
	int ret = peerdma_ipc_export(file, 4096, 0, &h), status = -1;
	pid_t importer, child;
	uint64_t before;
	void *block = NULL;

	if (ret == -EOPNOTSUPP) {
		printf("skipped: %s\n", peerdma_last_error());
		exit(77);
	}
	one_is_closed(&o);
	CHECK(!ret && !peerdma_ipc_alloc(4096, 0, &block) && !peerdma_ipc_export(block, 4096, 0, &of_block) &&
	      !peerdma_ipc_signal_create(0, 0, &s) && !peerdma_ipc_signal_create(0, PEERDMA_IPC_ANY_USER, &any) &&
	      !peerdma_ipc_signal_export(any, &of_any) && !OPEN_SIGNAL(&a.handle, &of_other), "memory, and signals of both sides");
	CHECK(!ASK(&o, OTHER_OPEN, .handle = h).ret, "opened");
	importer = silent_importer(&h);
	/* As long as it has a connection that asks nothing, the thread looks at its clock. */
	before = ended();
	close_all(o.sock);
	take_all(false);
	munmap(file, 4096);
	CHECK(ended() == before + 1, "a free still ends the export");
	CHECK(!peerdma_ipc_unexport(&of_block) && !peerdma_ipc_free(block), "what was allocated is freed");
	CHECK(!peerdma_ipc_signal_close(s) && !peerdma_ipc_signal_close(any) && !peerdma_ipc_signal_close(of_other), "signals are closed");
	ret = peerdma_ipc_signal_create(0, 0, &s);
	CHECK(ret == -EBADF && strstr(peerdma_last_error(), "the program has closed the descriptors"),
	      "none is made any more: %s", peerdma_last_error());
	usleep(200000);
	check_all("after all calls", o.sock, false);
	fflush(stdout);
	child = fork();
	if (!child) {
		check_counts.failures = 0;
		check_all("in a forked child", o.sock, false);
		_exit(check_counts.failures ? 1 : 0);
	}
	waitpid(child, &status, 0);
	CHECK(!status, "a forked child has them all");
	close_all(o.sock);
	take_all(true);
	sleep(11);	/* longer than the thread's patience with a connection */
	check_all("when the thread has hung up on an importer", o.sock, true);
	end(importer);
	other_end(&o, SIGKILL);
}

static void *notify_cancelled(void *p)
{
	pthread_cancel(pthread_self());
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, 4096, 0);
	came_through = true;
	return NULL;
}

static void cancelled(void)
{
	struct peerdma_ipc_handle h;
	char *p = map_file(NULL, "file");
	pthread_t thread;

	CHECK(!peerdma_monitor_start(PEERDMA_MEMORY_HOST, "this test") && !peerdma_ipc_export(p, 4096, 0, &h), "exported");
	pthread_create(&thread, NULL, notify_cancelled, p);
	pthread_join(thread, NULL);
	CHECK(came_through, "the end of an export is no cancellation point");
}

static _Atomic int stop;

static void *open_and_close(void *unused)
{
	struct peerdma_ipc_signal *s;

	while (!atomic_load(&stop)) {
		if (!OPEN_SIGNAL(&shared->h[0], &s))
			peerdma_ipc_signal_close(s);
	}
	return NULL;
}

/* In a child of fork(): whether it has a socket of the library. */
static int has_sockets(void)
{
	for (int fd = 3; fd < 64; fd++) {
		int type;
		socklen_t size = sizeof(type);

		if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_SEQPACKET)
			return 1;
	}
	return 0;
}

static void children(void)
{
	pid_t pid = process(three_signals);
	pthread_t thread;
	int kept = 0, status;

	await(&shared->ready, 1);
	pthread_create(&thread, NULL, open_and_close, NULL);
	for (int i = 0; i < 2000; i++) {
		pid_t child = fork();

		if (!child)
			_exit(has_sockets());
		waitpid(child, &status, 0);
		kept += status != 0;
	}
	CHECK(!kept, "%d of 2000 forked children have a socket of the library", kept);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	end(pid);
}

static void *close_files(void *unused)
{
	while (!atomic_load(&stop)) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		MUST(fd >= 0 && !close(fd));
	}
	return unused;
}

/* Another thread opens and closes files of its own, while the library looks for the descriptor of a mapping. */
static void closing(void)
{
	struct peerdma_ipc_handle h;
	pthread_t thread;
	int done = 0;

	MUST(!pthread_create(&thread, NULL, close_files, NULL));
	for (int i = 0; i < 200; i++) {
		int first = memfd_create("test", MFD_CLOEXEC);
		/* Behind those of the other thread, or the search ends before it comes to them. */
		int fd = fcntl(first, F_DUPFD_CLOEXEC, 100);
		char *p;

		MUST(fd >= 0 && !close(first) && !ftruncate(fd, 4096));
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		done += !peerdma_ipc_export(p, 4096, PEERDMA_IPC_I_UNEXPORT, &h) && !peerdma_ipc_unexport(&h);
		munmap(p, 4096);
		close(fd);
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	CHECK(done == 200, "each is exported: %d of 200", done);
}

static void *without_main(void *unused)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct peerdma_ipc_handle h;
	char *p, *r;

	await_end_of_main();
	MUST(fd >= 0 && !ftruncate(fd, 8192));
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	r = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
	CHECK(!peerdma_ipc_export(p, 4096, PEERDMA_IPC_I_UNEXPORT, &h) && !peerdma_ipc_unexport(&h), "a file's memory is exported");
	CHECK(!peerdma_ipc_export(r, 4096, PEERDMA_IPC_I_UNEXPORT, &h) && !peerdma_ipc_unexport(&h), "and for reading only");
	fflush(stdout);
	_exit(check_counts.failures);
	return unused;
}

static void end_of_main(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, without_main, NULL))
		pthread_exit(NULL);
}

static void main_ended(void)
{
	pid_t pid = process(end_of_main);
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && !status, "a process without its first thread");
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "late", late }, { "closes", closes }, { "apart", apart }, { "provider", provider }, { "pool", pool }, { "pretender", pretender }, { "freeing", freeing },
		{ "replaced", replaced }, { "second-copy", second_copy }, { "files", files }, { "quiet", quiet }, { "daemon", daemon_closes }, { "none-left", none_left }, { "cancelled", cancelled },
		{ "children", children }, { "closing", closing }, { "main-ended", main_ended },
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
