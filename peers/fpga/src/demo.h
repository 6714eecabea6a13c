/* SPDX-License-Identifier: MIT */
/*
 * demo.h - declarations shared by the steps of the demonstration.  Each step prints its
 * part of the screen; it returns false if the next step cannot run.
 */
#ifndef FPGA_DEMO_H
#define FPGA_DEMO_H

#include "cards.h"
#include "gpu.h"
#include "screen.h"
#include "surface.h"
#include "util.h"

/* Ways to break the demonstration on purpose, to see that it notices. */
enum demo_break { BREAK_NOTHING, BREAK_FLIP_BYTE, BREAK_SKIP_UNPIN, BREAK_WRONG_ADDRESS };

/* Counts that must be the same before and after the demonstration. */
#define COUNT_MODULES	9
extern const char *const count_modules[COUNT_MODULES];
struct counts {
	bool nvml;		/* bar1 and vram are known */
	uint64_t pins;		/* of peerdma, all processes */
	uint64_t mappings;	/* of the cards */
	uint64_t bar1;		/* all GPUs */
	uint64_t vram;
	int refs[COUNT_MODULES];
};

/* The cost of one method of copying. */
struct cost {
	uint64_t dma_in, dma_out;	/* by the cards */
	uint64_t transfers, interrupts;
	uint64_t engine;		/* copied by the GPU's engine */
	uint64_t cpu;			/* copied by the CPU */
	uint64_t host;			/* host memory used besides */
	uint64_t time_ns;
};

struct demo {
	uint64_t size;
	const char *file;
	enum demo_break broken;
	struct gpu gpus[GPUS_MAX];
	int gpu_count;
	struct card cards[CARDS_MAX];
	int card_count;
	int peerdma;			/* /dev/peerdma */
	const struct gpu_make *make_a, *make_b;	/* kinds of memory of A and B */
	struct gpu as_other[2];		/* their GPUs, as handles for that kind of memory */
	const struct gpu *gpu_a, *gpu_b;
	struct surface a, b;
	unsigned char *expected, *found;	/* A's bytes; room to read back */
	struct counts before;
	struct job job;
	struct cost direct;
	struct why why;
};

/* demo_state.c */
bool demo_counts(struct demo *demo, struct counts *counts);
bool demo_revocations(struct demo *demo, uint64_t *count);	/* counted by peerdma */
bool cost_begin(struct demo *demo, struct cost *cost);
bool cost_end(struct demo *demo, struct cost *cost);
bool demo_leave_pinned(struct demo *demo, const struct surface *s);

/* demo_copy.c: steps 1 to 5 */
bool demo_allocate(struct demo *demo);
bool demo_pin_and_copy(struct demo *demo);
bool demo_validate(struct demo *demo);
bool demo_bounce(struct demo *demo);

/* demo_end.c: steps 6 and 7 */
bool demo_revoke(struct demo *demo);
bool demo_count(struct demo *demo);

#endif
