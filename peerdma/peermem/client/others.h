/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * others.h - other peer-memory clients for the same memory.  A core asks the client that
 * registered first.  With two of them the load order would decide whose revocation is used,
 * so only one is allowed.
 */
#ifndef PEERDMA_PEERMEM_OTHERS_H
#define PEERDMA_PEERMEM_OTHERS_H

/*
 * -EBUSY: there is another client, and the log names it. 0: there is none, and until
 * peermem_others_exit() known modules of such clients are refused.
 */
int peermem_others_init(void);
void peermem_others_exit(void);

#endif
