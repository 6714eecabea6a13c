/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * account.h - what each user has taken, and may take.
 *
 * Everything that one process could take so much of that others get none is charged to
 * a user: pins, mappings, CPU views and dma-bufs by number, the GPUs' apertures by
 * bytes, host memory by pages.  A charge belongs to the user who made the object and
 * lasts as long as the object, in whichever process it lives by then.
 *
 * The user is the real user id of the calling process.  In a user namespace that an
 * unprivileged user made it is that user, and in one that root made (a container) the
 * first of the user ids that root gave it, for all of them: otherwise those of
 * /etc/subuid, or of one container, would be as many accounts.
 *
 * Limits are module parameters (0: none), read at each charge.  CAP_SYS_RESOURCE exempts
 * from those on objects, CAP_IPC_LOCK from RLIMIT_MEMLOCK, as elsewhere in Linux.  Exempt
 * callers are charged as well, so that the sums are right.
 *
 * All calls may be made from any context that may sleep; charging takes no lock.
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
	atomic64_t aperture;		/* bytes, of each pin made while there is a limit */
	atomic_long_t locked;		/* pages */
	atomic64_t revocations;		/* of its pins, ever */
};

extern struct peerdma_account *peerdma_last_account;
extern unsigned int peerdma_limits[CHARGES];
extern unsigned int peerdma_aperture_mib;	/* 0: no limit */

struct peerdma_account *peerdma_account_find(void);

/*
 * The calling process's account, made when first asked for and never freed; NULL: out of
 * memory.  Mostly it is the same one again.
 */
static inline struct peerdma_account *peerdma_account(void)
{
	struct peerdma_account *last = READ_ONCE(peerdma_last_account);

	if (likely(last && uid_eq(last->uid, current_uid()) && current_user_ns() == &init_user_ns))
		return last;
	return peerdma_account_find();
}

int peerdma_charge_refused(struct peerdma_account *account, enum peerdma_charge what);

/* 0, or -EDQUOT: the user has as many as one may have. */
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

/* 0, or -ENOBUFS: the user would hold more of the GPUs' apertures than one may hold. */
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

/* Pages that are locked for the calling process, and to whom they are charged. */
struct peerdma_locked {
	struct peerdma_account *account;
	const struct cred *cred;	/* of the user whose locked_vm has them */
	struct mm_struct *mm;		/* only its counter, VmPin, and its struct */
	unsigned long npages;
};

/* 0, or -ENOMEM: RLIMIT_MEMLOCK.  As io_uring: by user, whatever the process.  On failure nothing is held. */
int peerdma_lock_pages(struct peerdma_locked *locked, struct peerdma_account *account,
		       unsigned long npages);
void peerdma_unlock_pages(struct peerdma_locked *locked);

/* A table of all accounts, its first line names the columns. */
void peerdma_accounts_show(struct seq_file *s);
/* The module goes: nothing is charged any more. */
void peerdma_accounts_exit(void);

#endif
