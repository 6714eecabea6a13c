// SPDX-License-Identifier: MIT
/* visible.c - memory that the CPU sees where it stands: who is shown it, who may pin it, and its end. */
#include "world.h"

static int other;
static u64 hidden_va, hidden_len;
static const void *hidden_of;
static int hides;
static struct tpin *watched;
static int watched_frees;
static struct softgpu_map *mapped_by_hide;	/* as by another thread, while no lock is held */

static void hide(void *priv, const void *proc_key, u64 va, u64 length)
{
	MUST(proc_key == &key || proc_key == &other);
	hidden_of = proc_key;
	hidden_va = va;
	hidden_len = length;
	hides++;
	/* After the last pin's end, before the memory is allocated again. */
	watched_frees = watched ? tpin_count(&watched->frees) : 0;
	if (mapped_by_hide) {
		struct softgpu_map *map = mapped_by_hide;

		mapped_by_hide = NULL;
		MUST(!CALL(u.client, SOFTGPU_MAP, map));
	}
}

static int setup(void **state)
{
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };

	m.hide = hide;
	machine_up(&m, 1, 64 * PAGE, 64 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	MUST(!CALL(u.client, SOFTGPU_CTX_CREATE, &c));
	u.ctx = c.ctx;
	hides = 0;
	watched = NULL;
	return 0;
}

FIXTURE(setup, teardown)

static void shown(void *arg, u64 phys, bool on_pci)
{
	*(u64 *)arg = phys;
}

static int free_visible(u64 va)
{
	struct softgpu_va a = { .flags = SOFTGPU_FREE_VISIBLE, .va = va };

	return CALL(u.client, SOFTGPU_MEM_FREE, &a);
}

CASE(pages)
{
	u64 va = mem_new(&u, 2 * PAGE), small, phys = 0, second = 0;

	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_VISIBLE);
	assert_int_equal(sg_visible_page(u.client, va, shown, &phys), 0);
	assert_int_equal(sg_visible_page(u.client, va + PAGE + 4096, shown, &second), 0);
	assert_int_equal(phys % PAGE, 0);
	assert_int_equal(second, phys + PAGE);
	assert_int_equal(sg_visible_page(u.client, va + 2 * PAGE, shown, &phys), -ENOENT);
	/* Small ones do not share a page: what the CPU sees of one is nothing else. */
	assert_int_equal(mem_alloc(&u, 100, &small), 0);
	assert_int_equal(small % PAGE, 0);
	assert_int_equal(mem_alloc(&u, 100, &second), 0);
	assert_int_equal(second % PAGE, 0);
}

/* Memory that is mapped by a handle: the CPU sees it by a visible context, but VRAM never by one of system memory. */
CASE(mapped_by_handle)
{
	static const u32 flags[] = { 0, SOFTGPU_CTX_VISIBLE, SOFTGPU_CTX_VISIBLE | SOFTGPU_CTX_SYSTEM };

	for (int i = 0; i < 3; i++) {
		struct softgpu_va_reserve reserve = { .length = 2 * PAGE };
		struct softgpu_phys_create create = { .length = 2 * PAGE };
		struct softgpu_ctx_create c = { .flags = flags[i] };
		struct softgpu_va_range unmap = { .length = 2 * PAGE }, access = { .length = 2 * PAGE, .access = 1 };
		struct softgpu_map map = { .length = 2 * PAGE };
		int before = hides;
		u64 phys;

		MUST(!CALL(u.client, SOFTGPU_CTX_CREATE, &c));
		MUST(!CALL(u.client, SOFTGPU_VA_RESERVE, &reserve));
		MUST(!CALL(u.client, SOFTGPU_PHYS_CREATE, &create));
		map.ctx = c.ctx;
		map.handle = create.handle;
		map.va = unmap.va = access.va = reserve.va;
		MUST(!CALL(u.client, SOFTGPU_MAP, &map));
		/* Only while there is access. */
		assert_int_equal(sg_visible_page(u.client, reserve.va + PAGE, shown, &phys), -ENOENT);
		MUST(!CALL(u.client, SOFTGPU_ACCESS, &access));
		assert_int_equal(hides, before);
		assert_int_equal(sg_visible_page(u.client, reserve.va + PAGE, shown, &phys), i == 1 ? 0 : -ENOENT);
		access.access = 0;
		MUST(!CALL(u.client, SOFTGPU_ACCESS, &access));
		assert_int_equal(hides - before, i == 1);
		assert_int_equal(sg_visible_page(u.client, reserve.va + PAGE, shown, &phys), -ENOENT);
		before = hides;
		MUST(!CALL(u.client, SOFTGPU_UNMAP, &unmap));
		assert_int_equal(hides - before, i == 1);
		assert_int_equal(sg_visible_page(u.client, reserve.va, shown, &phys), -ENOENT);
	}
}

/* An unmap ends the mappings that it found, and none that another thread makes at their place meanwhile. */
CASE(unmapped_while_another_maps)
{
	struct softgpu_va_range unmap = { .length = 3 * PAGE };
	struct softgpu_va_reserve reserve = { .length = 3 * PAGE };
	struct softgpu_phys_create create = { .length = PAGE };
	struct softgpu_map map = { .ctx = u.ctx, .length = PAGE };

	MUST(!CALL(u.client, SOFTGPU_VA_RESERVE, &reserve));
	MUST(!CALL(u.client, SOFTGPU_PHYS_CREATE, &create));
	map.handle = create.handle;
	unmap.va = reserve.va;
	for (int i = 0; i < 3; i++) {
		map.va = reserve.va + i * PAGE;
		MUST(!CALL(u.client, SOFTGPU_MAP, &map));
	}
	map.va = reserve.va;
	mapped_by_hide = &map;
	assert_int_equal(CALL(u.client, SOFTGPU_UNMAP, &unmap), 0);
	assert_null(mapped_by_hide);
	assert_int_equal(hides, 3);
	assert_int_equal(query(&u, reserve.va).kind, SOFTGPU_KIND_VMM);
	assert_int_equal(query(&u, reserve.va).buffer_id, map.buffer_id);
	assert_int_equal(query(&u, reserve.va + PAGE).kind, SOFTGPU_KIND_RESERVED);
	assert_int_equal(query(&u, reserve.va + 2 * PAGE).kind, SOFTGPU_KIND_RESERVED);
}

CASE(ends)
{
	struct tpin t = { 0 };
	u64 va = mem_new(&u, 3 * PAGE), phys;

	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), 0);
	watched = &t;
	/* Not as CUDA's, which would free without unmapping. */
	assert_int_equal(mem_free(&u, va), -ENOENT);
	assert_int_equal(hides, 0);
	assert_int_equal(free_visible(va), 0);
	assert_int_equal(hides, 1);
	assert_true(hidden_va == va && hidden_len == 3 * PAGE);
	assert_int_equal(watched_frees, 1);
	assert_int_equal(sg_visible_page(u.client, va, shown, &phys), -ENOENT);
	assert_int_equal(free_visible(va), -ENOENT);
}

CASE(ends_with_context)
{
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(mem_alloc(&u, PAGE, &va), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = u.ctx })), 0);
	assert_int_equal(hides, 2);
}

CASE(ends_with_gpu)
{
	u64 va = mem_new(&u, PAGE), phys;

	sg_gpu_remove(m.sg, 0);
	assert_int_equal(hides, 1);
	assert_int_equal(sg_visible_page(u.client, va, shown, &phys), -ENOENT);
}

/* Each personality pins its own side's memory only. */
CASE(whose)
{
	struct sg_pin_who who = { .proc_key = &key };
	struct softgpu_ctx_create c = { 0 };
	struct sg_found found;
	struct tpin t = { 0 }, second = { 0 };
	u64 va = mem_new(&u, 100), cuda, phys;
	u32 ctx = u.ctx;

	assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &c), 0);
	u.ctx = c.ctx;
	assert_int_equal(mem_alloc(&u, PAGE, &cuda), 0);
	u.ctx = ctx;
	who.memory = SG_MEMORY_CUDA;
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), -EINVAL);
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, cuda, PAGE, false), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	who.memory = SG_MEMORY_HSA;
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, cuda, PAGE, false), -EINVAL);
	assert_int_equal(sg_pin_get(m.sg, &second.pin, &tpin_ops, &who, va, PAGE, false), 0);
	assert_int_equal(sg_pin_put(m.sg, &second.pin, false), 0);
	assert_int_equal(sg_find(m.sg, &key, va + 99, &found), 0);
	assert_true(found.base == va && found.length == 100 && found.memory == SG_MEMORY_HSA);
	assert_int_equal(sg_find(m.sg, &key, cuda, &found), 0);
	assert_int_equal(found.memory, SG_MEMORY_CUDA);
	assert_int_equal(sg_find(m.sg, &key, va + 100, &found), -ENOENT);
	assert_int_equal(sg_find(m.sg, &other, va, &found), -ESRCH);
	assert_int_equal(sg_visible_page(u.client, cuda, shown, &phys), -ENOENT);
	/* Nor does CUDA's IPC. */
	{
		struct softgpu_ipc_export e = { .va = va };

		assert_int_equal(CALL(u.client, SOFTGPU_IPC_EXPORT, &e), -ENOENT);
	}
}

static struct sg_movable movable_of(u64 va, u64 length)
{
	const struct sg_pin_who who = { .proc_key = &key };
	struct sg_movable movable = { 0 };

	assert_int_equal(sg_movable_get(m.sg, &movable, &who, va, length), 0);
	return movable;
}

/* Kept memory goes elsewhere, and all find it there; unless a client knows where it is. */
CASE(moves)
{
	u8 there[3 * 4096], back[sizeof(there)];
	struct sg_movable movable, second;
	struct tpin t = { 0 };
	u64 va = mem_new(&u, 3 * PAGE), before, after, vram;

	vram = stats_of(&m, 0).vram_free;
	for (size_t i = 0; i < sizeof(there); i++)
		there[i] = (u8)(i * 7 + i / 256);
	assert_int_equal(copy(&u, 0, va + PAGE - 4096, HOST(there), sizeof(there), SOFTGPU_OP_SYNC), 0);
	assert_int_equal(sg_visible_page(u.client, va + PAGE, shown, &before), 0);
	movable = movable_of(va, 2 * PAGE);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), 0);
	assert_int_equal(hides, 1);
	assert_true(hidden_va == va && hidden_len == 3 * PAGE);
	assert_int_equal(sg_visible_page(u.client, va + PAGE, shown, &after), 0);
	assert_int_not_equal(before, after);
	assert_int_equal(copy(&u, 0, HOST(back), va + PAGE - 4096, sizeof(back), SOFTGPU_OP_SYNC), 0);
	assert_memory_equal(there, back, sizeof(there));
	assert_int_equal(stats_of(&m, 0).vram_free, vram);

	assert_int_equal(tpin_get(&t, &u, va + 2 * PAGE, PAGE, false), 0);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -EBUSY);
	assert_int_equal(tpin_put(&t, &u, false), 0);
	t = (struct tpin){ 0 };
	assert_int_equal(sg_movable_pin(&movable, &t.pin, &tpin_ops), 0);
	assert_int_equal(sg_pin_page(&t.pin, 1), after);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -EBUSY);
	assert_int_equal(tpin_put(&t, &u, true), 0);
	second = movable_of(va, PAGE);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -EBUSY);
	sg_movable_put(&second);
	assert_int_equal(stats_of(&m, 0).vram_free, vram);
	hides = 0;

	/* It outlives its allocation, and can be moved still. */
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_FREE, (&(struct softgpu_va){ .flags = SOFTGPU_FREE_VISIBLE, .va = va })), 0);
	assert_int_equal(hides, 1);
	assert_int_equal(stats_of(&m, 0).vram_free, vram);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), 0);
	t = (struct tpin){ 0 };
	assert_int_equal(sg_movable_pin(&movable, &t.pin, &tpin_ops), 0);
	assert_memory_equal(m.vram[0] + sg_pin_page(&t.pin, 1) - VRAM_PHYS, there + 4096, 4096);
	assert_int_equal(tpin_put(&t, &u, true), 0);
	sg_movable_put(&movable);
	assert_int_equal(stats_of(&m, 0).vram_free, vram + 3 * PAGE);
	assert_int_equal(hides, 1);
}

/* Memory of a handle may be mapped several times, so its place does not change, whatever is left of handle and mappings. */
CASE(mapped_by_handle_does_not_move)
{
	struct softgpu_va_reserve reserve = { .length = 2 * PAGE };
	struct softgpu_phys_create create = { .length = PAGE };
	struct softgpu_map map = { .ctx = u.ctx, .length = PAGE };
	struct softgpu_va_range range = { .length = PAGE };
	struct sg_movable movable;

	MUST(!CALL(u.client, SOFTGPU_VA_RESERVE, &reserve));
	MUST(!CALL(u.client, SOFTGPU_PHYS_CREATE, &create));
	map.handle = create.handle;
	for (int i = 0; i < 2; i++) {
		map.va = reserve.va + i * PAGE;
		MUST(!CALL(u.client, SOFTGPU_MAP, &map));
	}
	movable = movable_of(reserve.va, PAGE);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -EBUSY);
	MUST(!CALL(u.client, SOFTGPU_PHYS_RELEASE, (&(struct softgpu_handle){ .handle = create.handle })));
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -EBUSY);
	range.va = reserve.va + PAGE;
	MUST(!CALL(u.client, SOFTGPU_UNMAP, &range));
	assert_int_equal(sg_movable_move(&movable, SG_IN_SYSTEM), -EBUSY);
	range.va = reserve.va;
	MUST(!CALL(u.client, SOFTGPU_UNMAP, &range));
	assert_int_equal(sg_movable_move(&movable, SG_IN_SYSTEM), 0);
	assert_int_equal(hides, 2);
	sg_movable_put(&movable);
}

/* In system memory it takes neither VRAM nor aperture, and is what it was to all others. */
CASE(moves_to_system_memory)
{
	u8 there[3 * 4096], back[sizeof(there)];
	struct tpin t = { 0 }, pin = { 0 };
	struct sg_movable movable;
	u64 va, vram, phys;

	vram = stats_of(&m, 0).vram_free;
	assert_int_equal(mem_alloc(&u, 3 * PAGE, &va), 0);
	for (size_t i = 0; i < sizeof(there); i++)
		there[i] = (u8)(i * 5 + i / 256);
	assert_int_equal(copy(&u, 0, va + PAGE - 4096, HOST(there), sizeof(there), SOFTGPU_OP_SYNC), 0);
	movable = movable_of(va, 2 * PAGE);
	assert_int_equal(sg_movable_place(&movable), SG_IN_VRAM);
	assert_int_equal(sg_movable_move(&movable, SG_IN_SYSTEM), 0);
	assert_int_equal(sg_movable_place(&movable), SG_IN_SYSTEM);
	assert_int_equal(hides, 1);
	assert_int_equal(stats_of(&m, 0).vram_free, vram);
	/* It is there. */
	assert_int_equal(sg_movable_move(&movable, SG_IN_SYSTEM), 0);
	assert_int_equal(hides, 1);

	assert_int_equal(sg_movable_pin(&movable, &t.pin, &tpin_ops), 0);
	assert_int_equal(tpin_get(&pin, &u, va, 3 * PAGE, false), 0);
	assert_int_equal(stats_of(&m, 0).bar1_used, 0);
	assert_true(sg_pin_in_system(&t.pin) && sg_pin_in_system(&pin.pin));
	assert_int_equal(sg_visible_page(u.client, va + PAGE, shown, &phys), 0);
	assert_int_equal(sg_pin_page(&t.pin, 1), phys);
	assert_int_equal(sg_pin_page(&pin.pin, 1), phys);
	assert_memory_equal((u8 *)(uintptr_t)phys - 4096, there, sizeof(there));
	((u8 *)(uintptr_t)phys)[7] = there[4096 + 7] = 99;
	assert_int_equal(copy(&u, 0, HOST(back), va + PAGE - 4096, sizeof(back), SOFTGPU_OP_SYNC), 0);
	assert_memory_equal(there, back, sizeof(there));
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -EBUSY);
	assert_int_equal(tpin_put(&pin, &u, false), 0);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -EBUSY);
	assert_int_equal(tpin_put(&t, &u, true), 0);
	assert_int_equal(stats_of(&m, 0).bar1_used, 0);

	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), 0);
	assert_int_equal(stats_of(&m, 0).vram_free, vram - 3 * PAGE);
	assert_int_equal(copy(&u, 0, HOST(back), va + PAGE - 4096, sizeof(back), SOFTGPU_OP_SYNC), 0);
	assert_memory_equal(there, back, sizeof(there));
	assert_int_equal(sg_movable_move(&movable, SG_IN_SYSTEM), 0);
	/* Freed there, and with the GPU gone, it is the keep's alone. */
	assert_int_equal(free_visible(va), 0);
	sg_gpu_remove(m.sg, 0);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -ENODEV);
	sg_movable_put(&movable);
}

/* A GPU that goes takes nothing of a keep but what it could do. */
CASE(kept_of_a_gpu_that_goes)
{
	struct tpin t = { 0 };
	struct sg_movable movable;
	u64 va = mem_new(&u, PAGE);

	movable = movable_of(va, PAGE);
	assert_int_equal(sg_movable_pin(&movable, &t.pin, &tpin_ops), 0);
	sg_gpu_remove(m.sg, 0);
	assert_int_equal(tpin_count(&t.unmaps), 1);
	assert_int_equal(sg_movable_move(&movable, SG_IN_VRAM), -ENODEV);
	assert_int_equal(sg_movable_move(&movable, SG_IN_SYSTEM), -ENODEV);
	assert_int_equal(tpin_put(&t, &u, true), 0);
	assert_int_equal(sg_movable_pin(&movable, &t.pin, &tpin_ops), -ENODEV);
	sg_movable_put(&movable);
}

static int export_visible(u64 va, struct softgpu_ipc_export *e)
{
	*e = (struct softgpu_ipc_export){ .flags = SOFTGPU_IPC_VISIBLE, .va = va };
	return CALL(u.client, SOFTGPU_IPC_EXPORT, e);
}

static int close_visible(struct user *v, u64 va)
{
	struct softgpu_va a = { .flags = SOFTGPU_FREE_VISIBLE, .va = va };

	return CALL(v->client, SOFTGPU_IPC_CLOSE, &a);
}

/* Another process sees it, too, for as long as it has it open; CUDA's contexts have no part in it. */
CASE(opened_elsewhere)
{
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };
	struct softgpu_ipc_export e, plain;
	struct softgpu_ipc_open o;
	u64 va, cuda, phys, seen;
	struct user v;
	u32 ctx;

	user_up(&v, &m, 0, &other);
	assert_int_equal(mem_alloc(&v, PAGE, &cuda), 0);
	assert_int_equal(mem_alloc(&u, PAGE + 100, &va), 0);
	assert_int_equal(export_visible(va, &e), 0);
	o = (struct softgpu_ipc_open){ .ctx = v.ctx, .id = e.id, .key = { e.key[0], e.key[1] } };
	assert_int_equal(CALL(v.client, SOFTGPU_IPC_OPEN, &o), -ENOKEY);
	assert_int_equal(CALL(v.client, SOFTGPU_CTX_CREATE, &c), 0);
	ctx = c.ctx;
	c.flags |= SOFTGPU_CTX_SYSTEM;
	assert_int_equal(CALL(v.client, SOFTGPU_CTX_CREATE, &c), 0);
	o.ctx = c.ctx;
	assert_int_equal(CALL(v.client, SOFTGPU_IPC_OPEN, &o), -ENOKEY);
	o.ctx = ctx;
	assert_int_equal(CALL(v.client, SOFTGPU_IPC_OPEN, &o), 0);
	assert_int_equal(query(&v, o.va).kind, SOFTGPU_KIND_VISIBLE_IPC);
	assert_int_equal(query(&v, o.va + PAGE + 99).length, PAGE + 100);
	assert_int_equal(sg_visible_page(u.client, va + PAGE, shown, &phys), 0);
	assert_int_equal(sg_visible_page(v.client, o.va + PAGE, shown, &seen), 0);
	assert_int_equal(seen, phys);

	/* Freed by its maker, it is the other's still; its key opens nothing. */
	assert_int_equal(free_visible(va), 0);
	assert_int_equal(hides, 1);
	assert_true(hidden_of == &key);
	assert_int_equal(sg_visible_page(v.client, o.va + PAGE, shown, &seen), 0);
	assert_int_equal(seen, phys);
	cuda = o.va;
	assert_int_equal(CALL(v.client, SOFTGPU_IPC_OPEN, &o), -ENOKEY);
	assert_int_equal(CALL(v.client, SOFTGPU_IPC_CLOSE, (&(struct softgpu_va){ .va = cuda })), -ENOENT);
	assert_int_equal(close_visible(&v, cuda), 0);
	assert_int_equal(hides, 2);
	assert_true(hidden_of == &other && hidden_va == cuda && hidden_len == 2 * PAGE);
	assert_int_equal(sg_visible_page(v.client, cuda, shown, &seen), -ENOENT);
	assert_int_equal(close_visible(&v, cuda), -ENOENT);

	/* The other way about: what CUDA exports does not open here. */
	assert_int_equal(mem_alloc(&v, PAGE, &cuda), 0);
	plain = (struct softgpu_ipc_export){ .flags = SOFTGPU_IPC_VISIBLE, .va = cuda };
	assert_int_equal(CALL(v.client, SOFTGPU_IPC_EXPORT, &plain), -ENOENT);
	plain.flags = 0;
	assert_int_equal(CALL(v.client, SOFTGPU_IPC_EXPORT, &plain), 0);
	o = (struct softgpu_ipc_open){ .ctx = u.ctx, .id = plain.id, .key = { plain.key[0], plain.key[1] } };
	assert_int_equal(CALL(u.client, SOFTGPU_IPC_OPEN, &o), -ENOKEY);
	user_down(&v);
}

/* The CPU's pool: known and shown as VRAM is, takes none, and is whatever the BAR's size is. */
CASE(system_memory)
{
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE | SOFTGPU_CTX_SYSTEM };
	static struct machine small = { .hide = hide };
	struct softgpu_ipc_export e;
	struct tpin t = { 0 };
	struct user v;
	u64 va, vram, phys;
	u8 byte = 7;

	vram = stats_of(&m, 0).vram_free;
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &c), 0);
	u.ctx = c.ctx;
	/* more than all VRAM */
	assert_int_equal(mem_alloc(&u, 65 * PAGE, &va), 0);
	assert_int_equal(stats_of(&m, 0).vram_free, vram);
	assert_int_equal(query(&u, va).kind, SOFTGPU_KIND_VISIBLE);
	assert_int_equal(copy(&u, 0, HOST(&byte), va + 64 * PAGE, 1, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(byte, 0);
	assert_int_equal(sg_visible_page(u.client, va + PAGE, shown, &phys), 0);
	*(u8 *)(uintptr_t)phys = 9;
	assert_int_equal(copy(&u, 0, HOST(&byte), va + PAGE, 1, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(byte, 9);
	assert_int_equal(tpin_get(&t, &u, va + PAGE, PAGE, false), 0);
	assert_true(sg_pin_in_system(&t.pin));
	assert_int_equal(sg_pin_page(&t.pin, 0), phys);
	assert_int_equal(stats_of(&m, 0).bar1_used, 0);
	assert_int_equal(export_visible(va, &e), 0);
	assert_int_equal(free_visible(va), 0);
	assert_int_equal(tpin_count(&t.frees), 1);
	assert_int_equal(hides, 1);

	c.flags = SOFTGPU_CTX_SYSTEM;
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &c), -EINVAL);
	machine_up(&small, 1, 16 * PAGE, 15 * PAGE, 0);
	user_up(&v, &small, 0, &key);
	c.flags = SOFTGPU_CTX_VISIBLE | SOFTGPU_CTX_SYSTEM;
	assert_int_equal(CALL(v.client, SOFTGPU_CTX_CREATE, &c), 0);
	user_down(&v);
	machine_down(&small);
}

/* An embedder that cannot hide what it showed is asked to show nothing. */
CASE(needs_hide)
{
	static struct machine blind;
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };
	struct user v;

	machine_up(&blind, 1, 16 * PAGE, 16 * PAGE, 0);
	user_up(&v, &blind, 0, &key);
	assert_int_equal(CALL(v.client, SOFTGPU_CTX_CREATE, &c), -EINVAL);
	user_down(&v);
	machine_down(&blind);
}

/* Memory that may not have a place in the BAR is not shown: all of VRAM must be there. */
CASE(needs_a_large_bar)
{
	static struct machine small = { .hide = hide };
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };
	struct user v;

	machine_up(&small, 1, 16 * PAGE, 15 * PAGE, 0);
	user_up(&v, &small, 0, &key);
	assert_int_equal(CALL(v.client, SOFTGPU_CTX_CREATE, &c), -EOPNOTSUPP);
	user_down(&v);
	machine_down(&small);
}

MAIN(NULL, NULL)
