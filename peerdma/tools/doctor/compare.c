// SPDX-License-Identifier: MIT
/*
 * compare.c - the findings of two machines beside each other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "base/tool.h"

/* Where a value is found may have another number there; what counts is the value. */
static int evidence_differs(const struct comparison *c, const struct finding *a,
			    const struct finding *b)
{
	int ret = a->evidence_count != b->evidence_count;

	for (unsigned int i = 0; !ret && i < a->evidence_count; i++) {
		char *x = compare_relabel(c->side[0]->machine, a->evidence[i].value);
		char *y = compare_relabel(c->side[1]->machine, b->evidence[i].value);

		ret = !x || !y ? -ENOMEM : strcmp(x, y) != 0;
		free(x);
		free(y);
	}
	return ret;
}

static bool same_matter(const struct finding *a, const struct finding *b)
{
	return a->check == b->check && !strcmp(a->subject, b->subject);
}

/* Of several on one matter, the one of the same number. */
static const struct finding *counterpart(const struct doctor *of, const struct doctor *in,
					 const struct finding *f)
{
	unsigned int before = 0;

	for (const struct finding *g = of->findings; g < f; g++)
		before += same_matter(g, f);
	for (unsigned int i = 0; i < in->count; i++) {
		if (same_matter(&in->findings[i], f) && !before--)
			return &in->findings[i];
	}
	return NULL;
}

/* a or b may be NULL, not both. */
static int pair(struct comparison *c, const struct finding *a, const struct finding *b)
{
	enum difference_kind kind;
	struct difference *d;
	int differs;

	if (!b) {
		kind = DIFFERENCE_MISSING;
	} else if (!a) {
		kind = b->verdict == VERDICT_OK ? DIFFERENCE_BETTER : DIFFERENCE_WORSE;
	} else if (a->verdict != b->verdict) {
		kind = b->verdict > a->verdict ? DIFFERENCE_WORSE : DIFFERENCE_BETTER;
	} else {
		differs = evidence_differs(c, a, b);
		if (differs <= 0)
			return differs;
		kind = DIFFERENCE_FACT;
	}
	d = compare_add(c, kind);
	if (!d)
		return -ENOMEM;
	d->a = a;
	d->b = b;
	return 0;
}

static int verdict_of(const struct finding *f)
{
	return f ? (int)f->verdict : -1;
}

/* Within a kind: what is worst in B first, then what was best in A. */
static int by_consequence(const void *x, const void *y)
{
	const struct difference *d = x, *e = y;

	if (d->kind != e->kind)
		return (int)d->kind - (int)e->kind;
	if (verdict_of(d->b) != verdict_of(e->b))
		return verdict_of(e->b) - verdict_of(d->b);
	if (verdict_of(d->a) != verdict_of(e->a))
		return verdict_of(d->a) - verdict_of(e->a);
	return d->order < e->order ? -1 : 1;
}

int compare_run(struct comparison *c, const struct doctor *a, const struct doctor *b)
{
	int ret = 0;

	c->side[0] = a;
	c->side[1] = b;
	for (unsigned int i = 0; !ret && i < a->count; i++)
		ret = pair(c, &a->findings[i], counterpart(a, b, &a->findings[i]));
	for (unsigned int i = 0; !ret && i < b->count; i++) {
		if (!counterpart(b, a, &b->findings[i]))
			ret = pair(c, NULL, &b->findings[i]);
	}
	if (!ret)
		ret = compare_files(c);
	if (!ret && c->count)
		qsort(c->all, c->count, sizeof(c->all[0]), by_consequence);
	return ret;
}
