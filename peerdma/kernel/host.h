/* SPDX-License-Identifier: MIT OR GPL-2.0 */
#ifndef PEERDMA_HOST_H
#define PEERDMA_HOST_H

/* Enters the provider of host memory, the last one that is asked. */
void peerdma_host_init(void);

#endif
