// SPDX-License-Identifier: MIT OR GPL-2.0
/* mr.c - rxe's MRs of memory of other devices: mr->hca. */
#include <linux/random.h>

#include "rxe.h"
#include "rxe_loc.h"

#include "access.h"
#include "compat.h"
#include "hca.h"

static int offset_of(struct rxe_mr *mr, u64 iova, size_t length, u64 *at)
{
	if (mr_check_range(mr, iova, length))
		return -EFAULT;
	*at = iova - mr->ibmr.iova;
	return 0;
}

int hca_mr_copy(struct rxe_mr *mr, u64 iova, void *addr, size_t length, bool to_memory)
{
	u64 at;

	return offset_of(mr, iova, length, &at) ?: hca_access(mr->hca, at, addr, length, to_memory);
}

int hca_mr_atomic(struct rxe_mr *mr, u64 iova, bool swap, u64 compare, u64 swap_add, u64 *original)
{
	struct hca_modify op = { .kind = swap ? HCA_SWAP_IF : HCA_ADD, .compare = compare, .operand = swap_add };
	u64 at;
	int err = offset_of(mr, iova, sizeof(u64), &at) ?: hca_modify(mr->hca, at, &op);

	*original = op.original;
	return err;
}

int hca_mr_write64(struct rxe_mr *mr, u64 iova, u64 value)
{
	struct hca_modify op = { .kind = HCA_STORE, .operand = value };
	u64 at;

	return offset_of(mr, iova, sizeof(u64), &at) ?: hca_modify(mr->hca, at, &op);
}

u32 hca_any_index(u32 min, u32 max)
{
	return min + get_random_u32() % (max - min + 1);
}

void hca_mr_set(struct rxe_mr *mr, struct hca_memory *memory, int access)
{
	rxe_mr_init(access, mr);
	mr->access = access;
	mr->hca = memory;
	hca_mr_type(mr) = IB_MR_TYPE_USER;
	mr->state = RXE_MR_STATE_VALID;
}

void hca_mr_release(struct rxe_mr *mr)
{
	if (mr->hca)
		mr->hca->release(mr->hca);
	mr->hca = NULL;
}
