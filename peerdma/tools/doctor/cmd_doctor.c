// SPDX-License-Identifier: MIT
/*
 * cmd_doctor.c - `peerdma doctor`: does GPUDirect RDMA work here, and if not, which
 * one thing to change?
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/compare.h"
#include "doctor/pair_facts.h"
#include "doctor/pair_main.h"
#include "doctor/pair_probe.h"
#include "doctor/pair_remote.h"
#include "doctor/side.h"
#include "doctor/wanted.h"
#include "base/tool.h"

static const char usage[] =
	"Usage: peerdma doctor [--all | --json | -q] [--need WAYS] [--ignore CHECKS]\n"
	"                      [--config FILE] [--bundle FILE] [--probe] [--color] [--root DIR]\n"
	"                      [DEVICE DEVICE]\n"
	"       peerdma doctor --compare [--all | --json] A B\n"
	"       peerdma doctor --pair [--json] A B\n"
	"       peerdma doctor --pair [--json] [--probe] [--rsh COMMAND] [--timeout SECONDS] HOST\n"
	"\n"
	"Which GPU's memory reaches which adapter, card and drive, in which way; and of what keeps a\n"
	"way that is wanted from working: what was seen, what follows, what to do.  Of the whole\n"
	"machine, or of the path between two devices.  A device is a label of 'peerdma topo' (GPU0),\n"
	"a PCI address or a name (mlx5_0).\n"
	"\n"
	"  --need WAYS   what must work for each GPU, with commas between: dmabuf, peermem, rdma (one\n"
	"                of these two), nvidia_p2p, p2pdma, coherent, host, storage, card,\n"
	"                gpu-initiated (rdma whose doorbells GPUs ring), none.\n"
	"                Without it: what the machine is plainly there for\n"
	"  --ignore CHECKS  findings that are accepted: CHECK, or CHECK:SUBJECT, with commas between\n"
	"  --config FILE lines \"need = WAYS\" and \"ignore = CHECKS\"; without it\n"
	"                " WANTED_FILE ", if it is there\n"
	"  -q, --quiet   prints nothing; the exit code says it\n"
	"  --all         also what is ok, and what no wanted path depends on\n"
	"  --json        one JSON object, schema peerdma-doctor/2\n"
	"  --bundle FILE writes all that was read to a tar file, for a report; -: to standard output,\n"
	"                and nothing else\n"
	"  --probe       lets cards that have peerdma's driver, and RDMA devices, move data into\n"
	"                GPU memory and out of it, and compares it; asks drives to read into it\n"
	"  --compare A B what differs between two bundles, or folders with one unpacked: checks\n"
	"                that are worse in B first, then other facts, then other files\n"
	"  --pair A B    whether the machines of two bundles fit each other, rail by rail: link layer,\n"
	"                rate, MTU, GIDs, PFC, releases; what differs, what follows, what to do\n"
	"  --pair HOST   the same of this machine and another, whose bundle is fetched by ssh\n"
	"                With --probe, data is moved between the GPUs of both and compared\n"
	"  --pair-serve  the other end of that, which 'peerdma doctor --pair --probe' starts there\n"
	"  --rsh COMMAND instead of ssh; a word %h of it is replaced by HOST, which else follows it\n"
	"  --timeout SECONDS  for the bundle of HOST: 60\n"
	"  --color       colours although the output is no terminal\n"
	"  --root DIR    looks at a machine that was captured so (unpacked), not at this one\n"
	"\n"
	"Exit code: 0 what is wanted works, 1 something of it does not, 2 it works slowly,\n"
	"3 cannot tell, also where PCI cannot be read; 64 wrong usage or another error.\n"
	"With --compare: 0 no difference, 1 there are some; 64 wrong usage or another error.\n"
	"With --pair: 0 the machines fit, 1 they do not reach each other, 2 they do so slowly, 3 cannot\n"
	"tell; 64 wrong usage or another error.\n";

#define EXIT_CANNOT_TELL	3
#define EXIT_FAILED	DOCTOR_FAILED
enum { COMPARE_SAME, COMPARE_DIFFERS };

struct wish {
	bool all, probe, compare, pair, serve, quiet;
	const char *bundle, *need, *ignore, *config, *rsh, *timeout;
	unsigned int seconds;
	const char *devices[2];
};

#define TIMEOUT_S	60
#define TIMEOUT_MAX_S	3600

/* --bundle -: the bundle is all that is printed, so that another program can read it. */
static bool is_piped(const struct wish *w)
{
	return w->bundle && !strcmp(w->bundle, "-");
}

static bool bundle_fits(const struct tool *tool, const struct wish *w)
{
	if (!is_piped(w))
		return true;
	if (w->all || tool->json || isatty(STDOUT_FILENO)) {
		warn(w->all || tool->json ? "doctor: --bundle - prints the bundle and no report: leave --all and --json out" :
		     "doctor: --bundle -: a bundle is not for a terminal; give a file, or a pipe");
		return false;
	}
	return true;
}

/* Of a machine by itself, and so of no two. */
static bool has_own_options(const struct wish *w)
{
	return w->probe || w->bundle || w->quiet || w->need || w->ignore || w->config;
}

static bool serve_fits(const struct tool *tool, const struct wish *w)
{
	if (has_own_options(w) || w->pair || w->compare || w->all || tool->json || *tool->root ||
	    w->devices[0] || w->rsh || w->timeout) {
		warn("doctor: --pair-serve goes with no other option");
		return false;
	}
	return true;
}

static bool bundles_fit(const struct tool *tool, const struct wish *w)
{
	if (*tool->root || w->rsh || w->timeout || w->probe) {
		warn("doctor: --probe, --rsh, --timeout and --root go with --pair HOST, not with two bundles");
		return false;
	}
	return tool_path_given("doctor", "pair", w->devices[0]) &&
	       tool_path_given("doctor", "pair", w->devices[1]);
}

static bool host_fits(const struct tool *tool, struct wish *w)
{
	const char *host = w->devices[0];
	uint64_t seconds = TIMEOUT_S;

	if (w->probe && *tool->root) {
		warn("doctor: what was captured cannot be probed");
		return false;
	}
	if (w->timeout && (!text_u64(w->timeout, strlen(w->timeout), &seconds) || !seconds ||
			   seconds > TIMEOUT_MAX_S)) {
		warn("doctor: --timeout: give seconds, 1 to %d", TIMEOUT_MAX_S);
		return false;
	}
	w->seconds = (unsigned int)seconds;
	if (!w->rsh && (strchr(host, '/') || strstr(host, ".tar"))) {
		warn("doctor: --pair: '%s' is a file, and no host: give two bundles, A and B", host);
		return false;
	}
	return true;
}

static bool pair_fits(const struct tool *tool, struct wish *w)
{
	if (!w->pair) {
		if (w->rsh || w->timeout)
			warn("doctor: --rsh and --timeout go with --pair HOST only");
		return !w->rsh && !w->timeout;
	}
	if (w->bundle || w->quiet || w->need || w->ignore || w->config || w->all || w->compare) {
		warn("doctor: --pair goes with --json, --probe, --rsh, --timeout, --color and --root only");
		return false;
	}
	if (!w->devices[0]) {
		warn("doctor: --pair: give two bundles, A and B, or a host");
		return false;
	}
	return w->devices[1] ? bundles_fit(tool, w) : host_fits(tool, w);
}

static int options(struct tool *tool, int argc, char **argv, struct wish *w)
{
	const struct tool_own own[] = {
		{ .name = "all", .given = &w->all }, { .name = "probe", .given = &w->probe },
		{ .name = "compare", .given = &w->compare },
		{ .name = "pair", .given = &w->pair },
		{ .name = "pair-serve", .given = &w->serve }, { .name = "rsh", .value = &w->rsh },
		{ .name = "timeout", .value = &w->timeout },
		{ .name = "quiet", .letter = 'q', .given = &w->quiet },
		{ .name = "need", .value = &w->need }, { .name = "ignore", .value = &w->ignore },
		{ .name = "config", .value = &w->config, .path = true },
		{ .name = "bundle", .value = &w->bundle, .path = true },
		{ .value = &w->devices[0] }, { .value = &w->devices[1] },
	};
	int ret = tool_options_own(tool, argc, argv, OPTION_JSON | OPTION_COLOR, own,
				   sizeof(own) / sizeof(own[0]), usage);

	if (ret >= 0)
		return ret ? EXIT_FAILED : 0;
	if (w->serve ? !serve_fits(tool, w) : !pair_fits(tool, w) || !bundle_fits(tool, w))
		return EXIT_FAILED;
	if (w->pair || w->serve)
		return -1;
	if (w->compare && (!w->devices[1] || *tool->root || has_own_options(w))) {
		warn(w->devices[1] ? "doctor: --compare goes with --all or --json only" :
		     "doctor: --compare: give two bundles, A and B");
		fputs(usage, stderr);
		return EXIT_FAILED;
	}
	if (w->compare && !(tool_path_given("doctor", "compare", w->devices[0]) &&
			    tool_path_given("doctor", "compare", w->devices[1])))
		return EXIT_FAILED;
	if (w->quiet && (w->all || tool->json)) {
		warn("doctor: choose one of --quiet, --all and --json");
		return EXIT_FAILED;
	}
	if (w->devices[0] && !w->devices[1]) {
		warn("doctor: give two devices, or none");
		fputs(usage, stderr);
		return EXIT_FAILED;
	}
	if (w->probe && *tool->root) {
		warn("doctor: what was captured cannot be probed");
		return EXIT_FAILED;
	}
	return -1;
}

/* Part of a bundle is none; a device is no file that was written here. */
static void remove_file(int fd, const char *file)
{
	struct stat st;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		unlink(file);
}

static int write_bundle(struct doctor *d, const struct wish *w)
{
	const char *file = is_piped(w) ? "standard output" : w->bundle;
	/* Only its owner may read a bundle: it describes the machine. */
	int fd = is_piped(w) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) :
		 open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int ret = fd < 0 ? -errno : 0;
	struct node node = { 0 };

	/* What no check asks, and --pair compares. */
	if (!ret)
		ret = node_read(&node, d);
	if (!ret)
		ret = tree_bundle(d->tree, fd);
	node_free(&node);
	if (fd >= 0 && ret && !is_piped(w))
		remove_file(fd, file);
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	if (ret)
		warn("doctor: %s: %s", file, strerror(-ret));
	return ret;
}

/* The file first: the command line adds to what it accepts, and says anew what is needed. */
static bool wanted(const struct tool *tool, const struct wish *w, struct wanted *out)
{
	const char *file = w->config ? w->config : *tool->root ? NULL : WANTED_FILE;
	char why[WANTED_WHY];
	int ret = file ? wanted_read(out, file, why) : 0;

	if (ret && (w->config || ret != -ENOENT)) {
		warn("doctor: %s", why);
		return false;
	}
	if (w->need) {
		out->need_count = out->gpus = out->adapters = 0;
		out->none = false;
	}
	if ((w->need && !wanted_need(out, "--need", w->need, why)) ||
	    (w->ignore && !wanted_ignore(out, "--ignore", w->ignore, why))) {
		warn("doctor: %s", why);
		return false;
	}
	return true;
}

/* Of a whole machine: a pair's findings are fewer. */
static void say_what_names_nothing(const struct doctor *d)
{
	const char *meant;
	unsigned int n = 0;
	char name[128];

	while (!d->chosen && wanted_names_nothing(d, &n, name, &meant)) {
		if (meant)
			warn("doctor: ignored: %s names no finding here; did you mean '%s'?", name, meant);
		else
			warn("doctor: ignored: %s names no finding here", name);
	}
}

static int examine(struct tool *tool, struct machine *m, const struct wish *w)
{
	static const int codes[] = {
		[VERDICT_OK] = 0, [VERDICT_BROKEN] = 1, [VERDICT_SLOW] = 2,
		[VERDICT_UNKNOWN] = EXIT_CANNOT_TELL,
	};
	struct wanted want = { 0 };
	struct doctor_options how = { .probe = w->probe, .wanted = &want };
	int devices[2] = { -1, -1 }, ret;
	struct doctor d;

	if (!wanted(tool, w, &want))
		return EXIT_FAILED;

	for (int i = 0; i < 2 && w->devices[i]; i++) {
		devices[i] = machine_find(m, w->devices[i]);
		if (devices[i] < 0) {
			warn("doctor: there is no device '%s'; 'peerdma topo' names them",
			     w->devices[i]);
			return EXIT_FAILED;
		}
	}
	if (devices[0] >= 0 && devices[0] == devices[1]) {
		warn("doctor: both are the same device");
		return EXIT_FAILED;
	}
	how.a = devices[0];
	how.b = devices[1];
	ret = doctor_run(&d, m, &how);
	if (ret) {
		warn("doctor: out of memory");
		ret = EXIT_FAILED;
	} else {
		ret = codes[doctor_verdict(&d)];
		if (!w->quiet)
			say_what_names_nothing(&d);
		if (!tool->json && !w->quiet && !is_piped(w))
			render_text(&d, tool, w->all);
		else if (tool->json && render_json(&d) != EXIT_OK)
			ret = EXIT_FAILED;
		if (w->bundle && write_bundle(&d, w))
			ret = EXIT_FAILED;
	}
	doctor_free(&d);
	return ret;
}

/* ---- two machines ------------------------------------------------------------ */

static int compare(const struct tool *tool, const struct wish *w)
{
	struct comparison c = { .name = { w->devices[0], w->devices[1] } };
	struct side a = { 0 }, b = { 0 };
	int ret = EXIT_FAILED;

	if (side_open(&a, c.name[0], c.name[0]) && side_open(&b, c.name[1], c.name[1])) {
		if (compare_run(&c, &a.doctor, &b.doctor)) {
			warn("doctor: out of memory");
		} else {
			ret = c.count ? COMPARE_DIFFERS : COMPARE_SAME;
			if (!tool->json)
				compare_text(&c, tool, w->all);
			else if (compare_json(&c) != EXIT_OK)
				ret = EXIT_FAILED;
		}
	}
	compare_free(&c);
	side_close(&a);
	side_close(&b);
	return ret;
}

/* Libraries that print something must not print into what the other end reads. */
static int serve(void)
{
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0), ret;

	if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		warn("doctor: --pair-serve: %s", strerror(errno));
		return EXIT_FAILED;
	}
	ret = pair_serve(STDIN_FILENO, out) ? 0 : EXIT_FAILED;
	close(out);
	return ret;
}

static int pair(const struct tool *tool, const struct wish *w)
{
	bool bundles = w->devices[1];
	const struct pair_wish wish = {
		.a = bundles ? w->devices[0] : NULL, .b = w->devices[bundles], .root = tool->root,
		.rsh = w->rsh ? w->rsh : REMOTE_RSH, .seconds = w->seconds,
		.probe = w->probe,
	};

	return pair_main(tool, &wish);
}

int cmd_doctor(struct tool *tool, int argc, char **argv)
{
	struct machine m;
	struct tree *tree;
	struct wish w = { 0 };
	int ret = options(tool, argc, argv, &w);

	if (ret >= 0)
		return ret;
	if (w.compare)
		return compare(tool, &w);
	if (w.pair)
		return pair(tool, &w);
	if (w.serve)
		return serve();
	tree = tree_open(tool->root);
	if (!tree) {
		warn("doctor: %s: %s", tool->root, strerror(errno));
		return EXIT_FAILED;
	}
	ret = machine_read(&m, tree);
	if (ret == -ENOMEM) {
		warn("doctor: out of memory");
		ret = EXIT_FAILED;
	} else if (ret && !m.tegra) {
		warn("doctor: %s", machine_why(ret));
		ret = EXIT_CANNOT_TELL;
	} else {
		ret = examine(tool, &m, &w);
	}
	machine_free(&m);
	tree_close(tree);
	return ret;
}
