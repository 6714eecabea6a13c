/* SPDX-License-Identifier: MIT */
/* vmm.h - facts about mapped memory that only vmm.c knows. */
#ifndef SGU_VMM_H
#define SGU_VMM_H

#include <stdbool.h>
#include <stdint.h>

struct sgu_vmm_facts {
	uint64_t reserved_base, reserved_length;	/* the reservation around it */
	bool rdma_capable;				/* as cuMemCreate was asked */
	uint32_t handle_types;				/* the same */
};

/* False, and *facts unchanged, when nothing is mapped at va. */
bool sgu_vmm_facts(uint64_t va, struct sgu_vmm_facts *facts);

#endif
