/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - as much of the Linux kernel as the ioctl layers need, in a program: for
 * fuzzing them.  One thread, so locks are counts that must come out even.  User memory
 * is one stretch of bytes; all that is outside of it faults, and so does everything
 * after as many accesses as the target says: pages that go away in between.
 */
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <linux/types.h>

#include "fuzz.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef u64 dma_addr_t, phys_addr_t;

#define __user
#ifndef __always_inline
#define __always_inline	inline __attribute__((always_inline))
#endif
#define likely(x)	(x)
#define unlikely(x)	(x)
#define BUILD_BUG_ON_ZERO(e)	((int)(sizeof(struct { int : -!!(e); })))
#define offsetofend(type, member)	(offsetof(type, member) + sizeof(((type *)0)->member))
#undef container_of
#define container_of(p, type, member)	((type *)((char *)(p) - offsetof(type, member)))
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define min(a, b)	((a) < (b) ? (a) : (b))
#define array_index_nospec(i, n)	(i)
#define smp_store_release(p, v)	(*(p) = (v))
#define READ_ONCE(x)	(x)
#define WRITE_ONCE(x, v)	((x) = (v))
#define smp_mb()	((void)0)
#define rcu_read_lock()	((void)0)
#define rcu_read_unlock()	((void)0)
#define EXPORT_SYMBOL_GPL(name)	struct fuzz_exported_##name
#define PAGE_SIZE	4096u
#define PAGE_SHIFT	12
#define TASK_COMM_LEN	16
#define GFP_NOWAIT	0
#define GFP_KERNEL_ACCOUNT	0

/* ---- user memory ---- */

extern u8 *user_memory;		/* where it begins; what is given as an address is an offset */
extern size_t user_size;
extern int user_accesses;	/* left, before the page goes away */

static inline bool user_ok(const void *p, size_t n)
{
	size_t at = (uintptr_t)p - (uintptr_t)user_memory;

	if (user_accesses <= 0)
		return false;
	user_accesses--;
	return at <= user_size && n <= user_size - at;
}

/* As the kernel's: how many bytes were not copied. */
static inline size_t copy_from_user(void *to, const void *from, size_t n)
{
	if (!user_ok(from, n))
		return n;
	memcpy(to, from, n);
	return 0;
}

static inline size_t copy_to_user(void *to, const void *from, size_t n)
{
	if (!user_ok(to, n))
		return n;
	memcpy(to, from, n);
	return 0;
}

static inline int copy_struct_from_user(void *to, size_t known, const void *from, size_t given)
{
	size_t n = min(known, given), i;

	if (!user_ok(from, given))
		return -EFAULT;
	for (i = known; i < given; i++) {
		if (((const u8 *)from)[i])
			return -E2BIG;
	}
	memset(to, 0, known);
	memcpy(to, from, n);
	return 0;
}

#define get_user(x, p)	(copy_from_user(&(x), p, sizeof(*(p))) ? -EFAULT : 0)
#define u64_to_user_ptr(v)	((void *)((uintptr_t)user_memory + (v)))

/* ---- errors in pointers ---- */

static inline void *ERR_PTR(long err)
{
	return (void *)err;
}

static inline bool IS_ERR(const void *p)
{
	return (unsigned long)p >= (unsigned long)-4095;
}

#define PTR_ERR(p)	((int)(long)(p))
#define ERR_CAST(p)	((void *)(p))
#define PTR_ERR_OR_ZERO(p)	(IS_ERR(p) ? PTR_ERR(p) : 0)

/* ---- objects ---- */

typedef struct { long counter; } atomic_t, atomic64_t, atomic_long_t;
typedef struct { int locked; } spinlock_t;
typedef struct { int none; } wait_queue_head_t;
#define atomic64_read(a)	((u64)(a)->counter)
#define atomic_read(a)		((int)(a)->counter)
#define atomic_long_read(a)	((a)->counter)

struct kref {
	int count;
};

static inline void kref_get(struct kref *k)
{
	k->count++;
}

static inline void kref_put(struct kref *k, void (*release)(struct kref *))
{
	if (!--k->count)
		release(k);
}

struct mutex {
	int locked;
};

static inline void mutex_lock(struct mutex *m)
{
	MUST(!m->locked++);
}

#define mutex_lock_nested(m, class)	mutex_lock(m)
#define lockdep_assert(condition)	((void)0)

static inline void mutex_unlock(struct mutex *m)
{
	MUST(!--m->locked);
}

struct list_head {
	struct list_head *next, *prev;
};
struct hlist_node {
	struct hlist_node *next;
};
struct hlist_head {
	struct hlist_node *first;
};
#define list_for_each_entry(pos, head, member)					\
	for (pos = container_of((head)->next, __typeof__(*pos), member);	\
	     &pos->member != (head);						\
	     pos = container_of(pos->member.next, __typeof__(*pos), member))

static inline long strscpy(char *to, const char *from, size_t size)
{
	size_t n = strnlen(from, size - 1);

	memcpy(to, from, n);
	to[n] = 0;
	return (long)n;
}

/* Of memory, every so often none; the target says when. */
extern bool memory_short;

static inline void kvfree(const void *p)
{
	if (!IS_ERR(p))
		free((void *)p);
}

#define XA_MAX	32
struct xarray {
	void *entries[XA_MAX];
	int locked;
};
#define xa_lock(x)	((void)MUST_BE(!(x)->locked++))
#define xa_unlock(x)	((void)MUST_BE(!--(x)->locked))
#define MUST_BE(cond)	((cond) ? 0 : (abort(), 0))

static inline void *xa_store(struct xarray *x, unsigned long id, void *entry, int flags)
{
	void *before = x->entries[id];

	(void)flags;
	x->entries[id] = entry;
	return before;
}

static inline void xa_erase(struct xarray *x, unsigned long id)
{
	x->entries[id] = NULL;
}

static inline void *xa_load(struct xarray *x, unsigned long id)
{
	return id < XA_MAX ? x->entries[id] : NULL;
}

/* ---- devices, files, processes ---- */

enum dma_data_direction { DMA_BIDIRECTIONAL, DMA_TO_DEVICE, DMA_FROM_DEVICE, DMA_NONE };
struct device {
	int locked;
	dev_t devt;
};
struct device_driver_of_pci {
	bool driver_managed_dma;
};
#define IS_ENABLED(option)	(option)
#define CONFIG_X86	1
struct pci_bus {
	unsigned char number;
};
#define pci_domain_nr(bus)	((void)(bus), 0)
struct pci_dev {
	struct device dev;
	struct pci_bus *bus;
	unsigned int devfn;
	struct device_driver_of_pci *driver;
	int refs;
};
struct sg_table {
	int none;
};
struct module;
struct address_space;
struct vm_area_struct;
struct file {
	void *private_data;
	struct address_space *f_mapping;
	int refs;
};

/* No page of a user's is mapped here. */
static inline void unmap_mapping_range(struct address_space *mapping, u64 from, u64 length, int even_private)
{
	(void)mapping;
	(void)from;
	(void)length;
	(void)even_private;
}

#define device_lock(d)		((void)MUST_BE(!(d)->locked++))
#define device_unlock(d)	((void)MUST_BE(!--(d)->locked))
#define CAP_SYS_RAWIO		17
#define CAP_SYS_ADMIN		21
bool capable(int cap);
extern struct user_namespace { int none; } init_user_ns;
bool ns_capable_noaudit(struct user_namespace *ns, int cap);
struct pci_dev *pci_get_domain_bus_and_slot(int domain, unsigned int bus, unsigned int devfn);
void pci_dev_put(struct pci_dev *pdev);
int get_unused_fd_flags(int flags);
void put_unused_fd(int fd);
void fd_install(int fd, struct file *file);
void fput(struct file *file);

#define device_iommu_mapped(dev)	((void)(dev), false)
