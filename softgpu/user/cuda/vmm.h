/* SPDX-License-Identifier: MIT */
/* vmm.h - facts about mappings that only vmm.c knows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sgu_vmm_facts {
	uint64_t reserved_base, reserved_length;	/* the reservation that contains it */
	bool rdma_capable;				/* as requested from cuMemCreate() */
	uint32_t handle_types;				/* as requested from cuMemCreate() */
};

/* False, with *facts unchanged: there is no mapping at va. */
bool sgu_vmm_facts(uint64_t va, struct sgu_vmm_facts *facts);
