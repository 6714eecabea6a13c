// SPDX-License-Identifier: MIT
/*
 * page_views_users.c - users that keep pages for a while, whose memory is parked; and users
 * without limit, which one kind of view refuses, and the other one keeps.
 */
#include "page_views.h"

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
	run("users without limit", no_limit);
}
