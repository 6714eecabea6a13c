// SPDX-License-Identifier: MIT
/*
 * faster.c - whether a kernel makes a list of copies in less time than copy engines.
 *
 * The times were measured on two H200 (docs/ipc.md has the tables). They add up from parts: what a
 * list costs at all, what each command or each copy of the kernel adds, and the bytes. An engine has
 * a command for each group of rows, and one for each copy that is in none.
 */
#include "ipc.h"

/* Nanoseconds, and bytes in a nanosecond. */
struct costs {
	double list;
	double copy;	/* each further command of an engine, or copy of the kernel */
	double rows;	/* more for a command that copies rows */
	double speed;
};

enum { ONE_GPU, TWO_GPUS };
static const struct costs engine[] = { [ONE_GPU] = { 9300, 3500, 3500, 750 }, [TWO_GPUS] = { 7400, 600, 3500, 380 } };
static const struct costs kernel[] = { [ONE_GPU] = { 9800, 50, 0, 1400 }, [TWO_GPUS] = { 11000, 50, 0, 345 } };

bool ipc_kernel_is_faster(const struct ipc_copies *copies, const unsigned int *groups, unsigned int n,
			  bool one_gpu)
{
	const struct costs *e = &engine[one_gpu ? ONE_GPU : TWO_GPUS];
	const struct costs *k = &kernel[one_gpu ? ONE_GPU : TWO_GPUS];
	double by_engine = e->list - e->copy, by_kernel = k->list - k->copy, bytes = 0;
	struct ipc_copy_2d rows;

	/* one large copy is at the engine's best, which the table's speed for lists is not */
	if (n == 1)
		return false;
	for (unsigned int i = 0; i < n; i += rows.n) {
		rows = ipc_copy_2d(copies->copy, groups, i, n);
		switch (ipc_rows_of(&rows, rows.n == n)) {
		case IPC_ROWS_NONE:
			by_engine += e->copy * rows.n;
			break;
		case IPC_ROWS_ADJOIN:
			by_engine += e->copy;
			break;
		case IPC_ROWS_2D:
			by_engine += e->copy + e->rows;
			break;
		}
	}
	for (unsigned int i = 0; i < n; i++) {
		by_kernel += k->copy;
		bytes += (double)copies->copy[i].length;
	}
	return by_kernel + bytes / k->speed < by_engine + bytes / e->speed;
}
