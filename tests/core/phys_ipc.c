// SPDX-License-Identifier: MIT
/* phys_ipc.c - mapped memory in other processes: its keys, and what they open for how long. */
#include "../cases.h"
#include "util.h"

static struct machine m;
static struct user a, b;	/* exporter and importer, two processes */
static int key_a, key_b;

static int setup(void **state)
{
	machine_up(&m, 2, 64 * PAGE, 0, 0);
	user_up(&a, &m, 0, &key_a);
	user_up(&b, &m, 0, &key_b);
	return 0;
}

static int teardown(void **state)
{
	user_down(&a);
	user_down(&b);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

static struct softgpu_phys_import exported(struct user *u, u32 handle)
{
	struct softgpu_phys_export e = { .handle = handle };

	assert_int_equal(CALL(u->client, SOFTGPU_PHYS_EXPORT, &e), 0);
	return (struct softgpu_phys_import) { .id = e.id, .key = { e.key[0], e.key[1] } };
}

static u32 created(struct user *u)
{
	struct softgpu_phys_create p = { .length = 2 * PAGE };

	assert_int_equal(CALL(u->client, SOFTGPU_PHYS_CREATE, &p), 0);
	return p.handle;
}

static void release(struct user *u, u32 handle)
{
	struct softgpu_handle h = { .handle = handle };

	assert_int_equal(CALL(u->client, SOFTGPU_PHYS_RELEASE, &h), 0);
}

static u64 mapped(struct user *u, u32 handle)
{
	struct softgpu_va_reserve r = { .length = 2 * PAGE };
	struct softgpu_map map = { .length = 2 * PAGE, .handle = handle };
	struct softgpu_va_range access = { .length = 2 * PAGE, .access = 3 };

	assert_int_equal(CALL(u->client, SOFTGPU_VA_RESERVE, &r), 0);
	map.va = access.va = r.va;
	assert_int_equal(CALL(u->client, SOFTGPU_MAP, &map), 0);
	assert_int_equal(CALL(u->client, SOFTGPU_ACCESS, &access), 0);
	return r.va;
}

/* The importer sees what the exporter wrote, and keeps it beyond the exporter's end. */
CASE(shared)
{
	u32 handle = created(&a);
	struct softgpu_phys_import i = exported(&a, handle), again = exported(&a, handle), late;
	u64 mine = mapped(&a, handle), theirs;

	assert_memory_equal(i.key, again.key, sizeof(i.key));
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &i), 0);
	assert_int_equal(i.length, 2 * PAGE);
	theirs = mapped(&b, i.handle);
	set_word_at(&a, mine + PAGE, 4711);
	assert_int_equal(word_at(&b, theirs + PAGE), 4711);
	user_down(&a);
	assert_int_equal(word_at(&b, theirs + PAGE), 4711);
	/* the key lives with the memory */
	late = again;
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &late), 0);
	release(&b, late.handle);
	release(&b, i.handle);
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &again), 0);	/* it is mapped */
	release(&b, again.handle);
	assert_int_equal(CALL(b.client, SOFTGPU_UNMAP, &((struct softgpu_va_range) {
		.va = theirs, .length = 2 * PAGE })), 0);
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &again), -ENOKEY);
}

CASE(who_may_not)
{
	u32 handle = created(&a);
	struct softgpu_phys_import i = exported(&a, handle), wrong;
	struct softgpu_phys_export e = { .handle = handle, .flags = 1 };
	struct user other;
	int key_other;
	u32 bit;

	assert_int_equal(CALL(a.client, SOFTGPU_PHYS_EXPORT, &e), -EINVAL);
	e.flags = 0;
	e.reserved = 1;
	assert_int_equal(CALL(a.client, SOFTGPU_PHYS_EXPORT, &e), -EINVAL);
	e.reserved = 0;
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_EXPORT, &e), -ENOENT);	/* another's handle */
	e.handle = a.ctx;
	assert_int_equal(CALL(a.client, SOFTGPU_PHYS_EXPORT, &e), -ENOENT);
	for (bit = 0; bit < 128; bit++) {
		wrong = i;
		wrong.key[bit / 64] ^= 1ULL << bit % 64;
		assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &wrong), -ENOKEY);
	}
	wrong = i;
	wrong.id++;
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &wrong), -ENOKEY);
	wrong = i;
	wrong.flags = 1;
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &wrong), -EINVAL);
	/* by another GPU's file */
	user_up(&other, &m, 1, &key_other);
	wrong = i;
	assert_int_equal(CALL(other.client, SOFTGPU_PHYS_IMPORT, &wrong), -EINVAL);
	user_down(&other);
	/* twice in one process is two handles */
	wrong = i;
	assert_int_equal(CALL(a.client, SOFTGPU_PHYS_IMPORT, &wrong), 0);
	assert_int_not_equal(wrong.handle, handle);
	release(&a, handle);
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &i), 0);
	release(&b, i.handle);
	release(&a, wrong.handle);
	assert_int_equal(CALL(b.client, SOFTGPU_PHYS_IMPORT, &i), -ENOKEY);
}

MAIN(NULL, NULL)
