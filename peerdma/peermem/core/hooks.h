/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* hooks.h - redirects functions of the RDMA core to this module. */
#ifndef PEER_CORE_HOOKS_H
#define PEER_CORE_HOOKS_H

int peer_hooks_init(void);
void peer_hooks_exit(void);

#endif
