/* SPDX-License-Identifier: MIT */
/*
 * component.h - collects what peerdma_components() returns. Each part of the library describes
 * itself, by the functions that its calls use for the same question.
 */
#pragma once

#include <stdint.h>

#include "../internal.h"

/* The caller's array. */
struct components {
	char *out;
	uint32_t size;		/* of an element */
	size_t room, count;	/* count: also those for which there is no room */
};

/* A component that is on. */
struct peerdma_component component(uint32_t type, const char *name);
/* printf() into `why`, cleaned. */
void component_why(struct peerdma_component *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* It is off, for the reason in `why`. */
void component_off(struct peerdma_component *c, const char *why);
/* The library that contains a function. */
void component_file(struct peerdma_component *c, const void *function);
void components_add(struct components *to, const struct peerdma_component *c);

/* What the parts describe, each in its folder. */
void backends_describe(struct peerdma *ctx, const char *why_none, struct components *to);
void cuda_describe(struct components *to);
void hsa_describe(struct components *to);
void monitors_describe(struct components *to);
void verbs_describe(struct components *to);
void ipc_describe(struct components *to);
/* why_ignored: by enum variable, NULL or why its value is ignored, as far as another part decides. */
void variables_describe(const char *const *why_ignored, struct components *to);
