// SPDX-License-Identifier: MIT
/*
 * pair_main.c - `peerdma doctor --pair`: opens both machines, and compares them.
 */
#include <unistd.h>

#include "pair.h"
#include "pair_main.h"
#include "pair_probe.h"
#include "pair_remote.h"
#include "base/tool.h"

static bool open_remote(struct side *s, const struct pair_wish *w)
{
	char path[64];
	int fd = remote_bundle(w->rsh, w->b, w->seconds, path);
	bool good = fd >= 0 && side_open(s, path, w->b);

	if (fd >= 0)
		close(fd);
	return good;
}

static bool open_sides(struct side side[2], const struct pair_wish *w)
{
	/* The other machine first: it is what fails most often. */
	if (!w->a)
		return open_remote(&side[1], w) && side_open_root(&side[0], w->root);
	return side_open(&side[0], w->a, w->a) && side_open(&side[1], w->b, w->b);
}

int pair_main(const struct tool *tool, const struct pair_wish *w)
{
	static const int codes[] = { [PAIR_SAME] = 0,
				     [PAIR_DIFFERS] = 0,
				     [PAIR_BROKEN] = 1,
				     [PAIR_SLOW] = 2,
				     [PAIR_UNKNOWN] = 3 };
	struct side side[2] = { 0 };
	struct pairing p = { .name = { w->a ? w->a : *w->root ? w->root : "this machine", w->b },
			     .side = { &side[0], &side[1] } };
	int ret = tool->failed;

	if (open_sides(side, w)) {
		if (pair_run(&p) || (w->probe && pair_probe(&p, w->rsh))) {
			warn("doctor: out of memory");
		} else {
			ret = codes[p.verdict];
			if (!tool->json)
				pair_text(&p, tool);
			else if (pair_json(&p) != EXIT_OK)
				ret = tool->failed;
		}
	}
	pair_free(&p);
	side_close(&side[0]);
	side_close(&side[1]);
	return ret;
}
