// SPDX-License-Identifier: MIT
/*
 * pair_serve.c - `peerdma doctor --pair-serve`: the end that another machine's doctor has started, and asks.
 * It ends with its input, and at the first line that is no command.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pair_end.h"
#include "pair_line.h"
#include "pair_probe.h"
#include "base/pci.h"
#include "base/tool.h"

#define IDLE_S	120U

enum outcome { DONE, FAILED, WRONG };		/* WRONG: no command, or not now */

struct served {
	struct line_end line;
	struct pair_end end;
	char ok[LINE_BYTES];	/* what the answer has beside "ok": a blank and values, or "" */
};

static enum outcome did(bool well)
{
	return well ? DONE : FAILED;
}

static enum outcome open_end(struct served *s, char *words[])
{
	bool has_gpu = strcmp(words[1], "-"), has_gid = strcmp(words[2], "-");
	char gpu[PCI_NAME_MAX];
	uint64_t gid = 0;

	if (s->end.is_open || (has_gpu && !pci_name(words[1], gpu)) ||
	    (has_gid && !line_number(words[2], 255, &gid)))
		return WRONG;
	if (end_open(&s->end, words[0], has_gpu ? gpu : NULL, has_gid ? (int)gid : -1))
		return DONE;
	return FAILED;
}

static enum outcome use(struct served *s, char *words[])
{
	for (int m = 0; m < END_MEMORIES; m++) {
		if (strcmp(words[0], end_word((enum end_memory)m)))
			continue;
		if (!end_use(&s->end, (enum end_memory)m))
			return FAILED;
		snprintf(s->ok, sizeof(s->ok), " 0x%llx 0x%x", (unsigned long long)s->end.own.addr,
			 s->end.own.mr->rkey);
		return DONE;
	}
	return WRONG;
}

static enum outcome offer(struct served *s, char *words[])
{
	struct rdma_end own;
	char gid[LINE_GID];

	(void)words;
	if (!end_offer(&s->end, &own))
		return FAILED;
	snprintf(s->ok, sizeof(s->ok), " %u %u %d %s", own.number, own.lid, own.mtu,
		 line_gid(own.gid, gid));
	return DONE;
}

static enum outcome meet(struct served *s, char *words[])
{
	struct rdma_end other;
	uint64_t addr, rkey;

	if (!line_queue(words, &other) || !line_number(words[4], UINT64_MAX, &addr) ||
	    !line_number(words[5], UINT32_MAX, &rkey))
		return WRONG;
	return did(end_meet(&s->end, &other, addr, (uint32_t)rkey));
}

static enum outcome fill(struct served *s, char *words[])
{
	uint64_t salt;

	if (!line_number(words[0], UINT32_MAX, &salt))
		return WRONG;
	return did(end_fill(&s->end, (unsigned int)salt));
}

static enum outcome check(struct served *s, char *words[])
{
	unsigned int wrong, first;
	uint64_t salt;

	if (!line_number(words[0], UINT32_MAX, &salt))
		return WRONG;
	if (!end_check(&s->end, (unsigned int)salt, &wrong, &first))
		return FAILED;
	snprintf(s->ok, sizeof(s->ok), " %u %u", wrong, first);
	return DONE;
}

static enum outcome carry(struct served *s, char *words[])
{
	bool by_read = !strcmp(words[0], "read");

	return by_read || !strcmp(words[0], "write") ? did(end_carry(&s->end, by_read)) : WRONG;
}

static enum outcome close_end(struct served *s, char *words[])
{
	(void)words;
	end_close(&s->end);
	return DONE;
}

static const struct {
	const char *name;
	size_t words;		/* after it */
	enum outcome (*run)(struct served *s, char *words[]);
} commands[] = {
	{ "open", 3, open_end }, { "use", 1, use }, { "offer", 0, offer }, { "meet", 6, meet },
	{ "fill", 1, fill }, { "check", 1, check }, { "carry", 1, carry },
	{ "close", 0, close_end },
};

static enum outcome obey(struct served *s, char *line)
{
	char *words[WORDS];
	size_t n = line_words(line, words);

	*s->ok = *s->end.why = 0;
	for (size_t i = 0; n && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(words[0], commands[i].name) || n - 1 != commands[i].words)
			continue;
		if (!s->end.is_open && commands[i].run != open_end && commands[i].run != close_end)
			return WRONG;
		return commands[i].run(s, words + 1);
	}
	return WRONG;
}

/* 0: it goes on. */
static int answer(struct served *s, char line[LINE_BYTES])
{
	char command[64];
	enum outcome o;

	snprintf(command, sizeof(command), "%.60s", line);
	o = obey(s, line);
	if (o == DONE)
		return line_put(&s->line, "ok%s", s->ok);
	if (o == FAILED)
		return line_put(&s->line, "error %s", s->end.why);
	line_put(&s->line, "error '%s' is no command, or none now", command);
	warn("doctor: --pair-serve: '%s' is no command, or none now", command);
	return -EBADMSG;
}

bool pair_serve(int in, int out)
{
	struct served s = { .line = { .in = in, .out = out } };
	char line[LINE_BYTES];
	int ret = line_put(&s.line, PAIR_GREETING);

	while (!ret) {
		ret = line_get(&s.line, IDLE_S, NULL, line);
		if (ret && ret != -ENODATA)
			warn("doctor: --pair-serve: the other machine %s", line_error(ret));
		if (!ret)
			ret = answer(&s, line);
	}
	end_close(&s.end);
	return ret == -ENODATA;
}
