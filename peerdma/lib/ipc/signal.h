/* SPDX-License-Identifier: MIT */
/* signal.h - a signal in this process: for signal.c, stream.c and copy.c. */
#ifndef IPC_SIGNAL_H
#define IPC_SIGNAL_H

#include "ipc.h"

/* All fixed but `registered`. */
struct peerdma_ipc_signal {
	struct ipc *ipc;
	struct ipc_peer *peer;		/* its creator; NULL: this process */
	struct ipc_link *link;		/* to its creator, where the open has this number */
	unsigned int number;
	uint32_t slot;
	uint64_t generation;
	uint8_t key[IPC_KEY];
	struct ipc_line *line;		/* NULL: HSA's */
	bool own_page;			/* it is in no arena */
	bool registered;		/* that page, with CUDA */
	uint64_t hsa;
};

/* 0, -EPERM, -ESTALE or -EOWNERDEAD with text: whether it may be changed. */
int ipc_signal_usable(const struct peerdma_ipc_signal *s, const char *call);
void ipc_signal_store(struct peerdma_ipc_signal *s, uint64_t value);

#endif
