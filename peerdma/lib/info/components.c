// SPDX-License-Identifier: MIT
/* components.c - peerdma_components(): asks each part of the library what it is in this process. */
#include <stdio.h>

#include "../backend.h"
#include "../base/component.h"
#include "../base/variables.h"
#include "../copy/copy.h"

static void describe_library(struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_LIBRARY, "libpeerdma");

	component_file(&c, (const void *)(uintptr_t)describe_library);
	snprintf(c.version, sizeof(c.version), "%s", peerdma_version());
	component_why(&c, "speaks ABI %u of /dev/peerdma", PEERDMA_ABI);
	components_add(to, &c);
}

/* The back-ends of a new context, which ends again. */
static int describe_backends(struct components *to)
{
	char why[sizeof(((struct peerdma_component *)0)->why)];
	struct peerdma *ctx = context_new(0);
	int ret;

	if (!ctx)
		return fail(-ENOMEM, "peerdma_components: out of memory");
	ret = backends_try(ctx);
	snprintf(why, sizeof(why), "%s", peerdma_last_error());
	backends_describe(ctx, ret ? why : NULL, to);
	if (!ret)
		backends_close(ctx, true);
	context_free(ctx);
	return 0;
}

static void describe_variables(struct components *to)
{
	const char *why_ignored[VARIABLES] = { [VARIABLE_COPY] = copy_why_ignored() };

	variables_describe(why_ignored, to);
}

static int describe_all(struct peerdma *ctx, struct components *to)
{
	int ret = 0;

	describe_library(to);
	if (ctx)
		backends_describe(ctx, NULL, to);
	else
		ret = describe_backends(to);
	if (ret)
		return ret;
	cuda_describe(to);
	hsa_describe(to);
	monitors_describe(to);
	verbs_describe(to);
	ipc_describe(to);
	describe_variables(to);
	return 0;
}

EXPORT int peerdma_components(struct peerdma *ctx, struct peerdma_component *out, size_t n,
			      size_t *count)
{
	struct components to = { .out = (char *)out, .room = n };
	uint32_t was;
	int ret;

	ret = check_given("peerdma_components", "out", n ? (void *)out : &to, "count", count, NULL);
	if (ret)
		return ret;
	to.size = n ? out->size : sizeof(*out);
	ret = check_size("peerdma_components", to.size, COMPONENT_FIRST);
	if (!ret && ctx)
		ret = check_owner(ctx, "peerdma_components");
	if (ret)
		return ret;
	was = attempt_begin();
	ret = describe_all(ctx, &to);
	if (!ret)
		*count = to.count;
	return attempt_end(was, ret);
}
