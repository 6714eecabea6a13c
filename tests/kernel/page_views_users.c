// SPDX-License-Identifier: MIT
/*
 * page_views_users.c - users that keep pages for a while, whose memory is parked; and users
 * without limit, which one kind of view refuses, and the other one keeps.
 */
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "page_views.h"
#include "peerdma_test_users.h"

#define MOST		4096	/* pieces of 64 KiB, more than the GPU has */

/* ---- memory that something still uses is parked ---- */

/* A pipe refers to the view's pages for as long as it likes. */
static void pipe_keeps(void)
{
	int ends[2];
	struct seen s;
	char byte;

	seen_make(&s, 0);
	s.view[0] = 'v';
	pipe_take(ends, s.view);
	seen_free(&s);
	CHECK(kept("parked page view") == 1);
	/* Given to no one: all that is left of the GPU's memory is allocated, and written. */
	uint64_t others[MOST], n = 0;
	unsigned long long va;

	while (n < MOST && !cu.MemAlloc(&va, GPU_PAGE)) {
		memset(bytes, 'o', GPU_PAGE);
		CHECK(!cu.MemcpyHtoD(va, bytes, GPU_PAGE));
		others[n++] = va;
	}
	CHECK(n && n < MOST && !cu.CtxSynchronize());
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'v');
	seen_end(&s);
	CHECK(kept("parked page view") == 1);
	close(ends[0]);
	close(ends[1]);
	CHECK(UNTIL(kept("page view") == 0));
	CHECK(!cu.MemAlloc(&va, GPU_PAGE) && !cu.MemFree(va));
	while (n)
		CHECK(!cu.MemFree(others[--n]));
	none_left();
}

/* So does a socket, as long as its peer reads nothing. */
static void socket_keeps(void)
{
	struct seen s;
	int ends[2];

	seen_make(&s, 0);
	memset(s.view, 'v', PAGE);
	CHECK(socket_take(ends, s.view));
	seen_free(&s);
	CHECK(kept("parked page view") == 1);
	seen_end(&s);
	CHECK(socket_has(ends, 'v'));
	CHECK(UNTIL(kept("page view") == 0));
	none_left();
}

/* While the user has parked memory, a free does not wait: here a wait would last for a day. */
static void no_second_wait(void)
{
	int ends[2][2];
	struct seen s[2];

	for (int i = 0; i < 2; i++) {
		seen_make(&s[i], 0);
		s[i].view[0] = 'v';
		pipe_take(ends[i], s[i].view);
	}
	seen_free(&s[0]);
	CHECK(kept("parked page view") == 1);
	CHECK(module_set("peerdma", "pages_timeout_ms", "86400000"));
	seen_free(&s[1]);
	CHECK(kept("parked page view") == 2);
	CHECK(module_set("peerdma", "pages_timeout_ms", "2000"));
	for (int i = 0; i < 2; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
		seen_end(&s[i]);
	}
	none_left();
}

/* ---- what is parked counts as its user's ---- */

#define TAKER	61020		/* a user id of this test's alone */

static uint64_t taker_va[2];
static int taker_pipe[2];

/* A user id of this thread's alone: the memory is of this process. */
static void *take(void *arg)
{
	struct seen *s = arg;
	struct peerdma_pin_args a;

	CHECK(!syscall(SYS_setresuid, TAKER, TAKER, TAKER));
	s->length = SEEN_LENGTH;
	s->file = dev_open();
	WORKS(pin_va(s->file, taker_va[0], SEEN_LENGTH, PEERDMA_PIN_DEVICE, &a));
	s->fd = pages(s->file, a.handle, 0, 0, 0);
	MUST(s->fd >= 0);
	s->view = mmap(NULL, SEEN_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	MUST(s->view != MAP_FAILED);
	pipe_take(taker_pipe, s->view);
	return NULL;
}

/* 0, or why the user may not pin more. */
static void *pin_more(void *arg)
{
	struct peerdma_pin_args a;
	int file;

	CHECK(!syscall(SYS_setresuid, TAKER, TAKER, TAKER));
	file = dev_open();
	*(int *)arg = pin_va(file, taker_va[1], SEEN_LENGTH, PEERDMA_PIN_DEVICE, &a) ? errno : 0;
	close(file);
	return NULL;
}

static void in_thread(void *(*function)(void *arg), void *arg)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, function, arg));
	pthread_join(thread, NULL);
}

static void no_more(void)
{
	int error = 0;

	in_thread(pin_more, &error);
	CHECK(error == ENOBUFS, "%s", strerror(error));
	close(taker_pipe[0]);
	close(taker_pipe[1]);
	CHECK(nothing_left(TAKER));
	in_thread(pin_more, &error);
	CHECK(!error, "%s", strerror(error));
}

static void parked_counts(void)
{
	struct seen s;

	for (int i = 0; i < 2; i++)
		taker_va[i] = gpu_alloc(SEEN_LENGTH);
	in_thread(take, &s);
	CHECK(taken(TAKER, "aperture") == 2 * SEEN_LENGTH && taken(TAKER, "pins") == 2);
	CHECK(!cu.MemFree(taker_va[0]));
	CHECK(kept("parked page view") == 1 && taken(TAKER, "aperture") == SEEN_LENGTH);
	seen_end(&s);
	CHECK(UNTIL(taken(TAKER, "pins") == 1) && taken(TAKER, "aperture") == SEEN_LENGTH);
	lowered("max_aperture_mib_per_user", "1", no_more);
	CHECK(nothing_left(TAKER) && !cu.MemFree(taker_va[1]));
	prctl(PR_SET_DUMPABLE, 1);	/* as it was before a thread changed its user */
	none_left();
}

/* ---- what is parked keeps the modules, when its process has long gone ---- */

static int child_leaves(int peer, void *arg)
{
	const int *ends = arg;
	const char *why = "";
	struct iovec v;
	struct seen s;

	if (!memory_open(&why))
		return 1;
	seen_make(&s, 0);
	memset(s.view, 'v', PAGE);
	v = (struct iovec){ s.view, PAGE };
	CHECK(vmsplice(ends[1], &v, 1, 0) == (ssize_t)PAGE);
	/* A persistent view of other pages, too: it goes with the process. */
	CHECK(pages(s.file, s.handle, PEERDMA_PAGES_PERSISTENT, GPU_PAGE, GPU_PAGE) >= 0);
	say(peer);
	hear(peer);
	return 0;
}

static int unload(const char *module)
{
	return (int)syscall(SYS_delete_module, module, O_NONBLOCK);
}

static void kept_modules(void)
{
	struct process child;
	char byte;
	int ends[2];

	MUST(!pipe(ends));
	child = begin(child_leaves, ends);
	CHECK(hear(child.peer));
	FAILS(EWOULDBLOCK, unload("peerdma_nvidia"));
	kill(child.pid, SIGKILL);
	CHECK(finish(&child) == -SIGKILL);
	CHECK(UNTIL(kept("page view") == 1 && kept("parked page view") == 1));
	FAILS(EWOULDBLOCK, unload("peerdma_nvidia"));
	FAILS(EWOULDBLOCK, unload("peerdma"));
	FAILS(EWOULDBLOCK, unload("nvidia"));
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'v');
	close(ends[0]);
	close(ends[1]);
	CHECK(UNTIL(!unload("peerdma_nvidia")));
	CHECK(UNTIL(!unload("peerdma")));
}

/* Before the process has memory of its own, which would keep the modules. */
void test_unload(void)
{
	run("parked memory keeps the modules", kept_modules);
}

/* ---- users without limit: refused by the one kind, kept by the other ---- */

/* A long pin that only reads: since 6.15 or so the kernel grants it; then the memory is parked. */
static void long_read(struct seen *s)
{
	struct peerdma_pin_args a;
	int file = dev_open(), ret = pin(file, s->view, SEEN_LENGTH, PEERDMA_PIN_HOST | PEERDMA_PIN_READONLY, &a);

	printf("a long pin that only reads, of a revocable view: %s\n", ret ? strerror(errno) : "accepted");
	seen_free(s);
	CHECK(kept("parked page view") == !ret);
	close(file);
	CHECK(UNTIL(kept("page view") == 0));
	seen_end(s);
}

static void no_limit(void)
{
	struct seen s;
	int ring, error;

	seen_make(&s, 0);
	long_read(&s);

	seen_make(&s, 0);
	CHECK(register_buffer(s.view, SEEN_LENGTH, &ring) == EOPNOTSUPP);
	close(ring);
	seen_free(&s);
	CHECK(kept("page view") == 0);
	seen_end(&s);

	seen_make(&s, PEERDMA_PAGES_PERSISTENT);
	error = register_buffer(s.view, SEEN_LENGTH, &ring);
	/* Before 6.2 io_uring registers no buffer in a file. */
	CHECK(!error || error == EOPNOTSUPP);
	printf("io_uring's registered buffers in a persistent view: %s\n", error ? strerror(error) : "accepted");
	pattern(9);
	CHECK(pwrite(disk, bytes, SEEN_LENGTH, 0) == (ssize_t)SEEN_LENGTH);
	seen_free(&s);
	/* The memory is the view's. */
	CHECK(read_into(&s) == (ssize_t)SEEN_LENGTH && !memcmp(s.view, bytes, SEEN_LENGTH));
	CHECK(kept("page view") == 1);
	seen_end(&s);
	/* A registered buffer is kept, however long it takes. */
	if (!error)
		CHECK(UNTIL(kept("parked page view") == 1));
	close(ring);
	none_left();
}

void test_users(void)
{
	run("a pipe keeps the memory: parked", pipe_keeps);
	run("a socket keeps the memory: parked", socket_keeps);
	run("a second wait: none", no_second_wait);
	run("what is parked counts", parked_counts);
	run("users without limit", no_limit);
}
