/* SPDX-License-Identifier: MIT */
/* fail_nth_test.h - what the parts of fail_nth_test share. */
#pragma once

#include "nvp2p_test.h"
#include "sgraw.h"

/* The DMA card's place: bus << 8 | devfn, in domain 0. */
extern uint32_t card;

/* What the modules hold now is what they must hold after each fault. */
void idle_begins(void);
/* Whether they do, after a while; says what they hold if not. */
bool idle(void);

/* All stages of an array, from what is held now. */
#define sweep(stages) do {							\
	idle_begins();								\
	fail_nth_sweep(stages, sizeof(stages) / sizeof((stages)[0]), idle);	\
} while (0)

/* Each in a process of its own. */
void fail_nth_softgpu(void);	/* /dev/softgpuN */
void fail_nth_nvp2p(void);	/* nvidia_p2p_*, by nvp2p_test.ko */
void fail_nth_peerdma(void);	/* /dev/peerdma, importers of its dma-bufs, the DMA card */
