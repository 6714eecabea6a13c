/* SPDX-License-Identifier: MIT OR GPL-2.0 */
#ifndef PEERDMA_DEBUGFS_H
#define PEERDMA_DEBUGFS_H

void peerdma_debugfs_init(void);
void peerdma_debugfs_exit(void);

#endif
