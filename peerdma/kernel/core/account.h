/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * account.h - resources charged to each user, and their limits.
 *
 * Every resource that one process could exhaust is charged to a user: pins, mappings, CPU
 * views and dma-bufs by number, GPU apertures in bytes, host memory in pages.  A charge
 * belongs to the user who made the object and lasts as long as the object, even if another
 * process holds it by then.
 *
 * The user is the real user id of the calling process.  Inside a user namespace that an
 * unprivileged user made, it is that user.  Inside one that root made (a container), it is
 * the first of the range of user ids that root gave it, for all ids of that range:
 * otherwise each id of /etc/subuid or of a container would be a separate account.
 *
 * Limits are module parameters (0: no limit), read at each charge.  CAP_SYS_RESOURCE
 * exempts from limits on objects, CAP_IPC_LOCK from RLIMIT_MEMLOCK, as elsewhere in Linux.
 * Exempt callers are charged as well, so that the sums are right.
 *
 * All calls may sleep; charging takes no lock.  Finding the account may allocate it, so it
 * is done before a lock is taken (charge.h).
 */
#ifndef PEERDMA_ACCOUNT_H
#define PEERDMA_ACCOUNT_H

#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

struct mm_struct;
struct seq_file;

enum peerdma_charge {
	CHARGE_PINS,
	CHARGE_MAPPINGS,
	CHARGE_VIEWS,
	CHARGE_EXPORTS,
	CHARGES,
};

struct peerdma_account {
	struct hlist_node node;		/* in the table of accounts; never leaves it */
	kuid_t uid;
	atomic_t used[CHARGES];
	atomic64_t aperture;		/* bytes */
	atomic_long_t locked;		/* pages */
	atomic64_t revocations;		/* of its pins, ever */
	atomic_t parked;		/* page views whose memory is parked: pages.c */
};

extern struct peerdma_account *peerdma_last_account;
extern unsigned int peerdma_limits[CHARGES];
extern unsigned int peerdma_aperture_mib;	/* 0: no limit */

struct peerdma_account *peerdma_account_find(void);

/*
 * The calling process's account, allocated on first use and never freed; NULL: out of
 * memory.  The last account found is tried first: mostly the caller has the same one.
 */
static inline struct peerdma_account *peerdma_account(void)
{
	struct peerdma_account *last = READ_ONCE(peerdma_last_account);

	if (likely(last && uid_eq(last->uid, current_uid()) && current_user_ns() == &init_user_ns))
		return last;
	return peerdma_account_find();
}

int peerdma_charge_refused(struct peerdma_account *account, enum peerdma_charge what);

/* 0, or -EDQUOT: the user has reached the limit. */
static inline int peerdma_charge(struct peerdma_account *account, enum peerdma_charge what)
{
	unsigned int limit = READ_ONCE(peerdma_limits[what]);

	if (likely((unsigned int)atomic_inc_return(&account->used[what]) <= limit || !limit))
		return 0;
	return peerdma_charge_refused(account, what);
}

static inline void peerdma_uncharge(struct peerdma_account *account, enum peerdma_charge what)
{
	atomic_dec(&account->used[what]);
}

int peerdma_charge_aperture_refused(struct peerdma_account *account, u64 bytes);

/* 0, or -ENOBUFS: the user would exceed the limit on aperture bytes. */
static inline int peerdma_charge_aperture(struct peerdma_account *account, u64 bytes)
{
	u64 used = atomic64_add_return(bytes, &account->aperture);
	u64 limit = READ_ONCE(peerdma_aperture_mib);

	if (likely(!limit || used <= limit << 20))
		return 0;
	return peerdma_charge_aperture_refused(account, bytes);
}

static inline void peerdma_uncharge_aperture(struct peerdma_account *account, u64 bytes)
{
	atomic64_sub(bytes, &account->aperture);
}

/* Locked pages of one process, and to whom they are charged. */
struct peerdma_locked {
	struct peerdma_account *account;
	const struct cred *cred;	/* of the user whose locked_vm counts them */
	struct mm_struct *mm;		/* only the struct and its counter pinned_vm are used */
	unsigned long npages;
};

/*
 * 0, or -ENOMEM: RLIMIT_MEMLOCK is exceeded.  As in io_uring, the limit is per user, not
 * per process.  On failure nothing is charged.
 */
int peerdma_lock_pages(struct peerdma_locked *locked, struct peerdma_account *account,
		       unsigned long npages);
void peerdma_unlock_pages(struct peerdma_locked *locked);

/* Prints a table of all accounts; its first line names the columns. */
void peerdma_accounts_show(struct seq_file *s);
/* The module is unloaded: nothing is charged any more. */
void peerdma_accounts_exit(void);

#endif
