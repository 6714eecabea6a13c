// SPDX-License-Identifier: MIT
/* callbacks.c - what clients may do in a callback, where the core is in the middle of something. */
#include "../cases.h"
#include "util.h"

static struct machine m;
static struct user u, sibling;
static int key;
static u64 reserved;
static int got;

static int setup(void **state)
{
	machine_up(&m, 1, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	user_up(&sibling, &m, 0, &key);
	return 0;
}

static int teardown(void **state)
{
	user_down(&u);
	user_down(&sibling);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

/* One client's mapping in the reservation of another, of the same process. */
static void map_pinned(struct tpin *t)
{
	struct softgpu_va_reserve r = { .length = 2 * PAGE };
	struct softgpu_phys_create p = { .length = PAGE };
	struct softgpu_map map = { .length = PAGE };

	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &r), 0);
	assert_int_equal(CALL(sibling.client, SOFTGPU_PHYS_CREATE, &p), 0);
	map.handle = p.handle;
	map.va = reserved = r.va;
	assert_int_equal(CALL(sibling.client, SOFTGPU_MAP, &map), 0);
	assert_int_equal(tpin_get(t, &u, r.va, PAGE, false), 0);
}

static void release_it(struct tpin *t)
{
	got = CALL(sibling.client, SOFTGPU_VA_RELEASE, &(struct softgpu_va){ .va = reserved });
}

/* A file is closed and takes its reservation down: no other client can, meanwhile. */
CASE(release_during_close)
{
	struct tpin t = { .on_callback = release_it };

	map_pinned(&t);
	user_down(&u);
	assert_int_equal(t.callbacks, 1);
	assert_int_equal(got, -ENOENT);
	assert_int_equal(query(&sibling, reserved).kind, SOFTGPU_KIND_NONE);
}

static void map_it(struct tpin *t)
{
	struct softgpu_phys_create p = { .length = PAGE };
	struct softgpu_map map = { .length = PAGE, .va = reserved + PAGE };

	assert_int_equal(CALL(sibling.client, SOFTGPU_PHYS_CREATE, &p), 0);
	map.handle = p.handle;
	got = CALL(sibling.client, SOFTGPU_MAP, &map);
}

CASE(map_during_close)
{
	struct tpin t = { .on_callback = map_it };

	map_pinned(&t);
	user_down(&u);
	assert_int_equal(t.callbacks, 1);
	assert_int_equal(got, -ENOENT);
}

MAIN(NULL, NULL)
