// SPDX-License-Identifier: MIT OR GPL-2.0
/* nv-p2p.c - pinning: get_pages and put_pages, plain and persistent. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/errno.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include "p2p.h"

static struct nvp2p_table *table_of(struct sg_pin *pin)
{
	return container_of(pin, struct nvp2p_table, pin);
}

/* ---- a pin's end ---- */

static void pin_callback(struct sg_pin *pin)
{
	struct nvp2p_table *t = table_of(pin);

	wait_for_completion(&t->filled);
	t->callback(t->data);
}

static void pin_unmap(struct sg_pin *pin)
{
	struct nvp2p_table *t = table_of(pin);

	wait_for_completion(&t->filled);
	nvp2p_dma_sweep(t);
}

static void pin_free(struct sg_pin *pin)
{
	kvfree(table_of(pin));
	module_put(THIS_MODULE);
}

static const struct sg_pin_ops pin_ops = {
	.callback = pin_callback,
	.unmap = pin_unmap,
	.free = pin_free,
};

/* ---- a pin's beginning ---- */

/* All that can be known before the pin is. */
static struct nvp2p_table *table_create(u64 length, u32 shift, void (*callback)(void *data),
					void *data)
{
	u32 i, entries = length >> shift;
	struct nvp2p_table *t;
	size_t pointers;

	pointers = struct_size(t, pages, entries);
	t = kvzalloc(pointers + array_size(entries, sizeof(void *)), GFP_KERNEL_ACCOUNT);
	if (!t)
		return NULL;
	t->page_shift = shift;
	t->table.version = nvp2p_table_version();
	t->table.page_size = nvp2p_page_size_type(shift);
	t->table.pages = (void *)t + pointers;
	t->table.entries = entries;
	t->table.gpu_uuid = t->uuid;
	for (i = 0; i < entries; i++)
		t->table.pages[i] = &t->pages[i];
	t->callback = callback;
	t->data = data;
	init_completion(&t->filled);
	mutex_init(&t->lock);
	INIT_LIST_HEAD(&t->mappings);
	return t;
}

/* False: the table cannot be as it was ordered. */
static bool table_fill(struct nvp2p_table *t)
{
	sg_pin_uuid(&t->pin, t->uuid);
	/* System memory has one memory type for all, the kernel's own. */
	if (!softgpu_pin_backing(&t->pin)->pdev)
		t->table.flags |= NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE;
	if (t->page_shift != SG_PAGE_SHIFT)
		return nvp2p_fill_pages(t);
	sg_pin_pages(&t->pin, &t->pages[0].physical_address, sizeof(t->pages[0]));
	return true;
}

static void ignore(void *data)
{
}

/* The pin was made, and the client must not learn of it. */
static void take_back(struct nvp2p_table *t, bool persistent)
{
	const void *key = &t->pin;

	t->callback = ignore;
	complete_all(&t->filled);
	sg_pin_put(softgpu_core(), key, persistent);
}

static int get_pages(const struct sg_pin_who *who, u64 va, u64 length,
		     struct nvidia_p2p_page_table **page_table,
		     void (*callback)(void *data), void *data, bool persistent)
{
	u32 shift = nvp2p_page_shift();
	struct nvp2p_table *t;
	int err;

	*page_table = NULL;
	/* The core says no to all the rest; this keeps table_create() in bounds. */
	if (!length || length > softgpu_max_vram() || !nvp2p_pages_fit(length, shift))
		return -EINVAL;
	t = table_create(length, shift, callback, data);
	if (!t)
		return -ENOMEM;
	/*
	 * Each pin keeps the module: a client that is unloaded without putting
	 * its pins must not take the code away that ends them.
	 */
	__module_get(THIS_MODULE);
	/* Before the pin is: the callback, which may need it, may run at once. */
	*page_table = &t->table;
	err = sg_pin_get(softgpu_core(), &t->pin, &pin_ops, who, va, length, persistent);
	if (err) {
		*page_table = NULL;
		kvfree(t);
		module_put(THIS_MODULE);
		return nvp2p_errno(err);
	}
	if (!table_fill(t)) {
		*page_table = NULL;
		take_back(t, persistent);
		return -EINVAL;
	}
	/* From here on another thread may end the pin, and free t. */
	complete_all(&t->filled);
	return 0;
}

static bool is_aligned(u64 va, u64 length)
{
	return !((va | length) & (SG_PAGE_SIZE - 1));
}

int nvidia_p2p_get_pages(uint64_t p2p_token, uint32_t va_space, uint64_t virtual_address,
			 uint64_t length, struct nvidia_p2p_page_table **page_table,
			 void (*free_callback)(void *data), void *data)
{
	const struct sg_pin_who who = {
		.proc_key = softgpu_current_key(),
		.p2p_token = p2p_token,
		.va_space_token = va_space,
		.managed = true,
		.memory = SG_MEMORY_CUDA,
	};

	if (!free_callback || !page_table || !is_aligned(virtual_address, length))
		return -EINVAL;
	return get_pages(&who, virtual_address, length, page_table, free_callback, data, false);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

int nvidia_p2p_get_pages_persistent(uint64_t virtual_address, uint64_t length,
				    struct nvidia_p2p_page_table **page_table, uint32_t flags)
{
	const struct sg_pin_who who = {
		.proc_key = softgpu_current_key(),
		.managed = true,
		.memory = SG_MEMORY_CUDA,
	};

	if (!page_table || !is_aligned(virtual_address, length))
		return -EINVAL;
	if (flags) {
		*page_table = NULL;
		return flags == NVIDIA_P2P_FLAGS_FORCE_BAR1_MAPPING ? -ENOTSUPP : -EINVAL;
	}
	return get_pages(&who, virtual_address, length, page_table, NULL, NULL, true);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages_persistent);

/* ---- put ---- */

int nvidia_p2p_put_pages(uint64_t p2p_token, uint32_t va_space, uint64_t virtual_address,
			 struct nvidia_p2p_page_table *page_table)
{
	int err;

	if (!page_table)
		return 0;
	nvp2p_put_delay();
	err = sg_pin_put(softgpu_core(), nvp2p_key(page_table), false);
	switch (err) {
	case -ENOENT:
		return 0;
	case -EDEADLK:
		pr_err_ratelimited("a client calls %s(%#llx) in that pin's own free callback: it must not, the pin ends when the callback returns; ignored\n",
				   __func__, virtual_address);
		return 0;
	default:
		return nvp2p_errno(err);
	}
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_put_pages_persistent(uint64_t virtual_address,
				    struct nvidia_p2p_page_table *page_table, uint32_t flags)
{
	if (!page_table)
		return 0;
	if (flags)
		return -EINVAL;
	return nvp2p_errno(sg_pin_put(softgpu_core(), nvp2p_key(page_table), true));
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages_persistent);

int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table)
{
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

/* ---- mailboxes: GPUs before Kepler ---- */

int nvidia_p2p_init_mapping(uint64_t p2p_token, struct nvidia_p2p_params *params,
			    void (*destroy_callback)(void *data), void *data)
{
	return -ENOTSUPP;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_init_mapping);

int nvidia_p2p_destroy_mapping(uint64_t p2p_token)
{
	return -ENOTSUPP;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_destroy_mapping);
