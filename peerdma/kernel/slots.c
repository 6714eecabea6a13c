// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * slots.c - the names of pins.
 *
 * A slot is a small number, unique in the system, that names one pin at a time:
 * it is the pin's handle, its place in the mmap offsets, and its place in the
 * array of generations that user space may read but not write.
 *
 * A generation is odd while a pin lives in its slot, and changes when the pin's
 * validity ends, before anything else does.  It never goes back, so a slot that
 * is used again does not revive what its last tenant said.
 *
 * Pinning is a hot path for those who cannot cache registrations, and naming and
 * allocating a pin would be a third of it.  So pins that have ended are kept, with
 * their names, for the next ones, last in, first out; beyond MAX_SPARES the pin is
 * freed and its slot joins a chain of free ones.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "file.h"
#include "pin.h"

#define CHUNK_SLOTS	((u32)(PAGE_SIZE / sizeof(u32)))
#define CHUNKS		(PEERDMA_MAX_PINS / CHUNK_SLOTS)

struct chunk {
	u32 *generations;		/* a page */
	unsigned long slots[];		/* a pin, or the next free slot's number << 1 | 1 */
};

static struct chunk *chunks[CHUNKS];	/* made when first needed, and kept */
static struct kmem_cache *pin_cache;

/* Guards all below, the slots, and each file's list of pins. */
static DEFINE_SPINLOCK(slots_lock);
static u32 first_free;			/* 0: none */
static u32 used = 1;			/* slots from here on were never used; 0 is no name */
#define MAX_SPARES 1024
static struct peerdma_pin *spares;	/* no references, a name; linked by priv */
static unsigned int nspares;

static unsigned long *slot_at(u32 slot)
{
	return &chunks[slot / CHUNK_SLOTS]->slots[slot % CHUNK_SLOTS];
}

static u32 *generation_at(u32 slot)
{
	return &chunks[slot / CHUNK_SLOTS]->generations[slot % CHUNK_SLOTS];
}

/* The pin of this slot, with a reference; NULL: it has none, or has ended. */
static struct peerdma_pin *get_at(u32 slot)
{
	struct peerdma_pin *pin;
	unsigned long value;

	lockdep_assert_held(&slots_lock);
	if (!slot || slot >= used)
		return NULL;
	value = *slot_at(slot);
	if (!value || value & 1)
		return NULL;
	pin = (struct peerdma_pin *)value;
	return kref_get_unless_zero(&pin->ref) ? pin : NULL;
}

static void chunk_free(struct chunk *chunk)
{
	if (!chunk)
		return;
	free_page((unsigned long)chunk->generations);
	kvfree(chunk);
}

static struct chunk *chunk_make(u32 i)
{
	struct chunk *chunk = READ_ONCE(chunks[i]), *made;

	if (chunk)
		return chunk;
	made = kvzalloc(struct_size(made, slots, CHUNK_SLOTS), GFP_KERNEL);
	if (!made)
		return NULL;
	made->generations = (u32 *)get_zeroed_page(GFP_KERNEL);
	if (!made->generations) {
		kvfree(made);
		return NULL;
	}
	/* Release, by cmpxchg: whoever finds it finds it whole. */
	chunk = cmpxchg(&chunks[i], NULL, made);
	if (!chunk)
		return made;
	chunk_free(made);
	return chunk;
}

/* A free slot, or one never used if its chunk is there; else 0. */
static u32 take_slot(void)
{
	u32 slot = first_free;

	lockdep_assert_held(&slots_lock);
	if (slot)
		first_free = *slot_at(slot) >> 1;
	else if (used < PEERDMA_MAX_PINS && chunks[used / CHUNK_SLOTS])
		slot = used++;
	return slot;
}

/* A pin with a name of its own, as if it were a spare one. */
static struct peerdma_pin *make_spare(void)
{
	struct peerdma_pin *pin = kmem_cache_alloc(pin_cache, GFP_KERNEL);
	int err = -ENOMEM;
	u32 slot, missing;

	if (!pin)
		return ERR_PTR(err);
	spin_lock(&slots_lock);
	while (!(slot = take_slot())) {
		missing = used / CHUNK_SLOTS;
		spin_unlock(&slots_lock);
		if (missing == CHUNKS)
			err = -ENFILE;
		if (missing == CHUNKS || !chunk_make(missing)) {
			kmem_cache_free(pin_cache, pin);
			return ERR_PTR(err);
		}
		spin_lock(&slots_lock);
	}
	pin->handle = slot;
	pin->slot_generation = generation_at(slot);
	*slot_at(slot) = (unsigned long)pin;
	spin_unlock(&slots_lock);
	return pin;
}

struct peerdma_pin *peerdma_slot_take(struct peerdma_file *file)
{
	struct peerdma_pin *pin;

	spin_lock(&slots_lock);
	pin = spares;
	if (likely(pin)) {
		spares = pin->priv;
		nspares--;
	} else {
		spin_unlock(&slots_lock);
		pin = make_spare();
		if (IS_ERR(pin))
			return pin;
		spin_lock(&slots_lock);
	}
	pin->published = false;
	pin->file = file;
	if (file)
		hlist_add_head(&pin->file_node, &file->pins);
	kref_init(&pin->ref);
	spin_unlock(&slots_lock);
	return pin;
}

void peerdma_slot_unlist(struct peerdma_pin *pin)
{
	spin_lock(&slots_lock);
	hlist_del(&pin->file_node);
	pin->file = NULL;
	spin_unlock(&slots_lock);
}

void peerdma_slot_leave(struct peerdma_pin *pin)
{
	spin_lock(&slots_lock);
	/* The next tenant is not to be revoked by what was meant for this one. */
	pin->cookie = 0;
	if (likely(nspares < MAX_SPARES)) {
		pin->priv = spares;
		spares = pin;
		nspares++;
		pin = NULL;
	} else {
		*slot_at(pin->handle) = (unsigned long)first_free << 1 | 1;
		first_free = pin->handle;
	}
	spin_unlock(&slots_lock);
	if (unlikely(pin))
		kmem_cache_free(pin_cache, pin);
}

void peerdma_generation_begin(struct peerdma_pin *pin)
{
	pin->generation = *pin->slot_generation + 1;
	WRITE_ONCE(pin->cookie, (u64)pin->generation << 32 | pin->handle);
	WRITE_ONCE(*pin->slot_generation, pin->generation);
}

void peerdma_generation_end(struct peerdma_pin *pin)
{
	WRITE_ONCE(*pin->slot_generation, pin->generation + 1);
	/* Before anything that the pin's end does to devices and views. */
	smp_mb();
}

struct peerdma_pin *peerdma_pin_find(const struct peerdma_file *file, u32 handle)
{
	struct peerdma_pin *pin;
	bool known;

	spin_lock(&slots_lock);
	pin = get_at(handle);
	/* Acquire: once published the pin is whole, and its maker does not need it any more. */
	known = pin && pin->file == file && smp_load_acquire(&pin->published);
	spin_unlock(&slots_lock);
	if (pin && !known) {
		peerdma_pin_put(pin);
		pin = NULL;
	}
	return pin;
}

struct peerdma_pin *peerdma_pin_by_cookie(u64 cookie)
{
	struct peerdma_pin *pin;
	bool same;

	spin_lock(&slots_lock);
	pin = get_at((u32)cookie);
	same = pin && READ_ONCE(pin->cookie) == cookie;
	spin_unlock(&slots_lock);
	if (pin && !same) {
		peerdma_pin_put(pin);
		pin = NULL;
	}
	return pin;
}

struct peerdma_pin *peerdma_pin_from(u32 handle)
{
	struct peerdma_pin *pin = NULL;

	spin_lock(&slots_lock);
	for (; handle < used && !(pin = get_at(handle)); handle++)
		cond_resched_lock(&slots_lock);
	spin_unlock(&slots_lock);
	return pin;
}

struct peerdma_pin *peerdma_pin_of_file(struct peerdma_file *file)
{
	struct peerdma_pin *pin;

	spin_lock(&slots_lock);
	pin = hlist_entry_safe(file->pins.first, struct peerdma_pin, file_node);
	if (pin)
		kref_get(&pin->ref);
	spin_unlock(&slots_lock);
	return pin;
}

static vm_fault_t generation_fault(struct vm_fault *vmf)
{
	struct chunk *chunk;

	if (vmf->pgoff >= CHUNKS)
		return VM_FAULT_SIGBUS;
	chunk = chunk_make(vmf->pgoff);
	if (!chunk)
		return VM_FAULT_OOM;
	vmf->page = virt_to_page(chunk->generations);
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct generation_vm_ops = {
	.fault = generation_fault,
};

int peerdma_generation_mmap(struct vm_area_struct *vma)
{
	if (vma->vm_pgoff + vma_pages(vma) > CHUNKS)
		return -EINVAL;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &generation_vm_ops;
	return 0;
}

/*
 * What a pin has when it is made and has again when its last reference goes: no
 * references, an unlocked lock, empty lists, no memory type reserved, counts of 0.
 */
static void pin_construct(void *object)
{
	struct peerdma_pin *pin = object;

	memset(pin, 0, sizeof(*pin));
	mutex_init(&pin->lock);
	INIT_LIST_HEAD(&pin->maps);
	INIT_LIST_HEAD(&pin->export_list);
	INIT_LIST_HEAD(&pin->event_node);
}

int peerdma_slots_init(void)
{
	pin_cache = kmem_cache_create("peerdma_pin", sizeof(struct peerdma_pin), 0, SLAB_ACCOUNT,
				      pin_construct);
	return pin_cache ? 0 : -ENOMEM;
}

/* The module goes: no file is open, so nothing is mapped, and no driver holds a pin. */
void peerdma_slots_exit(void)
{
	struct peerdma_pin *pin;
	u32 i;

	while ((pin = spares)) {
		spares = pin->priv;
		kmem_cache_free(pin_cache, pin);
	}
	kmem_cache_destroy(pin_cache);
	for (i = 0; i < CHUNKS; i++)
		chunk_free(chunks[i]);
}
