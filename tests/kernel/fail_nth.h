/* SPDX-License-Identifier: MIT */
/*
 * fail_nth.h - an operation with its first allocation failing, then with its
 * second, and so on until none is left to fail; copies to and from user space
 * count like allocations.  Needs a kernel with fault injection.
 */
#pragma once

#include <stdbool.h>

/* Prepares the kernel: false if it cannot inject faults. */
bool fail_nth_ready(void);

#define FN_CANNOT_FAIL	1	/* what ends things succeeds all the same */
#define FN_MAY_BE_CLEAN	2	/* there may be nothing to fail */
#define FN_NO_SPACE	4	/* it may say ENOSPC: a provider says ENOMEM of a full BAR1, too */

/* A step of a stage: 0 or an errno. */
typedef int (*fn_step)(void);
#define FN_STEPS	6

struct stage {
	const char *name;
	int flags;
	fn_step op;
	/* Around it, with nothing failing; each must succeed. */
	fn_step before[FN_STEPS];	/* each time */
	fn_step undo[FN_STEPS];		/* after op has succeeded */
	fn_step after[FN_STEPS];	/* each time */
};

/*
 * An operation, and one that leaves a field of its struct in a variable: a call whose struct begins with its size.
 * The struct is what follows.
 */
#define OP(name, fd, nr, type, ...)							\
	static int name(void)								\
	{										\
		struct type a_ = { __VA_ARGS__ };					\
											\
		return SG_CALL(fd, nr, &a_);						\
	}
#define OP_GIVES(name, variable, field, fd, nr, type, ...)				\
	static int name(void)								\
	{										\
		struct type a_ = { __VA_ARGS__ };					\
		int err_ = SG_CALL(fd, nr, &a_);					\
											\
		variable = a_.field;							\
		return err_;								\
	}

/*
 * Runs stages to their ends.  Each failure must be ENOMEM or EFAULT and leave
 * nothing (idle() tells, and says what); and the operation must succeed when
 * nothing fails.
 */
void fail_nth_sweep(const struct stage *stages, int n, bool (*idle)(void));

/*
 * The same for the end of a process, which cannot be asked afterwards: fn runs
 * in a child that then ends with its nth allocation failing, n up to most.
 */
void fail_nth_exits(const char *name, void (*fn)(void), int most, bool (*idle)(void));
