// SPDX-License-Identifier: MIT
/*
 * unsupported.c - functions that a software GPU does not have. They exist, so that no program fails
 * to start because of a name that it might have called; they return hipErrorNotSupported, and
 * SOFTGPU_LOG=1 prints which one was called.
 *
 * The header that declares some of them is not included, because they do not look at arguments.
 */
enum { NOT_SUPPORTED = 801 };

int hip_unsupported(const char *name);

#define UNSUPPORTED(name)							\
	__attribute__((visibility("default"))) int name(void);			\
	__attribute__((visibility("default"))) int name(void)			\
	{									\
		return hip_unsupported(#name);					\
	}
#include "unsupported.def"
