// SPDX-License-Identifier: MIT
/* handle.c - see handle.h. Handles may come from any process, so nothing in them is trusted. */
#include <string.h>

#include "../internal.h"
#include "handle.h"

#define VERSION 1

static const uint8_t magic[8] = { 'p', 'd', 'm', 'a', '-', 'i', 'p', 'c' };

/* FNV-1a. Each step is invertible, so every change of a single byte changes the sum. */
static uint64_t checksum_of(const struct ipc_name *name)
{
	const uint8_t *p = (const uint8_t *)name;
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < offsetof(struct ipc_name, checksum); i++)
		sum = (sum ^ p[i]) * 0x100000001b3ULL;
	return sum;
}

void ipc_handle_make(const struct ipc_name *name, struct peerdma_ipc_handle *handle)
{
	struct ipc_name n = *name;

	memcpy(n.magic, magic, sizeof(magic));
	n.version = VERSION;
	n.reserved = n.reserved2 = 0;
	n.reserved3[0] = n.reserved3[1] = 0;
	n.checksum = checksum_of(&n);
	memcpy(handle, &n, sizeof(n));
}

int ipc_handle_parse(const void *handle, size_t size, enum ipc_what what, struct ipc_name *name)
{
	if (size != sizeof(*name))
		return fail(-EINVAL, "the handle has %zu bytes, not %zu: it was cut short or padded on its way", size, sizeof(*name));
	memcpy(name, handle, sizeof(*name));
	if (memcmp(name->magic, magic, sizeof(magic)))
		return fail(-EINVAL, "these bytes are not a handle of peerdma_ipc_export(): the first ones differ");
	if (name->checksum != checksum_of(name))
		return fail(-EINVAL, "the handle was altered on its way: its checksum is wrong; send the bytes as they are");
	if (name->version != VERSION)
		return fail(-EPROTO, "the handle has format %u, and this release knows format %u; use one release of libpeerdma "
			    "on both sides", name->version, VERSION);
	if (name->what != (uint16_t)what)
		return fail(-EINVAL, "the handle is a %s's; open it with %s",
			    name->what == IPC_SIGNAL ? "signal" : "memory range",
			    name->what == IPC_SIGNAL ? "peerdma_ipc_signal_open()" :
						       "peerdma_ipc_open()");
	if (name->reserved || name->reserved2 || name->reserved3[0] || name->reserved3[1] ||
	    (what == IPC_MEMORY && !name->length) || name->offset + name->length < name->offset)
		return fail(-EINVAL,
			    "the handle was altered on its way: no export has offset %#llx and length %#llx",
			    (unsigned long long)name->offset, (unsigned long long)name->length);
	return 0;
}

bool ipc_key_equal(const uint8_t *a, const uint8_t *b)
{
	unsigned int differs = 0;

	for (int i = 0; i < IPC_KEY; i++)
		differs |= a[i] ^ b[i];
	return !differs;
}
