/* SPDX-License-Identifier: MIT */
/* fake_hsa.h - a stand-in for libhsa-runtime64.so.1 with the two calls that say what memory a pointer is in. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fake_hsa {
	void *base;			/* the one allocation */
	size_t length;
	int type;			/* hsa_amd_pointer_type_t */
	uint32_t device;		/* its owner: hsa_device_type_t */
	uint32_t bdf, domain;
	int error;			/* of hsa_amd_pointer_info() */
	unsigned int calls;		/* counted */
};

struct fake_hsa *fake_hsa(void);
