/* SPDX-License-Identifier: MIT OR GPL-2.0 */
#ifndef PEERDMA_HOST_H
#define PEERDMA_HOST_H

/* Adds the provider of host memory, the last one to be asked. */
void peerdma_host_init(void);

#endif
