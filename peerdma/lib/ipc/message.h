/* SPDX-License-Identifier: MIT */
/*
 * message.h - the requests of importers and the replies of exporters, on a SOCK_SEQPACKET socket.
 * Each side checks all that it receives and does not trust the other process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "handle.h"

#define IPC_MESSAGE_MAGIC 0x32637069	/* changes with the format */
#define IPC_FDS 2			/* the page, and the file of the memory or signal */

/*
 * The number of signals that a connection can open in its life. The messages for these opens and
 * their closes fit into a socket's buffer, so a close can always be sent.
 */
#define IPC_OPENS 64

enum ipc_op { IPC_OP_MEMORY = 1, IPC_OP_SIGNAL = 2, IPC_OP_CLOSE_SIGNAL = 3 };

struct ipc_request {
	uint32_t magic;
	uint32_t op;			/* enum ipc_op */
	uint32_t slot;
	/* number of a signal's open on the connection; IPC_OP_CLOSE_SIGNAL refers to it */
	uint32_t open;
	uint64_t generation;
	uint8_t key[IPC_KEY];
};

struct ipc_reply {
	uint32_t magic;
	int32_t error;			/* 0 or -errno; with an error no other field is set */
	uint32_t provider;		/* enum ipc_provider_id */
	/* of a signal; IPC_ARENA_SIGNALS: the signal has a file of its own */
	uint32_t arena_number;
	uint64_t base, length;		/* of the allocation, in the exporter */
	uint64_t fd_offset;		/* for memory of CUDA's pools: the pool's number */
	uint8_t blob[64];
	char pci[20];
	uint32_t fds;			/* descriptors in the message, a bit for each of IPC_FDS */
};

/* Fills in the abstract address of an exporting process. Returns its length. */
socklen_t ipc_address(const struct ipc_id *process, struct sockaddr_un *address);
/* 0 or -errno. */
int ipc_send(int sock, const void *message, size_t size, const int *fds, unsigned int n);
/*
 * Returns the number of bytes, 0 at the end of the connection, or -errno. -EPROTO: the message has
 * another size. Missing fds are set to -1. Closes descriptors beyond n, and sets *more (may be
 * NULL) if there were any.
 */
int ipc_receive(int sock, void *message, size_t size, int *fds, unsigned int n, bool *more);
