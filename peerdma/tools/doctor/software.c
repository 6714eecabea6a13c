// SPDX-License-Identifier: MIT
/*
 * software.c - the questions about drivers and kernel that several checks ask.
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "storage.h"
#include "base/tool.h"

void nvidia_release(struct doctor *d, struct driver_release *out)
{
	char word[160] = "";
	const char *s;

	memset(out, 0, sizeof(*out));
	if (tree_word(d->tree, NVIDIA_VERSION, word, sizeof(word)))
		return;
	out->opened = strstr(word, "Open Kernel Module");
	/* "... for x86_64  580.95.05  Release Build ...": the first word that is three numbers, or two. */
	for (s = word; *s; s += strspn(s, " ")) {
		size_t length = strcspn(s, " ");

		out->patch = 0;
		if (length < sizeof(out->text) && strspn(s, "0123456789.") == length &&
		    sscanf(s, "%5u.%5u.%5u", &out->major, &out->minor, &out->patch) >= 2) {
			memcpy(out->text, s, length);
			out->text[length] = 0;
			out->known = true;
			return;
		}
		s += length;
	}
}

bool module_loaded(struct doctor *d, const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/module/%s", name);
	return tree_exists(d->tree, path);
}

/* ---- symbols ------------------------------------------------------------------- */

static const char *const symbols[] = {
	"ib_register_peer_memory_client", "ib_umem_dmabuf_get", "pci_p2pdma_distance_many",
	NVFS_SYMBOL_1, NVFS_SYMBOL_2,
};

/* "ffffffff81000000 T name\t[module]" */
static bool symbol_line(const char *line, size_t length, const char *name)
{
	const char *s = memchr(line, ' ', length), *end = line + length;
	size_t n = strlen(name);

	if (!s || end - s < 3)
		return false;
	s += 3;
	return (size_t)(end - s) >= n && !memcmp(s, name, n) &&
	       (s + n == end || s[n] == '\t' || s[n] == ' ');
}

/* "ffffffffc03f4270 t mlx5_ib_reg_user_mr_dmabuf\t[mlx5_ib]": what a driver has that imports dma-bufs, by any prefix. */
static const char import_name[] = "reg_user_mr_dmabuf\t[";

/* The name of the module behind that, and its length; NULL: it is another line. */
static const char *importer(const char *line, size_t length, size_t *out)
{
	const char *s = memmem(line, length, import_name, strlen(import_name)), *end;

	if (!s)
		return NULL;
	s += strlen(import_name);
	end = memchr(s, ']', length - (size_t)(s - line));
	*out = end ? (size_t)(end - s) : 0;
	return end ? s : NULL;
}

static bool keep_symbol(const char *line, size_t length, void *arg)
{
	size_t unused;

	(void)arg;
	if (importer(line, length, &unused))
		return true;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if (symbol_line(line, length, symbols[i]))
			return true;
	}
	return false;
}

enum answer kernel_symbol(struct doctor *d, const char *name)
{
	const char *data, *s, *end;
	size_t length;

	if (tree_lines(d->tree, "/proc/kallsyms", keep_symbol, NULL, &data, &length))
		return ANSWER_UNKNOWN;
	for (s = data; s < data + length; s = end + 1) {
		end = memchr(s, '\n', (size_t)(data + length - s));
		if (!end)
			break;
		if (symbol_line(s, (size_t)(end - s), name))
			return ANSWER_YES;
	}
	return ANSWER_NO;
}

enum answer driver_imports_dmabuf(struct doctor *d, const char *driver)
{
	const char *data, *s, *end, *name;
	size_t length, n;

	if (tree_lines(d->tree, "/proc/kallsyms", keep_symbol, NULL, &data, &length))
		return ANSWER_UNKNOWN;
	for (s = data; s < data + length; s = end + 1) {
		end = memchr(s, '\n', (size_t)(data + length - s));
		if (!end)
			break;
		name = importer(s, (size_t)(end - s), &n);
		if (name && n == strlen(driver) && !memcmp(name, driver, n))
			return ANSWER_YES;
	}
	return ANSWER_NO;
}

const char *answer_word(enum answer a)
{
	static const char *const words[] = { [ANSWER_NO] = "no", [ANSWER_YES] = "yes",
					     [ANSWER_UNKNOWN] = "not known" };

	return words[a];
}

/* ---- the kernel's configuration -------------------------------------------------- */

static bool keep_option(const char *line, size_t length, void *arg)
{
	static const char *const options[] = { "PCI_P2PDMA", "DMABUF_MOVE_NOTIFY", "HSA_AMD_P2P" };

	(void)arg;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (memmem(line, length, options[i], strlen(options[i])))
			return true;
	}
	return false;
}

static char option_in(const char *data, size_t length, const char *name)
{
	char text[64];
	const char *s;

	snprintf(text, sizeof(text), "CONFIG_%s=", name);
	s = memmem(data, length, text, strlen(text));
	if (s && (s[strlen(text)] == 'y' || s[strlen(text)] == 'm'))
		return s[strlen(text)];
	return 'n';
}

char kernel_config(struct doctor *d, const char *name, char file[128])
{
	static const char *const argv[] =
	{ "zgrep", "-E", "PCI_P2PDMA|DMABUF_MOVE_NOTIFY|HSA_AMD_P2P", "/proc/config.gz",
					    NULL };
	static const char *const places[][2] = {
		{ "/boot/config-", "" }, { "/lib/modules/", "/config" },
		{ "/usr/lib/modules/", "/config" },
	};
	const char *release = d->machine->release;
	enum answer symbol;
	const char *data;
	size_t length;

	snprintf(file, 128, "/proc/config.gz");
	if (!tree_command(d->tree, "config.gz", argv, &data, &length))
		return option_in(data, length, name);
	for (size_t i = 0; *release && !strchr(release, '/') &&
	     i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(file, 128, "%s%s%s", places[i][0], release, places[i][1]);
		if (!tree_lines(d->tree, file, keep_option, NULL, &data, &length))
			return option_in(data, length, name);
	}
	if (!strcmp(name, "PCI_P2PDMA")) {
		snprintf(file, 128, "/proc/kallsyms");
		symbol = kernel_symbol(d, "pci_p2pdma_distance_many");
		return symbol == ANSWER_YES ? 'y' : symbol == ANSWER_NO ? 'n' : '?';
	}
	snprintf(file, 128, "/boot/config-%s", release);
	return '?';
}

void evidence_config(struct doctor *d, struct finding *f, const char *name, char has,
		     const char *file)
{
	if (has == '?')
		evidence(d, f, file, "cannot be read");
	else if (!strcmp(file, "/proc/kallsyms"))
		evidence(d, f, file, "pci_p2pdma_distance_many is %sthere: CONFIG_%s=%c",
			 has == 'n' ? "not " : "", name, has);
	else
		evidence(d, f, file, "CONFIG_%s=%c", name, has);
}

enum answer kernel_at_least(const struct doctor *d, unsigned int major, unsigned int minor)
{
	unsigned int x, y;

	if (sscanf(d->machine->release, "%5u.%5u", &x, &y) != 2)
		return ANSWER_UNKNOWN;
	return x > major || (x == major && y >= minor) ? ANSWER_YES : ANSWER_NO;
}

bool always_moves(const struct doctor *d)
{
	return kernel_at_least(d, 7, 1) == ANSWER_YES;
}
