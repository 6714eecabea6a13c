// SPDX-License-Identifier: MIT
/*
 * select.c - chooses the back-end for a pin: the first that supports the memory, in the order of
 * PEERDMA_PROVIDER or the default order. It stores the reasons of the back-ends that were passed
 * over, for peerdma_why(), and for the error if no back-end can pin.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "base/component.h"
#include "base/variables.h"

static const struct {
	const char *name;
	const struct backend *backends[3];
} known[] = {
	{ "kernel", { &backend_kernel } },
	/* With the software GPU, a program has host memory, too. */
	{ "soft", { &backend_soft, &backend_locked } },
	{ "dmabuf", { &backend_dmabuf } },
	{ "staging", { &backend_staging } },
	{ "host", { &backend_locked } },
};

#define KNOWN (sizeof(known) / sizeof(known[0]))
#define ORDER "kernel,dmabuf,host,staging"

/*
 * The reasons of all back-ends that were passed over, as one line, and the position of the most
 * useful one.
 */
struct refusals {
	int error;
	int rank;
	size_t from, to;	/* position of the most useful reason */
	size_t used;
	char text[1500];
};

static void __attribute__((format(printf, 2, 3))) append(struct refusals *p, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(p->text + p->used, sizeof(p->text) - p->used, fmt, args);
	va_end(args);
	if (n > 0)
		p->used = p->used + (size_t)n < sizeof(p->text) ? p->used + (size_t)n :
								  sizeof(p->text) - 1;
}

/*
 * Whether the error means that this back-end does not support the memory, so that another is tried.
 */
static bool is_unsupported(int error)
{
	return error == -ENXIO || error == -EOPNOTSUPP || error == -ENODEV;
}

/*
 * How useful a back-end's error is, from 6 to 1: the back-end supports the memory, but failed; it
 * recognizes the memory, and something is missing (RECOGNIZED); it supports the memory, but not
 * these flags; it does not know the memory; it has no device; it was not tried.
 */
#define RECOGNIZED 5
static int rank_of(int error, bool asked)
{
	return !asked ? 1 : !is_unsupported(error) ? 6 : error == -EOPNOTSUPP ? 4 :
	       error == -ENXIO ? 3 : 2;
}

static void add_refusal(struct refusals *p, const struct peerdma *ctx,
			const struct backend *backend, int error, int rank, const char *why)
{
	size_t from;

	if (p->used)
		append(p, "; ");
	from = p->used;
	/* With only one back-end its name is not useful. */
	if (ctx->offer_count > 1)
		append(p, "%s: ", backend->name);
	append(p, "%s", why);
	if (rank <= p->rank)
		return;
	p->error = error;
	p->rank = rank;
	p->from = from;
	p->to = p->used;
}

/* Builds "CALL: WHAT: the cause. Other back-ends: ...": the most useful reason first. */
static int fail_passed(const struct refusals *p, const char *what)
{
	size_t after = p->to < p->used ? p->to + 2 : p->used;	/* skips "; " */
	size_t before = p->from ? p->from - (after == p->used ? 2 : 0) : 0;

	return fail(p->error, "%s%.*s%s%.*s%s", what, (int)(p->to - p->from), p->text + p->from,
		    before || after < p->used ? ". Other back-ends: " : "", (int)before, p->text,
		    p->text + after);
}

/* ---- opening ---- */

static bool is_offered(const struct peerdma *ctx, const struct backend *backend)
{
	for (unsigned int i = 0; i < ctx->offer_count; i++) {
		if (ctx->offers[i].backend == backend)
			return true;
	}
	return false;
}

static int offer(struct peerdma *ctx, const struct backend *backend)
{
	if (is_offered(ctx, backend))
		return 0;
	if (ctx->offer_count == OFFERS_MAX)
		return -EINVAL;
	ctx->offers[ctx->offer_count++].backend = backend;
	return 0;
}

/*
 * Returns the back-ends of the first name in the list, and moves *names to the next. NULL: an
 * unknown name.
 */
static const struct backend *const *next_name(const char **names)
{
	size_t length = strcspn(*names, ","), i = 0;

	while (i < KNOWN &&
	       (strlen(known[i].name) != length || strncmp(known[i].name, *names, length) != 0))
		i++;
	if (i == KNOWN)
		return NULL;
	*names += length;
	*names += **names == ',';
	return known[i].backends;
}

/* names: for example "kernel,soft" */
static int offer_names(struct peerdma *ctx, const char *names)
{
	while (*names) {
		const struct backend *const *b = next_name(&names);

		if (!b)
			return fail(-EINVAL, "peerdma_open: PEERDMA_PROVIDER names '%.*s', which is no back-end; give a "
				    "comma-separated list of kernel, soft, dmabuf, host and staging", (int)strcspn(names, ","), names);
		for (; *b; b++) {
			if (offer(ctx, *b))
				return fail(-EINVAL, "peerdma_open: PEERDMA_PROVIDER names too many back-ends");
		}
	}
	return 0;
}

/*
 * Runs when the library is loaded, because the program may use CUDA before its first call of the
 * library.
 */
static void __attribute__((constructor)) begin_early(void)
{
	const char *names = variable(VARIABLE_PROVIDER);

	while (names && *names) {
		const struct backend *const *b = next_name(&names);

		for (; b && *b; b++) {
			if ((*b)->early)
				(*b)->early();
		}
		if (!b)
			return;
	}
}

/*
 * Whether a back-end with this error is passed over. A lack of resources is not a property of the
 * back-end, so it fails the call.
 */
static bool can_skip(int error)
{
	return error != -ENOMEM && error != -EMFILE && error != -ENFILE;
}

static int open_one(struct peerdma *ctx, struct offer *o)
{
	if (ctx->flags & PEERDMA_OPEN_DIRECT && !o->backend->direct)
		o->error = fail(-EOPNOTSUPP,
				"refused, it is not a direct path (PEERDMA_OPEN_DIRECT)");
	else if (o->backend->open)
		o->error = o->backend->open(ctx);
	if (!o->error)
		return 0;
	o->why = strdup(peerdma_last_error());
	return o->why ? 0 : fail(-ENOMEM, "peerdma_open: out of memory");
}

int backends_try(struct peerdma *ctx)
{
	const char *names = variable(VARIABLE_PROVIDER);
	int ret = offer_names(ctx, names && *names ? names : ORDER);

	if (ret)
		return ret;
	ctx->pin = backends_pin;
	for (unsigned int i = 0; !ret && i < ctx->offer_count; i++) {
		struct offer *o = &ctx->offers[i];

		ret = open_one(ctx, o);
		if (!ret && o->error && !can_skip(o->error))
			ret = fail(o->error, "peerdma_open: %s", o->why);
	}
	if (ret)
		backends_close(ctx, true);
	return ret;
}

/* 0, or the error of the most useful reason if none could be opened. */
static int check_any(struct peerdma *ctx)
{
	struct refusals p = { 0 };

	for (unsigned int i = 0; i < ctx->offer_count; i++) {
		const struct offer *o = &ctx->offers[i];

		if (!o->error)
			return 0;
		add_refusal(&p, ctx, o->backend, o->error, rank_of(o->error, false), o->why);
	}
	return fail_passed(&p, ctx->offer_count > 1 ? "peerdma_open: nothing to pin memory with: " :
						      "peerdma_open: ");
}

int backends_open(struct peerdma *ctx)
{
	int ret = backends_try(ctx);

	if (ret)
		return ret;
	ret = check_any(ctx);
	if (ret)
		backends_close(ctx, true);
	return ret;
}

void backends_close(struct peerdma *ctx, bool owner)
{
	struct reason *r;

	for (unsigned int i = 0; i < ctx->offer_count; i++) {
		struct offer *o = &ctx->offers[i];

		/* A back-end with an error is not open, but has a text. */
		if (!o->error && o->backend->close)
			o->backend->close(ctx, owner);
		free(o->why);
	}
	ctx->offer_count = 0;
	while ((r = ctx->reasons)) {
		ctx->reasons = r->next;
		free(r);
	}
}

/* ---- what there is ---- */

/* why_not: NULL, or why the context does without. */
static void describe(struct peerdma *ctx, const struct backend *backend, const char *why_not,
		     struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_BACKEND, backend->name);

	c.flags = backend->direct ? PEERDMA_COMPONENT_DIRECT : 0;
	if (why_not)
		component_off(&c, why_not);
	else if (backend->ready && backend->ready())
		component_off(&c, peerdma_last_error());
	else
		backend->describe(ctx, &c);
	components_add(to, &c);
}

void backends_describe(struct peerdma *ctx, const char *why_none, struct components *to)
{
	for (unsigned int i = 0; !why_none && i < ctx->offer_count; i++)
		describe(ctx, ctx->offers[i].backend,
			 backend_refused(ctx, ctx->offers[i].backend), to);
	for (size_t i = 0; i < KNOWN; i++) {
		const struct backend *b = known[i].backends[0];

		if (why_none || !is_offered(ctx, b))
			describe(ctx, b, why_none ? why_none : "PEERDMA_PROVIDER does not name it",
				 to);
	}
}

/* ---- pinning ---- */

static int pin_by_first(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;
	struct refusals p = { 0 };
	char what[80];
	int ret = 0;

	for (unsigned int i = 0; i < ctx->offer_count; i++) {
		const struct offer *o = &ctx->offers[i];

		if (o->error) {
			add_refusal(&p, ctx, o->backend, o->error, rank_of(o->error, false),
				    o->why);
			continue;
		}
		if (region->flags & PEERDMA_DIRECT && !o->backend->direct) {
			add_refusal(&p, ctx, o->backend, -EOPNOTSUPP, rank_of(-EOPNOTSUPP, false),
				    "refused, it is not a direct path "
				    "(PEERDMA_DIRECT)");
			continue;
		}
		region_set_backend(region, o->backend);
		region->recognized = false;
		ret = segments_or_one(region, o->backend);
		if (!ret) {
			region->why = reason_keep(ctx, p.text);
			return 0;
		}
		add_refusal(&p, ctx, o->backend, ret,
			    region->recognized ? RECOGNIZED : rank_of(ret, true),
			    peerdma_last_error());
		if (!is_unsupported(ret))
			break;
	}
	snprintf(what, sizeof(what), "peerdma_pin: [%p, +%llu): ", (void *)(uintptr_t)region->addr,
		 (unsigned long long)region->length);
	return fail_passed(&p, what);
}

int backends_pin(struct peerdma_region *region)
{
	uint32_t was = attempt_begin();

	return attempt_end(was, pin_by_first(region));
}
