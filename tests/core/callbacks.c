// SPDX-License-Identifier: MIT
/* callbacks.c - what clients may do in a callback, where the core is in the middle of something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "util.h"

static struct machine m;
static struct user u, sibling;
static int key;
static u64 reserved;
static int got;

static int setup(void **state)
{
	(void)state;
	machine_up(&m, 1, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	user_up(&sibling, &m, 0, &key);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (u.client)
		user_down(&u);
	user_down(&sibling);
	machine_down(&m);
	return 0;
}

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
	struct softgpu_va va = { .va = reserved };

	(void)t;
	got = CALL(sibling.client, SOFTGPU_VA_RELEASE, &va);
}

/* A file is closed and takes its reservation down: nobody else can, meanwhile. */
static void release_during_close(void **state)
{
	struct tpin t = { .on_callback = release_it };

	(void)state;
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

	(void)t;
	assert_int_equal(CALL(sibling.client, SOFTGPU_PHYS_CREATE, &p), 0);
	map.handle = p.handle;
	got = CALL(sibling.client, SOFTGPU_MAP, &map);
}

static void map_during_close(void **state)
{
	struct tpin t = { .on_callback = map_it };

	(void)state;
	map_pinned(&t);
	user_down(&u);
	assert_int_equal(t.callbacks, 1);
	assert_int_equal(got, -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(release_during_close), T(map_during_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
