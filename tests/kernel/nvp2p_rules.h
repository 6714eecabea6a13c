/* SPDX-License-Identifier: MIT */
/* nvp2p_rules.h - the cases of nvp2p_rules, and what must hold of calls that fail. */
#pragma once

#include "nvp2p_client.h"
#include "peerdma_test_card.h"
#include "sgraw.h"

extern const struct gpu_case pin_cases[], callback_cases[], sharing_cases[], dma_cases[];

/* What must hold of a get that failed: this errno, and the pointer NULL or untouched. */
#define MUST_FAIL(call, err, left) do {						\
	struct nvp2p_test_call r_ = call;					\
										\
	CHECK(r_.ret == -(err) && r_.out == (left), "%s returns %d and leaves %d, not %d and %d",	\
	      #call, r_.ret, r_.out, -(err), left);				\
} while (0)
