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
#include "machine/bundle.h"
#include "base/tool.h"

static const char usage[] =
	"Usage: peerdma doctor [--all | --json] [--bundle FILE] [--probe] [--color]\n"
	"                      [--root DIR] [DEVICE DEVICE]\n"
	"       peerdma doctor --compare [--all | --json] A B\n"
	"\n"
	"Looks at what GPUDirect RDMA depends on, of the whole machine or of the path between\n"
	"two devices: verdict, what was seen, what follows, what to do.  Worst first.\n"
	"A device is a label of 'peerdma topo' (GPU0), a PCI address or a name (mlx5_0).\n"
	"\n"
	"  --all         also what is ok\n"
	"  --json        one JSON object, schema peerdma-doctor/1\n"
	"  --bundle FILE writes all that was read to a tar file, for a report\n"
	"  --probe       lets cards that have peerdma's driver, and RDMA devices, move data into\n"
	"                GPU memory and out of it, and compares it; asks drives to read into it\n"
	"  --compare A B what differs between two bundles, or folders with one unpacked: checks\n"
	"                that are worse in B first, then other facts, then other files\n"
	"  --color       colours although the output is no terminal\n"
	"  --root DIR    looks at a machine that was captured so (unpacked), not at this one\n"
	"\n"
	"Exit code: 0 nothing is broken, 1 something is, 2 nothing that could be checked\n"
	"is broken; 3 wrong usage or another error.\n"
	"With --compare: 0 no difference, 1 there are some, 2 wrong usage or another error.\n";

#define EXIT_FAILED	3	/* 1 is a verdict here */
enum { COMPARE_SAME, COMPARE_DIFFERS, COMPARE_FAILED };	/* as diff(1) */

struct wish {
	bool all, probe, compare;
	const char *bundle;
	const char *devices[2];
};

static int options(struct tool *tool, int argc, char **argv, struct wish *w)
{
	const struct tool_own own[] = {
		{ .name = "all", .given = &w->all }, { .name = "probe", .given = &w->probe },
		{ .name = "compare", .given = &w->compare },
		{ .name = "bundle", .value = &w->bundle, .path = true },
		{ .value = &w->devices[0] }, { .value = &w->devices[1] },
	};
	int ret = tool_options_own(tool, argc, argv, OPTION_JSON | OPTION_COLOR, own,
				   sizeof(own) / sizeof(own[0]), usage);

	if (ret >= 0)
		return ret ? EXIT_FAILED : 0;
	if (w->compare && (!w->devices[1] || w->probe || w->bundle || *tool->root)) {
		warn(w->devices[1] ? "doctor: --compare goes with --all or --json only" :
		     "doctor: --compare: give two bundles, A and B");
		fputs(usage, stderr);
		return EXIT_FAILED;
	}
	if (w->compare && !(tool_path_given("doctor", "compare", w->devices[0]) &&
			    tool_path_given("doctor", "compare", w->devices[1])))
		return EXIT_FAILED;
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

static int write_bundle(struct tree *tree, const char *file)
{
	/* Only its owner may read a bundle: it describes the machine. */
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int ret = fd < 0 ? -errno : tree_bundle(tree, fd);

	if (fd >= 0 && ret)
		remove_file(fd, file);
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	if (ret)
		warn("doctor: %s: %s", file, strerror(-ret));
	return ret;
}

static int examine(struct tool *tool, struct machine *m, const struct wish *w)
{
	static const int codes[] = {
		[VERDICT_OK] = 0, [VERDICT_SLOW] = 0, [VERDICT_UNKNOWN] = 2, [VERDICT_BROKEN] = 1,
	};
	int devices[2] = { -1, -1 }, ret;
	struct doctor d;

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
	ret = doctor_run(&d, m, devices[0], devices[1], w->probe);
	if (ret) {
		warn("doctor: out of memory");
		ret = EXIT_FAILED;
	} else {
		ret = codes[doctor_worst(&d)];
		/* One that is slow hides none that cannot tell. */
		for (unsigned int i = 0; i < d.count && !ret; i++)
			ret = codes[d.findings[i].verdict];
		if (!tool->json)
			render_text(&d, tool, w->all);
		else if (render_json(&d) != EXIT_OK)
			ret = EXIT_FAILED;
		if (w->bundle && write_bundle(m->tree, w->bundle))
			ret = EXIT_FAILED;
	}
	doctor_free(&d);
	return ret;
}

/* ---- two machines ------------------------------------------------------------ */

struct side {
	struct bundle_place place;
	struct tree *tree;
	struct machine machine;
	struct doctor doctor;
	bool has_machine, has_doctor;
};

static bool side_failed(const char *path, int error)
{
	warn("doctor: %s: %s", path, error == -EBADMSG ?
	     "not a whole bundle, or no room to unpack it; 'peerdma doctor --bundle FILE' writes one" : strerror(-error));
	return false;
}

static bool side_open(struct side *s, const char *path)
{
	const char *what;
	int ret = bundle_open(&s->place, path, &what);

	if (ret)
		return side_failed(what, ret);
	s->tree = tree_open(s->place.folder);
	if (!s->tree)
		return side_failed(path, -errno);
	ret = machine_read(&s->machine, s->tree);
	s->has_machine = true;
	if (ret == -ENOMEM)
		return side_failed(path, ret);
	if (ret && !s->machine.tegra)
		return side_failed(path, -EBADMSG);
	ret = doctor_run(&s->doctor, &s->machine, -1, -1, false);
	s->has_doctor = true;
	/* All was read, and the output may end the program: SIGPIPE. */
	bundle_close(&s->place);
	return !ret || side_failed(path, ret);
}

static void side_close(struct side *s)
{
	if (s->has_doctor)
		doctor_free(&s->doctor);
	if (s->has_machine)
		machine_free(&s->machine);
	tree_close(s->tree);
	bundle_close(&s->place);
}

static int compare(const struct tool *tool, const struct wish *w)
{
	struct comparison c = { .name = { w->devices[0], w->devices[1] } };
	struct side a = { 0 }, b = { 0 };
	int ret = COMPARE_FAILED;

	if (side_open(&a, c.name[0]) && side_open(&b, c.name[1])) {
		if (compare_run(&c, &a.doctor, &b.doctor)) {
			warn("doctor: out of memory");
		} else {
			ret = c.count ? COMPARE_DIFFERS : COMPARE_SAME;
			if (!tool->json)
				compare_text(&c, tool, w->all);
			else if (compare_json(&c) != EXIT_OK)
				ret = COMPARE_FAILED;
		}
	}
	compare_free(&c);
	side_close(&a);
	side_close(&b);
	return ret;
}

int cmd_doctor(struct tool *tool, int argc, char **argv)
{
	struct machine m;
	struct tree *tree;
	struct wish w = { 0 };
	int ret = options(tool, argc, argv, &w);

	tool->failed = w.compare ? COMPARE_FAILED : EXIT_FAILED;
	if (ret >= 0)
		return ret == EXIT_FAILED ? tool->failed : ret;
	if (w.compare)
		return compare(tool, &w);
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
		ret = EXIT_UNKNOWN;
	} else {
		ret = examine(tool, &m, &w);
	}
	machine_free(&m);
	tree_close(tree);
	return ret;
}
