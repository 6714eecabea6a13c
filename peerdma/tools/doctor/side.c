// SPDX-License-Identifier: MIT
/*
 * side.c - see side.h.
 */
#include <errno.h>
#include <string.h>

#include "side.h"
#include "base/tool.h"

static bool failed(const char *name, int error)
{
	warn("doctor: %s: %s", name, error == -EBADMSG ?
	     "not a whole bundle, or no room to unpack it; 'peerdma doctor --bundle FILE' writes one" : strerror(-error));
	return false;
}

/* From here on all is the same, wherever the tree comes from. */
static bool examine(struct side *s, const char *name)
{
	int ret = machine_read(&s->machine, s->tree);

	s->has_machine = true;
	if (ret == -ENOMEM)
		return failed(name, ret);
	if (ret && !s->machine.tegra)
		return failed(name, -EBADMSG);
	ret = doctor_run(&s->doctor, &s->machine, &(struct doctor_options){ .a = -1, .b = -1 });
	s->has_doctor = true;
	/* What no check asks, and two machines differ in. */
	ret = ret ? ret : node_read(&s->node, &s->doctor);
	return !ret || failed(name, ret);
}

bool side_open(struct side *s, const char *path, const char *name)
{
	const char *what;
	int ret = bundle_open(&s->place, path, &what);
	bool good;

	if (ret)
		return failed(what == path ? name : what, ret);
	s->tree = tree_open(s->place.folder);
	if (!s->tree)
		return failed(name, -errno);
	good = examine(s, name);
	/* All was read, and the output may end the program: SIGPIPE. */
	bundle_close(&s->place);
	return good;
}

bool side_open_root(struct side *s, const char *root)
{
	const char *name = *root ? root : "this machine";

	s->tree = tree_open(root);
	return s->tree ? examine(s, name) : failed(name, -errno);
}

void side_close(struct side *s)
{
	node_free(&s->node);
	if (s->has_doctor)
		doctor_free(&s->doctor);
	if (s->has_machine)
		machine_free(&s->machine);
	tree_close(s->tree);
	bundle_close(&s->place);
}
