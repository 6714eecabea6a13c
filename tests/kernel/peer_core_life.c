// SPDX-License-Identifier: MIT OR GPL-2.0
/* peer_core_life.c - which client is asked, in which order, with which arguments, and what drivers get. */
#include <linux/cred.h>
#include <linux/mman.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>

#include "peer_core_test.h"

/* What drivers that know of no peers call. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define kernel_get(addr, size, access)	ib_umem_get(adapter, addr, size, access)
#else
#define kernel_get(addr, size, access)	ib_umem_get_va(adapter, addr, size, access)
#endif

static void missing_functions(enum kind kind)
{
	int i;

	for (i = 0; i < 5; i++) {
		struct test_client client;
		struct peer_memory_client *ops = &client.ex.client;
		invalidate_peer_memory invalidate;
		void *handle;

		client_init(&client, "missing", kind, function);
		ops->acquire = (void *)&missing_functions;
		if (i == 0)
			ops->acquire = NULL;
		if (i == 1)
			ops->get_pages = NULL;
		if (i == 2)
			ops->put_pages = NULL;
		if (i == 3)
			ops->dma_map = NULL;
		if (i == 4)
			ops->dma_unmap = NULL;
		handle = ib_register_peer_memory_client(ops, kind == PERSISTENT ? NULL : &invalidate);
		CHECK(!handle);
		if (handle)
			ib_unregister_peer_memory_client(handle);
	}
}

static void same_name(enum kind kind)
{
	struct test_client first, second;

	client_at(&first, "twin", kind, 0, PAGE_SIZE);
	client_init(&second, "twin", kind, function);
	CHECK(!client_register(&second));
	client_unregister(&first);
	/* And again, once it has gone. */
	client_at(&first, "twin", kind, 0, PAGE_SIZE);
	client_unregister(&first);
}

static void ordinary(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem;

	client_at(&client, "life", kind, 0x1234, 3 * PAGE_SIZE);
	umem = get_rw(&client);
	CHECK(!IS_ERR(umem));
	if (!IS_ERR(umem)) {
		CHECK(ib_umem_is_peer(umem));
		CHECK(umem->address == client.addr && umem->length == client.length);
		CHECK(umem->writable && umem->ibdev == adapter && !umem->is_dmabuf && !umem->is_odp);
		ib_umem_release(umem);
	}
	client_end(&client, "AGgMmUuPpR");
}

static void read_only(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem;

	client_at(&client, "life", kind, 0, PAGE_SIZE);
	umem = get(&client, IB_ACCESS_REMOTE_READ, ALL_FLAGS);
	CHECK(!IS_ERR(umem) && !umem->writable);
	if (!IS_ERR(umem))
		ib_umem_release(umem);
	client_end(&client, "AGgMmUuPpR");
}

static void without_optional_calls(enum kind kind)
{
	struct test_client client;

	client_init(&client, "life", kind, function);
	client.ex.client.get_page_size = NULL;
	client.ex.client.release = NULL;
	client.base = nowhere;
	client.addr = nowhere;
	client.size = SZ_1M;
	client.length = PAGE_SIZE;
	CHECK(client_register(&client));
	get_works(&client);
	check_trace(&client, "AGgMmUuPp");
	sg_free_table(&client.table);
	client_unregister(&client);
}

/* The driver's table covers the CPU's pages of the range, byte by byte. */
static void check_table(struct test_client *client, struct ib_umem *umem, int entries)
{
	unsigned long va = client->addr & PAGE_MASK;
	unsigned long end = PAGE_ALIGN(client->addr + client->length);
	struct scatterlist *sg;
	int i;

	CHECK(umem->sgt_append.sgt.nents == entries);
	for_each_sgtable_dma_sg(&umem->sgt_append.sgt, sg, i) {
		dma_addr_t dma = sg_dma_address(sg);
		size_t left;

		for (left = sg_dma_len(sg); left; left -= PAGE_SIZE) {
			unsigned long in_page = va & (client->page_size - 1);

			CHECK(dma == client_dma(client, va) + in_page);
			va += PAGE_SIZE;
			dma += PAGE_SIZE;
		}
	}
	CHECK(va == end);
}

static void tables(enum kind kind)
{
	static const struct {
		unsigned long offset, length, page, gap;
		int entries;
	} cases[] = {
		{ 0, PAGE_SIZE, PAGE_SIZE, 0, 1 },
		{ 0x1010, 0x20, PAGE_SIZE, 0, 1 },
		{ 0x1fff, 2, PAGE_SIZE, 0, 1 },
		{ 0x1fff, 2, PAGE_SIZE, SZ_1M, 2 },
		{ 0, SZ_1M, SZ_64K, 0, 1 },
		{ 0, SZ_1M, SZ_64K, SZ_64K, 16 },
		{ 0x11234, 0x20000, SZ_64K, 0, 1 },
		{ 0x11234, 0x20000, SZ_64K, SZ_64K, 3 },
		{ 0x1f000, 0x1000, SZ_64K, SZ_64K, 1 },
		{ 0x1f001, 0x1000, SZ_64K, SZ_64K, 2 },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct test_client client;
		struct ib_umem *umem;

		client_at(&client, "tables", kind, cases[i].offset, cases[i].length);
		client.page_size = cases[i].page;
		client.gap = cases[i].gap;
		umem = get_rw(&client);
		CHECK(!IS_ERR(umem));
		if (!IS_ERR(umem)) {
			check_table(&client, umem, cases[i].entries);
			ib_umem_release(umem);
		}
		client_end(&client, "AGgMmUuPpR");
	}
}

static void wrong_tables(enum kind kind)
{
	int i;

	for (i = 0; i < 6; i++) {
		struct test_client client;

		client_at(&client, "wrong", kind, i == 3 ? 5 * PAGE_SIZE : 0, 4 * PAGE_SIZE);
		if (i == 0)
			client.missing_entries = 1;
		if (i == 1)
			client.misaligned = 512;
		if (i == 2)
			client.page_size = 3 * PAGE_SIZE;
		/* Its table begins 20 KiB below the range, or ends above it, and it does not say so. */
		if (i == 3 || i == 4) {
			client.page_size = SZ_64K;
			client.ex.client.get_page_size = NULL;
		}
		if (i == 5)
			client.missing_entries = -1;
		get_fails(&client, -EINVAL);
		/* client_dma() is of use for pages of a power of two only. */
		if (i != 2)
			check_trace(&client, "AGgMmUuPpR");
		client_unregister(&client);
	}
}

static void step_fails(enum kind kind)
{
	static const struct {
		int acquire, get, map;
		bool table;
		long error;
		const char *trace;
	} cases[] = {
		{ 0, 0, 0, false, -EFAULT, "A" },
		{ -ENOMEM, 0, 0, false, -EFAULT, "A" },
		{ 1, -ENODEV, 0, false, -ENODEV, "AGgR" },
		{ 1, 0, -EPERM, false, -EPERM, "AGgMmPpR" },
		{ 1, 0, -EIO, true, -EIO, "AGgMmPpR" },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct test_client client;

		client_at(&client, "fails", kind, 0, 2 * PAGE_SIZE);
		client.acquire_result = cases[i].acquire;
		client.get_result = cases[i].get;
		client.map_result = cases[i].map;
		client.keep_table = cases[i].table;
		get_fails(&client, cases[i].error);
		client_end(&client, cases[i].trace);
	}
}

static void next_is_asked(enum kind kind)
{
	struct test_client first, second;

	client_at(&first, "first", kind, 0, PAGE_SIZE);
	client_at(&second, "second", kind, 0, PAGE_SIZE);
	first.acquire_result = -EINVAL;
	second.read_only = false;
	get_works(&first);
	check_trace(&first, "A");
	check_trace(&second, "AGgMmUuPpR");
	/* In the order of registration: the second is not asked for what the first owns. */
	first.acquire_result = 1;
	get_works(&first);
	check_trace(&first, "AAGgMmUuPpR");
	check_trace(&second, "AGgMmUuPpR");
	client_unregister(&first);
	client_unregister(&second);
}

/* A driver that cannot invalidate is offered what stays, and only that. */
static void only_what_stays(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem;

	client_at(&client, "stays", kind, 0, PAGE_SIZE);
	umem = get(&client, IB_ACCESS_LOCAL_WRITE, IB_PEER_MEM_ALLOW);
	if (kind == PERSISTENT) {
		CHECK(ib_umem_is_peer(umem));
		CHECK(!ib_umem_activate_invalidation_notifier(umem, (void *)&only_what_stays, NULL));
	} else {
		CHECK(umem == ERR_PTR(-EFAULT));
	}
	if (!IS_ERR(umem))
		ib_umem_release(umem);
	client_end(&client, kind == PERSISTENT ? "AGgMmUuPpR" : "");
}

static void none_asked(enum kind kind)
{
	unsigned long mapped = vm_mmap(NULL, 0, SZ_64K, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, 0);
	const int rw = IB_ACCESS_LOCAL_WRITE;
	struct device *other = function;
	struct test_client client;
	struct ib_umem *umem;

	client_at(&client, "unasked", kind, 0, PAGE_SIZE);
	/* A registration that says so. */
	CHECK(get(&client, rw, 0) == ERR_PTR(-EFAULT));
	CHECK(get(&client, rw, IB_PEER_MEM_INVAL_SUPP) == ERR_PTR(-EFAULT));
	/* A driver that is in no table. */
	CHECK(kernel_get(client.addr, client.length, rw) == ERR_PTR(-EFAULT));
	/* A device without a bus device that is a PCI function. */
	adapter->dev.parent = NULL;
	CHECK(get(&client, rw, ALL_FLAGS) == ERR_PTR(-EFAULT));
	while (other && dev_is_pci(other))
		other = other->parent;
	adapter->dev.parent = other;
	CHECK(get(&client, rw, ALL_FLAGS) == ERR_PTR(-EFAULT));
	adapter->dev.parent = function;
	/* What is for the kernel to answer. */
	CHECK(get(&client, rw | IB_ACCESS_ON_DEMAND, ALL_FLAGS) == ERR_PTR(-EOPNOTSUPP));
	CHECK(ib_umem_get_peer(adapter, nowhere, 0, rw, ALL_FLAGS) == ERR_PTR(-EINVAL));
	CHECK(ib_umem_get_peer(adapter, nowhere, -nowhere + 1, rw, ALL_FLAGS) == ERR_PTR(-EINVAL));
	/* Ordinary memory. */
	client.base = mapped;
	umem = ib_umem_get_peer(adapter, mapped, SZ_64K, rw, ALL_FLAGS);
	CHECK(!IS_ERR(umem) && !ib_umem_is_peer(umem));
	if (!IS_ERR(umem)) {
		CHECK(ib_umem_activate_invalidation_notifier(umem, (void *)&none_asked, NULL) ==
		      -EINVAL);
		ib_umem_release(umem);
	}
	client_end(&client, "");
	vm_munmap(mapped, SZ_64K);
	CHECK(!ib_umem_is_peer(NULL));
	ib_umem_release(NULL);
}

/* CUDA and ROCm keep their addresses from others by a mapping without rights. */
static void reserved_addresses(enum kind kind)
{
	unsigned long reserved = vm_mmap(NULL, 0, SZ_64K, PROT_NONE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0);
	struct test_client client;
	struct ib_umem *umem;

	CHECK(!IS_ERR_VALUE(reserved));
	client_at(&client, "reserved", kind, 0, SZ_64K);
	client.base = reserved;
	client.addr = reserved;
	umem = get_rw(&client);
	CHECK(!IS_ERR(umem) && ib_umem_is_peer(umem));
	if (!IS_ERR(umem))
		ib_umem_release(umem);
	check_trace(&client, "AGgMmUuPpR");
	/* No client gives it: refused, also by kernels that would put pages there by force. */
	client.size = SZ_32K;
	CHECK(kernel_get(reserved + SZ_32K, SZ_32K, IB_ACCESS_REMOTE_READ) == ERR_PTR(-EFAULT));
	CHECK(ib_umem_get_peer(adapter, reserved + SZ_32K, SZ_32K, IB_ACCESS_REMOTE_READ, IB_PEER_MEM_ALLOW) ==
	      ERR_PTR(-EFAULT));
	client_unregister(&client);
	vm_munmap(reserved, SZ_64K);
}

/* A driver that knows nothing of peers, and is in the table: this module, by the core's parameter. */
static void by_table(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem;

	client_at(&client, "listed", kind, 0x100, SZ_64K);
	adapter->ops.owner = THIS_MODULE;
	umem = kernel_get(client.addr, client.length, IB_ACCESS_LOCAL_WRITE);
	CHECK(!IS_ERR(umem) && ib_umem_is_peer(umem));
	if (!IS_ERR(umem))
		ib_umem_release(umem);
	adapter->ops.owner = NULL;
	client_end(&client, "AGgMmUuPpR");
}

static void not_counted(enum kind kind)
{
	s64 before = atomic64_read(&current->mm->pinned_vm);
	struct test_client client;
	struct ib_umem *umem;
	char byte;

	client_at(&client, "counted", kind, 0, SZ_1M);
	umem = get_rw(&client);
	CHECK(!IS_ERR(umem));
	CHECK(atomic64_read(&current->mm->pinned_vm) == before);
	if (!IS_ERR(umem)) {
		CHECK(ib_umem_copy_from(&byte, umem, 0, 1) == -EOPNOTSUPP);
		/* Drivers set it. */
		umem->iova = 0x1234567;
		ib_umem_release(umem);
	}
	CHECK(atomic64_read(&current->mm->pinned_vm) == before);
	client_end(&client, "AGgMmUuPpR");
}

/* A user without rights: it can register what is not charged, and nothing else. For good: the last. */
static void before_memlock(enum kind kind)
{
	struct rlimit *limit = &current->signal->rlim[RLIMIT_MEMLOCK];
	const struct rlimit before = *limit;
	unsigned long mapped = vm_mmap(NULL, 0, SZ_64K, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, 0);
	struct cred *cred = prepare_creds();
	struct test_client client;

	if (!cred)
		return;
	cap_lower(cred->cap_effective, CAP_IPC_LOCK);
	commit_creds(cred);
	limit->rlim_cur = 0;
	CHECK(kernel_get(mapped, SZ_64K, IB_ACCESS_LOCAL_WRITE) == ERR_PTR(-EPERM));
	client_at(&client, "charged", kind, 0, SZ_1M);
	get_works(&client);
	client_end(&client, "AGgMmUuPpR");
	*limit = before;
	vm_munmap(mapped, SZ_64K);
}

const struct row life_rows[] = {
	{ "a client without a mandatory function is refused", missing_functions, ALL_KINDS },
	{ "a second client of the same name is refused", same_name, ALL_KINDS },
	{ "acquire, get_pages, dma_map, dma_unmap, put_pages, release", ordinary, ALL_KINDS },
	{ "a read-only registration", read_only, ALL_KINDS },
	{ "get_page_size and release may be missing", without_optional_calls, ALL_KINDS },
	{ "the driver's table, trimmed and joined", tables, ALL_KINDS },
	{ "a wrong table is refused and undone", wrong_tables, ALL_KINDS },
	{ "each step fails", step_fails, ALL_KINDS },
	{ "the next client is asked, in order", next_is_asked, ALL_KINDS },
	{ "revocable memory needs a driver that can invalidate", only_what_stays, ALL_KINDS },
	{ "no client is asked", none_asked, ALL_KINDS },
	{ "addresses that a mapping without rights reserves", reserved_addresses, ALL_KINDS },
	{ "a driver in the table, by ib_umem_get()", by_table, ALL_KINDS },
	{ "not in pinned_vm, and not readable", not_counted, ALL_KINDS },
	{ "before RLIMIT_MEMLOCK", before_memlock, ALL_KINDS },
	{ }
};
