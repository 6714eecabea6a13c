// SPDX-License-Identifier: MIT
/* vmm.c - virtual memory management: reserved addresses, mappings in them, and access to these. */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "hook.h"
#include "vmm_int.h"

/* A piece of the window: a reservation, or a mapping inside one. */
struct span {
	uint64_t va, length;
	struct phys *phys;				/* mapping: a count in phys->mapped */
	uint8_t access[SOFTGPU_MAX_GPUS];		/* mapping: by GPU */
};

static void *reservations, *mappings;	/* tsearch */

/* Spans in one tree do not overlap, so "overlaps" is an order's "equal". */
static int by_va(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->va + x->length <= y->va)
		return -1;
	return x->va >= y->va + y->length;
}

static struct span *find(void **tree, uint64_t va)
{
	struct span key = { .va = va, .length = 1 };
	struct span **node = tfind(&key, tree, by_va);

	return node ? *node : NULL;
}

/* The mapping at va, with sgu_vmm_lock held. */
static struct span *mapping_at(uint64_t va)
{
	return find(&mappings, va);
}

/* Is it well formed, and inside one reservation? */
static bool range_ok(uint64_t va, uint64_t length)
{
	const struct span *r;
	bool ok;

	if (!length || ((va | length) & (SGU_PAGE - 1)) || va + length < va)
		return false;
	pthread_mutex_lock(&sgu_vmm_lock);
	r = find(&reservations, va);
	ok = r && va + length <= r->va + r->length;
	pthread_mutex_unlock(&sgu_vmm_lock);
	return ok;
}

bool sgu_vmm_facts(uint64_t va, struct sgu_vmm_facts *facts)
{
	const struct span *m, *r;

	pthread_mutex_lock(&sgu_vmm_lock);
	m = mapping_at(va);
	r = find(&reservations, va);
	if (m && r) {
		facts->reserved_base = r->va;
		facts->reserved_length = r->length;
		facts->rdma_capable = m->phys->prop.allocFlags.gpuDirectRDMACapable;
		facts->handle_types = m->phys->prop.requestedHandleTypes;
	}
	pthread_mutex_unlock(&sgu_vmm_lock);
	return m && r;
}

/* ---- addresses ---- */

SGU_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
					CUdeviceptr addr, unsigned long long flags)
{
	struct softgpu_va_reserve reserve = {
		.size = sizeof(reserve), .length = size, .hint = addr,
		.align = alignment > SGU_PAGE ? alignment : 0,
	};
	CUresult result = sgu_enter();
	struct span *r;
	void *node;
	int err;

	if (result)
		return result;
	if (!ptr || !size || (size & (SGU_PAGE - 1)) || (alignment & (alignment - 1)) ||
	    (addr & (SGU_PAGE - 1)) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	r = calloc(1, sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = sgu_call_any(SOFTGPU_VA_RESERVE, &reserve);
	if (err) {
		free(r);
		return sgu_result(err);
	}
	r->va = reserve.va;
	r->length = size;
	pthread_mutex_lock(&sgu_vmm_lock);
	node = tsearch(r, &reservations, by_va);
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (!node) {
		sgu_call_any(SOFTGPU_VA_RELEASE, &(struct softgpu_va) {
			.size = sizeof(struct softgpu_va), .va = reserve.va });
		free(r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ptr = reserve.va;
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct softgpu_va release = { .size = sizeof(release), .va = ptr };
	struct span key = { .va = ptr, .length = size };
	CUresult result = sgu_enter();
	struct span *r;
	int err;

	if (result)
		return result;
	if (!size || ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_vmm_lock);
	r = find(&reservations, ptr);
	if (r && r->va == ptr && r->length == size && !tfind(&key, &mappings, by_va))
		tdelete(r, &reservations, by_va);
	else
		r = NULL;
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (!r)
		return CUDA_ERROR_INVALID_VALUE;

	err = sgu_call_any(SOFTGPU_VA_RELEASE, &release);
	if (!err) {
		free(r);
		return CUDA_SUCCESS;
	}
	/* a mapping in another thread was faster */
	pthread_mutex_lock(&sgu_vmm_lock);
	tsearch(r, &reservations, by_va);
	pthread_mutex_unlock(&sgu_vmm_lock);
	return sgu_result(err);
}

/* ---- mappings ---- */

SGU_HOOKED(cuMemMap, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	   unsigned long long flags)
{
	struct softgpu_map map = { .size = sizeof(map), .va = ptr, .length = size };
	CUresult result = sgu_enter();
	struct phys *phys;
	struct span *m;
	bool unused = false;
	int err;

	if (result)
		return result;
	if (flags || !range_ok(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	phys = sgu_phys_get(handle);
	if (!phys)
		return CUDA_ERROR_INVALID_VALUE;
	/* as NVIDIA's driver, which maps the whole memory or nothing */
	if (offset || size != phys->length) {
		sgu_obj_put(&phys->obj);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		sgu_obj_put(&phys->obj);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->va = ptr;
	m->length = size;
	m->phys = phys;

	/* counted first, or a Release in another thread would end it under the driver's call */
	pthread_mutex_lock(&sgu_vmm_lock);
	if (phys->retained)
		phys->mapped++;
	else
		result = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (result) {
		free(m);
		sgu_obj_put(&phys->obj);
		return result;
	}
	map.handle = phys->handle;
	err = sgu_call(phys->gpu, SOFTGPU_MAP, &map);
	result = sgu_result(err);
	pthread_mutex_lock(&sgu_vmm_lock);
	if (err || !tsearch(m, &mappings, by_va)) {
		unused = --phys->mapped == 0 && phys->retained == 0;
		if (!err)
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (result) {
		if (!err)
			sgu_call(phys->gpu, SOFTGPU_UNMAP, &(struct softgpu_va_range) {
				.size = sizeof(struct softgpu_va_range), .va = ptr, .length = size });
		if (unused)
			sgu_phys_end(phys);
		free(m);
	}
	sgu_obj_put(&phys->obj);
	return result;
}

/* The lowest mapping that overlaps [va, end), with sgu_vmm_lock held. */
static struct span *first_in(uint64_t va, uint64_t end)
{
	struct span key = { .va = va, .length = end - va };
	struct span **node, *m = NULL;

	/* any that overlaps, then ever lower ones */
	while (key.length && (node = tfind(&key, &mappings, by_va))) {
		m = *node;
		key.length = m->va > va ? m->va - va : 0;
	}
	return m;
}

/*
 * As NVIDIA's driver (580), which passes over what is not mapped, although CUDA's reference
 * asks for the entire range that was mapped.
 */
SGU_HOOKED(cuMemUnmap, CUdeviceptr ptr, size_t size)
{
	uint64_t end = ptr + size, va;
	CUresult result = sgu_enter();
	struct span *m;

	if (result)
		return result;
	if (!range_ok(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_vmm_lock);
	for (va = ptr; va < end && (m = first_in(va, end)); va = m->va + m->length) {
		if (m->va < ptr || m->va + m->length > end)
			result = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (result)
		return result;
	/* queued copies may be using it; a context that died does not keep it mapped */
	result = sgu_ctx_sync_all();

	for (va = ptr; va < end;) {
		struct softgpu_va_range unmap = { .size = sizeof(unmap) };
		struct phys *phys;
		bool unused;
		int err;

		pthread_mutex_lock(&sgu_vmm_lock);
		m = first_in(va, end);
		if (m)
			tdelete(m, &mappings, by_va);
		pthread_mutex_unlock(&sgu_vmm_lock);
		if (!m)
			break;
		unmap.va = m->va;
		unmap.length = m->length;
		phys = m->phys;
		err = sgu_call(phys->gpu, SOFTGPU_UNMAP, &unmap);
		if (err == -EBUSY || err == -ENOMEM) {
			pthread_mutex_lock(&sgu_vmm_lock);
			tsearch(m, &mappings, by_va);
			pthread_mutex_unlock(&sgu_vmm_lock);
			return sgu_result(err);
		}
		if (err && !result)
			result = sgu_result(err);
		pthread_mutex_lock(&sgu_vmm_lock);
		unused = --phys->mapped == 0 && phys->retained == 0;
		pthread_mutex_unlock(&sgu_vmm_lock);
		if (unused)
			sgu_phys_end(phys);
		va = m->va + m->length;
		free(m);
	}
	return result;
}

SGU_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult result = sgu_enter();
	const struct span *m;

	if (result)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_vmm_lock);
	m = mapping_at((uintptr_t)addr);
	if (m) {
		m->phys->retained++;
		*handle = m->phys->obj.handle;
	}
	pthread_mutex_unlock(&sgu_vmm_lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- access ---- */

static bool access_ok(const CUmemAccessDesc *desc)
{
	return desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE && sgu_device_ok(desc->location.id) &&
	       (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
		desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
		desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

SGU_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	uint64_t end = ptr + size, va;
	CUresult result = sgu_enter();
	struct span *m;

	if (result)
		return result;
	if (!desc || !count || !range_ok(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (!access_ok(&desc[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	/* whole mappings, and no gap between them */
	pthread_mutex_lock(&sgu_vmm_lock);
	for (va = ptr; va < end; va = m->va + m->length) {
		m = mapping_at(va);
		if (!m || m->va != va || m->va + m->length > end) {
			result = CUDA_ERROR_INVALID_VALUE;
			break;
		}
	}
	pthread_mutex_unlock(&sgu_vmm_lock);

	for (va = ptr; va < end && !result;) {
		struct softgpu_va_range access = { .size = sizeof(access), .va = va };
		int gpu = -1;

		pthread_mutex_lock(&sgu_vmm_lock);
		m = mapping_at(va);
		if (m) {
			gpu = m->phys->gpu;
			access.length = m->length;
			for (size_t i = 0; i < count; i++)
				m->access[desc[i].location.id] = desc[i].flags;
			for (int i = 0; i < SOFTGPU_MAX_GPUS; i++)
				access.access |= m->access[i];
		}
		pthread_mutex_unlock(&sgu_vmm_lock);
		if (gpu < 0)
			return CUDA_ERROR_INVALID_VALUE;	/* unmapped by another thread */
		result = sgu_result(sgu_call(gpu, SOFTGPU_ACCESS, &access));
		va += access.length;
	}
	return result;
}

SGU_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	CUresult result = sgu_enter();
	struct softgpu_query q;
	const struct span *m;

	if (result)
		return result;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sgu_device_ok(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_vmm_lock);
	m = mapping_at(ptr);
	if (m)
		*flags = m->access[location->id];
	pthread_mutex_unlock(&sgu_vmm_lock);
	if (m)
		return CUDA_SUCCESS;
	result = sgu_query(ptr, &q);
	if (result)
		return result;
	if (!sgu_is_vram(&q) || q.kind == SOFTGPU_KIND_VMM)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;	/* of cuMemSetAccess, it was given none */
	return CUDA_SUCCESS;
}
