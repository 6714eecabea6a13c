// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * peer_client_exports.c - the core's two names.  The headers are those of peerdma_peer_core's main.c: the kernel
 * compares what the types look like from where a name is exported.
 */
#include <linux/module.h>

#include "client.h"
#include "hooks.h"
#include "region.h"

#include "peer_client_core.h"

void *ib_register_peer_memory_client(const struct peer_memory_client *peer_client,
				     invalidate_peer_memory *invalidate_callback)
{
	if (invalidate_callback)
		*invalidate_callback = test_core_invalidate;
	return test_core_register(peer_client, invalidate_callback);
}
EXPORT_SYMBOL_GPL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *reg_handle)
{
	test_core_unregister(reg_handle);
}
EXPORT_SYMBOL_GPL(ib_unregister_peer_memory_client);
