// SPDX-License-Identifier: MIT
/*
 * nocalls.c - the first, second, third ... call of each system function fails, in one child each, until a sequence of calls
 * of peerdma_ipc.h makes no such call any more. Each call of the sequence must return what the header says, with a text
 * that names the call; no descriptor, mapping, export or import may be left; and the next sequence must work.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "other.h"
#include "util.h"

enum call {
	MEMFD_CREATE, FTRUNCATE, FALLOCATE, MMAP, EVENTFD, SOCKET, BIND, LISTEN, EPOLL_CREATE1, EPOLL_CTL, GETRANDOM,
	PTHREAD_CREATE,
	CONNECT, GETSOCKOPT, FSTAT, FOPEN, CALLS
};

static struct {
	const char *name;
	int error;
} calls[CALLS] = {
	[MEMFD_CREATE] = { "memfd_create", EMFILE }, [FTRUNCATE] = { "ftruncate", ENOMEM }, [FALLOCATE] = { "fallocate", ENOSPC },
	[MMAP] = { "mmap", EAGAIN }, [EVENTFD] = { "eventfd", ENFILE }, [SOCKET] = { "socket", EMFILE },
	[BIND] = { "bind", ENOMEM },
	[LISTEN] = { "listen", ENOMEM }, [EPOLL_CREATE1] = { "epoll_create1", EMFILE }, [EPOLL_CTL] = { "epoll_ctl", ENOMEM },
	[GETRANDOM] = { "getrandom", ENOSYS }, [PTHREAD_CREATE] = { "pthread_create", EAGAIN }, [CONNECT] = { "connect", ENOMEM },
	[GETSOCKOPT] = { "getsockopt", ENOMEM }, [FSTAT] = { "fstat", EIO },
	[FOPEN] = { "fopen", ENOENT },
};

static pthread_t caller;		/* calls of other threads work */
static int failing = -1;		/* enum call */
static unsigned int fail_in;
static bool failed;

static bool fails_now(enum call call)
{
	if ((int)call != failing || !pthread_equal(caller, pthread_self()) || !fail_in || --fail_in)
		return false;
	/* A limit on locked memory stays where it is. */
	if (call == MMAP)
		fail_in = 1;
	failed = true;
	errno = calls[call].error;
	return true;
}

/* The library's calls come here: the program's are the first of their names. */
#define FAILING(call, type, name, PARAMS, ARGS, failure)				\
	type name PARAMS								\
	{										\
		static type (*real) PARAMS;						\
											\
		if (!real)								\
			*(void **)&real = dlsym(RTLD_NEXT, #name);			\
		return fails_now(call) ? failure : real ARGS;				\
	}

FAILING(MEMFD_CREATE, int, memfd_create, (const char *name, unsigned int flags), (name, flags), -1)
FAILING(FTRUNCATE, int, ftruncate, (int fd, off_t size), (fd, size), -1)
FAILING(FALLOCATE, int, fallocate, (int fd, int mode, off_t from, off_t size), (fd, mode, from, size), -1)
FAILING(MMAP, void *, mmap, (void *p, size_t size, int prot, int flags, int fd, off_t from), (p, size, prot, flags, fd, from),
	MAP_FAILED)
FAILING(FOPEN, FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
FAILING(EVENTFD, int, eventfd, (unsigned int n, int flags), (n, flags), -1)
FAILING(SOCKET, int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
FAILING(BIND, int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n), -1)
FAILING(LISTEN, int, listen, (int fd, int n), (fd, n), -1)
FAILING(EPOLL_CREATE1, int, epoll_create1, (int flags), (flags), -1)
FAILING(EPOLL_CTL, int, epoll_ctl, (int fd, int op, int of, struct epoll_event *e), (fd, op, of, e), -1)
FAILING(GETRANDOM, ssize_t, getrandom, (void *p, size_t n, unsigned int flags), (p, n, flags), -1)
FAILING(PTHREAD_CREATE, int, pthread_create, (pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg),
	(t, a, fn, arg),
	calls[PTHREAD_CREATE].error)
FAILING(CONNECT, int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n), -1)
FAILING(GETSOCKOPT, int, getsockopt, (int fd, int level, int name, void *p, socklen_t *n), (fd, level, name, p, n), -1)
FAILING(FSTAT, int, fstat, (int fd, struct stat *st), (fd, st), -1)

/* ---- the sequences ---- */

static struct other_answer memory, signal_of;
static void *file_memory;		/* a shared mapping of a file */
static const char *at;			/* the call that is made */
static char said[512];			/* by the one that failed */

static int ended(int ret)
{
	snprintf(said, sizeof(said), "%s", peerdma_last_error());
	return ret;
}

static int exporting(void)
{
	struct peerdma_ipc_signal *s[2] = { NULL };
	struct peerdma_ipc_handle h, of_file;
	bool of_file_made;
	void *p = NULL;
	int ret;

	at = "peerdma_ipc_alloc: ";
	ret = peerdma_ipc_alloc(8192, 0, &p);
	if (ret)
		return ended(ret);
	at = "peerdma_ipc_export: ";
	ret = peerdma_ipc_export(p, 100, 0, &h);
	if (!ret)
		ret = peerdma_ipc_export(file_memory, 100, PEERDMA_IPC_I_UNEXPORT, &of_file);
	of_file_made = !ret;
	for (int i = 0; !ret && i < 2; i++) {
		at = "peerdma_ipc_signal_create: ";
		ret = peerdma_ipc_signal_create(1, i ? PEERDMA_IPC_ANY_USER : 0, &s[i]);
	}
	ended(ret);
	for (int i = 0; i < 2; i++)
		peerdma_ipc_signal_close(s[i]);
	if (of_file_made)
		peerdma_ipc_unexport(&of_file);
	peerdma_ipc_free(p);
	return ret;
}

static int opening(void)
{
	struct peerdma_ipc_memory *m = NULL;
	struct peerdma_ipc_signal *s = NULL;
	int ret;

	at = "peerdma_ipc_open: ";
	ret = OPEN(&memory.handle, &m);
	if (!ret) {
		at = "peerdma_ipc_signal_open: ";
		ret = peerdma_ipc_signal_open(&signal_of.handle, sizeof(signal_of.handle), &s);
	}
	if (!ended(ret))
		CHECK(*(char *)m->ptr == 7 && peerdma_ipc_signal_get(s) == 5, "opened");
	peerdma_ipc_signal_close(s);
	peerdma_ipc_close(m);
	peerdma_ipc_trim();
	return ret;
}

/* ---- */

static unsigned int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned int n = 0;

	/* Of files in memory, which only the library has here. */
	while (f && fgets(line, sizeof(line), f))
		n += !!strstr(line, "/memfd:");
	if (f)
		fclose(f);
	return n;
}

/* What the header has for each: that of the system, but for files, threads and the kernel's random numbers. */
static bool right(enum call call, int ret)
{
	switch (call) {
	case FALLOCATE:
		return ret == -ENOMEM;
	case GETRANDOM:
		return ret == -EIO;
	case GETSOCKOPT:
		return ret == -EACCES || !ret;
	case FSTAT:
		return ret == -ESTALE || ret == -EPROTO || ret == -EOPNOTSUPP;
	case FOPEN:
		return ret == -ENODEV;	/* as where /proc is not mounted */
	case MMAP:
		return !ret || ret == -ENOMEM;
	default:
		return ret == -calls[call].error;
	}
}

/* In a child: 0, 1 a failure, 2 it needs no more of them. */
static int one(const char *what, int (*run)(void), enum call call, unsigned int n)
{
	struct peerdma_ipc_counters c = { .size = sizeof(c) };
	unsigned int before, maps;
	int ret;

	check_counts.failures = 0;
	alarm(20);		/* some calls would be made again without end */
	caller = pthread_self();
	before = descriptors(getpid());
	maps = mappings();
	failing = call;
	fail_in = n;
	ret = run();
	failing = -1;
	if (!failed)
		return ret ? 1 : 2;
	if (!right(call, ret) || (ret && strncmp(said, at, strlen(at))))
		CHECK(0, "%s: %s() number %u fails: %d, \"%s\"", what, calls[call].name, n, ret, said);
	peerdma_ipc_counters(&c);
	if (c.exports || c.imports)
		CHECK(0, "%s: %s() number %u fails: something is left", what, calls[call].name, n);
	/* An exporter goes on with what the first of its exports made. */
	if (ret && run == opening && (descriptors(getpid()) != before || mappings() != maps))
		CHECK(0, "%s: %s() number %u fails: %u descriptors, before %u; %u mappings, before %u", what, calls[call].name, n,
		      descriptors(getpid()), before, mappings(), maps);
	if (run())
		CHECK(0, "%s: %s() number %u failed: the next one", what, calls[call].name, n);
	before = descriptors(getpid());
	maps = mappings();
	if (run() || descriptors(getpid()) != before || mappings() != maps)
		CHECK(0, "%s: %s() number %u failed: the next one leaves something", what, calls[call].name, n);
	return check_counts.failures ? 1 : 0;
}

static void sweep(const char *what, int (*run)(void), const bool *needed)
{
	for (int call = 0; call < CALLS; call++) {
		unsigned int n;
		int status = 0;

		for (n = 1; n < 40; n++) {
			pid_t pid;

			fflush(stdout);
			pid = fork();
			if (!pid)
				_exit(one(what, run, (enum call)call, n));
			if (pid < 0 || waitpid(pid, &status, 0) != pid || status == 2 << 8)
				break;
			CHECK(!status, "%s: without %s() number %u", what, calls[call].name, n);
		}
		CHECK(status == 2 << 8, "%s: %s(), %u times", what, calls[call].name, n - 1);
		if (needed[call])
			CHECK(n > 1, "%s needs %s()", what, calls[call].name);
	}
}

int main(void)
{
	static const bool exporter[CALLS] = {
		[MEMFD_CREATE] = true, [FTRUNCATE] = true, [FALLOCATE] = true, [MMAP] = true, [SOCKET] = true,
		[BIND] = true,
		[LISTEN] = true, [EPOLL_CREATE1] = true, [EPOLL_CTL] = true, [GETRANDOM] = true, [PTHREAD_CREATE] = true,
		[FOPEN] = true,
	};
	static const bool importer[CALLS] = {
		[MMAP] = true, [SOCKET] = true, [CONNECT] = true, [GETSOCKOPT] = true, [FSTAT] = true,
	};
	struct other o = other_make(getuid());
	int fd = memfd_create("file", MFD_CLOEXEC);

	CHECK(fd >= 0 && !ftruncate(fd, 4096), "a file");
	file_memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memory = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 7);
	signal_of = ASK(&o, OTHER_SIGNAL, .value = 5);
	CHECK(!memory.ret && !signal_of.ret, "something to open");
	sweep("exporting", exporting, exporter);
	sweep("opening", opening, importer);
	other_end(&o, SIGKILL);
	return check_end(NULL);
}
