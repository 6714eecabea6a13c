// SPDX-License-Identifier: MIT
/*
 * copy_2d.c - finds copies in a list that are rows: of one length, at equal distances on both sides.
 *
 * An engine copies all rows with one command, which CUDA calls a 2D copy. Such lists are common: a layer of
 * each block of a cache, the edge of a matrix, one buffer cut into pieces.
 */
#include "ipc.h"

#define PITCH_MOST	0x7fffffffULL	/* CU_DEVICE_ATTRIBUTE_MAX_PITCH of NVIDIA's GPUs */

/* As far as CUDA can tell rows apart: they do not overlap.  Backwards, the distance is negative. */
static bool is_pitch(uint64_t step, uint64_t length)
{
	return step >= length && step <= PITCH_MOST;
}

struct ipc_copy_2d ipc_copy_2d(const struct ipc_copy *copies, const unsigned int *groups, unsigned int begin, unsigned int end)
{
	const struct ipc_copy *c = copies + begin;
	struct ipc_copy_2d rows = { .first = c, .n = 1 };
	uint64_t to_step, from_step;
	bool back;

	if (end - begin < 2)
		return rows;
	to_step = c[1].to - c->to;
	from_step = c[1].from - c->from;
	back = c[1].to < c->to;
	if (!is_pitch(back ? -to_step : to_step, c->length) || !is_pitch(back ? -from_step : from_step, c->length))
		return rows;
	while (begin + rows.n < end && groups[begin + rows.n] == groups[begin] && c[rows.n].length == c->length &&
	       c[rows.n].to == c[rows.n - 1].to + to_step && c[rows.n].from == c[rows.n - 1].from + from_step)
		rows.n++;
	rows.first = back ? c + rows.n - 1 : c;
	rows.to_pitch = back ? -to_step : to_step;
	rows.from_pitch = back ? -from_step : from_step;
	return rows;
}
