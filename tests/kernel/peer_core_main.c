// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * peer_core_main.c - a conformance test for peer-memory cores: it plays the client and the adapter,
 * and checks each call of the contract in rdma/peer_mem.h and rdma/ib_umem_peer.h. It runs as it is
 * loaded, in the process that loads it, and then does not load if a row has failed. Afterwards
 * programs can try it with other clients: peer_core_file.c.
 *
 *	insmod peer_core_test.ko card=0000:01:00.0	any PCI function
 *
 * One row is about drivers that call ib_umem_get(): the core's table must name peer_core_test, with
 * invalidation (peerdma_peer_core.ko: drivers=peer_core_test+inval).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

#include "peer_core_test.h"

static char *card;
module_param(card, charp, 0444);

static char *only = "";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "The rows that contain this");

struct ib_device *adapter;
struct device *function;
unsigned long nowhere;

static const char *row_name;
static int failures;

void check(bool holds, const char *what)
{
	if (holds)
		return;
	failures++;
	pr_err("not ok: %s: %s\n", row_name, what);
}

void check_trace(struct test_client *client, const char *expected)
{
	if (strcmp(client->trace, expected))
		pr_err("trace %s instead of %s\n", client->trace, expected);
	CHECK(!strcmp(client->trace, expected));
	CHECK(!client->wrong);
}

void client_end(struct test_client *client, const char *expected)
{
	check_trace(client, expected);
	client_unregister(client);
}

void client_at(struct test_client *client, const char *name, enum kind kind, unsigned long offset,
	       size_t length)
{
	client_init(client, name, kind, function);
	client->base = nowhere;
	client->size = SZ_1M;
	client->addr = nowhere + offset;
	client->length = length;
	CHECK(client_register(client));
}

struct ib_umem *get(struct test_client *client, int access, unsigned long flags)
{
	client->read_only = !(access & IB_ACCESS_LOCAL_WRITE);
	return ib_umem_get_peer(adapter, client->addr, client->length, access, flags);
}

struct ib_umem *get_rw(struct test_client *client)
{
	return get(client, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE, ALL_FLAGS);
}

void get_works(struct test_client *client)
{
	struct ib_umem *umem = get_rw(client);

	CHECK(!IS_ERR(umem));
	if (!IS_ERR(umem))
		ib_umem_release(umem);
}

void get_fails(struct test_client *client, long err)
{
	struct ib_umem *umem = get_rw(client);

	CHECK(IS_ERR(umem) && (!err || PTR_ERR(umem) == err));
	if (!IS_ERR(umem))
		ib_umem_release(umem);
}

static void run_rows(const struct row *rows)
{
	static const char * const kinds[] = { "persistent", "revocable", "unmaps by itself" };
	static char name[120];
	enum kind kind;

	for (; rows->what; rows++)
		for (kind = PERSISTENT; kind <= UNMAPS; kind++) {
			int before = failures;

			if (!(rows->kinds & BIT(kind)) || !strstr(rows->what, only))
				continue;
			snprintf(name, sizeof(name), "%s (%s)", rows->what, kinds[kind]);
			row_name = name;
			rows->run(kind);
			if (failures == before)
				pr_info("ok: %s\n", name);
		}
}

/* Two MiB of addresses where nothing is mapped: mapped, and unmapped again. */
static unsigned long find_nowhere(void)
{
	unsigned long addr = vm_mmap(NULL, 0, 2 * SZ_1M, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, 0);

	if (IS_ERR_VALUE(addr))
		return 0;
	vm_munmap(addr, 2 * SZ_1M);
	return ALIGN(addr, SZ_1M);
}

static struct pci_dev *find_card(void)
{
	unsigned int domain, bus, device, func;

	if (!card || sscanf(card, "%x:%x:%x.%x", &domain, &bus, &device, &func) != 4)
		return NULL;
	return pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(device, func));
}

static int run_table(void)
{
	int err = async_init();

	if (err)
		return err;
	nowhere = find_nowhere();
	if (nowhere) {
		run_rows(life_rows);
		run_rows(invalidate_rows);
	}
	async_exit();
	if (!nowhere)
		return -ENOMEM;
	pr_info("%d failures\n", failures);
	return failures ? -EIO : 0;
}

static struct pci_dev *pdev;

static int __init peer_core_test_init(void)
{
	int err = -ENOMEM;

	pdev = find_card();
	if (!pdev)
		return -ENODEV;
	function = &pdev->dev;
	/* No call of the core's needs it registered. */
	adapter = kzalloc(sizeof(*adapter), GFP_KERNEL);
	if (!adapter)
		goto put;
	adapter->dev.init_name = "fake_0";
	adapter->dev.parent = function;
	err = run_table();
	if (!err)
		err = test_file_init();
	if (!err)
		return 0;
	kfree(adapter);
put:
	pci_dev_put(pdev);
	return err;
}

static void __exit peer_core_test_exit(void)
{
	test_file_exit();
	kfree(adapter);
	pci_dev_put(pdev);
}

module_init(peer_core_test_init);
module_exit(peer_core_test_exit);

MODULE_DESCRIPTION("Conformance test for peer-memory cores");
MODULE_AUTHOR("peerdma developers");
MODULE_LICENSE("Dual MIT/GPL");
