// SPDX-License-Identifier: MIT
/*
 * bench-scale - the core with many live pins, for "bench/run scale", which counts the
 * instructions of the two measured functions with callgrind.
 *
 *   bench-scale LIVE
 */
#include <stdio.h>
#include <stdlib.h>

#include "../tests/core/util.h"

#define PAGES	64u
#define VICTIMS	8u
#define ROUNDS	100u

static struct machine m;
static struct user u;

/* Named by bench/run. */
void measured_pin(struct tpin *t, u64 va);
void measured_free(u64 va);

__attribute__((noinline)) void measured_pin(struct tpin *t, u64 va)
{
	MUST(!tpin_get(t, &u, va, PAGE, false));
	MUST(!sg_pin_put(m.sg, &t->pin, false));
}

__attribute__((noinline)) void measured_free(u64 va)
{
	MUST(!mem_free(&u, va));
}

int main(int argc, char **argv)
{
	u32 live = argc > 1 ? (u32)atoi(argv[1]) : 100, i, k;
	struct tpin *pins = calloc(live + 1, sizeof(*pins));
	static struct tpin victims[VICTIMS];
	u64 va, other;
	char key;

	MUST(pins);
	machine_up(&m, 1, 2 * PAGES * PAGE, 0, 0);
	user_up(&u, &m, 0, &key);
	MUST(!mem_alloc(&u, PAGES * PAGE, &va));
	for (i = 0; i < live; i++)
		MUST(!tpin_get(&pins[i], &u, va + i % PAGES * PAGE, PAGE, false));
	for (i = 0; i < ROUNDS; i++)
		measured_pin(&pins[live], va + i % PAGES * PAGE);
	for (i = 0; i < ROUNDS; i++) {
		MUST(!mem_alloc(&u, VICTIMS * PAGE, &other));
		for (k = 0; k < VICTIMS; k++)
			MUST(!tpin_get(&victims[k], &u, other + k * PAGE, PAGE, false));
		measured_free(other);
	}
	for (i = 0; i < live; i++)
		MUST(pins[i].callbacks == 0 && !sg_pin_put(m.sg, &pins[i].pin, false));
	user_down(&u);
	machine_down(&m);
	free(pins);
	return 0;
}
