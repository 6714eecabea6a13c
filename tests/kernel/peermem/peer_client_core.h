/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* peer_client_core.h - what peer_client_exports.c exports. */
#ifndef PEER_CLIENT_CORE_H
#define PEER_CLIENT_CORE_H

#include <rdma/peer_mem.h>

void *test_core_register(const struct peer_memory_client *client, bool revocable);
int test_core_invalidate(void *handle, u64 context);
void test_core_unregister(void *handle);

#endif
