// SPDX-License-Identifier: MIT
/*
 * mr.c - a pin's memory regions of verbs (MRs): peerdma_verbs.h.
 *
 * They are in a list: added to under the lock, read without it.  Nothing is removed
 * before the pin ends: an MR that ends earlier is marked, and one whose domain is gone
 * is reused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "base/cancel.h"
#include "peerdma_verbs.h"
#include "verbs.h"

enum state {
	MR_LIVE,
	MR_ENDING,		/* by one thread, which others wait for */
	MR_ENDED,
};

struct mr {
	struct peerdma_mr pub;	/* first */
	struct mr *next;
	struct peerdma_region *region;
	struct ibv_pd *pd;	/* atomic.  NULL: gone, and all of this is free for another */
	int access;
	enum state state;	/* atomic, changed under the lock */
	void *view;		/* that it is made of, or NULL */
	struct mr *chain;	/* its ender's */
};

/* ---- the ways ---- */

/* One to be made.  pub.verbs, view: as far as it came. */
struct making {
	struct peerdma_region *region;
	struct ibv_pd *pd;
	int access;
	struct mr *mr;
};

static int by_host(struct making *m)
{
	struct peerdma_region *r = m->region;

	return verbs_reg(m->pd, (void *)(uintptr_t)r->addr, r->length, r->addr, m->access, &m->mr->pub.verbs);
}

static int by_dmabuf(struct making *m)
{
	struct peerdma_region *r = m->region;
	int fd, ret;

	if (!r->backend->export)
		return fail(-EOPNOTSUPP, "back-end '%s' has no dma-bufs", r->backend->name);
	ret = r->backend->export(r, 0, 0, &fd);
	if (ret)
		return ret;
	ret = verbs_reg_dmabuf(m->pd, fd, r->offset, r->length, r->addr, m->access, &m->mr->pub.verbs);
	close(fd);		/* the MR has the dma-buf */
	return ret;
}

static int by_peer(struct making *m)
{
	int forced;

	if (m->region->imported)
		return fail(-EOPNOTSUPP, "it was pinned as a dma-buf, and has no address");
	if (m->region->flags & PEERDMA_PERSISTENT)
		return fail(-EOPNOTSUPP, "other memory may have the persistent pin's address by now");
	forced = verbs_reg_is_forced(m->pd, m->access);
	if (forced < 0)
		return forced;
	if (forced)
		return fail(-EOPNOTSUPP, "without IBV_ACCESS_LOCAL_WRITE this kernel registers host memory at the address");
	return by_host(m);
}

static int by_view(struct making *m)
{
	struct peerdma_region *r = m->region;
	void *base;
	int ret = r->backend->view(r, !(r->flags & PEERDMA_READONLY), &base);

	if (ret)
		return ret;
	ret = verbs_reg(m->pd, (char *)base + r->offset, r->length, r->addr, m->access, &m->mr->pub.verbs);
	if (ret)
		r->backend->view_end(r, base);
	else
		m->mr->view = base;
	return ret;
}

static void copy_free(struct peerdma_region *copy)
{
	free(copy->allocations);
	free(copy);
}

/* The copy that stands in for the memory: the region's own, or one that is made for its MRs. */
static int stand_in(struct peerdma_region *r, struct peerdma_region **out)
{
	struct peerdma_region *copy, *first = __atomic_load_n(&r->stand_in, __ATOMIC_ACQUIRE);
	const char *refused;
	int ret;

	*out = r->backend->move ? r : first;
	if (*out)
		return 0;
	if (!(r->flags & PEERDMA_STAGING))
		return fail(-EOPNOTSUPP, "is off unless asked for (PEERDMA_STAGING)");
	if (r->flags & PEERDMA_DIRECT)
		return fail(-EOPNOTSUPP, "refused, it is not a direct path (PEERDMA_DIRECT)");
	if (r->cached && r->allocation_count > 1)
		return fail(-EOPNOTSUPP, "refused, the cache's region spans allocations that are perhaps being freed; pin the range "
			    "with peerdma_pin()");
	refused = backend_refused(r->ctx, &backend_staging);
	if (refused)
		return fail(-EOPNOTSUPP, "%s", refused);
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return fail(-ENOMEM, "out of memory");
	copy->ctx = r->ctx;
	copy->addr = r->addr;
	copy->length = r->length;
	copy->flags = r->flags;
	region_set_backend(copy, &backend_staging);
	ret = backend_staging.pin(copy);
	if (ret) {
		copy_free(copy);
		return ret;
	}
	if (!__atomic_compare_exchange_n(&r->stand_in, &first, copy, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		backend_staging.unpin(copy);
		copy_free(copy);
		copy = first;
	}
	*out = copy;
	return 0;
}

static int by_staging(struct making *m)
{
	struct peerdma_region *copy;
	int ret = stand_in(m->region, &copy);

	if (ret)
		return ret;
	return verbs_reg(m->pd, (char *)copy->copy.base + copy->offset, copy->length, copy->addr, m->access,
			 &m->mr->pub.verbs);
}

struct way {
	const char *name;
	int (*make)(struct making *m);
};

static const struct way of_host[] = { { "host", by_host }, { 0 } };
static const struct way of_view[] = { { "view", by_view }, { 0 } };
static const struct way of_copy[] = { { "staging", by_staging }, { 0 } };
static const struct way of_device[] = {
	{ "dmabuf", by_dmabuf }, { "peer", by_peer }, { "staging", by_staging }, { 0 }
};

static const struct way *ways(const struct peerdma_region *region, unsigned int flags)
{
	return flags & PEERDMA_HOST ? of_host : pinned_by(region)->view_is_memory ? of_view :
	       region->backend->move ? of_copy : of_device;
}

/* There is no room: that is no fact about the way. */
static bool no_room(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -ENOSPC || error == -EDQUOT ||
	       error == -ENOBUFS || error == -ESTALE;
}

static int by_first_way(struct making *m, unsigned int flags)
{
	char why[1500] = "";
	size_t used = 0;
	int ret = 0, n;

	for (const struct way *way = ways(m->region, flags); way->name; way++) {
		ret = way->make(m);
		if (!ret) {
			m->mr->pub.way = way->name;
			m->mr->pub.why = reason_keep(m->region->ctx, why);
			if (!m->mr->pub.why)
				m->mr->pub.why = "";
			return 0;
		}
		n = snprintf(why + used, sizeof(why) - used, "%s%s: %s", used ? "; " : "", way->name, peerdma_last_error());
		used = n > 0 && used + (size_t)n < sizeof(why) ? used + (size_t)n : sizeof(why) - 1;
		if (no_room(ret))
			break;
	}
	return fail(no_room(ret) ? ret : -EOPNOTSUPP, "peerdma_verbs_mr: [%p, +%llu): %s", (void *)(uintptr_t)m->region->addr,
		    (unsigned long long)m->region->length, why);
}

static int make(struct making *m, unsigned int flags)
{
	uint32_t was = attempt_begin();

	return attempt_end(was, by_first_way(m, flags));
}

/* ---- the list ---- */

static struct mr *find(const struct peerdma_region *region, const struct ibv_pd *pd, int access)
{
	struct mr *m = __atomic_load_n(&region->mrs, __ATOMIC_ACQUIRE);

	while (m && (__atomic_load_n(&m->pd, __ATOMIC_ACQUIRE) != pd || m->access != access ||
		     __atomic_load_n(&m->state, __ATOMIC_RELAXED) != MR_LIVE))
		m = m->next;
	return m;
}

/* Lock.  What is free takes over what was made; else it goes to the front.  The one that has it. */
static struct mr *add(struct peerdma_region *region, struct mr *fresh)
{
	struct mr *m = region->mrs;

	region->ctx->mrs_end = mrs_end;
	while (m && m->pd)
		m = m->next;
	if (!m) {
		fresh->next = region->mrs;
		__atomic_store_n(&region->mrs, fresh, __ATOMIC_RELEASE);
		return fresh;
	}
	m->pub = fresh->pub;
	m->access = fresh->access;
	m->view = fresh->view;
	__atomic_store_n(&m->state, MR_LIVE, __ATOMIC_RELAXED);
	__atomic_store_n(&m->pd, fresh->pd, __ATOMIC_RELEASE);
	return m;
}

/* No lock.  `over`: the pin is being revoked.  Then its views must not be touched; they end with it. */
static int end_one(struct mr *m, bool over)
{
	int ret = verbs_dereg(m->pub.verbs);

	if (!ret && m->view && !over)
		m->region->backend->view_end(m->region, m->view);
	return ret;
}

/* Lock.  Of one domain, or NULL: of all. */
static void take(struct mr *m, const struct ibv_pd *pd, struct mr **chain)
{
	if (!m->pd || (pd && m->pd != pd) || m->state != MR_LIVE)
		return;
	__atomic_store_n(&m->state, MR_ENDING, __ATOMIC_RELAXED);
	m->chain = *chain;
	*chain = m;
}

static void settle(struct peerdma *ctx, struct mr *m, int error, bool free_again)
{
	pthread_mutex_lock(&ctx->lock);
	__atomic_store_n(&m->state, error ? MR_LIVE : MR_ENDED, __ATOMIC_RELAXED);
	if (!error && free_again)
		__atomic_store_n(&m->pd, NULL, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&ctx->mrs_settled);
	pthread_mutex_unlock(&ctx->lock);
}

/* Ends what is in the chain, with no lock. */
static int end_chain(struct peerdma *ctx, struct mr *chain, bool over, bool free_again)
{
	struct mr *next;
	int ret = 0, error;

	for (; chain; chain = next) {
		next = chain->chain;
		error = end_one(chain, over);
		if (error)
			ret = error;
		settle(ctx, chain, error, free_again);
	}
	return ret;
}

static int mrs_end_own(struct peerdma_region *region, bool over)
{
	struct peerdma *ctx = region->ctx;
	struct mr *chain = NULL, *m;
	int ret;

	pthread_mutex_lock(&ctx->lock);
	for (m = region->mrs; m; m = m->next)
		take(m, NULL, &chain);
	pthread_mutex_unlock(&ctx->lock);
	ret = end_chain(ctx, chain, over, false);
	/* Those that others are about to end. */
	pthread_mutex_lock(&ctx->lock);
	for (m = region->mrs; m; m = m->next) {
		while (m->state == MR_ENDING)
			cancel_safe_wait(&ctx->mrs_settled, &ctx->lock);
	}
	pthread_mutex_unlock(&ctx->lock);
	return ret;
}

int mrs_end(struct peerdma_region *region, bool over)
{
	int ret = mrs_end_own(region, over), error;

	for (size_t i = 0; i < region->segment_count; i++) {
		error = mrs_end_own(region->segments[i], over);
		if (error)
			ret = error;
	}
	return ret;
}

void mrs_free(struct peerdma_region *region)
{
	struct mr *m;

	while ((m = region->mrs)) {
		region->mrs = m->next;
		free(m);
	}
	if (!region->stand_in)
		return;
	if (is_owner(region->ctx))
		backend_staging.unpin(region->stand_in);
	else
		backend_staging.forget(region->stand_in);
	copy_free(region->stand_in);
}

/* ---- the calls ---- */

static int freed(const struct peerdma_region *region)
{
	return fail(-ESTALE, "peerdma_verbs_mr: [%p, +%llu): the memory was freed", (void *)(uintptr_t)region->addr,
		    (unsigned long long)region->length);
}

/* Freed memory may also be why no MR could be made of it. */
static bool is_over(struct peerdma_region *region)
{
	bool revoked;

	pthread_mutex_lock(&region->ctx->lock);
	revoked = region->revoked;
	pthread_mutex_unlock(&region->ctx->lock);
	return revoked || !region_usable(region);
}

/* The MR is made, and no other thread sees it yet.  If the pin is still valid the MR joins it, unless another thread was first. */
static int join(struct mr *fresh, struct mr **out)
{
	struct peerdma_region *region = fresh->region;
	bool over = !region_usable(region);
	struct mr *first = NULL;

	*out = NULL;
	pthread_mutex_lock(&region->ctx->lock);
	over |= region->revoked;
	if (!over) {
		first = find(region, fresh->pd, fresh->access);
		if (!strcmp(fresh->pub.way, "peer"))
			__atomic_store_n(&region->by_peer, true, __ATOMIC_RELEASE);
		*out = first ? first : add(region, fresh);
	}
	pthread_mutex_unlock(&region->ctx->lock);
	if (over || first)
		end_one(fresh, over);
	if (*out != fresh)
		free(fresh);
	return over ? freed(region) : 0;
}

EXPORT int peerdma_verbs_mr(struct peerdma_region *region, struct ibv_pd *pd, int access, const struct peerdma_mr **out)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct making making = { .region = region, .pd = pd, .access = access };
	struct mr *mr;
	int ret = check_given("peerdma_verbs_mr", "region", region, "pd", pd, "mr", out, NULL);

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_verbs_mr");
	if (ret)
		return ret;
	mr = find(region, pd, access);
	if (mr) {
		*out = &mr->pub;
		return 0;
	}
	if (access & VERBS_ZERO_BASED || (access & VERBS_WRITES && region->flags & PEERDMA_READONLY))
		return fail(-EINVAL, "peerdma_verbs_mr: access 0x%x: %s", access, access & VERBS_ZERO_BASED ?
			    "addresses are the program's own, not from zero" : "the memory was pinned PEERDMA_READONLY");
	ret = verbs_find();
	if (ret)
		return fail(ret, "peerdma_verbs_mr: %s", peerdma_last_error());
	ret = region_facts(region, &status);
	if (ret)
		return ret;
	making.mr = calloc(1, sizeof(*making.mr));
	if (!making.mr)
		return fail(-ENOMEM, "peerdma_verbs_mr: out of memory");
	ret = make(&making, status.flags);
	if (ret) {
		free(making.mr);
		return is_over(region) ? freed(region) : ret;
	}
	mr = making.mr;
	mr->region = region;
	mr->pd = pd;
	mr->access = access;
	mr->pub.lkey = verbs_lkey(mr->pub.verbs);
	mr->pub.rkey = verbs_rkey(mr->pub.verbs);
	mr->pub.addr = region->addr;
	mr->pub.length = region->length;
	ret = join(mr, &mr);
	if (!ret)
		*out = &mr->pub;
	return ret;
}

/* Lock. */
static bool other_ends(const struct peerdma_region *region, const struct ibv_pd *pd)
{
	const struct mr *m = region->mrs;

	while (m && !(m->pd == pd && m->state == MR_ENDING))
		m = m->next;
	return m;
}

static bool others_end(const struct peerdma *ctx, const struct ibv_pd *pd)
{
	for (const struct peerdma_region *r = ctx->regions; r; r = r->next) {
		if (other_ends(r, pd))
			return true;
		for (size_t i = 0; i < r->segment_count; i++) {
			if (other_ends(r->segments[i], pd))
				return true;
		}
	}
	return false;
}

/* Lock. */
static void take_all(struct peerdma_region *region, const struct ibv_pd *pd, struct mr **chain)
{
	for (struct mr *m = region->mrs; m; m = m->next)
		take(m, pd, chain);
}

EXPORT int peerdma_verbs_end(struct peerdma *ctx, struct ibv_pd *pd)
{
	struct mr *chain = NULL;
	int ret = check_given("peerdma_verbs_end", "ctx", ctx, NULL);

	if (!ret)
		ret = check_owner(ctx, "peerdma_verbs_end");
	if (ret || !pd)
		return ret;
	pthread_mutex_lock(&ctx->lock);
	for (struct peerdma_region *r = ctx->regions; r; r = r->next) {
		take_all(r, pd, &chain);
		for (size_t i = 0; i < r->segment_count; i++)
			take_all(r->segments[i], pd, &chain);
	}
	pthread_mutex_unlock(&ctx->lock);
	ret = end_chain(ctx, chain, false, true);
	/* Of pins that end in other threads. */
	pthread_mutex_lock(&ctx->lock);
	while (others_end(ctx, pd))
		cancel_safe_wait(&ctx->mrs_settled, &ctx->lock);
	pthread_mutex_unlock(&ctx->lock);
	return ret ? fail(ret, "peerdma_verbs_end: %s", peerdma_last_error()) : 0;
}
