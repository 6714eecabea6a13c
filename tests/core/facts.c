// SPDX-License-Identifier: MIT
/* facts.c - each field of what the core says: of a GPU, of what is at an address, of pins; and which GPUs it takes. */
#include "../cases.h"
#include "util.h"

#define VRAM	(64 * PAGE)

static int key, other;
static u8 vram[VRAM], bytes[3 * 65536];

static u64 phys(void *priv, u64 offset)
{
	return VRAM_PHYS + offset;
}

static struct sg_gpu_desc desc(void)
{
	struct sg_gpu_desc d = {
		.uuid = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }, .name = "a GPU", .vram_size = VRAM,
		.bar1_size = 32 * PAGE, .bar1_reserved = 3 * PAGE, .compute_mode = SOFTGPU_COMPUTE_EXCLUSIVE, .on_pci = true,
		.pci_domain = 0x10002, .pci_bus = 3, .pci_device = 4, .pci_function = 5, .engines = 1, .vram = vram, .phys = phys,
	};

	machine_system(&d);
	return d;
}

/* Which descriptions are taken; a name that is too long is cut. */
CASE(adds)
{
	struct sg_gpu_desc good = desc(), d;
	struct sg_gpu_stats stats;
	struct sg *sg;
	u32 index = 77;

	MUST(!sg_create(&sg));
#define BAD(field, value)							\
	do {									\
		d = good;							\
		d.field = value;						\
		assert_int_equal(sg_gpu_add(sg, &d, &index), -EINVAL);		\
		assert_int_equal(index, 77);					\
	} while (0)
	BAD(vram_size, 0);
	BAD(vram_size, PAGE + 1);
	BAD(vram_size, PAGE - 1);
	BAD(vram, NULL);
	BAD(phys, NULL);
	BAD(engines, 0);
	BAD(compute_mode, 1);
	BAD(compute_mode, 4);
	BAD(bar1_size, PAGE + 1);
	BAD(bar1_reserved, 33 * PAGE);
	BAD(bar1_reserved, PAGE + 1);
	/* The aperture may be all the driver's own. */
	d = good;
	d.bar1_reserved = 32 * PAGE;
	assert_int_equal(sg_gpu_add(sg, &d, &index), 0);
	assert_int_equal(index, 0);
	/* Of one that is not said: as large as VRAM, and 1 MiB, or less of a small one, is reserved, in whole pages. */
	for (u64 pages = 16; pages <= 512; pages += 8) {
		d = good;
		d.bar1_size = pages * PAGE;
		d.bar1_reserved = SG_BAR1_RESERVED_DEFAULT;
		assert_int_equal(sg_gpu_add(sg, &d, &index), 0);
		assert_int_equal(sg_gpu_stats(sg, index, &stats), 0);
		assert_int_equal(stats.bar1_reserved, pages >= 256 ? 16 * PAGE : pages / 16 * PAGE);
		assert_int_equal(stats.bar1_used, stats.bar1_reserved);
		sg_gpu_remove(sg, index);
	}
	d.bar1_size = 0;
	assert_int_equal(sg_gpu_add(sg, &d, &index), 0);
	assert_int_equal(sg_gpu_stats(sg, index, &stats), 0);
	assert_int_equal(stats.bar1_total, VRAM);
	/* As many as there are numbers. */
	for (u32 i = 2; i < SOFTGPU_MAX_GPUS; i++) {
		assert_int_equal(sg_gpu_add(sg, &good, &index), 0);
		assert_int_equal(index, i);
	}
	assert_int_equal(sg_gpu_add(sg, &good, &index), -ENOSPC);
	assert_int_equal(sg_gpu_stats(sg, SOFTGPU_MAX_GPUS - 1, &stats), 0);
	assert_int_equal(sg_gpu_stats(sg, SOFTGPU_MAX_GPUS, &stats), -ENODEV);
	sg_gpu_remove(sg, 5);
	assert_int_equal(sg_gpu_stats(sg, 5, &stats), -ENODEV);
	sg_gpu_remove(sg, SOFTGPU_MAX_GPUS);	/* none */
	assert_int_equal(sg_gpu_add(sg, &good, &index), 0);
	assert_int_equal(index, 5);
	for (u32 i = 0; i < SOFTGPU_MAX_GPUS; i++)
		sg_gpu_remove(sg, i);
	sg_destroy(sg);
}

static struct softgpu_info info_of(struct sg_client *client)
{
	struct softgpu_info info;

	memset(&info, 0x5a, sizeof(info));
	assert_int_equal(CALL(client, SOFTGPU_INFO, &info), 0);
	return info;
}

CASE(info)
{
	char long_name[2 * SOFTGPU_NAME_LEN];
	struct sg_gpu_desc d = desc();
	struct sg_client *client, *none = NULL;
	struct sg_gpu_stats stats;
	struct softgpu_info i;
	struct machine m = { .gpus = 2 };
	struct user u;
	struct tpin t = { 0 };
	u32 index;
	u64 va;

	memset(long_name, 'n', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = 0;
	MUST(!sg_create(&m.sg));
	assert_int_equal(sg_client_open(m.sg, 0, &key, &user_host_ops, NULL, &none), -ENODEV);
	MUST(!sg_gpu_add(m.sg, &d, &index));
	d.name = long_name;
	d.on_pci = false;
	d.compute_mode = 0;
	MUST(!sg_gpu_add(m.sg, &d, &index));
	assert_int_equal(sg_client_open(m.sg, 2, &key, &user_host_ops, NULL, &none), -ENODEV);
	assert_int_equal(sg_client_open(m.sg, SOFTGPU_MAX_GPUS, &key, &user_host_ops, NULL, &none), -ENODEV);
	assert_null(none);
	user_up(&u, &m, 0, &key);
	assert_ptr_equal(sg_client_key(u.client), &key);
	MUST(!sg_client_open(m.sg, 1, &other, &user_host_ops, NULL, &client));
	assert_int_equal(mem_alloc(&u, 5 * PAGE, &va), 0);
	assert_int_equal(tpin_get(&t, &u, va, 2 * PAGE, false), 0);
	i = info_of(u.client);
	assert_int_equal(i.size, sizeof(i));
	assert_int_equal(i.abi, SOFTGPU_ABI);
	assert_int_equal(i.index, 0);
	assert_int_equal(i.count, 2);
	assert_memory_equal(i.uuid, d.uuid, 16);
	assert_string_equal(i.name, "a GPU");
	assert_int_equal(i.vram_total, VRAM);
	assert_int_equal(i.vram_free, VRAM - 5 * PAGE);
	assert_int_equal(i.bar1_total, 32 * PAGE);
	assert_int_equal(i.bar1_used, 5 * PAGE);
	assert_int_equal(i.pci_domain, 0x10002);
	assert_int_equal(i.pci_bus, 3);
	assert_int_equal(i.pci_device, 4);
	assert_int_equal(i.pci_function, 5);
	assert_int_equal(i.on_pci, 1);
	assert_int_equal(i.pins, 1);
	assert_int_equal(i.strict, 0);
	assert_int_equal(i.compute_mode, SOFTGPU_COMPUTE_EXCLUSIVE);
	assert_int_equal(i.device_pointers, 0);
	assert_int_equal(i.platform, SOFTGPU_PLATFORM_PCI);
	assert_int_equal(copy(&u, 0, va, va + PAGE, 100, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(sg_gpu_stats(m.sg, 0, &stats), 0);
	assert_int_equal(stats.vram_total, VRAM);
	assert_int_equal(stats.vram_free, VRAM - 5 * PAGE);
	assert_int_equal(stats.bar1_total, 32 * PAGE);
	assert_int_equal(stats.bar1_reserved, 3 * PAGE);
	assert_int_equal(stats.bar1_used, 5 * PAGE);
	assert_int_equal(stats.pins, 1);
	assert_int_equal(stats.clients, 1);
	assert_int_equal(stats.objects, 2);	/* a context and the allocation */
	assert_int_equal(stats.revocations, 0);
	assert_int_equal(stats.copies, 1);
	assert_int_equal(stats.bytes_copied, 100);
	sg_chaos_set(m.sg, &(struct sg_chaos){ .strict = true });
	i = info_of(client);
	assert_int_equal(i.strict, 1);
	assert_int_equal(i.device_pointers, 0);
	sg_chaos_set(m.sg, &(struct sg_chaos){ .device_pointers = true });
	i = info_of(client);
	assert_int_equal(i.strict, 0);
	assert_int_equal(i.device_pointers, 1);
	assert_int_equal(i.index, 1);
	assert_int_equal(i.on_pci, 0);
	assert_int_equal(strlen(i.name), SOFTGPU_NAME_LEN - 1);
	assert_int_equal(i.pins, 0);
	/* One that is on a bus is not coherent. */
	sg_set_platform(m.sg, SOFTGPU_PLATFORM_COHERENT);
	assert_int_equal(info_of(client).platform, SOFTGPU_PLATFORM_COHERENT);
	assert_int_equal(info_of(u.client).platform, SOFTGPU_PLATFORM_PCI);
	sg_set_platform(m.sg, SOFTGPU_PLATFORM_INTEGRATED);
	assert_int_equal(info_of(u.client).platform, SOFTGPU_PLATFORM_INTEGRATED);
	sg_set_platform(m.sg, SOFTGPU_PLATFORM_PCI);
	assert_int_equal(info_of(client).platform, SOFTGPU_PLATFORM_PCI);
	assert_int_equal(mem_free(&u, va), 0);
	assert_int_equal(sg_gpu_stats(m.sg, 0, &stats), 0);
	assert_int_equal(stats.revocations, 1);
	assert_int_equal(stats.objects, 1);
	sg_gpu_remove(m.sg, 1);
	assert_int_equal(info_of(u.client).count, 1);
	assert_int_equal(sg_client_open(m.sg, 1, &key, &user_host_ops, NULL, &none), -ENODEV);
	sg_client_close(client);
	user_down(&u);
	sg_gpu_remove(m.sg, 0);
	sg_destroy(m.sg);
}

/* What is at an address, of each kind; and that the byte before it and the one behind are something else. */
CASE(queries)
{
	struct softgpu_host_register h = { .kind = SOFTGPU_KIND_REGISTERED, .host_flags = 9 };
	struct softgpu_va_reserve reserve = { .length = 4 * PAGE };
	struct softgpu_set_attr attr = { .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .value = 1 };
	struct softgpu_phys_create p = { .length = PAGE };
	struct softgpu_map map = { .length = PAGE };
	struct softgpu_ctx_create c = { 0 };
	struct softgpu_va_range access = { .length = PAGE, .access = 1 };
	struct sg_found_host host;
	struct softgpu_query q;
	struct sg_found found;
	static struct machine m;
	struct user u;
	u64 va, second, id;

	memset(&m, 0, sizeof(m));
	machine_up(&m, 2, VRAM, 0, 0);
	user_up(&u, &m, 1, &key);
	assert_int_equal(mem_alloc(&u, 3 * PAGE + 5, &va), 0);
	q = query(&u, va + 3 * PAGE + 4);
	assert_int_equal(q.kind, SOFTGPU_KIND_DEVICE);
	assert_int_equal(q.va, va + 3 * PAGE + 4);
	assert_int_equal(q.base, va);
	assert_int_equal(q.length, 3 * PAGE + 5);
	assert_int_equal(q.gpu, 1);
	assert_int_equal(q.ctx, u.ctx);
	assert_int_equal(q.sync_memops, 0);
	assert_int_equal(q.host_flags, 0);
	assert_int_equal(q.access, 3);
	assert_int_equal(q.phys, 0);
	assert_true(q.buffer_id && q.p2p_token && q.va_space_token && !q.host_va && !q.device_va);
	id = q.buffer_id;
	assert_int_equal(query(&u, va + 3 * PAGE + 5).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(query(&u, va - 1).kind, SOFTGPU_KIND_NONE);
	attr.va = va + 1;
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, &attr), 0);
	assert_int_equal(query(&u, va).sync_memops, 1);
	attr.value = 2;
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, &attr), -EINVAL);
	attr.value = 0;
	attr.attr = SOFTGPU_ATTR_SYNC_MEMOPS + 1;
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, &attr), -EINVAL);
	attr.attr = SOFTGPU_ATTR_SYNC_MEMOPS;
	attr.va = va + 3 * PAGE + 5;
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, &attr), -ENOENT);
	attr.va = va;
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, &attr), 0);
	assert_int_equal(query(&u, va).sync_memops, 0);
	assert_int_equal(sg_find(m.sg, &key, va + 3 * PAGE + 4, &found), 0);
	assert_true(found.base == va && found.length == 3 * PAGE + 5 && found.memory == SG_MEMORY_CUDA);
	assert_int_equal(sg_find(m.sg, &key, va + 3 * PAGE + 5, &found), -ENOENT);
	assert_int_equal(sg_find_host(m.sg, &key, va, &host), -ENOENT);

	/* Another context has other tokens; another allocation another number. */
	MUST(!CALL(u.client, SOFTGPU_CTX_CREATE, &c));
	u.ctx = c.ctx;
	assert_int_equal(mem_alloc(&u, 100, &second), 0);
	assert_int_not_equal(query(&u, second).buffer_id, id);
	assert_int_not_equal(query(&u, second).p2p_token, q.p2p_token);
	assert_int_equal(query(&u, second).ctx, c.ctx);
	assert_int_equal(query(&u, second + 99).length, 100);

	/* Host memory, with one pointer for both. */
	h.ctx = u.ctx;
	h.va = HOST(bytes) + 10;
	h.length = 65536 + 7;
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &h), 0);
	q = query(&u, h.va + h.length - 1);
	assert_int_equal(q.kind, SOFTGPU_KIND_REGISTERED);
	assert_int_equal(q.base, h.va);
	assert_int_equal(q.length, h.length);
	assert_int_equal(q.host_flags, 9);
	assert_int_equal(q.buffer_id, h.buffer_id);
	assert_int_equal(q.ctx, u.ctx);
	assert_int_equal(q.gpu, 1);
	assert_int_equal(q.access, 3);
	assert_int_equal(query(&u, h.va + h.length).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(query(&u, h.va - 1).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(sg_find_host(m.sg, &key, h.va + 5, &host), 0);
	assert_int_equal(host.base, h.va);
	assert_int_equal(host.length, h.length);
	assert_int_equal(host.host_va, h.va + 5);
	assert_int_equal(host.device_va, h.va + 5);
	assert_int_equal(host.buffer_id, h.buffer_id);
	assert_int_equal(host.kind, SOFTGPU_KIND_REGISTERED);
	assert_int_equal(host.host_flags, 9);
	assert_int_equal(sg_find_host(m.sg, &key, h.va + h.length, &host), -ENOENT);
	assert_int_equal(sg_find_host(m.sg, &other, h.va, &host), -ESRCH);
	assert_int_equal(discharge(&u, h.va), 0);

	/* What is reserved, and what is mapped there. */
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &reserve), 0);
	q = query(&u, reserve.va + 4 * PAGE - 1);
	assert_int_equal(q.kind, SOFTGPU_KIND_RESERVED);
	assert_int_equal(q.base, reserve.va);
	assert_int_equal(q.length, 4 * PAGE);
	assert_true(!q.ctx && !q.buffer_id && !q.access);
	assert_int_equal(CALL(u.client, SOFTGPU_PHYS_CREATE, &p), 0);
	map.va = access.va = reserve.va + PAGE;
	map.handle = p.handle;
	assert_int_equal(CALL(u.client, SOFTGPU_MAP, &map), 0);
	q = query(&u, map.va + PAGE - 1);
	assert_int_equal(q.kind, SOFTGPU_KIND_VMM);
	assert_int_equal(q.base, map.va);
	assert_int_equal(q.length, PAGE);
	assert_int_equal(q.access, 0);
	assert_int_equal(q.phys, p.handle);
	assert_int_equal(q.gpu, 1);
	assert_int_equal(q.ctx, 0);
	assert_int_equal(CALL(u.client, SOFTGPU_ACCESS, &access), 0);
	assert_int_equal(query(&u, map.va).access, 1);
	assert_int_equal(query(&u, map.va + PAGE).kind, SOFTGPU_KIND_RESERVED);
	assert_int_equal(query(&u, map.va - 1).kind, SOFTGPU_KIND_RESERVED);
	{
		struct softgpu_handle handle = { .handle = p.handle };

		assert_int_equal(CALL(u.client, SOFTGPU_PHYS_RELEASE, &handle), 0);
	}
	assert_int_equal(query(&u, map.va).phys, 0);
	user_down(&u);
	machine_down(&m);
}

MAIN(NULL, NULL)
