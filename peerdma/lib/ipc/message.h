/* SPDX-License-Identifier: MIT */
/*
 * message.h - what an importer asks an exporter, over a socket of whole messages.  Both
 * sides check what comes: neither trusts the other's process.
 */
#ifndef IPC_MESSAGE_H
#define IPC_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "handle.h"

#define IPC_MESSAGE_MAGIC 0x32637069	/* changes with the format */
#define IPC_FDS 2			/* page, and the memory's or the signal's file */

/*
 * Signals that a connection opens in its life.  With their closes these are fewer messages than a
 * socket's buffer has room for, so that a close can always be sent.
 */
#define IPC_OPENS 64

enum ipc_op { IPC_OP_MEMORY = 1, IPC_OP_SIGNAL = 2, IPC_OP_CLOSE_SIGNAL = 3 };

struct ipc_request {
	uint32_t magic;
	uint32_t op;			/* enum ipc_op */
	uint32_t slot;
	uint32_t open;			/* of a signal: the number of this open on the connection; CLOSE names it */
	uint64_t generation;
	uint8_t key[IPC_KEY];
};

struct ipc_reply {
	uint32_t magic;
	int32_t error;			/* 0 or -errno; then nothing else is set */
	uint32_t provider;		/* enum ipc_provider_id */
	uint32_t arena_number;			/* of a signal; IPC_ARENA_SIGNALS: the first of a file of its own */
	uint64_t base, length;		/* of the allocation in the exporter */
	uint64_t fd_offset;		/* of CUDA's pools: the pool's number */
	uint8_t blob[64];
	char pci[20];
	uint32_t fds;			/* that came with it, as bits of IPC_FDS */
};

/* The abstract address of a process that exports; its length. */
socklen_t ipc_address(const struct ipc_id *process, struct sockaddr_un *address);
/* 0 or -errno; fd -1: none. */
int ipc_send(int sock, const void *message, size_t size, const int *fds, unsigned int n);
/*
 * Bytes, 0 at the end, or -errno; fds that did not come are -1; a message of another size is
 * -EPROTO.  More than n are closed: *more (NULL: not asked) is whether any came.
 */
int ipc_receive(int sock, void *message, size_t size, int *fds, unsigned int n, bool *more);

#endif
