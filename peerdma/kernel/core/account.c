// SPDX-License-Identifier: MIT OR GPL-2.0
/* account.c - resources charged to each user; account.h says which ones, and who a user is. */
#include <linux/capability.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/moduleparam.h>
#include <linux/rculist.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "account.h"
#include "charge.h"

unsigned int peerdma_limits[CHARGES] = {
	[CHARGE_PINS] = 1 << 16,
	[CHARGE_MAPPINGS] = 1 << 16,
	[CHARGE_VIEWS] = 1 << 16,
	[CHARGE_EXPORTS] = 1 << 16,
};

#define LIMIT(name, what, text)								\
	module_param_named(name, peerdma_limits[what], uint, 0644);			\
	MODULE_PARM_DESC(name, text " of one user (default 65536; 0: no limit)")
LIMIT(max_pins_per_user, CHARGE_PINS, "Pins");
LIMIT(max_mappings_per_user, CHARGE_MAPPINGS, "Mappings for devices");
LIMIT(max_views_per_user, CHARGE_VIEWS, "CPU views");
LIMIT(max_exports_per_user, CHARGE_EXPORTS, "Exported dma-bufs");

unsigned int peerdma_aperture_mib;
module_param_named(max_aperture_mib_per_user, peerdma_aperture_mib, uint, 0644);
MODULE_PARM_DESC(max_aperture_mib_per_user, "MiB of device memory that one user may have pinned; overlapping pins count separately (default 0: no limit)");

static const char *const names[CHARGES] = {
	[CHARGE_PINS] = "pins",
	[CHARGE_MAPPINGS] = "mappings",
	[CHARGE_VIEWS] = "views",
	[CHARGE_EXPORTS] = "exports",
};

/* ---- accounts ---- */

/*
 * Accounts are freed only when the module is unloaded: there is one for each user who ever
 * used peerdma.  Each takes two cache lines, charged to the process that allocates it.
 * Readers use RCU.
 */
#define TABLE_BITS 6
static struct hlist_head table[1 << TABLE_BITS];
static DEFINE_SPINLOCK(table_lock);	/* writers */
struct peerdma_account *peerdma_last_account;

static struct hlist_head *bucket(kuid_t uid)
{
	return &table[hash_32(__kuid_val(uid), TABLE_BITS)];
}

/* The first user id of the range that contains uid. */
static kuid_t first_of_range(const struct uid_gid_map *map, kuid_t uid)
{
	u32 i, n = map->nr_extents;
	const struct uid_gid_extent *extents;

	/* The map is written once, its length last. */
	smp_rmb();
	extents = n <= UID_GID_MAP_MAX_BASE_EXTENTS ? map->extent : map->forward;
	for (i = 0; i < n; i++)
		if (__kuid_val(uid) - extents[i].lower_first < extents[i].count)
			return KUIDT_INIT(extents[i].lower_first);
	return uid;
}

/*
 * The user id to charge.  In a user namespace: the owner of the outermost one, or, if that
 * is root, the range of user ids that root gave it.  Namespaces nested in that one have no
 * other user ids.
 */
static kuid_t payer(void)
{
	struct user_namespace *ns = current_user_ns();

	if (likely(ns == &init_user_ns))
		return current_uid();
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return ns->owner;
	return first_of_range(&ns->uid_map, current_uid());
}

static struct peerdma_account *find(kuid_t uid)
{
	struct peerdma_account *account;

	hlist_for_each_entry_rcu(account, bucket(uid), node, lockdep_is_held(&table_lock))
		if (uid_eq(account->uid, uid))
			return account;
	return NULL;
}

static noinline struct peerdma_account *make(kuid_t uid)
{
	struct peerdma_account *fresh = peerdma_zalloc(sizeof(*fresh)), *account;

	if (!fresh)
		return NULL;
	fresh->uid = uid;
	spin_lock(&table_lock);
	account = find(uid);
	if (!account)
		hlist_add_head_rcu(&fresh->node, bucket(uid));
	spin_unlock(&table_lock);
	if (!account)
		return fresh;
	kfree(fresh);
	return account;
}

struct peerdma_account *peerdma_account_find(void)
{
	struct peerdma_account *account;
	kuid_t uid = payer();

	rcu_read_lock();
	account = find(uid);
	rcu_read_unlock();
	if (!account)
		account = make(uid);
	if (account && current_user_ns() == &init_user_ns)
		WRITE_ONCE(peerdma_last_account, account);
	return account;
}

void peerdma_accounts_exit(void)
{
	struct peerdma_account *account;
	struct hlist_node *next;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		hlist_for_each_entry_safe(account, next, &table[i], node)
			kfree(account);
}

/* ---- objects ---- */

/* The charge was made already, and stays if the caller is exempt. */
noinline int peerdma_charge_refused(struct peerdma_account *account, enum peerdma_charge what)
{
	if (capable(CAP_SYS_RESOURCE))
		return 0;
	peerdma_uncharge(account, what);
	pr_info_ratelimited("peerdma: user %u has %u %s, as many as one user may have: refused (module parameter max_%s_per_user)\n",
			    from_kuid(&init_user_ns, account->uid), READ_ONCE(peerdma_limits[what]),
			    names[what], names[what]);
	return -EDQUOT;
}

noinline int peerdma_charge_aperture_refused(struct peerdma_account *account, u64 bytes)
{
	if (capable(CAP_SYS_RESOURCE))
		return 0;
	peerdma_uncharge_aperture(account, bytes);
	pr_info_ratelimited("peerdma: user %u would hold more than %u MiB of device memory: refused (module parameter max_aperture_mib_per_user)\n",
			    from_kuid(&init_user_ns, account->uid),
			    READ_ONCE(peerdma_aperture_mib));
	return -ENOBUFS;
}

/* ---- locked memory ---- */

static bool fits(atomic_long_t *counter, unsigned long npages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;

	if ((unsigned long)atomic_long_add_return(npages, counter) <= limit ||
	    capable(CAP_IPC_LOCK))
		return true;
	atomic_long_sub(npages, counter);
	return false;
}

/*
 * Two counters are charged: the kernel's locked_vm, shared with io_uring and others, which
 * is per user id, and our account's, which is per payer.
 */
int peerdma_lock_pages(struct peerdma_locked *locked, struct peerdma_account *account,
		       unsigned long npages)
{
	if (!fits(&account->locked, npages))
		return -ENOMEM;
	if (!fits(&current_user()->locked_vm, npages)) {
		atomic_long_sub(npages, &account->locked);
		return -ENOMEM;
	}
	atomic64_add(npages, &current->mm->pinned_vm);
	mmgrab(current->mm);
	locked->account = account;
	locked->cred = get_current_cred();
	locked->mm = current->mm;
	locked->npages = npages;
	return 0;
}
EXPORT_SYMBOL_GPL(peerdma_lock_pages);

void peerdma_unlock_pages(struct peerdma_locked *locked)
{
	atomic64_sub(locked->npages, &locked->mm->pinned_vm);
	atomic_long_sub(locked->npages, &locked->cred->user->locked_vm);
	atomic_long_sub(locked->npages, &locked->account->locked);
	mmdrop(locked->mm);
	put_cred(locked->cred);
}
EXPORT_SYMBOL_GPL(peerdma_unlock_pages);

/* ---- debugfs ---- */

void peerdma_accounts_show(struct seq_file *s)
{
	struct peerdma_account *account;
	unsigned int i, k;

	seq_puts(s, "uid\tpins\tmappings\tviews\texports\taperture\tlocked\n");
	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		hlist_for_each_entry_rcu(account, &table[i], node) {
			seq_printf(s, "%u", from_kuid(seq_user_ns(s), account->uid));
			for (k = 0; k < CHARGES; k++)
				seq_printf(s, "\t%u", atomic_read(&account->used[k]));
			seq_printf(s, "\t%llu\t%lu\n", atomic64_read(&account->aperture),
				   atomic_long_read(&account->locked) << PAGE_SHIFT);
		}
	}
	rcu_read_unlock();
}
