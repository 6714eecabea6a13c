// SPDX-License-Identifier: MIT
/* aliases.c - host memory whose device pointers are others than the host's. */
#include "world.h"

#define LENGTH	(PAGE + 5000)
#define WINDOW	(32 * PAGE)

static u8 storage[WINDOW + PAGE];	/* the window */
static u8 own[LENGTH];			/* outside the window */
static u8 *host;

static void knob(bool on)
{
	sg_chaos_set(m.sg, &(struct sg_chaos){ .device_pointers = on });
}

static int set_up(void **state)
{
	machine_up(&m, 1, 16 * PAGE, 16 * PAGE, 0);
	host = user_up_in(&u, &m, &key, storage, WINDOW, 2 * PAGE);
	knob(true);
	return 0;
}

FIXTURE(set_up, teardown)

/* Either pointer tells the other, and of the same memory. */
CASE(both_pointers)
{
	struct softgpu_query by_host, by_device, beyond;
	struct sg_found_host found;
	u64 device;

	assert_int_equal(enlist(&u, SOFTGPU_KIND_HOST, HOST(host), LENGTH), 0);
	by_host = query(&u, HOST(host) + 10);
	device = by_host.device_va;
	assert_int_equal(by_host.host_va, HOST(host) + 10);
	assert_int_not_equal(device, HOST(host) + 10);
	assert_int_equal(device % PAGE, (HOST(host) + 10) % PAGE);
	by_device = query(&u, device);
	assert_int_equal(by_device.kind, SOFTGPU_KIND_HOST);
	assert_int_equal(by_device.host_va, HOST(host) + 10);
	assert_int_equal(by_device.device_va, device);
	assert_int_equal(by_device.base, device - 10);
	assert_int_equal(by_device.length, LENGTH);
	assert_int_equal(by_device.buffer_id, by_host.buffer_id);
	beyond = query(&u, device - 10 + LENGTH);
	assert_int_equal(beyond.kind, SOFTGPU_KIND_NONE);

	assert_int_equal(sg_find_host(m.sg, &key, device, &found), 0);
	assert_int_equal(found.base, device - 10);
	assert_int_equal(found.host_va, HOST(host) + 10);
	assert_int_equal(found.device_va, device);
	assert_int_equal(sg_find_host(m.sg, &key, HOST(host) + 10, &found), 0);
	assert_int_equal(found.base, HOST(host));
	assert_int_equal(found.device_va, device);
	assert_int_equal(sg_find_host(m.sg, &key, device - 10 + LENGTH - 1, &found), 0);
	assert_int_equal(found.host_va, HOST(host) + LENGTH - 1);
	assert_int_equal(sg_find_host(m.sg, &key, device - 10 + LENGTH, &found), -ENOENT);

	assert_int_equal(discharge(&u, device - 10), -ENOENT);
	assert_int_equal(discharge(&u, HOST(host)), 0);
	assert_int_equal(query(&u, device).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(sg_find_host(m.sg, &key, device, &found), -ENOENT);
}

/* Memory that was the program's before has them, too, at the same place in a page. */
CASE(registered)
{
	struct softgpu_query q;

	assert_int_equal(enlist(&u, SOFTGPU_KIND_REGISTERED, HOST(own) + 1, LENGTH - 1), 0);
	q = query(&u, HOST(own) + 1);
	assert_int_equal(q.device_va % PAGE, (HOST(own) + 1) % PAGE);
	assert_true(q.device_va >= HOST(storage) && q.device_va < HOST(storage) + sizeof(storage));
	assert_int_equal(fill(&u, 0, q.device_va, LENGTH - 1, 0x31, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(own[1], 0x31);
	assert_int_equal(own[LENGTH - 1], 0x31);
	assert_int_equal(own[0], 0);
	assert_int_equal(discharge(&u, HOST(own) + 1), 0);
}

/* The engines reach the memory by its device pointer, and nothing beyond it. */
CASE(work)
{
	u64 device, vram;

	assert_int_equal(enlist(&u, SOFTGPU_KIND_HOST, HOST(host), LENGTH), 0);
	device = query(&u, HOST(host)).device_va;
	assert_int_equal(mem_alloc(&u, LENGTH, &vram), 0);
	memset(host, 0x11, LENGTH);
	assert_int_equal(copy(&u, 0, vram, device, LENGTH, SOFTGPU_OP_SYNC), 0);
	memset(host, 0x22, LENGTH);
	assert_int_equal(copy(&u, 0, device + 1, vram, LENGTH - 1, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(host[0], 0x22);
	assert_int_equal(host[1], 0x11);
	assert_int_equal(host[LENGTH - 1], 0x11);
	assert_int_equal(fill(&u, 0, device, LENGTH, 0x33, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(host[LENGTH - 1], 0x33);
	assert_int_equal(fill(&u, 0, device, LENGTH + 1, 0x44, SOFTGPU_OP_SYNC), -EFAULT);
	assert_int_equal(copy(&u, 0, vram, device + LENGTH - 1, 2, SOFTGPU_OP_SYNC), -EFAULT);
	assert_int_equal(host[0], 0x33);
	/* SYNC_MEMOPS is the memory's, by whichever pointer. */
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, (&(struct softgpu_set_attr){
				 .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .va = device, .value = 1 })), 0);
	assert_true(query(&u, HOST(host)).sync_memops);
	assert_int_equal(mem_free(&u, vram), 0);
	assert_int_equal(discharge(&u, HOST(host)), 0);
	assert_int_equal(fill(&u, 0, device, 1, 0x55, SOFTGPU_OP_SYNC), -EFAULT);
}

/* What was known before the knob, and managed memory, keeps its one pointer. */
CASE(others)
{
	struct softgpu_query q;

	knob(false);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_HOST, HOST(host), PAGE), 0);
	knob(true);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_MANAGED, HOST(host) + PAGE, PAGE), 0);
	q = query(&u, HOST(host));
	assert_int_equal(q.host_va, 0);
	assert_int_equal(q.device_va, 0);
	assert_int_equal(query(&u, HOST(host) + PAGE).device_va, 0);
	knob(false);
	assert_int_equal(fill(&u, 0, HOST(host), 4, 7, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(discharge(&u, HOST(host)), 0);
	assert_int_equal(discharge(&u, HOST(host) + PAGE), 0);
}

/* They take room in the window, and give it back with whatever ends the memory. */
CASE(room)
{
	struct softgpu_va_reserve most = { .length = WINDOW - 4 * PAGE };

	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &most), 0);
	/* Two pages are left of it, and this needs as many. */
	assert_int_equal(enlist(&u, SOFTGPU_KIND_HOST, HOST(host), LENGTH), 0);
	assert_int_equal(enlist(&u, SOFTGPU_KIND_REGISTERED, HOST(own), LENGTH), -ENOSPC);
	assert_int_equal(query(&u, HOST(own)).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = u.ctx })), 0);
	u.ctx = 0;
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RELEASE, (&(struct softgpu_va){ .va = most.va })), 0);
	most.length = WINDOW - 2 * PAGE;
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &most), 0);
}

MAIN(NULL, NULL)
