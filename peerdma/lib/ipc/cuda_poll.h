/* SPDX-License-Identifier: MIT */
/*
 * cuda_poll.h - what the kernel of cuda_poll.c and the processor tell each other, in a page of host
 * memory that the GPU reaches.
 *
 * A command is three words, which the GPU reads in any order while the processor writes them.  Each has the command's
 * number in its upper bits: once all three have the next one, they belong together.
 */
#ifndef IPC_CUDA_POLL_H
#define IPC_CUDA_POLL_H

#include <stdint.h>

#define POLL_SHIFT	57U		/* no address of a GPU is larger */
#define POLL_TURNS	127ULL

enum { POLL_TO, POLL_FROM, POLL_LENGTH };

struct ipc_poll_page {
	/* By the processor: to, from, length, each with the turn & POLL_TURNS above POLL_SHIFT. */
	uint64_t command[8];
	/* By the GPU, on a line of its own. */
	uint64_t done;			/* the last turn whose bytes are there */
	uint64_t gone;			/* the last launch that looks no more */
	uint64_t begun;			/* the last launch that looks */
	uint64_t unused[5];
};

#endif
