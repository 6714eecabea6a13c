/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * others.h - other peer-memory clients for the same memory.  A core asks the first that registered, so with two of
 * them it depends on the order of loading whose revocation works: only one may be there.
 */
#ifndef PEERDMA_PEERMEM_OTHERS_H
#define PEERDMA_PEERMEM_OTHERS_H

/*
 * -EBUSY: there is one, and the log names it.  0: none, and those that are modules of their own are refused
 * from here on, until peermem_others_exit().
 */
int peermem_others_init(void);
void peermem_others_exit(void);

#endif
