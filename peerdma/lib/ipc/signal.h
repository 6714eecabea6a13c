/* SPDX-License-Identifier: MIT */
/* signal.h - a signal as an object of this process, for signal.c, stream.c and copy.c. */
#pragma once

#include "ipc.h"

/* All fields are fixed, except `registered` and `refs`. */
struct peerdma_ipc_signal {
	struct ipc *ipc;
	struct ipc_exporter *exporter;		/* the signal's creator; NULL: this process */
	/* the connection to the creator; `number` is the signal's open on it */
	struct ipc_link *link;
	unsigned int number;
	uint32_t slot;
	uint64_t generation;
	uint8_t key[IPC_KEY];
	struct ipc_shared_signal *shared;		/* NULL: an HSA signal */
	bool own_page; /* the signal has a file of its own and is not in the arena */
	bool registered;		/* its own page is registered with CUDA */
	uint64_t hsa;
	/*
	 * atomic: 1 for the program until its close, plus running calls and copies that set the
	 * value
	 */
	uint32_t refs;
};

/*
 * Take and drop a reference. Another thread may close the signal as soon as it sees the value. So a
 * call that changes the value takes a reference before, and drops it after it has woken the
 * waiters. The last put frees the signal. callback: the caller is a callback of CUDA, which must
 * not call CUDA.
 */
void ipc_signal_hold(struct peerdma_ipc_signal *s);
void ipc_signal_put(struct peerdma_ipc_signal *s, bool callback);

/* Whether this process may change the signal: 0, or -EPERM, -ESTALE or -EOWNERDEAD with text. */
int ipc_signal_usable(const struct peerdma_ipc_signal *s, const char *call);
/* The caller holds a reference. */
void ipc_signal_store(struct peerdma_ipc_signal *s, uint64_t value);
