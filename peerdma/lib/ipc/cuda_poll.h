/* SPDX-License-Identifier: MIT */
/*
 * cuda_poll.h - the page of host memory by which the CPU sends commands to the kernel of
 * cuda_poll.c and receives completions.
 *
 * A command is three words, which the GPU may read in any order while the CPU writes them. The
 * upper bits of each word hold the command's number. If all three words have the next number, they
 * belong to one command.
 */
#pragma once

#include <stdint.h>

#define POLL_SHIFT	57U		/* no GPU address has more bits */
#define POLL_TURNS	127ULL

enum { POLL_TO, POLL_FROM, POLL_LENGTH };

struct ipc_poll_page {
	/* Written by the CPU: to, from, length. Each has (turn & POLL_TURNS) above POLL_SHIFT. */
	uint64_t command[8];
	/* Written by the GPU, in a separate cache line. */
	uint64_t done;			/* the last turn whose copy is complete */
	uint64_t gone;			/* the last launch that has ended */
	uint64_t begun;			/* the last launch that has started */
	uint64_t unused[5];
};
