// SPDX-License-Identifier: MIT
/*
 * test_top.c - `peerdma top`: rates of counters that go on, go back and come and go;
 * the order of processes; what drivers tell in debugfs.
 */
#include "../cases.h"
#include "top/top.h"

#define HEADER "pid\tcomm\tdevice\tcopies\tbytes_read\tbytes_written\trevocations\n"

/* From a copy of exactly that size, so that a sanitizer sees the first byte too far. */
static int parse(const char *text, struct top_sample *s)
{
	size_t length = strlen(text);
	char *copy = malloc(length ? length : 1);
	int ret;

	memcpy(copy, text, length);
	memset(s, 0, sizeof(*s));
	ret = top_clients_parse(copy, length, "peerdma_card", s);
	free(copy);
	return ret;
}

CASE(clients)
{
	struct top_sample s;

	/* A process with two cards, one with one; the same card twice. */
	assert_int_equal(parse(HEADER "7\ttrain\tc0\t1\t100\t200\t0\n7\ttrain\tc1\t1\t10\t20\t1\n8\tserve\tc1\t2\t1\t2\t3\n", &s), 0);
	assert_int_equal(s.process_count, 2);
	assert_int_equal(s.device_count, 2);
	assert_int_equal(s.processes[0].pid, 7);
	assert_string_equal(s.processes[0].comm, "train");
	assert_int_equal(s.processes[0].counts.value[TOP_READ], 110);
	assert_int_equal(s.processes[0].counts.value[TOP_WRITTEN], 220);
	assert_int_equal(s.devices[1].counts.value[TOP_REVOCATIONS], 4);
	assert_string_equal(s.devices[1].driver, "peerdma_card");
	top_free(&s);

	/* Columns of a later release, in another order; without those that can be done without. */
	assert_int_equal(parse("new\tdevice\tcomm\tpid\nx\tc0\ta\t9\n", &s), 0);
	assert_int_equal(s.processes[0].pid, 9);
	assert_int_equal(s.processes[0].counts.known, 0);
	top_free(&s);

	assert_int_equal(parse("", &s), 0);
	assert_int_equal(parse(HEADER, &s), 0);
	assert_int_equal(parse("pid\tdevice\n", &s), -EBADMSG);
	/* Of processes alone. */
	assert_int_equal(parse("pid\tcomm\trevocations\n7\ttrain\t5\n8\tserve\t0\n", &s), 0);
	assert_int_equal(s.process_count, 2);
	assert_int_equal(s.device_count, 0);
	assert_int_equal(s.processes[0].counts.value[TOP_REVOCATIONS], 5);
	top_free(&s);
	assert_int_equal(parse(HEADER "x\ta\tc0\t1\t1\t1\t1\n", &s), -EBADMSG);
	top_free(&s);
	/* A line that was cut off does not take the others with it. */
	assert_int_equal(parse(HEADER "7\ttrain\tc0\t1\t1\t1\t1\n8\tse", &s), 0);
	assert_int_equal(s.process_count, 1);
	top_free(&s);
	/* What would command a terminal is made harmless. */
	assert_int_equal(parse(HEADER "7\t\033[2J\tc\r0\t1\t1\t1\t1\n", &s), 0);
	assert_string_equal(s.processes[0].comm, "\\x1b[2J");
	assert_string_equal(s.devices[0].name, "c\\x0d0");
	top_free(&s);
}

CASE(pin_devices)
{
	struct top_sample s = { 0 };

	assert_int_equal(top_pin_devices("0000:03:00.0:2,0000:04:00.0:1,0000:03:00.0:1", &s), 0);
	assert_int_equal(s.device_count, 2);
	assert_string_equal(s.devices[0].name, "0000:03:00.0");
	assert_int_equal(s.devices[0].mappings, 3);
	assert_int_equal(s.devices[1].mappings, 1);
	assert_int_equal(top_pin_devices("", &s) | top_pin_devices(",,:1,a:,b:x,c", &s), 0);
	assert_int_equal(s.device_count, 2);
	top_free(&s);
}

CASE(words)
{
	char word[8];
	uint64_t n;

	assert_true(top_number("pins: 3\nrevocations: 4\n", "revocations", &n) && n == 4);
	assert_true(top_number("unpins\t1\npins\t18446744073709551615", "pins", &n) && n == UINT64_MAX);
	assert_false(top_number("pinsel: 3\npins:\npins 4\n", "pins", &n));
	assert_true(top_word("uuid: GPU-\xc3\xa4\xc3\xa4\xc3\xa4\n", "uuid", word, sizeof(word)));
	assert_string_equal(word, "GPU-\xc3\xa4");
}

static struct top_process *process(struct top_sample *s, uint64_t pid, const char *comm, uint64_t gets, uint64_t hits)
{
	struct top_process *p = top_process(s, pid, comm);

	top_count(&p->counts, TOP_GETS, gets);
	top_count(&p->counts, TOP_HITS, hits);
	return p;
}

CASE(rates)
{
	struct top_sample before = { .time = 10 }, now = { .time = 12.5 }, never = { .time = 12.5 };
	const struct top_counts *c;
	double dma;

	process(&before, 1, "goes-on", 100, 50);
	process(&before, 2, "goes-back", 100, 50);
	process(&before, 3, "before", 100, 50);
	process(&before, 5, "ends", 100, 50);
	process(&now, 4, "new", 10, 5);
	process(&now, 3, "after", 200, 60);
	process(&now, 2, "goes-back", 99, 51);
	process(&now, 1, "goes-on", 110, 55);
	top_count(&top_device(&before, "c0")->counts, TOP_READ, 5000);
	top_count(&top_device(&now, "c0")->counts, TOP_READ, 10000);
	top_count(&before.module, TOP_REVOCATIONS, 1);
	top_count(&now.module, TOP_REVOCATIONS, 1);
	top_count(&now.module, TOP_PINS, 9);

	top_rates(&before, &now);
	assert_true(now.interval == 2.5);
	/* Not known before: no rate.  The same twice: none is zero. */
	assert_false(top_rated(&now.module, TOP_PINS));
	assert_true(top_rated(&now.module, TOP_REVOCATIONS) && now.module.rate[TOP_REVOCATIONS] == 0);
	assert_int_equal(now.processes[0].counts.rated, 0);	/* new */
	assert_int_equal(now.processes[1].counts.rated, 0);	/* another program of that number */
	c = &now.processes[2].counts;				/* one counter went back, the other one on */
	assert_false(top_rated(c, TOP_GETS));
	assert_true(top_rated(c, TOP_HITS));
	c = &now.processes[3].counts;
	assert_true(top_rated(c, TOP_GETS) && c->rate[TOP_GETS] == 4 && c->change[TOP_HITS] == 5);
	assert_false(top_dma(c, &dma));
	assert_true(top_dma(&now.devices[0].counts, &dma) && dma == 2000);

	/* A clock that stands still gives no rates. */
	top_rates(&now, &never);
	assert_true(never.interval == 0);
	top_free(&before);
	top_free(&now);
}

static void expect_order(struct top_sample *s, enum top_order order, const char *pids)
{
	char got[16] = "";

	top_sort(s, order);
	for (size_t i = 0; i < s->process_count; i++)
		snprintf(got + i, 2, "%u", (unsigned int)s->processes[i].pid);
	assert_string_equal(got, pids);
}

CASE(orders)
{
	struct top_sample before = { .time = 1 }, now = { .time = 2 };
	enum top_order order;

	for (uint64_t pid = 1; pid <= 3; pid++)
		process(&before, pid, pid == 2 ? "a" : "b", 0, 0);
	process(&now, 3, "b", 5, 0)->held = 10;
	process(&now, 1, "b", 9, 0)->held = 10;
	process(&now, 2, "a", 1, 0)->held = 20;
	top_process(&now, 3, "b")->revoked = 1;
	top_count(&top_process(&before, 1, "b")->counts, TOP_READ, 0);
	top_count(&top_process(&now, 1, "b")->counts, TOP_READ, 4);
	top_rates(&before, &now);
	expect_order(&now, TOP_BY_HELD, "213");
	expect_order(&now, TOP_BY_GETS, "132");
	expect_order(&now, TOP_BY_DMA, "123");
	expect_order(&now, TOP_BY_REVOCATIONS, "312");
	expect_order(&now, TOP_BY_NAME, "213");
	expect_order(&now, TOP_BY_PID, "123");
	assert_true(top_order_find("rev", &order) && order == TOP_BY_REVOCATIONS);
	assert_false(top_order_find("", &order) || top_order_find("heldx", &order));
	top_free(&before);
	top_free(&now);
}

MAIN(NULL, NULL)
