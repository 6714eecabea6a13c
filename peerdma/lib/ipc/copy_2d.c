// SPDX-License-Identifier: MIT
/*
 * copy_2d.c - finds rows in a list of copies: copies of equal length, at equal distances in source
 * and target.
 *
 * A copy engine makes all rows with one command, CUDA's 2D copy. Such lists are common: one layer
 * of each block of a cache, the edge of a matrix, a buffer cut into pieces.
 */
#include "ipc.h"

/*
 * A 2D copy takes as long as two copies of a batch. For long rows within one GPU, single copies are
 * faster: the CPU submits the next copy while the GPU still makes the last one.
 */
#define ROW_LONGEST	(2ULL << 20)
#define PITCH_MOST	0x7fffffffULL	/* CU_DEVICE_ATTRIBUTE_MAX_PITCH of NVIDIA's GPUs */

/*
 * Whether CUDA accepts the distance as a pitch: rows must not overlap. For descending addresses the
 * caller passes the negated distance.
 */
static bool is_pitch(uint64_t step, uint64_t length)
{
	return step >= length && step <= PITCH_MOST;
}

struct ipc_copy_2d ipc_copy_2d(const struct ipc_copy *copies, const unsigned int *groups,
			       unsigned int begin, unsigned int end)
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
	if (!is_pitch(back ? -to_step : to_step, c->length) ||
	    !is_pitch(back ? -from_step : from_step, c->length))
		return rows;
	while (begin + rows.n < end && groups[begin + rows.n] == groups[begin] &&
	       c[rows.n].length == c->length && c[rows.n].to == c[rows.n - 1].to + to_step &&
	       c[rows.n].from == c[rows.n - 1].from + from_step)
		rows.n++;
	rows.first = back ? c + rows.n - 1 : c;
	rows.to_pitch = back ? -to_step : to_step;
	rows.from_pitch = back ? -from_step : from_step;
	return rows;
}

enum ipc_rows ipc_rows_of(const struct ipc_copy_2d *rows, bool all)
{
	uint64_t length = rows->first->length;

	if (rows->n == 1)
		return IPC_ROWS_NONE;
	if (rows->to_pitch == length && rows->from_pitch == length)
		return IPC_ROWS_ADJOIN;
	return (all || rows->n >= IPC_ROWS_FEWEST) && length <= ROW_LONGEST ? IPC_ROWS_2D : IPC_ROWS_NONE;
}
