/* SPDX-License-Identifier: MIT */
/* names.h - the table of names.def. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sgu_name {
	const char *name;
	int since;		/* the first CUDA version with this function under this name */
	bool per_thread;	/* for callers that want per-thread default streams */
	void (*function)(void);
};

extern const struct sgu_name sgu_names[];
extern const size_t sgu_name_count;
