// SPDX-License-Identifier: MIT
/*
 * The core's model, its program taken from the input: schedules that coverage leads to
 * and chance would not.  See tests/core/model.
 */
#include "model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD	4
#define OP	5	/* a kind, and a byte for each number */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct program p;
	struct config *c = &p.config;
	u32 step, k;

	if (size < HEAD)
		return 0;
	c->gpus = 1 + data[0] % GPUS;
	c->procs = 1 + data[0] / 4 % PROCS;
	c->per_pin = data[0] / 16 % 2;
	c->strict = data[0] / 32 % 2;
	c->mode = data[0] / 64 % 2 ? SOFTGPU_COMPUTE_EXCLUSIVE : SOFTGPU_COMPUTE_DEFAULT;
	c->vram = 4 + data[1] % 13;
	c->bar1 = 2 + data[2] % 16;
	c->reserved = data[2] / 16 % 3;
	c->window = 8 + data[3] % 64;
	c->clients = data[3] / 64 % (1u << c->procs);
	p.count = 0;
	for (data += HEAD, size -= HEAD; size >= OP && p.count < 200; data += OP, size -= OP) {
		struct op *o = &p.ops[p.count++];

		o->kind = data[0] % op_kinds;
		/* Low bits and high ones: some numbers are lengths. */
		for (k = 0; k < 4; k++)
			o->arg[k] = data[1 + k] * 0x1010101u;
	}
	program_run(&p, &step);
	return 0;
}
