// SPDX-License-Identifier: MIT
/*
 * page_views_rounds.c - memory is freed while eight threads read 1 MiB each into it, over and
 * over, and while others use it in ways of their own.  Then it belongs to others, and stays as
 * they left it.
 */
#include "page_views.h"

/* Each into a part of its own: a kernel that checks DMA warns of a page that is mapped for several transfers. */
#define READERS	8
#define PART	SEEN_LENGTH
#define SHARED	((size_t)READERS * PART)	/* where the part of the others begins */
#define LENGTH	(SHARED + GPU_PAGE)

struct reader {
	const struct seen *s;
	size_t offset;
	ssize_t last;
	struct task task;
};

static struct process child;
static int piped[2], sent[2];
static unsigned int holders;		/* of the pipe and the socket */
static unsigned int parked_by_reads;

/* A read that was under way is cut short. */
static bool cut(ssize_t last, size_t length)
{
	return last == -EFAULT || (last > 0 && last < (ssize_t)length);
}

static ssize_t read_on(const struct seen *s, size_t offset, size_t length)
{
	ssize_t last;

	do {
		last = read_part(s, offset, length);
	} while (last == (ssize_t)length);
	return last;
}

static void reader(void *arg)
{
	struct reader *r = arg;

	r->last = read_on(r->s, r->offset, PART);
}

/* ---- what else uses the memory ---- */

static int child_reads(int peer, void *arg)
{
	const struct seen *s = arg;

	say(peer);
	CHECK(cut(read_on(s, SHARED, GPU_PAGE), GPU_PAGE));
	CHECK(signal_of_read(s->view + SHARED) == SIGBUS);
	return 0;
}

static void fork_child(struct seen *s)
{
	child = begin(child_reads, s);
	CHECK(hear(child.peer));
}

/* A process that has nothing of the view but the descriptor that it is sent. */
static int child_receives(int peer, void *arg)
{
	struct seen s = *(struct seen *)arg;

	seen_end(&s);
	s.fd = receive(peer);
	MUST(s.fd >= 0);
	s.view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	MUST(s.view != MAP_FAILED);
	return child_reads(peer, &s);
}

static void send_descriptor(struct seen *s)
{
	child = begin(child_receives, s);
	pass(child.peer, s->fd);
	CHECK(hear(child.peer));
}

static void await_child(struct seen *s)
{
	CHECK(finish(&child) == 0);
}

static void kill_child(struct seen *s)
{
	kill(child.pid, SIGKILL);
}

static void await_killed(struct seen *s)
{
	CHECK(finish(&child) == -SIGKILL);
}

/* The addresses stay taken, so that the threads that still read there find nothing else. */
static void unmap_view(char *view, size_t length)
{
	MUST(mmap(view, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == view);
}

static void unmap_half(struct seen *s)
{
	unmap_view(s->view, SHARED / 2);
}

static void unpin_first(struct seen *s)
{
	WORKS(unpin(s->file, s->handle));
}

static void close_all(struct seen *s)
{
	unmap_view(s->view, LENGTH);
	CHECK(!close(s->fd) && !close(s->file));
	s->fd = dup(0);
	s->file = dup(0);
}

static void fill_pipe(struct seen *s)
{
	memset(s->view + SHARED, 'p', PAGE);
	pipe_take(piped, s->view + SHARED);
	holders = 1;
}

static void fill_socket(struct seen *s)
{
	memset(s->view + SHARED, 's', PAGE);
	CHECK(socket_take(sent, s->view + SHARED));
	holders = 2;
}

/* What was parked has never been another's. */
static void let_go(void)
{
	char got[4096], byte = 'p';

	CHECK(kept("parked page view") >= holders);
	for (size_t n = 0; n < PAGE; n += sizeof(got)) {
		CHECK(read(piped[0], got, sizeof(got)) == sizeof(got) && *got == byte &&
		      !memcmp(got, got + 1, sizeof(got) - 1));
	}
	close(piped[0]);
	close(piped[1]);
	CHECK(holders < 2 || socket_has(sent, 's'));
	holders = 0;
}

static const struct use {
	const char *name;
	void (*begin)(struct seen *s);		/* before the reads begin; each is optional */
	void (*disturb)(struct seen *s);	/* while they are under way, before the memory is freed */
	void (*end)(struct seen *s);		/* when it belongs to others */
} uses[] = {
	{ "nothing else", NULL, NULL, NULL },
	{ "a forked child", fork_child, NULL, await_child },
	{ "a process that was sent the descriptor", send_descriptor, NULL, await_child },
	{ "one that is killed", send_descriptor, kill_child, await_killed },
	{ "half of it is unmapped", NULL, unmap_half, NULL },
	{ "unpinned before it is freed", NULL, unpin_first, NULL },
	{ "all is closed before it is freed", NULL, close_all, NULL },
	/* From here on memory is parked, so that a free does not wait for reads. */
	{ "a pipe", fill_pipe, NULL, NULL },
	{ "a socket", fill_socket, NULL, NULL },
	{ "nothing else, and memory is parked", NULL, NULL, NULL },
	{ "a forked child, and memory is parked", fork_child, NULL, await_child },
};
#define USES		(sizeof(uses) / sizeof(uses[0]))
#define UNPARKED	7

/* ---- a round ---- */

/* Others' memory, whether it is the same or not. */
static uint64_t reuse(unsigned int seed)
{
	uint64_t va = gpu_alloc(LENGTH);

	pattern(seed);
	for (size_t i = 0; i < READERS; i++)
		gpu_write(va + i * PART);
	return va;
}

static void give_up(uint64_t va)
{
	for (size_t i = 0; i < READERS; i++)
		CHECK(gpu_has(va + i * PART));
	CHECK(!cu.MemFree(va));
}

static void one_round(unsigned int number, const struct use *use)
{
	struct reader readers[READERS];
	uint64_t reused;
	struct seen s;

	seen_make_length(&s, 0, LENGTH);
	if (use->begin)
		use->begin(&s);
	for (size_t i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .s = &s, .offset = i * PART };
		task_begin(&readers[i].task, reader, &readers[i]);
	}
	usleep(number % 10 * 1000);
	if (use->disturb)
		use->disturb(&s);
	seen_free(&s);
	parked_by_reads += kept("parked page view") > holders;
	reused = reuse(1000 + number);
	for (size_t i = 0; i < READERS; i++) {
		task_end(&readers[i].task);
		CHECK(cut(readers[i].last, PART), "the read: %zd", readers[i].last);
	}
	give_up(reused);
	if (use->end)
		use->end(&s);
	seen_end(&s);
}

static unsigned int rounds;

static void all_rounds(void)
{
	unsigned int kinds = p2pdma ? UNPARKED : USES;
	unsigned long failures = check_counted->failures;

	for (unsigned int i = 0; i < rounds; i++) {
		one_round(i, &uses[i % kinds]);
		if (check_counted->failures != failures) {
			printf("in round %u: %s\n", i, uses[i % kinds].name);
			break;
		}
		if (holders && i % kinds == kinds - 1) {
			let_go();
			none_left();
		}
	}
	if (holders)
		let_go();
	none_left();
	printf("%u rounds; in %u the memory was still being read into when it was parked\n", rounds, parked_by_reads);
}

void test_rounds(unsigned int how_many)
{
	rounds = how_many;
	run("free under reads", all_rounds);
}
