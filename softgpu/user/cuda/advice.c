// SPDX-License-Identifier: MIT
/*
 * advice.c - cuMemAdvise(), cuMemPrefetchAsync(), and the results of cuMemRangeGetAttribute().
 *
 * Managed memory never moves on the software GPU, so all this is only recorded. Programs such as
 * UCX choose their method of access by it.
 */
#include <string.h>

#include "internal.h"
#include "advice.h"

#define CPU_BIT	SOFTGPU_MAX_GPUS

struct change {
	CUmem_advise advice;		/* 0: a prefetch */
	CUmemLocation to;
};

static CUmemLocation location_of(CUdevice device)
{
	if (device == CU_DEVICE_CPU)
		return (CUmemLocation) { .type = CU_MEM_LOCATION_TYPE_HOST };
	return (CUmemLocation) { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };
}

static CUresult check_location(const CUmemLocation *at)
{
	switch (at->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return sgu_device_ok(at->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult change_pages(struct sgu_advice *pages, size_t count, void *arg)
{
	const struct change *change = arg;
	unsigned int bit = change->to.type == CU_MEM_LOCATION_TYPE_DEVICE ?
		(unsigned int)change->to.id : CPU_BIT;

	for (struct sgu_advice *p = pages; p < pages + count; p++) {
		switch ((int)change->advice) {
		case 0:
			p->prefetched = change->to;
			break;
		case CU_MEM_ADVISE_SET_READ_MOSTLY:
		case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
			p->read_mostly = change->advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
			break;
		case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
			p->preferred = change->to;
			break;
		case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
			memset(&p->preferred, 0, sizeof(p->preferred));
			break;
		case CU_MEM_ADVISE_SET_ACCESSED_BY:
			p->accessed_by |= 1u << bit;
			break;
		default:
			p->accessed_by &= ~(1u << bit);
		}
	}
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
				   CUmemLocation location)
{
	struct change change = { .advice = advice, .to = location };
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return CUDA_ERROR_INVALID_VALUE;
	if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
	    advice >= CU_MEM_ADVISE_SET_ACCESSED_BY)
		result = check_location(&location);
	/* here, unlike where memory is to go, a GPU that is not there is a bad argument */
	if (result == CUDA_ERROR_INVALID_DEVICE)
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : sgu_managed_pages(devPtr, count, change_pages, &change);
}

SGU_EXPORT CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
				CUdevice device)
{
	if (device != CU_DEVICE_CPU && !sgu_device_ok(device))
		return sgu_refuse(CUDA_ERROR_INVALID_DEVICE);
	return cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

SGU_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
					  unsigned int flags, CUstream hStream)
{
	struct change change = { .to = location };
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	sgu_queue_put(&queue);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_location(&location);
	return result ? result : sgu_managed_pages(devPtr, count, change_pages, &change);
}

SGU_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
				       CUstream hStream)
{
	return cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream);
}

/* ---- queries ---- */

struct question {
	CUmem_range_attribute attribute;
	int *out;
	size_t count;			/* number of ints */
};

/* Returns the location if it is the same for all pages, otherwise INVALID. */
static CUmemLocation common(const struct sgu_advice *pages, size_t count, bool prefetched)
{
	CUmemLocation first = prefetched ? pages->prefetched : pages->preferred;

	for (size_t i = 1; i < count; i++) {
		const CUmemLocation *at = prefetched ? &pages[i].prefetched : &pages[i].preferred;

		if (at->type != first.type || at->id != first.id)
			return (CUmemLocation) { .type = CU_MEM_LOCATION_TYPE_INVALID };
	}
	return first;
}

static int device_of(CUmemLocation at)
{
	if (at.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return at.id;
	return at.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

static void accessed_by(const struct sgu_advice *pages, size_t count, const struct question *q)
{
	unsigned int mask = ~0u;
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		mask &= pages[i].accessed_by;
	for (int bit = 0; bit <= CPU_BIT && n < q->count; bit++) {
		if (mask & 1u << bit)
			q->out[n++] = bit == CPU_BIT ? CU_DEVICE_CPU : bit;
	}
	while (n < q->count)
		q->out[n++] = CU_DEVICE_INVALID;
}

static CUresult answer(struct sgu_advice *pages, size_t count, void *arg)
{
	const struct question *q = arg;
	int all = 1;

	switch (q->attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		for (size_t i = 0; i < count; i++)
			all &= pages[i].read_mostly;
		*q->out = all;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		accessed_by(pages, count, q);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*q->out = device_of(common(pages, count, false));
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*q->out = common(pages, count, false).type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*q->out = common(pages, count, false).id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*q->out = device_of(common(pages, count, true));
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*q->out = common(pages, count, true).type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*q->out = common(pages, count, true).id;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t dataSize,
					   CUmem_range_attribute attribute, CUdeviceptr devPtr,
					   size_t count)
{
	struct question q = { .attribute = attribute,
			      .out = data,
			      .count = dataSize / sizeof(int) };
	bool list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (!data || !q.count || dataSize % sizeof(int) || (!list && q.count != 1))
		return CUDA_ERROR_INVALID_VALUE;
	return sgu_managed_pages(devPtr, count, answer, &q);
}

SGU_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes,
					    CUmem_range_attribute *attributes, size_t numAttributes,
					    CUdeviceptr devPtr, size_t count)
{
	CUresult result = sgu_enter();

	if (!result && (!data || !dataSizes || !attributes || !numAttributes))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numAttributes && !result; i++)
		result = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr,
						count);
	return result;
}
