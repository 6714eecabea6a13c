// SPDX-License-Identifier: MIT
/*
 * test_parsers.c - the command's parsers and its arithmetic: on what they are
 * for, and on hostile input.
 */
#include "../cases.h"
#include "bar1/aperture.h"
#include "machine/gpus.h"
#include "base/pci.h"
#include "pins/pins_table.h"
#include "base/tool.h"

#define HEADER "id\tpid\tcomm\tclient\tprovider\tstate\tflags\taddr\tlength\tpinned_length\tpage_shift\t" \
	"mappings\tviews\texports\tfirst_phys\tgeneration\tsegments\n"
#define LINE "1\t42\ttrain\tuser\tnvidia\tlive\tdevice\t0x7f0000000000\t65000\t65536\t16\t1\t2\t3\t0xe0000000\t5\t" \
	"0xe0000000:32768,0xe0010000:0x8000\n"

/* From a copy of exactly that size, so that a sanitizer sees the first byte too far. */
static int parse(const char *s, size_t length, struct pins_table *t)
{
	char *copy = calloc(1, length ? length : 1);
	int ret;

	memcpy(copy, s, length);
	ret = pins_parse(copy, length, t);
	free(copy);
	return ret;
}

CASE(pins_good)
{
	struct pins_table t;
	struct pin *p;

	assert_int_equal(parse(HEADER LINE LINE, strlen(HEADER LINE LINE), &t), 0);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.malformed, 0);
	p = &t.pins[1];
	assert_int_equal(p->pid, 42);
	assert_string_equal(p->comm, "train");
	assert_string_equal(p->provider, "nvidia");
	assert_true(p->addr == 0x7f0000000000);
	assert_int_equal(p->length, 65000);
	assert_int_equal(p->page_shift, 16);
	assert_int_equal(p->exports, 3);
	assert_int_equal(p->segment_count, 2);
	assert_int_equal(p->segments[1].start, 0xe0010000);
	assert_int_equal(p->segments[1].length, 0x8000);
	pins_free(&t);

	/* No pins; no last newline; columns that this release does not know, in another order. */
	assert_int_equal(parse(HEADER, strlen(HEADER), &t), 0);
	assert_int_equal(t.count, 0);
	pins_free(&t);
	assert_int_equal(parse(HEADER LINE, strlen(HEADER LINE) - 1, &t), 0);
	assert_int_equal(t.count, 1);
	pins_free(&t);
	const char *later = "# new\tpinned_length\tlength\taddr\tstate\tprovider\tcomm\tpid\tid\n"
			    "x\t4096\t1\t0x1000\tlive\thost\ta b\t7\t9\n";
	assert_int_equal(parse(later + 2, strlen(later) - 2, &t), 0);
	assert_int_equal(t.count, 1);
	assert_int_equal(t.pins[0].id, 9);
	assert_string_equal(t.pins[0].comm, "a b");
	assert_string_equal(t.pins[0].client, "");
	pins_free(&t);
}

CASE(pins_bad_header)
{
	struct pins_table t;

	assert_int_equal(parse("", 0, &t), -EBADMSG);
	assert_int_equal(parse("\n", 1, &t), -EBADMSG);
	assert_int_equal(parse("id\tpid\n", 7, &t), -EBADMSG);
	assert_int_equal(parse("<html>", 6, &t), -EBADMSG);
}

CASE(pins_bad_lines)
{
	static const struct {
		const char *from, *to;
	} changes[] = {
		{ "1\t42", "1\t-42" },
		{ "1\t42", "1\t 42" },
		{ "1\t42", "1\t" },
		{ "1\t42", "1\t42x" },
		{ "1\t42", "1\t18446744073709551616" },
		{ "1\t42", "1\t99999999999999999999999999999999999" },
		{ "0x7f0000000000", "0x" },
		{ "0x7f0000000000", "0xffffffffffffffff" },	/* + length wraps */
		{ "\t16\t", "\t64\t" },
		{ "0xe0000000:32768", "0xe0000000" },
		{ "0xe0000000:32768", ":" },
		{ "0xe0000000:32768", "" },
		{ "0xe0000000:32768", "0xffffffffffffffff:2" },
		{ "\tlive\t", "\t" },			/* a field too few */
		{ "\tlive\t", "\tlive\tlive\t" },	/* one too many */
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		const char *at = strstr(LINE, changes[i].from);
		struct pins_table t;
		char text[2048];

		assert_non_null(at);
		snprintf(text, sizeof(text), HEADER "%.*s%s%s" LINE, (int)(at - LINE), LINE, changes[i].to,
			 at + strlen(changes[i].from));
		assert_int_equal(parse(text, strlen(text), &t), 0);
		if (t.count != 1 || t.malformed != 1 || t.first_malformed != 2)
			fail_msg("change %zu: %zu pins, %zu malformed", i, t.count, t.malformed);
		pins_free(&t);
	}
}

CASE(pins_cut_anywhere)
{
	for (size_t n = 0; n <= strlen(HEADER LINE LINE); n++) {
		struct pins_table t;

		if (!parse(HEADER LINE LINE, n, &t))
			pins_free(&t);
	}
}

/* Every byte of a good table in turn becomes each of these. */
CASE(pins_any_byte)
{
	static const unsigned char bytes[] = { 0, '\t', '\n', ' ', ',', ':', '-', 'x', '9', 0x7f, 0x80, 0xc3, 0xff };
	char text[] = HEADER LINE LINE;

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		char was = text[i];

		for (size_t b = 0; b < sizeof(bytes); b++) {
			struct pins_table t;

			text[i] = (char)bytes[b];
			if (!parse(text, sizeof(text) - 1, &t))
				pins_free(&t);
		}
		text[i] = was;
	}
}

CASE(text)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain text", "plain text" },
		{ "a\x1b[31mb\nc\td\x7f", "a\\x1b[31mb\\x0ac\\x09d\\x7f" },
		{ "J\xc3\xbcrgen \xe2\x82\xac \xf0\x9f\x99\x82", "J\xc3\xbcrgen \xe2\x82\xac \xf0\x9f\x99\x82" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\xc0\xaf", "\\xc0\\xaf" },			/* overlong */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },		/* surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },	/* above U+10FFFF */
		{ "\xe2\x82", "\\xe2\\x82" },			/* cut off */
		{ "\xc2\x9b" "1m", "\\xc2\\x9b1m" },		/* C1: a terminal's CSI */
	};
	uint64_t n;
	char buf[32];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *s = text_clean(cases[i].in, strlen(cases[i].in));

		assert_string_equal(s, cases[i].out);
		free(s);
	}
	char *zero = text_clean("a\0b", 3);

	assert_string_equal(zero, "a\\x00b");
	free(zero);
	assert_int_equal(text_width("J\xc3\xbcrgen"), 6);
	assert_string_equal(text_size(0, buf), "0 B");
	assert_string_equal(text_size(65536, buf), "64 KiB");
	assert_string_equal(text_size(1536, buf), "1.5 KiB");
	assert_string_equal(text_size(UINT64_MAX, buf), "16.0 EiB");
	assert_string_equal(text_mib(274877906944, buf), "262144 MiB");
	assert_true(text_u64("18446744073709551615", 20, &n) && n == UINT64_MAX);
	assert_true(text_u64("0xffffffffffffffff", 18, &n) && n == UINT64_MAX);
	assert_true(text_u64("010", 3, &n) && n == 10);		/* no octal */
	assert_true(text_u64("00000000000000000000017", 23, &n) && n == 17);
	assert_false(text_u64("000000000000000000000017", 24, &n));
	assert_false(text_u64("18446744073709551616", 20, &n));
	assert_false(text_u64("1\0", 2, &n));
	assert_false(text_u64("+1", 2, &n));
	assert_false(text_u64("0x", 2, &n));
	assert_false(text_u64("0x-1", 4, &n));
	assert_false(text_u64("", 0, &n));
}

CASE(pci_names)
{
	char out[PCI_NAME_MAX];

	assert_true(pci_name("00000000:C3:00.0", out));
	assert_string_equal(out, "0000:c3:00.0");
	assert_true(pci_name("00010000:03:1f.7", out));
	assert_string_equal(out, "10000:03:1f.7");
	assert_false(pci_name("", out));
	assert_false(pci_name("0000:03:20.0", out));
	assert_false(pci_name("0000:03:00.8", out));
	assert_false(pci_name("0000:03:00.0 ", out));
	assert_false(pci_name("../../../etc/passwd", out));
	assert_false(pci_name("0000:03:00.0/../x", out));
	assert_false(pci_name("123456789:03:00.0", out));
}

#define R0 "0x00000000fea00000 0x00000000fea00fff 0x0000000000040200\n"
#define R2 "0x00000000e0000000 0x00000000efffffff 0x000000000014220c\n"
#define R4 "0x0000000200000000 0x00000002ffffffff 0x000000000014220c\n"
#define NONE "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"

static int resources(const char *s, struct pci_resources *r)
{
	size_t length = strlen(s);
	char *copy = calloc(1, length ? length : 1);
	int ret;

	memcpy(copy, s, length);
	ret = pci_parse_resources(copy, length, r);
	free(copy);
	return ret;
}

CASE(pci)
{
	struct pci_resources r;

	assert_int_equal(resources(R0 NONE R2 NONE R4 NONE NONE, &r), 0);
	assert_int_equal(r.bars[2].start, 0xe0000000);
	assert_int_equal(r.bars[2].length, 0x10000000);
	assert_true(r.bars[2].prefetchable);
	assert_false(r.bars[0].prefetchable);
	assert_int_equal(r.bars[1].length, 0);
	assert_int_equal(pci_aperture(&r, 0x10000000), 2);	/* the size that the driver says */
	assert_int_equal(pci_aperture(&r, 0x1000), 4);		/* not the registers, whatever it says */
	assert_int_equal(pci_aperture(&r, 0), 4);
	assert_int_equal(resources(R0 NONE NONE NONE NONE NONE, &r), 0);
	assert_int_equal(pci_aperture(&r, 0x1000), -1);

	assert_int_equal(resources("", &r), -EBADMSG);
	assert_int_equal(resources(R0 R2, &r), -EBADMSG);
	assert_int_equal(resources(NONE NONE NONE NONE NONE "0x0 0x0 0x0", &r), -EBADMSG);	/* cut off */
	assert_int_equal(resources(NONE NONE NONE NONE NONE "0x0 0x0\n", &r), -EBADMSG);
	assert_int_equal(resources("0x2 0x1 0x200\n" NONE NONE NONE NONE NONE, &r), -EBADMSG);
	assert_int_equal(resources("0x0 0xffffffffffffffff 0x2200\n" NONE NONE NONE NONE NONE, &r), -EBADMSG);
	assert_int_equal(resources("0x10000000000000000 0x0 0x0\n" NONE NONE NONE NONE NONE, &r), -EBADMSG);
}

#define GPUS "index\tpci\tname\tuuid\tbar1_total\tbar1_used\tbar1_free\n"

static int gpus(const char *s, struct gpus *out)
{
	size_t length = strlen(s);
	char *copy = calloc(1, length ? length : 1);
	int ret;

	memcpy(copy, s, length);
	ret = gpus_parse_tsv(copy, length, out);
	free(copy);
	return ret;
}

CASE(gpu_table)
{
	struct gpus g;

	assert_int_equal(gpus(GPUS "0\t0000:03:00.0\tA\tGPU-1\t1024\t1\t1023\n1\t-\tB\x1b\tGPU-2\t-\t-\t-\n", &g), 0);
	assert_int_equal(g.count, 2);
	assert_true(g.gpus[0].has_bar1);
	assert_int_equal(g.gpus[0].free, 1023);
	assert_false(g.gpus[1].has_bar1);
	assert_string_equal(g.gpus[1].pci, "");
	assert_string_equal(g.gpus[1].name, "B\\x1b");
	gpus_free(&g);
	assert_int_equal(gpus(GPUS, &g), 0);
	assert_int_equal(g.count, 0);
	gpus_free(&g);

	static const char *const bad[] = {
		"", "\n", "index\n", GPUS "\n", GPUS "0\n",
		GPUS "0\t0000:03:00.0\tA\tGPU-1\t1024\t1\t1023",		/* cut off */
		GPUS "0\t0000:03:00.0\tA\tGPU-1\t1024\t1\n",
		GPUS "0\t0000:03:00.0\tA\tGPU-1\t1024\t1\t1\t1\n",
		GPUS "0\t../..\tA\tGPU-1\t1024\t1\t1023\n",
		GPUS "0\t0000:03:00.0\tA\tGPU-1\tmany\t1\t1023\n",
		GPUS "0\t0000:03:00.0\tA\tGPU-1\t1024\t-\t-\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (gpus(bad[i], &g) != -EBADMSG)
			fail_msg("accepted: %s", bad[i]);
	}
}

static struct pin made(uint64_t pid, const char *pin_state, struct phys_range *r, size_t n)
{
	return (struct pin){ .pid = pid, .comm = (char *)"x", .state = (char *)pin_state,
			     .segments = r, .segment_count = n };
}

CASE(sums)
{
	struct phys_range whole = { 0x1000000, 0x100000 };
	struct phys_range a[] = { { 0x1010000, 0x10000 }, { 0x1000000, 0x10000 } };	/* neighbours, unsorted */
	struct phys_range b[] = { { 0x1018000, 0x10000 } };				/* shares half with a */
	struct phys_range c[] = { { 0xff0000, 0x20000 }, { 0x10f0000, 0x20000 } };	/* stick out at both ends */
	struct phys_range d[] = { { 0x2000000, 0x10000 } };				/* elsewhere */
	struct phys_range e[] = { { 0, UINT64_MAX } };
	struct pin pins[] = {
		made(7, "live", a, 2), made(9, "live", b, 1), made(7, "live", b, 1), made(8, "live", c, 2),
		made(8, "live", d, 1), made(5, "revoked", e, 1),
	};
	struct pins_table t = { .pins = pins, .count = 6 };
	struct aperture ap;

	assert_int_equal(aperture_fill(&ap, &whole, &t), 0);
	assert_int_equal(ap.count, 3);
	assert_int_equal(ap.owners[0].pid, 7);		/* most first */
	assert_int_equal(ap.owners[0].pins, 2);
	assert_int_equal(ap.owners[0].held, 0x28000);
	assert_int_equal(ap.owners[0].count, 1);	/* joined */
	assert_int_equal(ap.owners[1].pid, 8);
	assert_int_equal(ap.owners[1].pins, 1);
	assert_int_equal(ap.owners[1].held, 0x20000);
	assert_int_equal(ap.owners[2].pid, 9);
	/* a and b together 0x28000; c's first 0x10000 lies within a. */
	assert_int_equal(ap.held, 0x38000);
	aperture_free(&ap);

	pins[5].state = (char *)"live";			/* the whole machine in one range */
	assert_int_equal(aperture_fill(&ap, &whole, &t), 0);
	assert_int_equal(ap.held, 0x100000);
	aperture_free(&ap);
	t.count = 0;
	assert_int_equal(aperture_fill(&ap, &whole, &t), 0);
	assert_int_equal(ap.held, 0);
	aperture_free(&ap);
}

MAIN(NULL, NULL)
