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

/* "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko": those that the doctor asks for. */
static bool builtin_line(const char *line, size_t length, void *arg)
{
	(void)arg;
	return memmem(line, length, "/infiniband/", 12) || memmem(line, length, "/amdgpu", 7) ||
	       memmem(line, length, "/mlx5", 5);
}

/* A driver in the kernel's image has no folder of its own in /sys/module unless it has parameters. */
static bool is_built_in(struct doctor *d, const char *name)
{
	const char *release = d->machine->release, *data;
	char path[128], file[64];

	if (!*release || strchr(release, '/'))
		return false;
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.builtin", release);
	if (tree_lines(d->tree, path, builtin_line, NULL, &data, NULL))
		return false;
	snprintf(file, sizeof(file), "/%.48s.ko", name);
	return strstr(data, file);
}

bool module_loaded(struct doctor *d, const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/module/%s", name);
	return tree_exists(d->tree, path) || is_built_in(d, name);
}

bool driver_in_container(struct doctor *d)
{
	return tree_exists(d->tree, DRIVER_ROOT "/lib/modules") ||
	       tree_exists(d->tree, DRIVER_ROOT "/usr");
}

/* ---- symbols ------------------------------------------------------------------- */

static const char *const symbols[] = {
	"ib_register_peer_memory_client", "ib_umem_dmabuf_get", "pci_p2pdma_distance_many",
	NVFS_SYMBOL_1, NVFS_SYMBOL_2,
};

/* "ffffffff81000000 T name\t[module]", or without a module: in the kernel's image.  The name, and its length. */
static const char *symbol_of(const char *line, size_t length, size_t *out)
{
	const char *s = memchr(line, ' ', length), *end = line + length, *llvm;

	if (!s || end - s < 3)
		return NULL;
	s += 3;
	for (*out = 0; s + *out < end && s[*out] != '\t' && s[*out] != ' ';)
		++*out;
	/* clang adds this to the names of static functions: "mlx5_ib_reg_user_mr_dmabuf.llvm.1234". */
	llvm = memmem(s, *out, ".llvm.", 6);
	if (llvm)
		*out = (size_t)(llvm - s);
	return s;
}

static bool symbol_line(const char *line, size_t length, const char *name)
{
	size_t n;
	const char *s = symbol_of(line, length, &n);

	return s && n == strlen(name) && !memcmp(s, name, n);
}

/* "t mlx5_ib_reg_user_mr_dmabuf\t[mlx5_ib]": what a driver has that imports dma-bufs, by any prefix. */
static const char import_name[] = "_reg_user_mr_dmabuf";

static bool is_importer(const char *line, size_t length)
{
	size_t n, suffix = sizeof(import_name) - 1;
	const char *s = symbol_of(line, length, &n);

	return s && n > suffix && !memcmp(s + n - suffix, import_name, suffix);
}

/* Of that driver: by the module's name, or in the kernel's image by the symbol's prefix, which a driver's name may be longer than. */
static bool is_importer_of(const char *line, size_t length, const char *driver)
{
	const char *module, *s;
	size_t n, driver_length = strlen(driver);

	if (!is_importer(line, length))
		return false;
	module = memchr(line, '[', length);
	if (module) {
		n = (size_t)(line + length - ++module);
		return n > driver_length && !memcmp(module, driver, driver_length) &&
		       module[driver_length] == ']';
	}
	s = symbol_of(line, length, &n);
	n -= sizeof(import_name) - 1;
	/* "ionic" of ionic_rdma */
	return n <= driver_length && !memcmp(s, driver, n) && (!driver[n] || driver[n] == '_');
}

static bool keep_symbol(const char *line, size_t length, void *arg)
{
	(void)arg;
	if (is_importer(line, length))
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
	const char *data, *s, *end;
	size_t length;

	if (tree_lines(d->tree, "/proc/kallsyms", keep_symbol, NULL, &data, &length))
		return ANSWER_UNKNOWN;
	for (s = data; s < data + length; s = end + 1) {
		end = memchr(s, '\n', (size_t)(data + length - s));
		if (!end)
			break;
		if (is_importer_of(s, (size_t)(end - s), driver))
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
