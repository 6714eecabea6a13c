// SPDX-License-Identifier: MIT
/* query.c - what is at an address, and properties of the GPU. */
#include "clients.h"

/* Fills in both pointers to the byte at a->va, which is one of them. */
static void fill_alias(struct softgpu_query *a, const struct sg_alias *alias, bool by_alias)
{
	u64 offset = a->va - (by_alias ? alias->node.key : alias->buf->node.key);

	a->host_va = alias->buf->node.key + offset;
	a->device_va = alias->node.key + offset;
	if (by_alias)
		a->base = alias->node.key;
}

static void fill_buf(struct softgpu_query *a, const struct sg_buf *buf)
{
	const struct sg_ctx *ctx = sg_ctx_of_heap(buf->heap);

	a->kind = buf->kind;
	a->base = buf->node.key;
	a->length = buf->node.len;
	a->buffer_id = buf->buffer_id;
	a->sync_memops = buf->sync_memops;
	a->host_flags = buf->host_flags;
	a->access = buf->range ? buf->range->access : SG_READ | SG_WRITE;
	if (ctx) {
		a->ctx = (u32)ctx->obj.node.key;
		a->p2p_token = ctx->p2p_token;
		a->va_space_token = ctx->va_space_token;
	}
	if (buf->heap)
		a->gpu = buf->heap->gpu->index;
	if (buf->range)
		a->gpu = buf->range->mem->gpu->index;
	if (buf->phys && !buf->phys->gone)
		a->phys = (u32)buf->phys->node.key;
}

int sg_query(struct sg_client *client, struct softgpu_query *a)
{
	struct sg_proc *proc = client->proc;
	u32 size = a->size;
	u64 va = a->va;
	struct sg_alias *alias;
	struct sg_buf *buf;
	struct sg_node *r;

	memset(a, 0, sizeof(*a));
	a->size = size;
	a->va = va;
	sg_mutex_lock(&client->sg->lock);
	alias = sg_alias_at(proc, va);
	buf = alias ? alias->buf : sg_buf_known_at(proc, va);
	r = sg_covering(&proc->reservations, va);
	if (buf) {
		fill_buf(a, buf);
		if (buf->alias)
			fill_alias(a, buf->alias, alias);
	} else if (r) {
		a->kind = SOFTGPU_KIND_RESERVED;
		a->base = r->key;
		a->length = r->len;
	}
	sg_mutex_unlock(&client->sg->lock);
	return 0;
}

int sg_visible_page(struct sg_client *client, u64 va,
		    void (*fn)(void *arg, u64 phys, bool on_pci), void *arg)
{
	const struct sg_range *range;
	int err = -ENOENT;

	sg_mutex_lock(&client->sg->lock);
	range = sg_range_at(client->proc, va);
	if (range && range->mem->moving) {
		err = -EAGAIN;
	} else if (range && range->visible && sg_may_access(range, SG_READ) &&
		   !range->mem->gpu->removed) {
		u64 page = (va - range->node.key) & ~(SG_PAGE_SIZE - 1);

		fn(arg, sg_mem_phys(range->mem, page),
		   range->mem->gpu->desc.on_pci && !range->mem->system);
		err = 0;
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

int sg_set_attr(struct sg_client *client, struct softgpu_set_attr *a)
{
	struct sg_buf *buf;
	int err = 0;

	if (a->attr != SOFTGPU_ATTR_SYNC_MEMOPS || a->value > 1)
		return -EINVAL;
	sg_mutex_lock(&client->sg->lock);
	sg_alias_resolve_locked(client->proc, &a->va, 1);
	buf = sg_buf_known_at(client->proc, a->va);
	if (buf)
		buf->sync_memops = a->value;
	else
		err = -ENOENT;
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

int sg_info_call(struct sg_client *client, struct softgpu_info *a)
{
	const struct sg_gpu *gpu = client->gpu;
	u32 size = a->size, i;

	memset(a, 0, sizeof(*a));
	a->size = size;
	a->abi = SOFTGPU_ABI;
	a->index = gpu->index;
	memcpy(a->uuid, gpu->desc.uuid, sizeof(a->uuid));
	memcpy(a->name, gpu->name, sizeof(a->name));
	a->vram_total = gpu->desc.vram_size;
	a->bar1_total = gpu->desc.bar1_size;
	a->pci_domain = gpu->desc.pci_domain;
	a->pci_bus = gpu->desc.pci_bus;
	a->pci_device = gpu->desc.pci_device;
	a->pci_function = gpu->desc.pci_function;
	a->on_pci = gpu->desc.on_pci;
	a->compute_mode = gpu->desc.compute_mode;
	a->driver = gpu->desc.driver;
	sg_mutex_lock(&client->sg->lock);
	for (i = 0; i < SOFTGPU_MAX_GPUS; i++)
		a->count += client->sg->gpus[i] && !client->sg->gpus[i]->removed;
	a->vram_free = gpu->vram.free_len;
	a->bar1_used = gpu->desc.bar1_reserved + gpu->bar1_used;
	a->pins = gpu->pins;
	a->strict = client->sg->chaos.strict;
	a->device_pointers = client->sg->chaos.device_pointers;
	a->platform = client->sg->platform;
	if (a->platform == SOFTGPU_PLATFORM_COHERENT && a->on_pci)
		a->platform = SOFTGPU_PLATFORM_PCI;
	sg_mutex_unlock(&client->sg->lock);
	return 0;
}
