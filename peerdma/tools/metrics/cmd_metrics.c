// SPDX-License-Identifier: MIT
/*
 * cmd_metrics.c - `peerdma metrics`: this machine's state for Prometheus.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/gpus.h"
#include "metrics/metrics.h"

static const char usage[] =
	"Usage: peerdma metrics [--output FILE] [--format FORMAT] [--no-doctor] [--no-processes]\n"
	"                       [--root DIR]\n"
	"\n"
	"Prints pins, BAR1, registration caches, revocations, what users have taken, and the\n"
	"doctor's verdicts as metrics, for the node exporter's textfile collector or any\n"
	"reader of OpenMetrics. Run it as root: most sources are readable by root only.\n"
	"\n"
	"  -o, --output FILE  writes FILE in one step: readers see the old or the new text\n"
	"  --format FORMAT    openmetrics (the default) or prometheus, the older text format,\n"
	"                     in which the textfile collector also sees types of counters\n"
	"  --no-doctor        leaves out the doctor's verdicts\n"
	"  --no-processes     leaves out what has a label pid, registration caches too\n"
	"  --root DIR         reads files below DIR, not this machine's\n"
	"\n"
	"Exit code: 0 ok; 1 wrong usage, malformed input or output failed; 2 no source of pins,\n"
	"GPUs or caches could be read (metrics that say so are written all the same).\n";

#define FILE_MODE	0644	/* the exporter is another user */

/* A new file takes the old one's place: the collector may read at any moment, files "*.prom" only. */
static int replace(const char *file, const char *text, size_t length)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	char *temporary;
	struct stat st;
	int fd, ret;

	/* Root's "--output /dev/null" is not to put a file there, nor in a link's place, wherever it leads. */
	if (!lstat(file, &st) && !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if (asprintf(&temporary, "%.*s.%s.XXXXXX", (int)(base - file), file, base) < 0)
		return -ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
		free(temporary);
		return ret;
	}
	ret = fchmod(fd, FILE_MODE) ? -errno : file_write_all(fd, text, length);
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && rename(temporary, file))
		ret = -errno;
	if (ret)
		unlink(temporary);
	free(temporary);
	return ret;
}

static int print(struct metrics *m, enum metrics_format format, const char *file)
{
	char *text = NULL;
	size_t length;
	FILE *to;
	int ret;

	if (!file) {
		metrics_print(m, format, stdout);
		return 0;
	}
	to = open_memstream(&text, &length);
	if (!to)
		return -ENOMEM;
	metrics_print(m, format, to);
	ret = fclose(to) ? -ENOMEM : replace(file, text, length);
	free(text);
	return ret;
}

/* Without it each source would be missing, as where there is nothing to read. */
static bool has_root(const char *root)
{
	int fd = *root ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		close(fd);
	return !*root || fd >= 0;
}

int cmd_metrics(struct tool *tool, int argc, char **argv)
{
	const char *file = NULL, *word = "openmetrics";
	bool no_doctor = false, no_processes = false;
	const struct tool_own own[] = {
		{ .name = "output", .letter = 'o', .value = &file, .path = true },
		{ .name = "format", .value = &word },
		{ .name = "no-doctor", .given = &no_doctor },
		{ .name = "no-processes", .given = &no_processes },
	};
	enum metrics_format format = METRICS_OPENMETRICS;
	struct metrics m;
	int ret = tool_options_own(tool, argc, argv, 0, own, sizeof(own) / sizeof(own[0]), usage);

	if (ret >= 0)
		return ret;
	if (!strcmp(word, "prometheus")) {
		format = METRICS_PROMETHEUS;
	} else if (strcmp(word, "openmetrics")) {
		warn("metrics: --format %s: neither openmetrics nor prometheus", word);
		return EXIT_ERROR;
	}
	if (!has_root(tool->root)) {
		warn("metrics: %s: %s", tool->root, strerror(errno));
		return EXIT_ERROR;
	}
	gpus_hold();
	ret = metrics_collect(tool, !no_processes, !no_doctor, &m);
	if (!ret)
		ret = print(&m, format, file);
	if (ret == -ENOMEM)
		warn("metrics: out of memory");
	else if (ret)
		warn("metrics: %s: %s", file,
		     ret == -EINVAL ? "not a regular file" : strerror(-ret));
	else if (!m.something)
		warn("metrics: neither pins nor GPUs nor caches can be read; run it as root, and see 'peerdma pins' and 'peerdma bar1'");
	ret = ret || m.malformed ? EXIT_ERROR : m.something ? EXIT_OK : EXIT_UNKNOWN;
	metrics_free(&m);
	return ret;
}
