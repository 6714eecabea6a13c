// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvp2p_test.ko - a client of nvidia_p2p that does what a program tells it,
 * mistakes included.  It knows nothing of who provides the interface; it builds
 * against any nv-p2p.h for desktop GPUs, old ones too.
 *
 * Only for tests: a program that may open its device can make the kernel read
 * and write what it has pinned.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/ioport.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "nvp2p_test_features.h"

#define POISON	((void *)0x6b6b6b6b6b6b6b60UL)

struct slot {
	struct nvidia_p2p_page_table *table, *last;
	struct nvidia_p2p_dma_mapping *mapping[NVP2P_TEST_MAPPINGS];
	struct nvidia_p2p_dma_mapping *last_mapping[NVP2P_TEST_MAPPINGS];
	struct pci_dev *peer[NVP2P_TEST_MAPPINGS];
	bool persistent;
	u64 va, first_page;
	u32 entries;
	u32 on_callback;		/* C_* */
	struct completion release;
	struct mutex client;		/* the lock that a client would have */
	/* what the callback saw */
	u32 callbacks, callbacks_done, callback_pid, callback_had_mm, callback_word;
	int callback_ret, callback_frees;
	bool callback_valid, stuck;
};

static struct slot slots[NVP2P_TEST_SLOTS];
static struct slot *null_data_slot;

/* ---- memory by its physical address ---- */

static void *map_page64(u64 phys)
{
	bool ram = region_intersects(phys, SZ_64K, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) ==
		   REGION_INTERSECTS;

	return memremap(phys, SZ_64K, ram ? MEMREMAP_WB : MEMREMAP_WC);
}

/* Between the pinned memory at offset and user space. */
static int access_pages(struct nvidia_p2p_page_table *table, u64 offset, u64 length,
			void __user *data, bool poke)
{
	while (length) {
		u64 n = min_t(u64, length, SZ_64K - offset % SZ_64K);
		unsigned long left;
		void *page;

		if (offset / SZ_64K >= table->entries)
			return -ERANGE;
		page = map_page64(table->pages[offset / SZ_64K]->physical_address);
		if (!page)
			return -ENOMEM;
		if (poke)
			left = copy_from_user(page + offset % SZ_64K, data, n);
		else
			left = copy_to_user(data, page + offset % SZ_64K, n);
		memunmap(page);
		if (left)
			return -EFAULT;
		offset += n;
		data += n;
		length -= n;
	}
	return 0;
}

/* Whether every page is within one and the same BAR, as the aperture's are. */
static bool is_within(struct pci_dev *pdev, const struct nvidia_p2p_page_table *table)
{
	u32 bar, i;

	for (bar = 0; bar < PCI_STD_NUM_BARS; bar++) {
		u64 start = pci_resource_start(pdev, bar), length = pci_resource_len(pdev, bar);

		for (i = 0; length && i < table->entries; i++) {
			u64 phys = table->pages[i]->physical_address;

			if (phys < start || phys - start >= length)
				break;
		}
		if (length && i == table->entries)
			return true;
	}
	return false;
}

static bool is_in_bar(const struct nvidia_p2p_page_table *table)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev) {
		if (is_within(pdev, table)) {
			pci_dev_put(pdev);
			return true;
		}
	}
	return false;
}

/* ---- a client's lock ---- */

/*
 * A provider that holds a lock of its own across callbacks makes a client wait for
 * ever that takes one of its own in both places; here it is given up and said.
 */
static bool client_lock(struct slot *s)
{
	u32 i;

	for (i = 0; i < 5000; i++) {
		if (mutex_trylock(&s->client))
			return true;
		usleep_range(1000, 2000);
	}
	WRITE_ONCE(s->stuck, true);
	return false;
}

static void client_unlock(struct slot *s, bool locked)
{
	if (locked)
		mutex_unlock(&s->client);
}

/* ---- the callback ---- */

static void mapping_is_gone(struct slot *s, u32 i)
{
	if (s->mapping[i])
		s->last_mapping[i] = s->mapping[i];
	s->mapping[i] = NULL;
	pci_dev_put(s->peer[i]);
	s->peer[i] = NULL;
}

/* The provider has freed all, or does so when the callback returns. */
static void pin_is_gone(struct slot *s)
{
	u32 i;

	s->last = s->table;
	s->table = NULL;
	for (i = 0; i < NVP2P_TEST_MAPPINGS; i++)
		mapping_is_gone(s, i);
}

static void ignore(void *data)
{
}

static struct slot *next_slot(struct slot *s)
{
	return s == &slots[NVP2P_TEST_SLOTS - 1] ? s : s + 1;
}

static void misbehave(struct slot *s, u32 how)
{
	struct slot *other = next_slot(s);
	struct nvidia_p2p_dma_mapping *mapping = NULL;
	struct nvidia_p2p_page_table *table = NULL;

	if (how & C_PUT)
		s->callback_ret = nvidia_p2p_put_pages(0, 0, s->va, s->table);
	if (how & C_DMA_MAP)
		s->callback_ret = t_dma_map(s->peer[0], s->table, &mapping);
	if (how & C_DMA_UNMAP)
		s->callback_ret = t_dma_unmap(s->peer[0], s->table, s->mapping[0]);
	if (how & C_FREE_TWICE)
		nvidia_p2p_free_page_table(s->table);
	if (how & C_FREE_NULL)
		nvidia_p2p_free_page_table(NULL);
	if (how & C_FREE_GARBAGE)
		nvidia_p2p_free_page_table(POISON);
	if (how & C_FREE_OTHER)
		nvidia_p2p_free_page_table(other->table);
	if (how & C_PUT_OTHER) {
		s->callback_ret = nvidia_p2p_put_pages(0, 0, other->va, other->table);
		pin_is_gone(other);
	}
	if (how & C_GET) {
		s->callback_ret = nvidia_p2p_get_pages(0, 0, s->va, SZ_64K, &table, ignore, NULL);
		if (!s->callback_ret)
			nvidia_p2p_put_pages(0, 0, s->va, table);
	}
}

/* Table and mappings are what they were. */
static bool is_valid(const struct slot *s)
{
	u32 i;

	if (!t_table_readable(s->table) || s->table->entries != s->entries ||
	    s->table->pages[0]->physical_address != s->first_page)
		return false;
	for (i = 0; i < NVP2P_TEST_MAPPINGS; i++) {
		if (s->mapping[i] && s->mapping[i]->entries != s->entries)
			return false;
	}
	return true;
}

static void free_callback(void *data)
{
	struct slot *s = data ? data : null_data_slot;
	u32 how = READ_ONCE(s->on_callback);
	bool locked = false;

	/* Every pin ends once: never by put and callback both. */
	if (WARN_ON(!s->table))
		return;
	s->callback_pid = task_pid_nr(current);
	s->callback_had_mm = !!current->mm;
	s->callbacks++;
	if (how & C_WAIT)
		wait_for_completion_timeout(&s->release, 60 * HZ);
	if (how & C_CLIENT_LOCK)
		locked = client_lock(s);
	if (how & (C_CLIENT_MUTEX | C_NEXT_MUTEX)) {
		struct slot *whose = how & C_NEXT_MUTEX ? next_slot(s) : s;

		mutex_lock(&whose->client);
		mutex_unlock(&whose->client);
	}
	s->callback_valid = is_valid(s);
	if ((how & C_PEEK) && t_table_readable(s->table)) {
		u32 *page = map_page64(s->table->pages[0]->physical_address);

		s->callback_word = page ? *page : 0;
		if (page)
			memunmap(page);
	}
	misbehave(s, how);
	if (how & C_FREE_DMA_MAPPING)
		s->callback_frees |= t_free_dma_mapping(s->mapping[0]);
	if (how & C_FREE_PAGE_TABLE)
		s->callback_frees |= nvidia_p2p_free_page_table(s->table);
	else if (!(how & C_KEEP_TABLE))
		nvidia_p2p_free_page_table(s->table);
	pin_is_gone(s);
	client_unlock(s, locked);
	/* Last, for those who look while it runs. */
	smp_store_release(&s->callbacks_done, s->callbacks_done + 1);
}

/* ---- operations ---- */

static struct nvidia_p2p_page_table *which_table(const struct slot *s,
						 const struct nvp2p_test_call *c)
{
	if (c->flags & W_NULL_TABLE)
		return NULL;
	if (c->flags & W_STALE_TABLE)
		return s->last;
	if (c->flags & W_GARBAGE_TABLE)
		return (void *)(uintptr_t)c->value;
	return s->table;
}

static struct nvidia_p2p_dma_mapping *which_mapping(const struct slot *s,
						    const struct nvp2p_test_call *c)
{
	if (c->flags & W_NULL_MAPPING)
		return NULL;
	if (c->flags & W_STALE_MAPPING)
		return s->last_mapping[c->mapping];
	return s->mapping[c->mapping];
}

static void describe_table(struct slot *s, struct nvp2p_test_call *c,
			   const struct nvidia_p2p_page_table *table)
{
	u32 i;

	c->version = table->version;
	if (!t_table_readable(table))
		return;
	c->page_size = table->page_size;
	c->entries = table->entries;
	c->table_flags = t_table_flags(table);
	c->uuid_pointer = (uintptr_t)table->gpu_uuid;
	if (table->gpu_uuid)
		memcpy(c->uuid, table->gpu_uuid, sizeof(c->uuid));
	c->registers_zero = 1;
	for (i = 0; i < table->entries; i++) {
		if (memchr_inv(&table->pages[i]->registers, 0, sizeof(table->pages[i]->registers)))
			c->registers_zero = 0;
	}
	s->entries = table->entries;
	s->first_page = table->entries ? table->pages[0]->physical_address : 0;
}

static int op_get(struct slot *s, struct nvp2p_test_call *c, bool persistent)
{
	struct nvidia_p2p_page_table **where = c->flags & W_NULL_TABLE ? NULL : &s->table;
	void *data = c->flags & W_NULL_DATA ? NULL : s;
	bool locked = false;

	if (s->table)
		return -EBUSY;
	if (!data)
		null_data_slot = s;
	s->persistent = persistent;
	s->va = c->va;
	s->callbacks = 0;
	s->callbacks_done = 0;
	s->callback_pid = 0;
	s->callback_ret = 0;
	s->callback_frees = 0;
	s->callback_valid = false;
	s->stuck = false;
	s->table = POISON;
	if (c->flags & W_CLIENT_LOCK)
		locked = client_lock(s);
	if (persistent)
		c->ret = t_get_persistent(c->va, c->length, where, c->value);
	else
		c->ret = nvidia_p2p_get_pages(c->token, c->va_space, c->va, c->length, where,
					      c->flags & W_NULL_CALLBACK ? NULL : free_callback,
					      data);
	c->out = s->table == POISON ? OUT_UNTOUCHED : s->table ? OUT_SET : OUT_NULL;
	c->pointer = (uintptr_t)s->table;
	if (c->ret)
		s->table = NULL;
	else if (s->table)
		describe_table(s, c, s->table);
	client_unlock(s, locked);
	return 0;
}

static int op_put(struct slot *s, struct nvp2p_test_call *c, bool persistent)
{
	struct nvidia_p2p_page_table *table = which_table(s, c);
	bool own = table && table == s->table && !(c->flags & W_KEEP), locked = false;

	/* The callback came first: a client has nothing to put, and does not ask. */
	if (!table && !c->value && !(c->flags & (W_NULL_TABLE | W_STALE_TABLE))) {
		c->ret = 0;
		return 0;
	}
	if (c->flags & W_CLIENT_LOCK)
		locked = client_lock(s);
	if (persistent)
		c->ret = t_put_persistent(s->va, table, c->value);
	else
		c->ret = nvidia_p2p_put_pages(c->token, c->va_space, s->va, table);
	/* A callback may have been quicker. */
	if (own && !c->ret && s->table == table)
		pin_is_gone(s);
	client_unlock(s, locked);
	return 0;
}

/* The mask of a device that has a driver is that driver's, unless it is the one that does nothing. */
static bool has_driver(const struct pci_dev *peer)
{
	return peer->driver && strcmp(peer->driver->name, "idle_driver");
}

static struct pci_dev *get_peer(const struct nvp2p_test_call *c)
{
	struct pci_dev *peer;

	peer = pci_get_domain_bus_and_slot(c->bdf >> 16, c->bdf >> 8 & 0xff, c->bdf & 0xff);
	if (!peer || !peer->dev.dma_mask || has_driver(peer))
		return peer;
	/* Not by dma_set_mask(): on some machines a device that reaches none of their memory is refused. */
	*peer->dev.dma_mask = DMA_BIT_MASK(c->flags & W_SMALL_MASK ? 28 : 64);
	return peer;
}

static int op_dma_map(struct slot *s, struct nvp2p_test_call *c)
{
	struct nvidia_p2p_dma_mapping **where = &s->mapping[c->mapping];
	struct pci_dev *peer;
	bool locked = false;

	if (*where)
		return -EBUSY;
	peer = get_peer(c);
	if (!peer)
		return -ENODEV;
	if (c->flags & W_CLIENT_LOCK)
		locked = client_lock(s);
	*where = POISON;
	c->ret = t_dma_map(c->flags & W_NULL_PEER ? NULL : peer, which_table(s, c),
					  c->flags & W_NULL_MAPPING ? NULL : where);
	c->out = *where == POISON ? OUT_UNTOUCHED : *where ? OUT_SET : OUT_NULL;
	if (c->ret || c->out != OUT_SET) {
		*where = NULL;
		pci_dev_put(peer);
	} else {
		c->version = (*where)->version;
		c->page_size = (*where)->page_size_type;
		c->entries = (*where)->entries;
		c->peer_matches = t_mapping_peer(*where) == peer;
		s->peer[c->mapping] = peer;
	}
	client_unlock(s, locked);
	return 0;
}

static struct pci_dev *another_than(const struct pci_dev *peer)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev) {
		if (pdev != peer)
			break;
	}
	return pdev;
}

static int op_dma_unmap(struct slot *s, struct nvp2p_test_call *c)
{
	bool locked = c->flags & W_CLIENT_LOCK && client_lock(s);
	struct nvidia_p2p_dma_mapping *mapping = which_mapping(s, c);
	struct pci_dev *peer = c->bdf ? get_peer(c) : pci_dev_get(s->peer[c->mapping]);

	if (c->flags & W_OTHER_PEER) {
		struct pci_dev *other = another_than(peer);

		pci_dev_put(peer);
		peer = other;
	}
	c->ret = t_dma_unmap(c->flags & W_NULL_PEER ? NULL : peer, which_table(s, c), mapping);
	if (mapping && mapping == s->mapping[c->mapping] && !c->ret)
		mapping_is_gone(s, c->mapping);
	client_unlock(s, locked);
	pci_dev_put(peer);
	return 0;
}

static int op_pages(const struct slot *s, const struct nvp2p_test_call *c)
{
	u64 __user *to = (u64 __user *)(uintptr_t)c->data;
	u32 i;

	if (!s->table || !t_table_readable(s->table))
		return -ENOENT;
	for (i = 0; i < s->table->entries && i < c->length; i++) {
		if (put_user(s->table->pages[i]->physical_address, to + i))
			return -EFAULT;
	}
	return 0;
}

static int op_dma_addresses(const struct slot *s, const struct nvp2p_test_call *c)
{
	const struct nvidia_p2p_dma_mapping *mapping = s->mapping[c->mapping];
	u64 __user *to = (u64 __user *)(uintptr_t)c->data;
	u32 i;

	if (!mapping)
		return -ENOENT;
	for (i = 0; i < mapping->entries && i < c->length; i++) {
		if (put_user(mapping->dma_addresses[i], to + i))
			return -EFAULT;
	}
	return 0;
}

static int op_state(struct slot *s, struct nvp2p_test_call *c)
{
	/* Pairs with the callback's release: what it left is there to be read. */
	c->callbacks_done = smp_load_acquire(&s->callbacks_done);
	c->callbacks = READ_ONCE(s->callbacks);
	c->callback_pid = s->callback_pid;
	c->callback_had_mm = s->callback_had_mm;
	c->callback_ret = s->callback_ret;
	c->callback_word = s->callback_word;
	c->callback_valid = s->callback_valid;
	c->callback_frees = s->callback_frees;
	c->stuck = READ_ONCE(s->stuck);
	c->pointer = (uintptr_t)s->table;
	return 0;
}

static void reset_slot(struct slot *s)
{
	complete_all(&s->release);
	if (s->table && s->persistent)
		t_put_persistent(s->va, s->table, 0);
	else
		nvidia_p2p_put_pages(0, 0, s->va, s->table);
	pin_is_gone(s);
	s->last = NULL;
	memset(s->last_mapping, 0, sizeof(s->last_mapping));
	s->on_callback = 0;
	reinit_completion(&s->release);
}

static void reset_all(void)
{
	u32 i;

	for (i = 0; i < NVP2P_TEST_SLOTS; i++)
		reset_slot(&slots[i]);
}

/* ---- what stands alone ---- */

#ifdef NVIDIA_P2P_RSYNC_DRIVER_VERSION
static int rsync_get(int *mode, void *data)
{
	return 0;
}

static void rsync_put(int mode, void *data)
{
}

static void rsync_wait(struct pci_dev *gpu, void *data)
{
}

static nvidia_p2p_rsync_driver_t rsync_good = {
	.version = NVIDIA_P2P_RSYNC_DRIVER_VERSION,
	.get_relaxed_ordering_mode = rsync_get,
	.put_relaxed_ordering_mode = rsync_put,
	.wait_for_rsync = rsync_wait,
};

static int op_rsync(u64 what)
{
	nvidia_p2p_rsync_driver_t bad = rsync_good;

	switch (what) {
	case M_RSYNC_REGISTER:
		return nvidia_p2p_register_rsync_driver(&rsync_good, NULL);
	case M_RSYNC_REGISTER_NULL:
		return nvidia_p2p_register_rsync_driver(NULL, NULL);
	case M_RSYNC_UNREGISTER:
		nvidia_p2p_unregister_rsync_driver(&rsync_good, NULL);
		return 0;
	case M_RSYNC_REGISTER_VERSION:
		bad.version = 0x00020000;
		break;
	case M_RSYNC_REGISTER_NO_GET:
		bad.get_relaxed_ordering_mode = NULL;
		break;
	case M_RSYNC_REGISTER_NO_PUT:
		bad.put_relaxed_ordering_mode = NULL;
		break;
	case M_RSYNC_REGISTER_NO_WAIT:
		bad.wait_for_rsync = NULL;
		break;
	}
	return nvidia_p2p_register_rsync_driver(&bad, NULL);
}
#else
static int op_rsync(u64 what)
{
	return NVP2P_TEST_ABSENT;
}
#endif

static int op_misc(u64 what)
{
	switch (what) {
	case M_INIT_MAPPING:
		return nvidia_p2p_init_mapping(1, NULL, free_callback, &slots[0]);
	case M_DESTROY_MAPPING:
		return nvidia_p2p_destroy_mapping(1);
	case M_GET_RSYNC:
		return t_get_rsync();
	case M_PUT_RSYNC:
		return t_put_rsync();
	}
	return op_rsync(what);
}

/* Where a bus address of the peer's leads, now. */
static int op_translate(struct nvp2p_test_call *c)
{
	struct pci_dev *peer = get_peer(c);
	struct iommu_domain *domain;

	if (!peer)
		return -ENODEV;
	domain = iommu_get_domain_for_dev(&peer->dev);
	c->pointer = domain && domain->type != IOMMU_DOMAIN_IDENTITY;
	c->value = c->pointer ? iommu_iova_to_phys(domain, c->va) : c->va;
	pci_dev_put(peer);
	return 0;
}

static int op_features(struct nvp2p_test_call *c)
{
	c->value = NVP2P_TEST_FEATURES;
	c->version = NVIDIA_P2P_PAGE_TABLE_VERSION;
	c->token = HEADER_MAPPING_VERSION;
	return 0;
}

static int run(struct nvp2p_test_call *c)
{
	struct slot *s;

	if (c->slot >= NVP2P_TEST_SLOTS || c->mapping >= NVP2P_TEST_MAPPINGS)
		return -EINVAL;
	s = &slots[c->slot];
	switch (c->op) {
	case T_GET:
		return op_get(s, c, false);
	case T_GET_PERSISTENT:
		return op_get(s, c, true);
	case T_PUT:
		return op_put(s, c, false);
	case T_PUT_PERSISTENT:
		return op_put(s, c, true);
	case T_FREE_PAGE_TABLE:
		c->ret = nvidia_p2p_free_page_table(which_table(s, c));
		return 0;
	case T_DMA_MAP:
		return op_dma_map(s, c);
	case T_DMA_UNMAP:
		return op_dma_unmap(s, c);
	case T_FREE_DMA_MAPPING:
		c->ret = t_free_dma_mapping(which_mapping(s, c));
		return 0;
	case T_PAGES:
		return op_pages(s, c);
	case T_DMA_ADDRESSES:
		return op_dma_addresses(s, c);
	case T_PEEK:
	case T_POKE:
		if (!s->table || !t_table_readable(s->table))
			return -ENOENT;
		return access_pages(s->table, c->va, c->length, (void __user *)(uintptr_t)c->data,
				    c->op == T_POKE);
	case T_STATE:
		return op_state(s, c);
	case T_ON_CALLBACK:
		WRITE_ONCE(s->on_callback, c->value);
		return 0;
	case T_RELEASE:
		complete(&s->release);
		return 0;
	case T_MISC:
		c->ret = op_misc(c->value);
		return 0;
	case T_RESET:
		reset_all();
		return 0;
	case T_IN_BAR:
		if (!s->table || !t_table_readable(s->table))
			return -ENOENT;
		c->ret = is_in_bar(s->table);
		return 0;
	case T_FORGET:
		pin_is_gone(s);
		return 0;
	case T_FEATURES:
		return op_features(c);
	case T_TRANSLATE:
		return op_translate(c);
	}
	return -EINVAL;
}

static long test_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct nvp2p_test_call c;
	int err;

	if (cmd != NVP2P_TEST_CALL)
		return -ENOTTY;
	if (copy_from_user(&c, (void __user *)arg, sizeof(c)))
		return -EFAULT;
	err = run(&c);
	if (!err && copy_to_user((void __user *)arg, &c, sizeof(c)))
		err = -EFAULT;
	return err;
}

static const struct file_operations test_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = test_ioctl,
};

static struct miscdevice test_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = NVP2P_TEST_DEVICE,
	.fops = &test_fops,
	.mode = 0600,
};

static int __init test_init(void)
{
	u32 i;

	for (i = 0; i < NVP2P_TEST_SLOTS; i++) {
		init_completion(&slots[i].release);
		mutex_init(&slots[i].client);
	}
	return misc_register(&test_device);
}

static void __exit test_exit(void)
{
	misc_deregister(&test_device);
	reset_all();
	op_rsync(M_RSYNC_UNREGISTER);
}

module_init(test_init);
module_exit(test_exit);

MODULE_DESCRIPTION("A client of nvidia_p2p for tests, which does what a program tells it");
MODULE_AUTHOR("The peerdma authors");
MODULE_LICENSE("Dual MIT/GPL");
