/* SPDX-License-Identifier: MIT */
/* handle.h - makes and parses the bytes of a peerdma_ipc_handle. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peerdma_ipc.h"

#define IPC_KEY 16

enum ipc_what { IPC_MEMORY = 1, IPC_SIGNAL = 2 };

struct ipc_id {
	uint8_t bytes[16];
};

/* In the machine's byte order: a handle is valid on one machine only. */
struct ipc_name {
	uint8_t magic[8];
	uint16_t version;
	uint16_t what;			/* enum ipc_what */
	uint32_t reserved;		/* 0 */
	struct ipc_id boot;		/* boot id of the machine */
	struct ipc_id process;		/* random id; part of the exporter's address */
	uint8_t key[IPC_KEY];
	uint32_t uid, pid;		/* of the exporter */
	uint32_t slot;
	uint32_t reserved2;		/* 0 */
	uint64_t generation;
	uint64_t offset, length;	/* of the range in the allocation */
	uint64_t reserved3[2];		/* 0 */
	uint64_t checksum; /* of all bytes before; distinguishes damage from a wrong key */
};

_Static_assert(sizeof(struct ipc_name) == sizeof(struct peerdma_ipc_handle), "a handle's size");
_Static_assert(offsetof(struct ipc_name, checksum) == 120, "no holes");

/* Fills in magic, version, reserved and checksum. */
void ipc_handle_make(const struct ipc_name *name, struct peerdma_ipc_handle *handle);
/* 0, or -EINVAL or -EPROTO with text, to which the caller adds "CALL: ". */
int ipc_handle_parse(const void *handle, size_t size, enum ipc_what what, struct ipc_name *name);
/* In constant time, so that the time does not show where the keys differ. */
bool ipc_key_equal(const uint8_t *a, const uint8_t *b);
