// SPDX-License-Identifier: MIT OR GPL-2.0
/* nv-p2p.c - pinning: get_pages and put_pages, plain and persistent. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/errno.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include "../charge.h"
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
	nvp2p_callback(t);
}

static void pin_unmap(struct sg_pin *pin)
{
	struct nvp2p_table *t = table_of(pin);

	wait_for_completion(&t->filled);
	nvp2p_dma_sweep(t);
}

static void table_free(struct nvp2p_table *t)
{
	nvp2p_disarm(t);
	kvfree(t);
	module_put(THIS_MODULE);
}

static void late_callback(struct work_struct *work)
{
	struct nvp2p_table *t = container_of(work, struct nvp2p_table, late.work);

	nvp2p_callback_late(t);
	table_free(t);
}

static void pin_free(struct sg_pin *pin)
{
	struct nvp2p_table *t = table_of(pin);

	if (likely(!t->late_ms)) {
		table_free(t);
		return;
	}
	INIT_DELAYED_WORK(&t->late, late_callback);
	schedule_delayed_work(&t->late, msecs_to_jiffies(t->late_ms));
}

static const struct sg_pin_ops pin_ops = {
	.callback = pin_callback,
	.unmap = pin_unmap,
	.free = pin_free,
};

/* ---- a pin's beginning ---- */

/* Allocates a table and fills in what is known before the pin exists. */
static struct nvp2p_table *table_create(u64 length, u32 shift, void (*callback)(void *data),
					void *data)
{
	u32 i, entries = length >> shift;
	struct nvp2p_table *t;
	size_t pointers;

	pointers = struct_size(t, pages, entries);
	t = softgpu_kvzalloc(pointers + array_size(entries, sizeof(void *)));
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

/* Fills in the addresses.  On error the table cannot be made as requested. */
static int table_fill(struct nvp2p_table *t)
{
	bool in_bar = softgpu_pin_backing(&t->pin)->pdev;

	sg_pin_uuid(&t->pin, t->uuid);
	/*
	 * VRAM that the CPU reaches over a coherent link is mapped that way, unless BAR1 is
	 * forced.
	 */
	if (t->force_bar1 && in_bar)
		return -ENOTSUPP;
	/* All mappings of system memory have the kernel's memory type. */
	if (!in_bar && !t->force_bar1)
		t->table.flags |= NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE;
	if (t->page_shift != SG_PAGE_SHIFT)
		return nvp2p_fill_pages(t) ? 0 : -EINVAL;
	sg_pin_pages(&t->pin, &t->pages[0].physical_address, sizeof(t->pages[0]));
	return 0;
}

/* Undoes a pin of which the client must not learn. */
static void take_back(struct nvp2p_table *t, bool persistent)
{
	const void *key = &t->pin;

	WRITE_ONCE(t->callback, NULL);
	complete_all(&t->filled);
	sg_pin_put(softgpu_core(), key, persistent);
}

/*
 * NVIDIA's driver refuses such memory without a word, and the client passes -EINVAL on, or
 * "Bad address".
 */
static int not_rdma_capable(u64 va, u64 length)
{
	pr_notice_ratelimited("[%#llx, +%#llx) of %s (%d) is not pinned: cuMemCreate() made this memory without allocFlags.gpuDirectRDMACapable; set it, or register a dma-buf of the memory\n",
			      va, length, current->comm, current->tgid);
	return -EINVAL;
}

/* Without a callback the pin is persistent, and has these flags. */
static int get_pages(const struct sg_pin_who *who, u64 va, u64 length,
		     struct nvidia_p2p_page_table **page_table,
		     void (*callback)(void *data), void *data, u32 flags)
{
	bool persistent = !callback;
	u32 shift = nvp2p_page_shift();
	struct nvp2p_table *t;
	int err;

	*page_table = NULL;
	/* The core checks everything else; this keeps table_create() in bounds. */
	if (!length || length > softgpu_max_vram() || !nvp2p_pages_fit(length, shift))
		return -EINVAL;
	if (nvp2p_is_unsupported())
		return -ENOTSUPP;
	t = table_create(length, shift, callback, data);
	if (!t)
		return -ENOMEM;
	/*
	 * Each pin keeps the module loaded: if a client is unloaded without putting its
	 * pins, the code that ends them must stay.
	 */
	__module_get(THIS_MODULE);
	t->force_bar1 = flags & NVIDIA_P2P_FLAGS_FORCE_BAR1_MAPPING;
	nvp2p_arm(t);
	nvp2p_pin_delay();
	/* Set before the pin exists: the callback may run at once, and may need it. */
	*page_table = &t->table;
	err = sg_pin_get(softgpu_core(), &t->pin, &pin_ops, who, va, length, persistent);
	if (err) {
		*page_table = NULL;
		table_free(t);
		return err == -EACCES ? not_rdma_capable(va, length) : nvp2p_errno(err);
	}
	err = table_fill(t);
	if (err) {
		*page_table = NULL;
		take_back(t, persistent);
		return err;
	}
	if (nvp2p_get_races()) {
		take_back(t, persistent);
		return -EINVAL;
	}
	/* From here on another thread may end the pin, and free t. */
	complete_all(&t->filled);
	return 0;
}

static bool is_aligned(u64 va, u64 length, const char *call, const void *caller)
{
	if (!((va | length) & (SG_PAGE_SIZE - 1)))
		return true;
	nvp2p_mistake(NVP2P_UNALIGNED, caller, "%s(%#llx, %#llx)", call, va, length);
	return false;
}

int nvidia_p2p_get_pages(uint64_t p2p_token, uint32_t va_space, uint64_t virtual_address,
			 uint64_t length, struct nvidia_p2p_page_table **page_table,
			 void (*free_callback)(void *data), void *data)
{
	const void *caller = __builtin_return_address(0);
	const struct sg_pin_who who = {
		.proc_key = softgpu_current_key(),
		.p2p_token = p2p_token,
		.va_space_token = va_space,
		.managed = true,
		.memory = SG_MEMORY_CUDA,
	};
	enum nvp2p_locked locked;
	int err;

	if (!free_callback || !page_table || !is_aligned(virtual_address, length, __func__, caller))
		return -EINVAL;
	locked = nvp2p_call(__func__, caller);
	err = get_pages(&who, virtual_address, length, page_table, free_callback, data, 0);
	nvp2p_unlock(locked);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

int nvidia_p2p_get_pages_persistent(uint64_t virtual_address, uint64_t length,
				    struct nvidia_p2p_page_table **page_table, uint32_t flags)
{
	const void *caller = __builtin_return_address(0);
	const struct sg_pin_who who = {
		.proc_key = softgpu_current_key(),
		.managed = true,
		.memory = SG_MEMORY_CUDA,
	};
	enum nvp2p_locked locked;
	int err;

	if (!page_table || !is_aligned(virtual_address, length, __func__, caller))
		return -EINVAL;
	if (flags & NVIDIA_P2P_FLAGS_FORCE_BAR1_MAPPING && !nvp2p_coherent()) {
		*page_table = NULL;
		return -ENOTSUPP;
	}
	locked = nvp2p_call(__func__, caller);
	err = get_pages(&who, virtual_address, length, page_table, NULL, NULL, flags);
	nvp2p_unlock(locked);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages_persistent);

/* ---- put ---- */

/*
 * With the driver's lock held: makes this put end the pin, even if a thread is about to run
 * its callback.  Returns the pin's serial, or 0.
 */
static u64 claim(struct nvidia_p2p_page_table *page_table, const struct sg_pin_who *who)
{
	struct nvp2p_table *t = nvp2p_hold(page_table);
	u64 serial = 0;

	if (!t)
		return 0;
	if (sg_pin_is_of(&t->pin, who)) {
		t->put = true;
		serial = t->pin.serial;
	}
	sg_pin_unhold(&t->pin);
	return serial;
}

/* Returns 0 for every error that is not in the call's own arguments. */
static int put_result(int err, u64 va, u64 token, const void *caller)
{
	switch (err) {
	case -EACCES:
		if (token)
			nvp2p_mistake(NVP2P_PUT_TOKEN, caller, "put_pages(%#llx) by a token", va);
		else
			nvp2p_mistake(NVP2P_PUT_ELSEWHERE, caller, "put_pages(%#llx) in another process", va);
		return 0;
	case -EINVAL:
		nvp2p_mistake(NVP2P_PUT_PERSISTENT, caller, "put_pages(%#llx)", va);
		return 0;
	case -ENOENT:
	case -EDEADLK:		/* called from its own callback, which ends the pin */
	case -EBUSY:		/* its callback runs, and is not waited for */
		return 0;
	default:
		return nvp2p_errno(err);
	}
}

static int put_nothing(void)
{
	return softgpu_release()->rejects_null ? -EINVAL : 0;
}

int nvidia_p2p_put_pages(uint64_t p2p_token, uint32_t va_space, uint64_t virtual_address,
			 struct nvidia_p2p_page_table *page_table)
{
	const void *caller = __builtin_return_address(0);
	const struct sg_pin_who who = {
		.proc_key = softgpu_current_key(),
		.p2p_token = p2p_token,
	};
	struct sg_pin_claim mine = { .who = &who };
	enum nvp2p_locked locked;
	int err;

	if (!page_table)
		return put_nothing();
	nvp2p_put_delay();
	locked = nvp2p_call(__func__, caller);
	if (locked == NVP2P_LOCKED)
		mine.serial = claim(page_table, &who);
	mine.no_wait = locked == NVP2P_STUCK;
	/* The put may wait for a thread that runs a callback, and that takes this lock, too. */
	nvp2p_unlock(locked);
	err = sg_pin_put_by(softgpu_core(), nvp2p_key(page_table), &mine);
	return put_result(err, virtual_address, p2p_token, caller);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_put_pages_persistent(uint64_t virtual_address,
				    struct nvidia_p2p_page_table *page_table, uint32_t flags)
{
	enum nvp2p_locked locked;
	int err;

	if (flags)
		return -EINVAL;
	if (!page_table)
		return put_nothing();
	locked = nvp2p_call(__func__, __builtin_return_address(0));
	err = nvp2p_errno(sg_pin_put(softgpu_core(), nvp2p_key(page_table), true));
	nvp2p_unlock(locked);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages_persistent);

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
