/* SPDX-License-Identifier: MIT */
/*
 * fail_nth.h - an operation with its first allocation failing, then with its
 * second, and so on until none is left to fail; copies to and from user space
 * count like allocations.  Needs a kernel with fault injection.
 */
#ifndef FAIL_NTH_H
#define FAIL_NTH_H

#include <stdbool.h>

/* Prepares the kernel: false if it cannot inject faults. */
bool fail_nth_ready(void);

#define FN_CANNOT_FAIL	1	/* what ends things succeeds all the same */
#define FN_MAY_BE_CLEAN	2	/* there may be nothing to fail */
#define FN_NO_SPACE	4	/* it may say ENOSPC: a provider says ENOMEM of a full BAR1, too */

struct stage {
	const char *name;
	int flags;
	void (*before)(void);	/* each time, with nothing failing; or NULL */
	int (*op)(void);	/* 0 or an errno */
	void (*undo)(void);	/* after op has succeeded; or NULL */
	void (*after)(void);	/* each time; or NULL */
};

/*
 * Runs stages to their ends.  Each failure must be ENOMEM or EFAULT and leave
 * nothing (idle() tells, and says what); and the operation must succeed when
 * nothing fails.
 */
void fail_nth_sweep(const struct stage *stages, int n, bool (*idle)(void));

/*
 * The same for the end of a process, which nobody can ask afterwards: fn runs
 * in a child that then ends with its nth allocation failing, n up to most.
 */
void fail_nth_exits(const char *name, void (*fn)(void), int most, bool (*idle)(void));

#endif
