// SPDX-License-Identifier: MIT
/*
 * test_tool_parts.c - what the command's pictures and tables are made of: widths of text and where it is cut, columns,
 * figures at the edges of their units, runs of an aperture; and files at the edges of what is read.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "../cases.h"
#include "../descriptors.h"
#include "bar1/aperture.h"
#include "machine/gpus.h"
#include "base/pci.h"
#include "base/svg.h"
#include "base/table.h"
#include "base/tool.h"
#include "machine/tree.h"

/* What is written to a stream by the body that follows. */
static char *written;
static size_t written_length;
#define INTO(to) for (FILE *to = open_memstream(&written, &written_length); to; fclose(to), to = NULL)

static void expect_written(const char *text)
{
	assert_string_equal(written, text);
	free(written);
	written = NULL;
}

/* ---- drawings ---- */

static bool near(double a, double b)
{
	return a - b < 1e-9 && b - a < 1e-9;
}

CASE(svg_widths)
{
	assert_true(svg_width("", 0, 10, false) == 0);
	/* The first and the last that have a width of their own, and what is beside them. */
	assert_true(near(svg_width(" ", 1, 10, false), 3.2));
	assert_true(near(svg_width("~", 1, 10, false), 8.4));
	assert_true(near(svg_width("\x7f", 1, 10, false), 10));
	assert_true(near(svg_width("\x1f", 1, 10, false), 10));
	assert_true(near(svg_width("i", 1, 100, false), 28));
	assert_true(near(svg_width("W", 1, 100, true), 99 * 1.2));
	/* A character of several bytes is as wide as one is high. */
	assert_true(near(svg_width("\xc3\xa9", 2, 10, false), 10));
	assert_true(near(svg_width("\xe6\xbc\xa2\xf0\x9f\x99\x82", 7, 10, false), 20));
	assert_true(near(svg_width("\xc3\xa9\xc3\xa9", 4, 10, true), 24));
	assert_true(near(svg_width("ii", 1, 100, false), 28));
}

/* Where a text is cut, for each width in hundredths of the font's size. */
static void expect_cuts(const char *text, unsigned int from, unsigned int to, size_t at)
{
	for (unsigned int width = from; width <= to; width++) {
		size_t n = svg_fit(text, 100, false, width + 0.5);

		if (n != at)
			fail_msg("%s in %u: %zu, not %zu", text, width, n, at);
	}
}

CASE(svg_cuts)
{
	/* i is 28 wide: so many as fit, one at least. */
	expect_cuts("iiii", 0, 55, 1);
	expect_cuts("iiii", 56, 83, 2);
	expect_cuts("iiii", 84, 111, 3);
	expect_cuts("iiii", 112, 500, 4);
	/* Not within a character of two, three or four bytes. */
	expect_cuts("\xc3\xa9\xc3\xa9", 0, 199, 2);
	expect_cuts("\xc3\xa9\xc3\xa9", 200, 300, 4);
	expect_cuts("\xe6\xbc\xa2i", 0, 127, 3);
	expect_cuts("\xe6\xbc\xa2i", 128, 300, 4);
	expect_cuts("\xf0\x9f\x99\x82\xf0\x9f\x99\x82", 0, 199, 4);
	/* At a space, 32 wide, that is further on than half of what would fit. */
	expect_cuts("iii iii", 84 + 32, 84 + 32 + 2 * 28 - 1, 3);
	expect_cuts("iii iii", 84 + 32 + 2 * 28, 84 + 32 + 3 * 28 - 1, 6);
	expect_cuts("iii iii", 84 + 32 + 3 * 28, 999, 7);
	expect_cuts("i iiiii", 28 + 32, 28 + 32 + 27, 2);
	expect_cuts("i iiiii", 28 + 32 + 28, 28 + 32 + 55, 3);
	expect_cuts("ii iiiii", 56 + 32, 56 + 32 + 27, 2);
	expect_cuts("ii iiiii", 56 + 32 + 28, 56 + 32 + 55, 4);
	expect_cuts("iiii i i", 112 + 32 + 28 + 32, 112 + 32 + 28 + 32 + 27, 6);
	/* The last space. */
	assert_int_equal(svg_fit("i i i", 100, true, 28 * 1.2 * 2 + 32 * 1.2 * 2 + 1), 3);
	assert_int_equal(svg_fit("", 100, false, 10), 0);
	assert_int_equal(svg_fit("WW", 100, true, 99 * 2), 1);
	assert_int_equal(svg_fit("WW", 100, false, 99 * 2), 2);
}

CASE(svg_marks)
{
	INTO(to)
		svg_put(to, "a<b>&c\"'d", 8);
	expect_written("a&lt;b&gt;&amp;c\"'");
	INTO(to)
		svg_text(to, 1.25, -2, "name", "<x>");
	expect_written("<text x=\"1.2\" y=\"-2.0\" class=\"name\">&lt;x&gt;</text>\n");
	INTO(to) {
		svg_begin(to, 30, 40, "a & b", ".x{}\n", ".y{}\n");
		svg_end(to);
	}
	expect_written("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"30\" height=\"40\" viewBox=\"0 0 30 40\" "
		       "font-family=\"sans-serif\" font-size=\"12\">\n<title>a &amp; b</title>\n<style>\n"
		       ".page{fill:#ffffff} text{fill:#1f2328} .name{font-weight:bold} .small{font-size:11px;fill:#59636e}\n.x{}\n"
		       "@media (prefers-color-scheme: dark) {\n.page{fill:#0d1117} text{fill:#e6edf3} .small{fill:#9aa4af}\n.y{}\n}\n"
		       "</style>\n<rect class=\"page\" width=\"30\" height=\"40\"/>\n</svg>\n");
}

/* ---- text and tables ---- */

CASE(sizes)
{
	static const struct {
		uint64_t bytes;
		const char *size, *mib;
	} cases[] = {
		{ 1, "1 B", "0 MiB" }, { 1023, "1023 B", "0 MiB" }, { 1024, "1 KiB", "0 MiB" }, { 1025, "1.0 KiB", "0 MiB" },
		{ (1 << 20) - 1, "1024.0 KiB", "0 MiB" }, { 1 << 20, "1 MiB", "1 MiB" }, { (1 << 20) + 1, "1.0 MiB", "1 MiB" },
		{ (2 << 20) - 1, "2.0 MiB", "1 MiB" }, { 1023ULL << 20, "1023 MiB", "1023 MiB" }, { 1ULL << 30, "1 GiB", "1024 MiB" },
		{ 1ULL << 40, "1 TiB", "1048576 MiB" }, { 3ULL << 49, "1.5 PiB", "1610612736 MiB" }, { 1ULL << 50, "1 PiB", "1073741824 MiB" },
		{ 1ULL << 60, "1 EiB", "1099511627776 MiB" }, { 1ULL << 63, "8 EiB", "8796093022208 MiB" },
	};
	char buf[32];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(text_size(cases[i].bytes, buf), cases[i].size);
		assert_string_equal(text_mib(cases[i].bytes, buf), cases[i].mib);
	}
}

CASE(padding)
{
	INTO(to) {
		text_pad_to(to, "ab", 4);
		fputs("|", to);
		text_pad_to(to, "ab", -4);
		fputs("|", to);
		text_pad_to(to, "\xc3\xa9", 3);
		fputs("|", to);
		text_pad_to(to, "\xe6\xbc\xa2", -2);
		fputs("|", to);
		text_pad_to(to, "abc", 2);
		text_pad_to(to, "abc", -3);
		text_pad_to(to, "", 1);
		text_pad_to(to, "x", 0);
		fputs("|", to);
	}
	expect_written("ab  |  ab|\xc3\xa9  | \xe6\xbc\xa2|abcabc x|");
}

/* Each byte at each place of a sequence, against a table of what UTF-8 allows. */
CASE(utf8)
{
	static const struct {
		unsigned char first, last, second_first, second_last, length;
	} rows[] = {
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (unsigned int a = 0x80; a <= 0xff; a++) {
		for (unsigned int b = 0x7e; b <= 0xc1; b++) {
			for (unsigned int c = 0; c < 4; c++) {
				static const char tails[] = { '\x7f', '\x80', '\xbf', '\xc0' };
				char in[] = { (char)a, (char)b, '\x80', tails[c], 0 };
				char *out = text_clean(in, 4), *cut;
				bool whole = false;

				for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
					if (a >= rows[i].first && a <= rows[i].last && b >= rows[i].second_first && b <= rows[i].second_last)
						whole = rows[i].length < 4 || (c == 1 || c == 2);
				}
				/* C1. */
				if (a == 0xc2 && b < 0xa0)
					whole = false;
				if ((*out != '\\') != whole)
					fail_msg("%02x %02x 80 %02x: %s", a, b, tails[c] & 0xff, out);
				free(out);
				/* Cut after the first byte nothing is whole. */
				cut = text_clean(in, 1);
				assert_int_equal(*cut, '\\');
				free(cut);
			}
		}
	}
	for (char c = 1; c > 0 && c < 0x7f; c++) {
		char *out = text_clean(&c, 1);

		assert_int_equal(strlen(out), c < 0x20 ? 4 : 1);
		free(out);
	}
}

static struct table *filled(void)
{
	static const char *const titles[] = { "N>", "NAME", "SIZE>", "LAST" };
	struct table *t = table_new(titles, 4);

	table_add(t, (const char *[]){ "1", "a", "", "b" });
	table_add(t, (const char *[]){ "20", "\xc3\xa9\xc3\xa9longer", "12345", "" });
	return t;
}

CASE(tables)
{
	static const char *const right[] = { "A>" };
	struct table *t;

	INTO(to)
		table_write(filled(), "  ", to);
	expect_written("   N NAME      SIZE LAST\n   1 a            - b\n  20 \xc3\xa9\xc3\xa9longer 12345 -\n");
	INTO(to)
		table_fold(filled(), 1, 1000, to);
	expect_written(" N NAME      SIZE LAST\n 1 a            - b\n20 \xc3\xa9\xc3\xa9longer 12345 -\n");
	/* One column less than the whole needs, and what the first three need. */
	for (unsigned int columns = 22; columns >= 17; columns--) {
		INTO(to)
			table_fold(filled(), 1, columns, to);
		expect_written(columns > 21 ? " N NAME      SIZE LAST\n 1 a            - b\n20 \xc3\xa9\xc3\xa9longer 12345 -\n" :
			       " N NAME      SIZE\n 1 a            -\n20 \xc3\xa9\xc3\xa9longer 12345\n N LAST\n 1 b\n20 -\n");
	}
	/* Wider than there is room for: a column at a time. */
	INTO(to)
		table_fold(filled(), 1, 3, to);
	expect_written(" N NAME\n 1 a\n20 \xc3\xa9\xc3\xa9longer\n N  SIZE\n 1     -\n20 12345\n N LAST\n 1 b\n20 -\n");
	t = table_new(right, 1);
	for (int i = 0; i < 300; i++)
		table_add(t, (const char *[]){ i == 299 ? "123" : "x" });
	INTO(to)
		table_write(t, "", to);
	assert_int_equal(strlen(written), 301 * 4);
	assert_memory_equal(written, "  A\n  x\n", 8);
	free(written);
	written = NULL;
}

CASE(fields)
{
	static const char line[] = "a\t\tbc\td";
	struct field f[4];

	assert_int_equal(tsv_split(line, line + strlen(line), f, 4), 4);
	assert_true(field_is(&f[0], "a") && field_is(&f[1], "") && field_is(&f[2], "bc") && field_is(&f[3], "d"));
	assert_false(field_is(&f[2], "b") || field_is(&f[2], "bcd") || field_is(&f[2], "bd") || field_is(&f[0], ""));
	assert_int_equal(tsv_split(line, line + strlen(line), f, 3), 3);
	assert_true(field_is(&f[2], "bc"));
	assert_int_equal(tsv_split(line, line, f, 3), 1);
	assert_int_equal(f[0].length, 0);
}

/* ---- apertures ---- */

CASE(runs)
{
	struct phys_range whole = { 0x1000, 0x10000 };
	struct phys_range held[] = { { 0x1000, 0x1000 }, { 0x3000, 0x2000 }, { 0x6000, 0x1000 } };
	struct free_runs f;

	free_runs_fill(&f, &whole, NULL, 0);
	assert_int_equal(f.count, 1);
	assert_int_equal(f.largest, 0x10000);
	assert_int_equal(f.classes[16].count, 1);
	assert_int_equal(free_runs_percent(&f), 0);
	free_runs_fill(&f, &whole, held, 3);
	assert_int_equal(f.count, 3);		/* 0x1000, 0x1000, 0xa000 */
	assert_int_equal(f.bytes, 0xc000);
	assert_int_equal(f.largest, 0xa000);
	assert_int_equal(f.classes[12].count, 2);
	assert_int_equal(f.classes[12].bytes, 0x2000);
	assert_int_equal(f.classes[15].bytes, 0xa000);
	assert_int_equal(free_runs_percent(&f), 17);	/* 16.7 */
	f = (struct free_runs){ .bytes = 100, .largest = 99 };
	assert_int_equal(free_runs_percent(&f), 1);
	f = (struct free_runs){ .bytes = 10000, .largest = 9999 };
	assert_int_equal(free_runs_percent(&f), 1);	/* rounded up */
	f = (struct free_runs){ .bytes = 1ULL << 63, .largest = 1ULL << 62 };
	assert_int_equal(free_runs_percent(&f), 50);
	whole.length = 0x1000;
	free_runs_fill(&f, &whole, held, 1);
	assert_int_equal(f.count, 0);
	assert_int_equal(free_runs_percent(&f), 0);
}

CASE(pci_edges)
{
	struct pci_resources r = { 0 };
	char out[PCI_NAME_MAX];

	assert_true(pci_name("ffffffff:ff:1f.7", out));
	assert_string_equal(out, "ffffffff:ff:1f.7");
	assert_false(pci_name("0000:03:00", out) || pci_name("0000:03:00.", out) || pci_name("0000:03:00.01", out));
	/* The largest that can be prefetched; of two the first. */
	r.bars[1] = (struct pci_bar){ .start = 1, .length = 64 << 20, .prefetchable = true };
	assert_int_equal(pci_aperture(&r, 0), 1);
	r.bars[3] = (struct pci_bar){ .start = 1, .length = 64 << 20, .prefetchable = true };
	assert_int_equal(pci_aperture(&r, 0), 1);
	r.bars[0] = (struct pci_bar){ .start = 1, .length = 32 << 20, .prefetchable = true };
	assert_int_equal(pci_aperture(&r, 0), 1);
	assert_int_equal(pci_aperture(&r, 32 << 20), 0);
	r.bars[0] = (struct pci_bar){ .start = 1, .length = 65 << 20, .prefetchable = true };
	assert_int_equal(pci_aperture(&r, 0), 0);
	r.bars[5] = (struct pci_bar){ .start = 1, .length = 128 << 20 };
	assert_int_equal(pci_aperture(&r, 128 << 20), 0);
	r.bars[5].prefetchable = true;
	assert_int_equal(pci_aperture(&r, 0), 5);
}

/* ---- files ---- */

static char folder[] = "/tmp/tool_parts-XXXXXX";

static void put(const char *name, size_t length, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	if (text)
		assert_int_equal(write(fd, text, length), length);
	else
		assert_int_equal(ftruncate(fd, (off_t)length), 0);
	close(fd);
}

CASE(whole_files)
{
	static const size_t lengths[] = { 0, 1, 16383, 16384, 16385, 32767, 32768, 100000 };
	char path[256], *data, *text = malloc(100000);
	size_t length;

	for (size_t i = 0; i < 100000; i++)
		text[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		int fd;

		put("file", lengths[i], text);
		assert_int_equal(file_read(folder, "/file", &data, &length), 0);
		assert_int_equal(length, lengths[i]);
		assert_memory_equal(data, text, length);
		assert_int_equal(data[length], 0);
		free(data);
		snprintf(path, sizeof(path), "%s/file", folder);
		fd = open(path, O_RDONLY);
		assert_int_equal(file_read_all(fd, lengths[i], &data, &length), 0);
		free(data);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		if (lengths[i])
			assert_int_equal(file_read_all(fd, lengths[i] - 1, &data, &length), -EFBIG);
		close(fd);
	}
	free(text);
	assert_int_equal(file_read(folder, "/nothing", &data, &length), -ENOENT);
	assert_int_equal(file_read(folder, "/", &data, &length), -EISDIR);
	assert_true(file_exists(folder, "/file") && file_exists(folder, "/"));
	assert_false(file_exists(folder, "/nothing"));
	/* Too long a name is no other file's. */
	char *longest = malloc(5000);

	memset(longest, '/', 4999);
	longest[4999] = 0;
	assert_int_equal(file_read(longest, "/file", &data, &length), -ENAMETOOLONG);
	assert_false(file_exists(longest, ""));
	longest[4095 - strlen(folder)] = 0;
	assert_true(file_exists(folder, longest));
	strcpy(longest + 4095 - strlen(folder), "/");
	assert_false(file_exists(folder, longest));
	free(longest);
}

/* `peerdma top` may read for days: what is opened is closed, also where there is too much, or nothing to be read. */
CASE(nothing_left_open)
{
	const char *listed, *target;
	char path[256], *data;
	int64_t number;
	size_t length;
	unsigned int before;

	put("short", 2, "7\n");
	put("long", 0, "");
	snprintf(path, sizeof(path), "%s/long", folder);
	assert_int_equal(truncate(path, FILE_MAX + 1), 0);
	before = descriptors();
	for (int i = 0; i < 3; i++) {
		struct tree *t = tree_open(folder);

		assert_int_equal(file_read(folder, "/short", &data, &length), 0);
		free(data);
		assert_int_equal(file_read(folder, "/long", &data, &length), -EFBIG);
		assert_int_equal(file_read(folder, "/", &data, &length), -EISDIR);
		assert_int_equal(tree_number(t, "/short", &number), 0);
		assert_int_equal(number, 7);
		assert_true(tree_read(t, "/long", &listed, &length) < 0 && tree_read(t, "/", &listed, &length) < 0);
		assert_int_equal(tree_list(t, "/", &listed), 0);
		assert_true(tree_list(t, "/short", &listed) < 0 && tree_link(t, "/short", &target) < 0);
		tree_close(t);
	}
	assert_int_equal(descriptors(), before);
	unlink(path);
}

static bool with_a(const char *line, size_t length, void *arg)
{
	(*(int *)arg)++;
	return memchr(line, 'a', length);
}

CASE(trees)
{
	struct tree *t = tree_open(folder);
	const char *data;
	char word[6], four[4];
	size_t length;
	int64_t n;
	int lines = 0;

	assert_non_null(t);
	assert_false(tree_is_live(t));
	put("numbers", 3, "-12");
	assert_int_equal(tree_number(t, "/numbers", &n), 0);
	assert_true(n == -12);
	/* Once read, it is what it was. */
	put("numbers", 2, "13");
	assert_int_equal(tree_number(t, "/numbers", &n), 0);
	assert_true(n == -12);
	put("largest", 20, "9223372036854775807\n");
	assert_int_equal(tree_number(t, "/largest", &n), 0);
	assert_true(n == INT64_MAX);
	put("larger", 19, "9223372036854775808");
	assert_int_equal(tree_number(t, "/larger", &n), -EBADMSG);
	put("minus", 1, "-");
	assert_int_equal(tree_number(t, "/minus", &n), -EBADMSG);
	assert_int_equal(tree_number(t, "/none", &n), -ENOENT);
	/* Cut, and not in the middle of a character. */
	put("word", 9, "abc\xc3\xa9\xc3\xa9\nx");
	assert_int_equal(tree_word(t, "/word", word, sizeof(word)), 0);
	assert_string_equal(word, "abc\xc3\xa9");
	assert_int_equal(tree_word(t, "/word", word, 5), 0);
	assert_string_equal(word, "abc");
	assert_int_equal(tree_word(t, "/word", four, sizeof(four)), 0);
	assert_string_equal(four, "abc");
	assert_int_equal(tree_word(t, "/word", four, 3), 0);
	assert_string_equal(four, "ab");
	assert_int_equal(tree_word(t, "/none", word, sizeof(word)), -ENOENT);
	assert_string_equal(word, "");
	/* At most so much. */
	put("full", TREE_FILE_MAX, NULL);
	assert_int_equal(tree_read(t, "/full", &data, &length), 0);
	assert_int_equal(length, TREE_FILE_MAX);
	put("fuller", TREE_FILE_MAX + 1, NULL);
	assert_int_equal(tree_read(t, "/fuller", &data, &length), -EFBIG);
	put("lines", 12, "a1\nb\n\nca\nxya");
	assert_int_equal(tree_lines(t, "/lines", with_a, &lines, &data, &length), 0);
	assert_int_equal(lines, 5);
	assert_int_equal(length, 10);
	assert_string_equal(data, "a1\nca\nxya\n");
	assert_int_equal(tree_lines(t, "/none", with_a, &lines, &data, &length), -ENOENT);
	assert_int_equal(tree_list(t, "/lines", &data), -ENOTDIR);
	assert_true(tree_exists(t, "/lines") && tree_exists(t, "/"));
	assert_false(tree_exists(t, "/none"));
	assert_int_equal(tree_read(t, "/", &data, &length), -EINVAL);
	assert_int_equal(tree_put(t, "/made", "x\0y", 3), 0);
	assert_int_equal(tree_read(t, "/made", &data, &length), 0);
	assert_int_equal(length, 3);
	assert_memory_equal(data, "x\0y", 4);
	assert_int_equal(tree_put(t, "/made", "z", 1), -ENOMEM);
	tree_close(t);
	tree_close(NULL);
}

CASE(lists)
{
	static const char *const names[] = { "b", "a", "list-1", "list", ".hidden" };
	char path[256];
	const char *list;
	struct tree *t;
	int n = 0;

	snprintf(path, sizeof(path), "%s/sub", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "sub/%s", names[i]);
		put(path, 1, "x");
	}
	t = tree_open(folder);
	assert_int_equal(tree_list(t, "/sub", &list), 0);
	assert_memory_equal(list, ".hidden\0a\0b\0list\0list-1\0", 25);
	tree_close(t);
	/* More than what is taken at a time. */
	for (int i = 0; i < 130; i++) {
		snprintf(path, sizeof(path), "sub/n%03d", i);
		put(path, 0, "");
	}
	t = tree_open(folder);
	assert_int_equal(tree_list(t, "/sub", &list), 0);
	for (; *list; list = tree_next(list))
		n++;
	assert_int_equal(n, 135);
	tree_close(t);
}

/* Written twice, into one that is open: what was opened for that is closed. */
CASE(bundles)
{
	struct tree *t = tree_open(folder);
	const char *data;
	char path[256];
	struct stat st;
	int fd, next;

	put("told", 4, "word");
	assert_int_equal(tree_read(t, "/told", &data, NULL), 0);
	snprintf(path, sizeof(path), "%s/bundle.tar", folder);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	next = dup(fd);
	close(next);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tree_bundle(t, fd), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_true(st.st_size >= 512 * 3 && st.st_size % 512 == 0);
		assert_int_equal(dup(fd), next);
		close(next);
	}
	close(fd);
	tree_close(t);
}

/* From here on, openat2() is unknown, as to a kernel before 5.6; or forbidden, as by a sandbox that does not know it. */
static bool forget_openat2(int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In a child: 0, the number of what does not hold, or 77. */
static int without_openat2(int error)
{
	const char *data;
	size_t length;
	struct tree *t;

	if (!forget_openat2(error))
		return 77;
	if (syscall(SYS_openat2, AT_FDCWD, "/", NULL, 0) != -1 || errno != error)
		return 1;
	t = tree_open(folder);
	if (!t || tree_is_live(t))
		return 2;
	if (tree_read(t, "/old/file", &data, &length) || length != 4 || memcmp(data, "text", 4))
		return 3;
	/* There is one of that name outside, too. */
	if (tree_read(t, "/etc/passwd", &data, &length) || length != 5 || memcmp(data, "ours\n", 5))
		return 4;
	if (tree_read(t, "old/file", &data, &length) || length != 4)
		return 5;
	if (tree_list(t, "/old", &data) || memcmp(data, "file\0out\0", 10))
		return 6;
	if (tree_link(t, "/old/out", &data) || strcmp(data, "/etc/passwd"))
		return 7;
	/* It would lead out. */
	if (tree_read(t, "/old/out", &data, &length) != -ELOOP)
		return 8;
	if (tree_read(t, "/old/none", &data, &length) != -ENOENT || tree_read(t, "/ld/file", &data, &length) != -ENOENT)
		return 9;
	tree_close(t);
	return 0;
}

CASE(old_kernels)
{
	static const int errors[] = { ENOSYS, EPERM };
	char path[256];
	int status;

	snprintf(path, sizeof(path), "%s/old", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/etc", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	put("old/file", 4, "text");
	put("etc/passwd", 5, "ours\n");
	snprintf(path, sizeof(path), "%s/old/out", folder);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	for (size_t i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(without_openat2(errors[i]));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77)
			skip();		/* no seccomp here */
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static int begin(void **state)
{
	return !mkdtemp(folder);
}

static int finish(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

MAIN(begin, finish)
