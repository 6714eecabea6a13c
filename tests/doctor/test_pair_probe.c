// SPDX-License-Identifier: MIT
/*
 * test_pair_probe.c - data between two ends, each with a queue pair of the stand-in for libibverbs: no word
 * is believed, of the device or of the other end.  tests/vm/pair.sh has two machines, and their GPUs' memory.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>

#include "../cases.h"
#include "../descriptors.h"
#include "doctor/pair.h"
#include "doctor/pair_line.h"
#include "doctor/pair_probe.h"
#include "doctor/probe.h"
#include "fake_rdma.h"

static struct fake_rdma *fake;
static unsigned int descriptors_before;
static struct side sides[2];
static struct pairing p;
static struct rail here, there;
static int ends[2];
static bool served;

static struct rail rail(unsigned int gid)
{
	return (struct rail){ .gpu = -1, .nic = -1, .device = "fake0", .layer = "Ethernet", .gids_known = true, .v2_count = 1,
			      .v2 = { { gid, GID_IPV4 } } };
}

static int setup(void **state)
{
	*fake = (struct fake_rdma){ 0 };
	descriptors_before = descriptors();
	memset(sides, 0, sizeof(sides));
	for (int i = 0; i < 2; i++) {
		sides[i].doctor.machine = &sides[i].machine;
		sides[i].doctor.tree = tree_open("");
	}
	p = (struct pairing){ .name = { "here", "there" }, .side = { &sides[0], &sides[1] } };
	here = rail(1);
	there = rail(2);
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

static void close_end(int i)
{
	if (ends[i] >= 0)
		close(ends[i]);
	ends[i] = -1;
}

/* All that was opened is given back, on both ends. */
static int over(void **state)
{
	for (int i = 0; i < 2; i++) {
		close_end(i);
		tree_close(sides[i].doctor.tree);
		moved_free(&sides[i].doctor);
	}
	return fake->live || descriptors() != descriptors_before;
}

FIXTURE(setup, over)

static void *serve(void *unused)
{
	served = pair_serve(ends[1], ends[1]);
	close_end(1);
	return NULL;
}

static void try(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	pair_probe_rail(&p, &here, &there, ends[0], ends[0]);
	close_end(0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(sides[0].doctor.no_memory);
}

static const struct moved *row(unsigned int i)
{
	assert_in_range(i + 1, 1, sides[0].doctor.moved_count);
	return &sides[0].doctor.moved[i];
}

static void again(void **state)
{
	assert_int_equal(over(state), 0);
	assert_int_equal(setup(state), 0);
}

CASE(host_memory)
{
	try();
	assert_true(served);
	assert_int_equal(sides[0].doctor.moved_count, 4);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(row(i)->result, MOVED_EQUAL);
		assert_int_equal(row(i)->bytes, PROBE_LENGTH);
		assert_string_equal(row(i)->way, "host memory");
	}
	assert_string_equal(row(0)->operation, "RDMA write, A to B");
	assert_string_equal(row(3)->operation, "RDMA read, B from A");
	assert_int_equal(p.verdict, PAIR_SAME);
	/* Two writes are followed by a read. */
	assert_int_equal(fake->transfers, 6);
}

/* Each of the four transfers in turn: lost, or one byte wrong, and the device reports success. */
CASE(success_is_not_believed)
{
	static const int nth[] = { 1, 3, 5, 6 };

	for (int how = 0; how < 2; how++) {
		for (unsigned int i = 0; i < 4; i++) {
			*(how ? &fake->lose : &fake->flip) = nth[i];
			try();
			assert_int_equal(sides[0].doctor.moved_count, 4);
			for (unsigned int k = 0; k < 4; k++)
				assert_int_equal(row(k)->result, k == i ? MOVED_DIFFERS : MOVED_EQUAL);
			assert_non_null(strstr(row(i)->why, how ? "bytes, the first at 0" : "1 bytes, the first at 4500"));
			assert_int_equal(p.verdict, PAIR_BROKEN);
			again(state);
		}
	}
}

/* Of either end: the rest is not tried, and both say why. */
CASE(error)
{
	for (int nth = 1; nth <= 3; nth += 2) {
		fake->fail = nth;
		try();
		assert_int_equal(sides[0].doctor.moved_count, nth == 1 ? 1 : 2);
		assert_int_equal(row(nth == 1 ? 0 : 1)->result, MOVED_FAILED);
		assert_string_equal(row(nth == 1 ? 0 : 1)->why, "the device reports: remote access error");
		assert_int_equal(p.verdict, PAIR_BROKEN);
		again(state);
	}
}

CASE(late)
{
	fake->late = true;
	try();
	assert_int_equal(p.verdict, PAIR_SAME);
}

static void not_opened(const char *operation, const char *why, enum pair_verdict v)
{
	try();
	assert_int_equal(sides[0].doctor.moved_count, 1);
	assert_string_equal(row(0)->operation, operation);
	if (!strstr(row(0)->why, why))
		fail_msg("\"%s\" does not say \"%s\"", row(0)->why, why);
	assert_int_equal(p.verdict, v);
}

CASE(no_connection)
{
	fake->port_down = 2;
	not_opened("open", "B: none of its ports is active", PAIR_UNKNOWN);
	again(state);
	fake->create_error = EOPNOTSUPP;
	not_opened("queue pair", "B: ibv_create_qp, reliable connection: Operation not supported", PAIR_UNKNOWN);
	again(state);
	there.v2_count = 0;
	not_opened("connect", "B: no GID of RoCE v2", PAIR_BROKEN);
	again(state);
	there.v2[0].index = 9;
	not_opened("open", "B: port 1 has no GID of index 9", PAIR_UNKNOWN);
	again(state);
	/* Zeros. */
	here.v2[0].index = 0;
	not_opened("open", "A: port 1 has no GID of index 0", PAIR_UNKNOWN);
	again(state);
	/* The other end has no device of this name. */
	strcpy(there.device, "fake1");
	not_opened("open", "B: libibverbs does not know fake1", PAIR_UNKNOWN);
	again(state);
	/* Over this address nothing comes back. */
	fake->bad_gids = 2;
	try();
	assert_int_equal(row(sides[0].doctor.moved_count - 1)->result, MOVED_FAILED);
	assert_non_null(strstr(row(sides[0].doctor.moved_count - 1)->why, "transport retry counter exceeded"));
}

CASE(infiniband)
{
	fake->lid = true;
	here = there = (struct rail){ .gpu = -1, .nic = -1, .device = "fake0", .layer = "InfiniBand" };
	try();
	assert_int_equal(sides[0].doctor.moved_count, 4);
	assert_int_equal(p.verdict, PAIR_SAME);
}

/* ---- an other end that is none ---- */

#define HELLO	PAIR_GREETING "\n"
#define GID	"00000000000000000000000000000001"

/* All that it says is there before it is asked. */
static void said(const char *text, const char *why)
{
	struct doctor *d = &sides[0].doctor;

	assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
	shutdown(ends[1], SHUT_WR);
	pair_probe_rail(&p, &here, &there, ends[0], ends[0]);
	close_end(0);
	close_end(1);
	if (!why) {
		assert_int_equal(d->moved_count, 0);
	} else if (!d->moved_count || !strstr(row(d->moved_count - 1)->why, why)) {
		fail_msg("'%s': \"%s\" is not said, but \"%s\"", text, why, d->moved_count ? row(d->moved_count - 1)->why : "");
	}
	for (unsigned int i = 0; i < d->moved_count; i++)
		assert_int_not_equal(row(i)->result, MOVED_EQUAL);
}

CASE(hostile_answers)
{
	static char much[3 * LINE_BYTES];
	const char *const answers[][2] = {
		{ "", NULL }, { "hello\n", NULL }, { "peerdma-pair 2\n", NULL }, { PAIR_GREETING, NULL },
		{ HELLO, "has ended" }, { HELLO "o", "cut off" }, { HELLO "nonsense\n", "answers 'nonsense'" },
		{ HELLO "ok 1\n", "answers 'ok 1'" }, { HELLO "ok \n", "answers 'ok '" }, { HELLO "\n", "answers ''" },
		{ HELLO "okay\n", "answers 'okay'" }, { HELLO "error no\n", "B: no" }, { HELLO "o\033[2Jk\n", "no text" },
		{ HELLO "ok\xff\n", "no text" }, { much, "too long" },
		{ HELLO "ok\nok 0xzz 1\n", "no address" }, { HELLO "ok\nok 1 4294967296\n", "no address" },
		{ HELLO "ok\nok 1 -1\n", "no address" }, { HELLO "ok\nok 1\n", "answers 'ok 1'" },
		{ HELLO "ok\nok 1 1\nok 16777216 1 1 " GID "\n", "no queue pair" },
		{ HELLO "ok\nok 1 1\nok 1 65536 1 " GID "\n", "no queue pair" },
		{ HELLO "ok\nok 1 1\nok 1 1 0 " GID "\n", "no queue pair" }, { HELLO "ok\nok 1 1\nok 1 1 6 " GID "\n", "no queue pair" },
		{ HELLO "ok\nok 1 1\nok 1 1 1 " GID "0\n", "no queue pair" },
		{ HELLO "ok\nok 1 1\nok 1 1 1 0x000000000000000000000000000001\n", "no queue pair" },
		/* One that is not there */
		{ HELLO "ok\nok 1 1\nok 999999 1 1 " GID "\n", "A: ibv_modify_qp" },
	};

	memset(much, 'a', sizeof(much) - 1);
	memcpy(much, HELLO, strlen(HELLO));
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		said(answers[i][0], answers[i][1]);
		again(state);
	}
}

/* Its time is limited, and nothing more is asked. */
CASE(no_answer)
{
	static const char text[] = HELLO "ok\n";

	assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
	pair_probe_rail(&p, &here, &there, ends[0], ends[0]);
	assert_int_equal(sides[0].doctor.moved_count, 1);
	assert_string_equal(row(0)->why, "B: the other machine does not answer");
	assert_int_equal(p.verdict, PAIR_UNKNOWN);
}

/* What it may ask of the end that is asked: refused, and what was opened is given back. */
static void asked(const char *text, bool good, const char *last)
{
	char got[4096] = "";
	size_t used = 0;
	ssize_t n;

	assert_int_equal(write(ends[0], text, strlen(text)), strlen(text));
	shutdown(ends[0], SHUT_WR);
	assert_int_equal(pair_serve(ends[1], ends[1]), good);
	close_end(1);
	while ((n = read(ends[0], got + used, sizeof(got) - 1 - used)) > 0)
		used += (size_t)n;
	close_end(0);
	if (strncmp(got, HELLO, strlen(HELLO)) || !strstr(got, last))
		fail_msg("'%s': the answer is '%s', without '%s'", text, got, last);
}

CASE(hostile_questions)
{
	static char much[3 * LINE_BYTES];
	const struct {
		const char *text;
		bool good;
		const char *last;
	} questions[] = {
		{ "", true, HELLO }, { "close", false, HELLO }, { "close\n", true, "\nok\n" }, { "offer\n", false, "'offer' is no command" },
		{ "nonsense\n", false, "'nonsense' is no command" }, { much, false, HELLO }, { "\n", false, "is no command" },
		{ "open fake0 - 1\nopen fake0 - 1\n", false, "'open fake0 - 1' is no command" },
		{ "open  - 1\n", false, "is no command" }, { "open fake0 - 256\n", false, "is no command" },
		{ "open fake0 ../x 1\n", false, "is no command" }, { "open fake0 - 1 1\n", false, "is no command" },
		{ "open fake1 - 1\nclose\n", true, "ok\n" }, { "open fake0 - 1\nuse dma-buf\nuse host\n", true, "error no GPU was opened\nok 0x" },
		{ "open fake0 - 1\nuse all\n", false, "is no command" }, { "open fake0 - 1\ncarry write\n", true, "error no memory was registered" },
		{ "open fake0 - 1\ncarry\n", false, "is no command" }, { "open fake0 - 1\ncarry both\n", false, "is no command" },
		{ "open fake0 - 1\nmeet 1 1 1 " GID " 1 1\n", true, "error no queue pair was offered" },
		{ "open fake0 - 1\noffer\nmeet 1 1 1 " GID " 1\n", false, "is no command" },
		{ "open fake0 - 1\noffer\nmeet 1 1 1 " GID " 1 4294967296\n", false, "is no command" },
		{ "open fake0 - 1\nfill -1\n", false, "is no command" }, { "open fake0 - 1\ncheck x\n", false, "is no command" },
		{ "open fake0 - 1\nuse host\nfill 7\ncheck 7\ncheck 8\n", true, "ok\nok 0 0\nok " },
		{ "open fake0 - 1\nuse host\noffer\noffer\noffer\nuse host\n", true, "ok" },
		{ "open fake0 - 1\001\n", false, HELLO },
	};

	memset(much, 'a', sizeof(much) - 1);
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		asked(questions[i].text, questions[i].good, questions[i].last);
		again(state);
	}
}

int main(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	struct fake_rdma *(*get)(void);

	get = library ? (struct fake_rdma *(*)(void))dlsym(library, "fake_rdma") : NULL;
	if (!get)
		return 1;
	fake = get();
	signal(SIGPIPE, SIG_IGN);
	return cases_run(NULL, NULL);
}
