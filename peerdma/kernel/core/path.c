// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * path.c - collects the facts that ../path/rules.h decides by: the owner of the memory, the
 * ports between the two devices, the host bridges, the IOMMU.
 *
 * The address that a client uses for memory in the BAR of another function:
 *
 *    IOMMU                     below one port,      otherwise
 *                              nothing redirects
 *    off, or passes through    bus address          CPU physical address
 *    translates                IOVA                 IOVA
 *
 * An IOVA is outside all windows of the host bridge (the kernel reserves those), so no
 * switch takes it for the address of a peer: it always goes up to the IOMMU.
 */
#include <linux/device.h>
#include <linux/device/bus.h>
#include <linux/dma-direct.h>
#include <linux/hash.h>
#include <linux/ioport.h>
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/pci-p2pdma.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#ifdef CONFIG_X86
#include <asm/processor.h>
#endif

#include "path.h"

/* ---- what was found before ---------------------------------------------------- */

/*
 * To look at all functions and at ACS on the path costs thousands of instructions, and
 * every registration asks.  So positive answers about PCI clients are kept until a device
 * or a driver comes or goes on the PCI bus.  Not noticed: a program that rewrites an ACS
 * register; after that, writing path_override makes peerdma look again.
 *
 * memo_lock: innermost; guards the variables below.
 */
#define MEMO_BITS	5
#define MEMO_WAYS	8		/* GPUs per client for which answers are kept */

static DEFINE_SPINLOCK(memo_lock);
static bool memo_used;			/* the notifier is registered: answers may be kept */
static u64 memo_generation;		/* number of PCI events */
static struct memo {
	const struct device *client;	/* NULL: free.  Compared only, never dereferenced */
	struct peerdma_path path;
} memos[1 << MEMO_BITS][MEMO_WAYS];

static struct memo *memos_of(const struct device *client)
{
	return memos[hash_ptr((void *)client, MEMO_BITS)];
}

static void forget_all(void)
{
	spin_lock(&memo_lock);
	memo_generation++;
	memset(memos, 0, sizeof(memos));
	spin_unlock(&memo_lock);
}

/*
 * Looks for a remembered answer.  Returns 0 if found: *path is filled in.  Else returns the
 * generation for remember().
 */
static __always_inline u64 recall(const struct device *client, phys_addr_t phys, u64 length,
				  bool translated, struct peerdma_path *path)
{
	struct memo *memo = memos_of(client);
	u64 generation;
	int i;

	spin_lock(&memo_lock);
	generation = memo_generation + 1;
	for (i = 0; i < MEMO_WAYS; i++) {
		if (memo[i].client == client && memo[i].path.translated == translated &&
		    peerdma_path_covers(&memo[i].path, phys, length)) {
			*path = memo[i].path;
			generation = 0;
			break;
		}
	}
	spin_unlock(&memo_lock);
	return generation;
}

static void remember(const struct device *client, const struct peerdma_path *path, u64 generation)
{
	struct memo *memo = memos_of(client);

	spin_lock(&memo_lock);
	if (memo_used && generation == memo_generation + 1) {
		/* The newest comes first, the oldest is dropped. */
		memmove(&memo[1], &memo[0], (MEMO_WAYS - 1) * sizeof(memo[0]));
		memo[0].client = client;
		memo[0].path = *path;
	}
	spin_unlock(&memo_lock);
}

static int pci_event(struct notifier_block *nb, unsigned long event, void *data)
{
	forget_all();
	return NOTIFY_OK;
}

static struct notifier_block notifier = {
	.notifier_call = pci_event,
};

int peerdma_path_init(void)
{
	int err = bus_register_notifier(&pci_bus_type, &notifier);

	memo_used = !err;
	return err;
}

void peerdma_path_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &notifier);
}

/* ---- path_override ---------------------------------------------------------- */

enum { OVERRIDE_KNOWN, OVERRIDE_ANY };
static const char *const overrides[] = { "known", "any" };
static int path_override = OVERRIDE_KNOWN;

static int override_set(const char *value, const struct kernel_param *param)
{
	int n = sysfs_match_string(overrides, value);

	if (n < 0)
		return n;
	if (n == OVERRIDE_ANY)
		pr_notice("peerdma: path_override=any: memory is mapped over paths that are not known to work; what devices write may be lost\n");
	WRITE_ONCE(path_override, n);
	forget_all();
	return 0;
}

static int override_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", overrides[READ_ONCE(path_override)]);
}

static const struct kernel_param_ops override_ops = {
	.set = override_set,
	.get = override_get,
};
module_param_cb(path_override, &override_ops, NULL, 0644);
MODULE_PARM_DESC(path_override, "Paths between devices that are mapped: known (default) or any");

/* ---- facts ------------------------------------------------------------------- */

/*
 * Returns the PCI function with a BAR that overlaps the memory, with a reference, and that
 * BAR's number.  A virtual function's BAR belongs to it, not to the physical function whose
 * SR-IOV BAR contains it.
 */
static struct pci_dev *find_owner(struct resource *memory, int *bar)
{
	struct pci_dev *pdev = NULL;
	struct resource *res;

	for_each_pci_dev(pdev) {
		for (*bar = 0; *bar < PCI_STD_NUM_BARS; ++*bar) {
			res = &pdev->resource[*bar];
			if (resource_type(res) == IORESOURCE_MEM && resource_size(res) &&
			    !(res->flags & IORESOURCE_UNSET) && resource_overlaps(res, memory))
				return pdev;
		}
	}
	return NULL;
}

/* Parents live as long as the device. */
static struct pci_dev *pci_function_of(struct device *dev)
{
	while (dev && !dev_is_pci(dev))
		dev = dev->parent;
	return dev ? to_pci_dev(dev) : NULL;
}

bool peerdma_translated(struct device *client)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(client);

	return domain && domain->type & __IOMMU_DOMAIN_PAGING;
}

static const void *above(const void *context, const void *function)
{
	return pci_upstream_bridge((struct pci_dev *)function);
}

static bool redirects(const void *context, const void *function)
{
	struct pci_dev *pdev = (struct pci_dev *)function;
	int acs = pci_find_ext_capability(pdev, PCI_EXT_CAP_ID_ACS);
	u16 control = 0;

	if (acs)
		pci_read_config_word(pdev, acs + PCI_ACS_CTRL, &control);
	return control & PEERDMA_ACS_REDIRECT;
}

/*
 * Does not use pci_walk_bus(): its semaphore is held around drivers' callbacks, which may
 * end pins.
 */
static void read_host_bridge(const struct pci_bus *root, struct peerdma_host_bridge *bridge)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev)
		if (pdev->bus == root)
			break;
	if (pdev && (pdev->devfn == PCI_DEVFN(0, 0) ||
		     (pci_is_pcie(pdev) && pci_pcie_type(pdev) == PCI_EXP_TYPE_ROOT_PORT))) {
		bridge->found = true;
		bridge->vendor = pdev->vendor;
		bridge->device = pdev->device;
		bridge->subvendor = pdev->subsystem_vendor;
		bridge->subdevice = pdev->subsystem_device;
	}
	pci_dev_put(pdev);
}

static void read_host_bridges(struct pci_dev *provider, struct pci_dev *client,
			      struct peerdma_path_facts *facts)
{
	struct pci_host_bridge *a = pci_find_host_bridge(provider->bus);
	struct pci_host_bridge *b = pci_find_host_bridge(client->bus);

	facts->same_bridge = a == b;
	read_host_bridge(a->bus, &facts->provider_bridge);
	read_host_bridge(b->bus, &facts->client_bridge);
}

static void read_processor(struct peerdma_path_facts *facts)
{
#ifdef CONFIG_X86
	facts->amd = boot_cpu_data.x86_vendor == X86_VENDOR_AMD;
	facts->cpu_family = boot_cpu_data.x86;
#endif
}

/* ---- the verdict ------------------------------------------------------------- */

static const struct peerdma_path_tree tree = { .above = above, .redirects = redirects };

/* Returns the port that redirects, or NULL. */
static const struct pci_dev *read_facts(struct pci_dev *provider, struct pci_dev *client,
					bool translated, struct peerdma_path_facts *facts)
{
	*facts = (struct peerdma_path_facts) {
		.translated = translated,
		.emulated = provider->subsystem_vendor == PEERDMA_VENDOR_QEMU ||
			client->subsystem_vendor == PEERDMA_VENDOR_QEMU,
	};
	read_processor(facts);
	read_host_bridges(provider, client, facts);
	return peerdma_path_walk(&tree, provider, client, facts);
}

/* by: the port that redirects, or NULL. */
static enum peerdma_path_reason decide(struct pci_dev *provider, struct pci_dev *client,
				       bool translated, const struct pci_dev **by)
{
	struct peerdma_path_facts facts;
	enum peerdma_path_reason reason;

	*by = read_facts(provider, client, translated, &facts);
	reason = peerdma_path_decide(&facts);
	/*
	 * A later kernel may know more host bridges.  It is not asked if only the IOMMU
	 * keeps the client from using a path through a switch: its yes would mean bus
	 * addresses.
	 */
	if (peerdma_path_rule(reason)->verdict == PEERDMA_PATH_NOT_SUPPORTED &&
	    reason != PEERDMA_REASON_IOMMU &&
	    pci_p2pdma_distance(provider, &client->dev, false) >= 0)
		reason = PEERDMA_REASON_LINUX;
	return reason;
}

/*
 * Pages of p2pdma are mapped by the kernel, so its own answer decides, whatever the table says.
 * Only where that would lose the data it is not enough.
 */
static enum peerdma_path_reason decide_pages(struct pci_dev *provider, struct pci_dev *client,
					     bool translated, const struct pci_dev **by)
{
	struct peerdma_path_facts facts;
	enum peerdma_path_reason reason;
	bool supported, by_kernel;

	*by = read_facts(provider, client, translated, &facts);
	reason = peerdma_path_decide_pages(&facts);
	supported = peerdma_path_rule(reason)->verdict != PEERDMA_PATH_NOT_SUPPORTED;
	by_kernel = pci_p2pdma_distance(provider, &client->dev, false) >= 0;
	if (supported == by_kernel || reason == PEERDMA_REASON_BUS_LOST)
		return reason;
	return by_kernel ? PEERDMA_REASON_LINUX : PEERDMA_REASON_UNKNOWN_BRIDGE;
}

/*
 * Sets what the client adds to a CPU physical address if no IOMMU translates.  False: no
 * such address.
 */
static bool set_offset(struct peerdma_path *path, struct pci_dev *provider, int bar,
		       struct device *client)
{
	dma_addr_t addr = path->first;

	if (path->translated || path->verdict == PEERDMA_PATH_NOT_SUPPORTED)
		return true;
	if (path->verdict == PEERDMA_PATH_BUS_ADDRESS)
		addr = pci_bus_address(provider, bar);
	else if (client->dma_range_map)
		addr = translate_phys_to_dma(client, path->first);
	path->offset = addr - path->first;
	return addr != DMA_MAPPING_ERROR;
}

static void set_reason(struct peerdma_path *path, enum peerdma_path_reason reason)
{
	path->reason = reason;
	path->verdict = peerdma_path_rule(reason)->verdict;
}

/*
 * The administrator and the provider's driver can allow a path, but not memory that extends
 * beyond one BAR.
 */
static void apply_override(struct peerdma_path *path, struct device *client, bool vouched)
{
	const struct peerdma_path_rule *rule = peerdma_path_rule(path->reason);

	if (path->verdict != PEERDMA_PATH_NOT_SUPPORTED)
		return;
	if (vouched) {
		set_reason(path, PEERDMA_REASON_VOUCHED);
		return;
	}
	if (READ_ONCE(path_override) != OVERRIDE_ANY)
		return;
	dev_notice_ratelimited(client, "peerdma: path_override=any: maps the memory of %s, although %s\n",
			       path->provider, rule->text);
	set_reason(path, PEERDMA_REASON_OVERRIDE);
}

static void refuse(const struct peerdma_path *path, struct device *client,
		   const struct pci_dev *by)
{
	const struct peerdma_path_rule *rule = peerdma_path_rule(path->reason);

	dev_warn_ratelimited(client, "peerdma: does not reach the memory of %s: %s%s%s; to change that: %s\n",
			     path->provider, rule->text, by ? ": port " : "",
			     by ? pci_name(by) : "", rule->remedy);
}

/* For memory that is not RAM.  Returns whether the answer may be remembered. */
static bool find_path(struct resource *memory, struct device *client, bool vouched,
		      struct peerdma_path *path)
{
	struct pci_dev *provider, *pci_client = pci_function_of(client);
	const struct pci_dev *by = NULL;
	int bar;

	provider = find_owner(memory, &bar);
	if (!provider)
		return false;
	strscpy(path->provider, pci_name(provider), sizeof(path->provider));
	if (!resource_contains(&provider->resource[bar], memory)) {
		set_reason(path, PEERDMA_REASON_BAR_END);
		goto out;
	}
	path->first = pci_resource_start(provider, bar);
	path->last = pci_resource_end(provider, bar);
	set_reason(path, pci_client ? decide(provider, pci_client, path->translated, &by) :
		   PEERDMA_REASON_NOT_PCI);
	apply_override(path, client, vouched);
	if (!set_offset(path, provider, bar, client))
		set_reason(path, PEERDMA_REASON_DMA_RANGE);
out:
	if (path->verdict == PEERDMA_PATH_NOT_SUPPORTED)
		refuse(path, client, by);
	pci_dev_put(provider);
	/* Refusals are not remembered: each may print its message, and they need not be fast. */
	return path->verdict != PEERDMA_PATH_NOT_SUPPORTED &&
		path->reason != PEERDMA_REASON_VOUCHED && dev_is_pci(client);
}

bool peerdma_path_known(phys_addr_t phys, u64 length, struct device *client,
			struct peerdma_path *path)
{
	return !recall(client, phys, length, peerdma_translated(client), path);
}

int peerdma_path_check(phys_addr_t phys, u64 length, struct device *client,
		       bool vouched, struct peerdma_path *path)
{
	struct resource memory = DEFINE_RES_MEM(phys, length);
	bool translated = peerdma_translated(client);
	u64 generation = recall(client, phys, length, translated, path);

	if (!generation)
		return 0;
	*path = (struct peerdma_path) {
		.reason = PEERDMA_REASON_MACHINE,
		.verdict = PEERDMA_PATH_MACHINE,
		.translated = translated,
		.first = memory.start,
		.last = memory.end,
	};
	if (region_intersects(phys, length, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
	    REGION_INTERSECTS && find_path(&memory, client, vouched, path))
		remember(client, path, generation);
	return path->verdict == PEERDMA_PATH_NOT_SUPPORTED ? -EOPNOTSUPP : 0;
}

int peerdma_path_check_pages(phys_addr_t phys, u64 length, struct device *client)
{
	struct resource memory = DEFINE_RES_MEM(phys, length);
	struct pci_dev *provider, *pci_client = pci_function_of(client);
	struct peerdma_path path = {};
	const struct pci_dev *by = NULL;
	int bar;

	provider = find_owner(&memory, &bar);
	if (!provider)
		return -EOPNOTSUPP;
	strscpy(path.provider, pci_name(provider), sizeof(path.provider));
	set_reason(&path, pci_client ?
		   decide_pages(provider, pci_client, peerdma_translated(client), &by) :
		   PEERDMA_REASON_NOT_PCI);
	if (path.verdict == PEERDMA_PATH_NOT_SUPPORTED)
		refuse(&path, client, by);
	pci_dev_put(provider);
	return path.verdict == PEERDMA_PATH_NOT_SUPPORTED ? -EOPNOTSUPP : 0;
}
