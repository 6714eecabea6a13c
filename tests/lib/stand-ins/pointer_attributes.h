/* SPDX-License-Identifier: MIT */
/* pointer_attributes.h - those of cuPointerGetAttribute() that libpeerdma asks for; numbers and types are CUDA's. */
#pragma once

#include <stddef.h>

struct pointer_attributes {
	void *context;
	unsigned int type, managed;	/* type: CUmemorytype */
	unsigned long long id;
	int device;
	unsigned long long base;
	size_t size;
};

/* 0 or CUDA_ERROR_INVALID_VALUE: it is another attribute. */
static inline int pointer_attribute(const struct pointer_attributes *p, int attribute, void *data)
{
	switch (attribute) {
	case 1:
		*(void **)data = p->context;
		return 0;
	case 2:
		*(unsigned int *)data = p->type;
		return 0;
	case 7:
		*(unsigned long long *)data = p->id;
		return 0;
	case 8:
		*(unsigned int *)data = p->managed;
		return 0;
	case 9:
		*(int *)data = p->device;
		return 0;
	case 11:
		*(unsigned long long *)data = p->base;
		return 0;
	case 12:
		*(size_t *)data = p->size;
		return 0;
	default:
		return 1;
	}
}
