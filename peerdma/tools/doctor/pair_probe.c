// SPDX-License-Identifier: MIT
/*
 * pair_probe.c - moves data between a GPU of this machine and one of another, and compares it there.
 *
 * Of each rail host memory first, so that a later failure is due to the path to a GPU; then the GPUs' in
 * each way in which both ends can register it.  Each end writes and reads.  The status of a transfer is
 * shown, but the verdict comes from the comparison.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "adapters.h"
#include "pair.h"
#include "pair_end.h"
#include "pair_line.h"
#include "pair_probe.h"
#include "pair_remote.h"
#include "base/tool.h"

#define STEP_S	10U
#define OPEN_S	30U		/* CUDA starts there */
#define END_S	5U

struct asker {
	struct pairing *p;
	struct line_end line;
	bool dead;		/* no answer is to be expected any more: why says it */
	char answer[LINE_BYTES], *words[WORDS];
	size_t count;		/* of words, "ok" left out */
	char why[LINE_BYTES];

	struct pair_end end;
	char subject[360];
	bool software;
};

/* What a wait of more than two seconds is for. */
static char waiting[LINE_BYTES];

static void slow(void)
{
	warn("doctor: %s: waiting", waiting);
}

/* ---- the other end ------------------------------------------------------------------ */

static bool broke(struct asker *a, const char *what)
{
	snprintf(a->why, sizeof(a->why), "the other machine %s", what);
	a->dead = true;
	return false;
}

static bool get(struct asker *a, unsigned int seconds)
{
	int ret = line_get(&a->line, seconds, slow, a->answer);

	return !ret || broke(a, line_error(ret));
}

/* Its answer has so many values; false: it refuses, or is no longer there: why. */
__attribute__((format(printf, 4, 5)))
static bool ask(struct asker *a, unsigned int seconds, size_t values, const char *command, ...)
{
	char text[LINE_BYTES], odd[80];
	va_list args;
	int ret;

	if (a->dead)
		return false;
	va_start(args, command);
	vsnprintf(text, sizeof(text), command, args);
	va_end(args);
	snprintf(waiting, sizeof(waiting), "%s: %.100s", a->p->name[1], text);
	ret = line_put(&a->line, "%s", text);
	if (ret)
		return broke(a, ret == -EPIPE ? "has ended" : strerror(-ret));
	if (!get(a, seconds))
		return false;
	if (!strncmp(a->answer, "error ", 6)) {
		snprintf(a->why, sizeof(a->why), "%s", a->answer + 6);
		return false;
	}
	snprintf(odd, sizeof(odd), "answers '%.50s'", a->answer);
	a->count = line_words(a->answer, a->words);
	if (!a->count || strcmp(a->words[0], "ok") || a->count - 1 != values)
		return broke(a, odd);
	return true;
}

static bool greeted(struct asker *a)
{
	char odd[120];

	snprintf(waiting, sizeof(waiting), "%s: its greeting", a->p->name[1]);
	if (!get(a, OPEN_S))
		return false;
	snprintf(odd, sizeof(odd), "greets with '%.60s', not with '" PAIR_GREETING "'", a->answer);
	return !strcmp(a->answer, PAIR_GREETING) || broke(a, odd);
}

/* ---- what was moved -------------------------------------------------------------------- */

static void worse(struct asker *a, enum pair_verdict v)
{
	if (v > a->p->verdict)
		a->p->verdict = v;
}

static struct doctor *doctor_of(const struct asker *a)
{
	return &a->p->side[0]->doctor;
}

/* Before a transfer: connecting fails for what no path to the GPU has to do with. */
static void not_moved(struct asker *a, const char *way, const char *step, const char *side,
		      const char *why, enum pair_verdict v)
{
	char text[LINE_BYTES + 8];

	snprintf(text, sizeof(text), "%s: %s", side, why);
	moved(doctor_of(a), a->subject, way, step, 0, MOVED_FAILED, text);
	worse(a, v);
}

struct turn {
	const char *what;
	bool here, by_read;	/* this machine's device does it */
};

/* Into B's memory: A writes, or B reads. */
static bool to_other(const struct turn *t)
{
	return t->here != t->by_read;
}

/* What this end has done, or why not. */
static bool own(struct asker *a, bool well)
{
	if (!well)
		snprintf(a->why, sizeof(a->why), "%s", a->end.why);
	return well;
}

static bool fill(struct asker *a, bool other, unsigned int salt)
{
	return other ? ask(a, STEP_S, 0, "fill %u", salt) : own(a, end_fill(&a->end, salt));
}

static bool carry(struct asker *a, const struct turn *t)
{
	if (!t->here)
		return ask(a, STEP_S + 5, 0, "carry %s", t->by_read ? "read" : "write");
	snprintf(waiting, sizeof(waiting), "%s", t->what);
	return own(a, end_carry(&a->end, t->by_read));
}

static bool check(struct asker *a, bool other, unsigned int salt, unsigned int *wrong,
		  unsigned int *first)
{
	uint64_t n, at;

	if (!other)
		return own(a, end_check(&a->end, salt, wrong, first));
	if (!ask(a, STEP_S, 2, "check %u", salt))
		return false;
	if (!line_number(a->words[1], PROBE_LENGTH, &n) ||
	    !line_number(a->words[2], PROBE_LENGTH, &at))
		return broke(a, "answers a comparison with what is no number of bytes");
	*wrong = (unsigned int)n;
	*first = (unsigned int)at;
	return true;
}

/* False: the queue pairs are of no more use. */
static bool turn(struct asker *a, const char *way, const struct turn *t, unsigned int salt)
{
	unsigned int wrong = 0, first = 0;
	bool ready, other = to_other(t);

	/* Over memory that is known to hold something else. */
	ready = fill(a, !other, salt) && fill(a, other, salt + 1);
	if (ready && !carry(a, t)) {
		moved(doctor_of(a), a->subject, way, t->what, PROBE_LENGTH, MOVED_FAILED, a->why);
		worse(a, PAIR_BROKEN);
		return false;
	}
	if (!ready || !check(a, other, salt, &wrong, &first)) {
		moved(doctor_of(a), a->subject, way, t->what, PROBE_LENGTH, MOVED_NOT_COMPARED,
		      a->why);
		worse(a, PAIR_UNKNOWN);
		return !a->dead;
	}
	moved_compared(doctor_of(a), a->subject, way, t->what, PROBE_LENGTH, wrong, first);
	if (wrong)
		worse(a, PAIR_BROKEN);
	return true;
}

/* ---- one way ------------------------------------------------------------------------------ */

struct place {			/* of the other end */
	uint64_t addr, rkey;
};

static bool use_there(struct asker *a, enum end_memory memory, struct place *out)
{
	if (!ask(a, STEP_S, 2, "use %s", end_word(memory)))
		return false;
	if (line_number(a->words[1], UINT64_MAX, &out->addr) &&
	    line_number(a->words[2], UINT32_MAX, &out->rkey))
		return true;
	return broke(a, "registers memory at what is no address");
}

/* New queue pairs, which know each other.  The other end first: it may refuse, and then none waits. */
static bool connect_ends(struct asker *a, const char *way, const struct place *there)
{
	struct rdma_end mine, other;
	char gid[LINE_GID];

	if (!ask(a, STEP_S, 4, "offer")) {
		not_moved(a, way, "queue pair", "B", a->why, PAIR_UNKNOWN);
		return false;
	}
	if (!line_queue(a->words + 1, &other)) {
		broke(a, "offers what is no queue pair");
		not_moved(a, way, "queue pair", "B", a->why, PAIR_UNKNOWN);
		return false;
	}
	if (!end_offer(&a->end, &mine)) {
		not_moved(a, way, "queue pair", "A", a->end.why, PAIR_UNKNOWN);
		return false;
	}
	if (!end_meet(&a->end, &other, there->addr, (uint32_t)there->rkey)) {
		not_moved(a, way, "connect", "A", a->end.why, PAIR_BROKEN);
		return false;
	}
	if (!ask(a, STEP_S, 0, "meet %u %u %d %s 0x%llx 0x%x", mine.number, mine.lid, mine.mtu,
		 line_gid(mine.gid, gid), (unsigned long long)a->end.own.addr,
		 a->end.own.mr->rkey)) {
		not_moved(a, way, "connect", "B", a->why, PAIR_BROKEN);
		return false;
	}
	return true;
}

/* Memory is registered on both ends.  True: all four transfers were made. */
static bool all_turns(struct asker *a, const char *way, const struct place *there)
{
	static const struct turn turns[] = {
		{ "RDMA write, A to B", true, false }, { "RDMA write, B to A", false, false },
		{ "RDMA read, A from B", true, true }, { "RDMA read, B from A", false, true },
	};

	if (!connect_ends(a, way, there))
		return false;
	for (unsigned int i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		if (!turn(a, way, &turns[i], 64 + 2 * i))
			return false;
	}
	return true;
}

static bool host_memory(struct asker *a)
{
	struct place there;

	if (!end_use(&a->end, END_HOST)) {
		not_moved(a, "host memory", "register", "A", a->end.why, PAIR_UNKNOWN);
		return false;
	}
	if (!use_there(a, END_HOST, &there)) {
		not_moved(a, "host memory", "register", "B", a->why, PAIR_UNKNOWN);
		return false;
	}
	return all_turns(a, "host memory", &there);
}

static void not_taken(struct asker *a, const char *way, bool here, bool there)
{
	char why[LINE_BYTES + 224];

	snprintf(why, sizeof(why), "%s%s%s%s%s", here ? "" : "A: ", here ? "" : a->end.why,
		 here || there ? "" : "; ", there ? "" : "B: ", there ? "" : a->why);
	moved(doctor_of(a), a->subject, way, "", 0, MOVED_NOT_TAKEN, why);
}

static const char *way_name(enum end_memory memory)
{
	return memory == END_DMABUF ? "dma-buf" : "peer memory";
}

/* dma-buf here, peer memory there, or the other way round. */
static void mixed(struct asker *a, const bool here[END_MEMORIES], const bool there[END_MEMORIES])
{
	enum end_memory own = here[END_DMABUF] ? END_DMABUF : END_PEERMEM;
	enum end_memory other = there[END_DMABUF] ? END_DMABUF : END_PEERMEM;
	struct place place;
	char way[48];

	if (!here[own] || !there[other]) {
		/* Of a program's device that says nothing of adapters. */
		worse(a, a->software ? PAIR_UNKNOWN : PAIR_BROKEN);
		return;
	}
	snprintf(way, sizeof(way), "A: %s, B: %s", way_name(own), way_name(other));
	if (end_use(&a->end, own) && use_there(a, other, &place))
		all_turns(a, way, &place);
}

static void gpu_memory(struct asker *a)
{
	bool here[END_MEMORIES] = { 0 }, there[END_MEMORIES] = { 0 }, any = false;

	for (enum end_memory m = END_DMABUF; m < END_MEMORIES && !a->dead; m++) {
		struct place place;

		here[m] = end_use(&a->end, m);
		there[m] = use_there(a, m, &place);
		if (here[m] && there[m]) {
			any = true;
			all_turns(a, way_name(m), &place);
		} else {
			not_taken(a, way_name(m), here[m], there[m]);
		}
	}
	if (!any && !a->dead)
		mixed(a, here, there);
}

/* ---- one rail ------------------------------------------------------------------------------ */

static bool is_software(const struct asker *a, const struct rail *r)
{
	struct adapter adapter;

	adapter_read(doctor_of(a), r->device, &adapter);
	return adapter.software;
}

static const char *gpu_name(const struct asker *a, int side, const struct rail *r)
{
	return r->gpu < 0 ? NULL : a->p->side[side]->machine.devices[r->gpu].name;
}

/* -1: by LID; -2: the port has none that a connection could use. */
static int gid_index(const struct rail *r)
{
	const struct gid *g = rail_gid(r);

	return !rail_is_roce(r) ? -1 : g ? (int)g->index : -2;
}

static bool open_ends(struct asker *a, const struct rail *here, const struct rail *there)
{
	int own = gid_index(here), other = gid_index(there);
	bool gpus = here->gpu >= 0 && there->gpu >= 0;
	char index[16] = "-";

	if (own == -2 || other == -2) {
		not_moved(a, "", "connect", own == -2 ? "A" : "B", "no GID of RoCE v2",
			  PAIR_BROKEN);
		return false;
	}
	if (other >= 0)
		snprintf(index, sizeof(index), "%d", other);
	if (!ask(a, OPEN_S, 0, "open %s %s %s", there->device, gpus ? gpu_name(a, 1, there) : "-",
		 index)) {
		not_moved(a, "", "open", "B", a->why, PAIR_UNKNOWN);
		return false;
	}
	if (!end_open(&a->end, here->device, gpus ? gpu_name(a, 0, here) : NULL, own)) {
		not_moved(a, "", "open", "A", a->end.why, PAIR_UNKNOWN);
		return false;
	}
	a->end.rdma.slow = slow;
	return true;
}

static void try_rail(struct asker *a, const struct rail *here, const struct rail *there)
{
	snprintf(a->subject, sizeof(a->subject), "A's %s, B's %s", here->name, there->name);
	a->software = is_software(a, here);
	if (strpbrk(there->device, " \\") || !*there->device)
		return;
	if (open_ends(a, here, there) && host_memory(a) && a->end.has_gpu)
		gpu_memory(a);
	end_close(&a->end);
	ask(a, STEP_S, 0, "close");
}

void pair_probe_rail(struct pairing *p, const struct rail *here, const struct rail *there, int in,
		     int out)
{
	struct asker a = { .p = p, .line = { .in = in, .out = out } };

	if (greeted(&a))
		try_rail(&a, here, there);
}

/* Rails with GPUs; if there are none, the adapters. */
static bool is_tried(const struct pairing *p, const struct pair_table *t)
{
	bool gpus = p->side[0]->node.with_gpu && p->side[1]->node.with_gpu;

	return (t->rail[0]->gpu >= 0) == gpus && !rail_is_down(t->rail[0]) &&
	       !rail_is_down(t->rail[1]);
}

static void try_rails(struct asker *a)
{
	struct pairing *p = a->p;
	long long notice = remote_deadline(2);

	for (unsigned int i = 1; i < p->count && !a->dead; i++) {
		if (!is_tried(p, &p->tables[i]))
			continue;
		if (!remote_left(notice)) {
			warn("doctor: %s: rail %u of %u", p->name[1], i, p->count - 1);
			notice = remote_deadline(2);
		}
		try_rail(a, p->tables[i].rail[0], p->tables[i].rail[1]);
	}
}

static bool any_moved(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->moved_count; i++) {
		if (d->moved[i].result == MOVED_EQUAL)
			return true;
	}
	return false;
}

int pair_probe(struct pairing *p, const char *rsh)
{
	static const char *const command[] = { "peerdma", "doctor", "--pair-serve", NULL };
	struct asker a = { .p = p };
	struct remote r;
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);

	if (!remote_start(&r, rsh, p->name[1], command, true)) {
		a.dead = true;
		worse(&a, PAIR_UNKNOWN);
	} else {
		a.line = (struct line_end){ .in = r.from, .out = r.to };
		if (greeted(&a))
			try_rails(&a);
		if (a.dead)
			warn("doctor: %s: %s", p->name[1], a.why);
		remote_end(&r, a.dead ? 0 : END_S);
	}
	signal(SIGPIPE, before);
	if (!any_moved(doctor_of(&a)))
		worse(&a, PAIR_UNKNOWN);
	return doctor_of(&a)->no_memory ? -ENOMEM : 0;
}
