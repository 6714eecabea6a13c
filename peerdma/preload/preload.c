// SPDX-License-Identifier: MIT
/*
 * preload.c - verbs' registration calls, for programs that know nothing of this library.
 *
 *	LD_PRELOAD=libpeerdma-verbs.so.0 PROGRAM
 *
 *   ibv_reg_mr()	of a GPU's memory works where the kernel has no peer-memory client: a dma-buf
 *			of the memory is registered in its place
 *   ibv_reg_dmabuf_mr() works where the device's kernel driver has it and its provider library has not
 *   ibv_reg_mr_ex()	of an address or of a dma-buf: the same
 *   PEERDMA_VERBS_CACHE=1 keeps registrations for the next ibv_reg_mr() of the same memory
 *   PEERDMA_VERBS_LOG=1 prints each call that this library took over, 0 nothing; else the
 *			first failure is printed
 *
 * libibverbs is asked first, but for what is to be cached, and what it would register wrongly: what works without us stays as
 * it is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "peerdma.h"
#include "verbs/verbs.h"
#include "verbs/verbs_forced.h"
#include "verbs/verbs_kernel.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- What is printed ---- */

static int log_level(void)
{
	const char *asked = getenv("PEERDMA_VERBS_LOG");

	return asked && *asked ? atoi(asked) : -1;
}

static void print_done(const char *call, const void *addr, size_t length, const struct ibv_mr *mr,
		       const char *how)
{
	int error = errno;

	if (log_level() > 0)
		fprintf(stderr, "peerdma-verbs: %s: [%p, +%zu): %s, lkey 0x%x\n", call, addr,
			length, how, mr->lkey);
	errno = error;
}

static void print_failed(const char *call, const void *addr, size_t length)
{
	static int printed;
	int error = errno, level = log_level();

	if (level > 0 || (level < 0 && !__atomic_exchange_n(&printed, 1, __ATOMIC_RELAXED)))
		fprintf(stderr, "peerdma-verbs: %s: [%p, +%zu) is a GPU's memory and was not registered: %s\n", call, addr, length,
			peerdma_last_error());
	errno = error;
}

/* ---- Registering ---- */

enum entry { REG_MR, REG_MR_IOVA, REG_MR_IOVA2, REG_MR_EX };

struct request {
	enum entry entry;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;
	unsigned int access;
	struct ibv_mr_init_attr *attr;	/* REG_MR_EX: as the program gave it */
};

static const char *const names[] = { "ibv_reg_mr", "ibv_reg_mr_iova", "ibv_reg_mr_iova2", "ibv_reg_mr_ex" };

/* libibverbs' calls may call each other, and libpeerdma calls them: those are not a program's. */
static _Thread_local bool inside;

static struct ibv_mr *absent(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* Nothing is asked but what the calls before ibv_reg_mr_ex() take as arguments: no DMA handle. */
static bool is_plain(const struct request *r)
{
	return !r->attr || (r->attr->comp_mask & ~MR_IOVA) == MR_ADDR;
}

static struct ibv_mr *by_libibverbs(const struct request *r)
{
	const struct verbs_calls *v = verbs_calls();

	if (r->attr && v->reg_mr_ex)
		return v->reg_mr_ex(r->pd, r->attr);
	if (!is_plain(r))
		return absent();
	if (r->entry == REG_MR)
		return v->reg_mr ? v->reg_mr(r->pd, r->addr, r->length, (int)r->access) : absent();
	if (r->entry == REG_MR_IOVA)
		return v->reg_mr_iova ? v->reg_mr_iova(r->pd, r->addr, r->length, r->iova,
						       (int)r->access) : absent();
	return v->reg_mr_iova2 ? v->reg_mr_iova2(r->pd, r->addr, r->length, r->iova, r->access) :
	       absent();
}

/* libpeerdma's MRs begin at the memory's own address, and have no DMA handle. */
static bool can_register(const struct request *r)
{
	return r->iova == (uintptr_t)r->addr && is_plain(r);
}

static struct ibv_mr *by_cache(const struct request *r)
{
	struct ibv_mr *mr;

	if (!memory_cached() || !can_register(r))
		return NULL;
	mr = memory_reg(r->pd, r->addr, r->length, (int)r->access, true);
	if (mr)
		print_done(names[r->entry], r->addr, r->length, mr, "from the cache");
	return mr;
}

/* libibverbs could not, and errno says why.  A GPU's memory is registered by us; all else stays refused. */
static struct ibv_mr *by_libpeerdma(const struct request *r)
{
	int error = errno;
	struct ibv_mr *mr;

	if (!memory_is_gpu(r->addr) || !can_register(r)) {
		errno = error;
		return NULL;
	}
	mr = memory_reg(r->pd, r->addr, r->length, (int)r->access, false);
	if (mr)
		print_done(names[r->entry], r->addr, r->length, mr, "a GPU's memory");
	else
		print_failed(names[r->entry], r->addr, r->length);
	return mr;
}

/* Looks at both ends: of a range that begins and ends in host memory, the GPU's within is not noticed. */
static bool touches_gpu(const struct request *r)
{
	return memory_is_gpu(r->addr) ||
	       (r->length && memory_is_gpu((const char *)r->addr + (r->length - 1)));
}

/*
 * libibverbs would register host memory, not the GPU's, or might: verbs_forced.h. Then errno is that of kernels which refuse, or
 * of the trial.
 */
static bool wrong_memory(const struct request *r)
{
	const struct verbs_calls *v = verbs_calls();
	int forced = 0;

	if (!(r->access & (VERBS_WRITES | VERBS_ON_DEMAND)) && v->reg_mr && v->dereg_mr &&
	    touches_gpu(r))
		forced = verbs_forced(v->reg_mr, v->dereg_mr, r->pd, (int)r->access);
	if (forced)
		errno = forced < 0 ? -forced : EFAULT;
	return forced;
}

static struct ibv_mr *reg(const struct request *r)
{
	struct ibv_mr *mr;

	if (inside)
		return by_libibverbs(r);
	inside = true;
	mr = by_cache(r);
	if (!mr && !wrong_memory(r))
		mr = by_libibverbs(r);
	if (!mr)
		mr = by_libpeerdma(r);
	inside = false;
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(&(struct request){ REG_MR, pd, addr, length, (uintptr_t)addr,
				      .access = (unsigned int)access });
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	return reg(&(struct request){ REG_MR_IOVA, pd, addr, length, iova,
				      .access = (unsigned int)access });
}

/* What the macro ibv_reg_mr() calls where access has optional flags, or is not known when it is compiled. */
EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	return reg(&(struct request){ REG_MR_IOVA2, pd, addr, length, iova, .access = access });
}

/* The provider library has no dma-bufs; the device's kernel driver may have them. */
static struct ibv_mr *dmabuf_by_kernel(const char *call, struct ibv_pd *pd, uint64_t offset,
				       size_t length, uint64_t iova, int fd, int access)
{
	struct ibv_mr *mr = verbs_kernel_reg_dmabuf(verbs_calls()->library, pd, offset, length, iova,
						    fd, access);

	if (mr)
		print_done(call, (void *)(uintptr_t)offset, length, mr,
			   "by the kernel, not the provider library");
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	const struct verbs_calls *verbs = verbs_calls();
	struct ibv_mr *mr = verbs->reg_dmabuf_mr ?
			    verbs->reg_dmabuf_mr(pd, offset, length, iova, fd, access) : absent();

	if (mr || errno != EOPNOTSUPP)
		return mr;
	return dmabuf_by_kernel("ibv_reg_dmabuf_mr", pd, offset, length, iova, fd, access);
}

static struct ibv_mr *reg_dmabuf_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *a)
{
	const struct verbs_calls *verbs = verbs_calls();
	struct ibv_mr *mr;

	if (!verbs->reg_mr_ex)
		return ibv_reg_dmabuf_mr(pd, a->fd_offset, a->length, a->iova, a->fd, a->access);
	mr = verbs->reg_mr_ex(pd, a);
	if (mr || errno != EOPNOTSUPP)
		return mr;
	return dmabuf_by_kernel("ibv_reg_mr_ex", pd, a->fd_offset, a->length, a->iova, a->fd,
				a->access);
}

/*
 * What is neither memory at an address nor a dma-buf, as the calls before this one know them, is
 * left to libibverbs. Releases without this call get the older ones.
 */
EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	struct request r = { REG_MR_EX, pd, .access = (unsigned int)attr->access, .attr = attr };

	if (attr->comp_mask == (MR_FD | MR_FD_OFFSET | MR_IOVA))
		return reg_dmabuf_ex(pd, attr);
	if ((attr->comp_mask & ~(MR_IOVA | MR_DMAH)) != MR_ADDR)
		return by_libibverbs(&r);
	r.addr = attr->addr;
	r.length = attr->length;
	r.iova = attr->comp_mask & MR_IOVA ? attr->iova : (uintptr_t)attr->addr;
	return reg(&r);
}

/* ---- And what else has an MR ---- */

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	const struct verbs_calls *verbs = verbs_calls();
	struct given *given = given_take(mr);
	int error;

	if (!given) {
		if (verbs_kernel_dereg(verbs->library, mr, &error))
			return error;
		return verbs->dereg_mr ? verbs->dereg_mr(mr) : EOPNOTSUPP;
	}
	error = memory_dereg(given);
	if (!error)
		free(given);
	else if (given_add(given))
		fprintf(stderr, "peerdma-verbs: ibv_dereg_mr: out of memory: the MR with lkey 0x%x is lost\n", mr->lkey);
	return error;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access)
{
	const struct verbs_calls *verbs = verbs_calls();

	if (!given_has(mr) && verbs->rereg_mr)
		return verbs->rereg_mr(mr, flags, pd, addr, length, access);
	errno = EOPNOTSUPP;
	return -1;		/* IBV_REREG_MR_ERR_INPUT: the MR is as before */
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	const struct verbs_calls *verbs = verbs_calls();
	int error = memory_leave(pd);

	if (error)
		return error;
	return verbs->dealloc_pd ? verbs->dealloc_pd(pd) : EOPNOTSUPP;
}
