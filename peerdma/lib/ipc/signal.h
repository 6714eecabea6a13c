/* SPDX-License-Identifier: MIT */
/* signal.h - a signal in this process: for signal.c, stream.c and copy.c. */
#ifndef IPC_SIGNAL_H
#define IPC_SIGNAL_H

#include "ipc.h"

/* All fixed but `registered` and `refs`. */
struct peerdma_ipc_signal {
	struct ipc *ipc;
	struct ipc_exporter *exporter;		/* its creator; NULL: this process */
	struct ipc_link *link;		/* to its creator, where the open has this number */
	unsigned int number;
	uint32_t slot;
	uint64_t generation;
	uint8_t key[IPC_KEY];
	struct ipc_shared_signal *shared;		/* NULL: HSA's */
	bool own_page;			/* it is in no arena */
	bool registered;		/* that page, with CUDA */
	uint64_t hsa;
	uint32_t refs;			/* atomic: the program's until its close; and those of calls and copies that set the value */
};

/*
 * A reference. Another thread may close the signal as soon as it sees the value: a call that changes the value takes a
 * reference before, and drops it when the waiters are woken. The signal is freed with the last reference.
 * callback: the caller is a callback of CUDA's, which must not call CUDA.
 */
void ipc_signal_hold(struct peerdma_ipc_signal *s);
void ipc_signal_put(struct peerdma_ipc_signal *s, bool callback);

/* 0, -EPERM, -ESTALE or -EOWNERDEAD with text: whether it may be changed. */
int ipc_signal_usable(const struct peerdma_ipc_signal *s, const char *call);
/* Held by the caller. */
void ipc_signal_store(struct peerdma_ipc_signal *s, uint64_t value);

#endif
