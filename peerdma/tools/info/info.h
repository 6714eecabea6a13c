/* SPDX-License-Identifier: MIT */
/* info.h - what `peerdma info` finds, and how it is printed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peerdma.h"

struct tool;

/* A library that programs load and that libpeerdma looks for. */
struct info_library {
	const char *name;
	char *why;		/* NULL: it was loaded; else the dynamic loader's reason */
};
#define INFO_LIBRARIES	3

/* A function of another library, and the file whose function of that name the program's calls reach in its place. */
struct info_interception {
	const char *call;
	char *file;
};
#define INFO_CALLS	27

/* An environment variable PEERDMA_..., cleaned. */
struct info_variable {
	char *name;
	char *value;		/* NULL: not set */
	const struct peerdma_component *read;	/* NULL: libpeerdma does not read it */
	const char *meant;	/* then the name that is like it, or NULL */
};

enum info_direct { DIRECT_NO, DIRECT_YES, DIRECT_UNKNOWN };

struct info {
	struct peerdma_component *components;
	size_t count;
	struct info_library libraries[INFO_LIBRARIES];
	struct info_interception intercepted[INFO_CALLS];
	size_t intercepted_count;
	struct info_variable *variables;	/* that libpeerdma reads, and others that are set */
	size_t variable_count;
	char *module;		/* version of peerdma.ko, "" if it has none; NULL: not loaded */
	uint64_t page_size;
	uint64_t memlock;	/* bytes; UINT64_MAX: no limit */
	bool memlock_exempt;	/* CAP_IPC_LOCK: memlock does not apply */
	uint64_t files;		/* that this process may have open; UINT64_MAX: no limit */
	const char *copy;	/* the method of copies to CPU views */
};

/* intercepted.c: the file that intercepts the call number i (< INFO_CALLS), or NULL. *call: its name. */
const char *info_interceptor(size_t i, const char **call);
/* verdict.c: whether GPU memory itself can be pinned; *by: the back-end that decides, or NULL. */
enum info_direct info_direct(const struct info *info, const struct peerdma_component **by);
const struct peerdma_component *info_library(const struct info *info);
const char *info_state(const struct peerdma_component *c);

/* info_text.c, info_json.c: the latter's exit code */
void info_text(const struct tool *tool, const struct info *info);
int info_json(const struct info *info);
