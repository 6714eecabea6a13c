// SPDX-License-Identifier: MIT
/*
 * open.c - opens memory of other processes. Each allocation is opened once per context, and later
 * opens find it by the handle.
 *
 * A mapping is IPC_OPEN while it can be found. While it is IPC_OPENING or IPC_CLOSING, one thread
 * works on it outside the lock, and other threads wait. A mapping whose export has ended is not
 * found any more (live()). It stays while it has references. The next call that notices unmaps it.
 */
#include <stdlib.h>
#include <string.h>

#include "ipc.h"

#define CACHED_MOST	64	/* cached mappings without references */
#define RANGES_MOST	64	/* cached ranges of a mapping without references */
#define INFO_FIRST	END_OF(struct peerdma_ipc_info, reserved)
#define COUNTERS_FIRST	END_OF(struct peerdma_ipc_counters, bytes)

static bool live(const struct ipc_mapping *m)
{
	return !m->gone && !ipc_exporter_live(m->exporter, m->slot, m->generation);
}

static struct ipc_range **bucket(struct ipc *ipc, const struct ipc_name *name)
{
	uint64_t h;

	memcpy(&h, name->process.bytes, sizeof(h));
	h = (h ^ name->slot ^ name->generation << 20 ^ name->offset ^ name->length << 7) *
	    0x9e3779b97f4a7c15ULL;
	return &ipc->buckets[h >> 32 & (IPC_BUCKETS - 1)];
}

/* ---- search ---- */

/*
 * Caller holds ipc->lock. Finds the mapping of the allocation; if mappings belong to contexts, that
 * of `context`.
 */
static struct ipc_mapping *find_mapping(struct ipc *ipc, const struct ipc_name *name,
					uint64_t context)
{
	for (struct ipc_mapping *m = ipc->mappings; m; m = m->next) {
		if (m->slot == name->slot && m->generation == name->generation && !m->gone &&
		    (m->state == IPC_OPENING || !m->provider->context || m->context == context) &&
		    !memcmp(&m->exporter->process, &name->process, sizeof(name->process)))
			return m;
	}
	return NULL;
}

/* Caller holds ipc->lock. context: UINT64_MAX: any. */
static struct ipc_range *find_range(struct ipc *ipc, const struct ipc_name *name, uint64_t context)
{
	for (struct ipc_range *r = *bucket(ipc, name); r; r = r->hash_next) {
		const struct ipc_mapping *m = r->mapping;

		if (m->generation == name->generation && m->slot == name->slot &&
		    r->offset == name->offset && r->memory.length == name->length &&
		    m->state == IPC_OPEN && !m->gone &&
		    (context == UINT64_MAX || !m->provider->context || m->context == context) &&
		    !memcmp(&m->exporter->process, &name->process, sizeof(name->process)))
			return r;
	}
	return NULL;
}

bool ipc_imported(struct ipc *ipc, uint64_t addr)
{
	for (const struct ipc_mapping *m = ipc->mappings; m; m = m->next) {
		if (m->state != IPC_OPENING && !m->gone && addr - (uintptr_t)m->base < m->length)
			return true;
	}
	return false;
}

/* ---- ranges ---- */

/* Caller holds ipc->lock. Makes a range with one reference. */
static struct ipc_range *range_make(struct ipc *ipc, struct ipc_mapping *m,
				    const struct ipc_name *name)
{
	struct ipc_range *r = calloc(1, sizeof(*r)), **at = bucket(ipc, name);

	if (!r)
		return NULL;
	r->memory = (struct peerdma_ipc_memory){
		.ptr = m->base + name->offset,
		.length = name->length,
		.slot = &m->exporter->page->slot[m->slot],
		.generation = m->generation,
		.exporter = &m->exporter->page->alive,
	};
	r->ipc = ipc;
	r->mapping = m;
	r->offset = name->offset;
	r->refs = 1;
	r->next = m->ranges;
	m->ranges = r;
	m->range_count++;
	m->refs++;
	r->hash_next = *at;
	*at = r;
	return r;
}

/* Caller holds ipc->lock. */
static void range_free(struct ipc *ipc, struct ipc_range *r)
{
	struct ipc_mapping *m = r->mapping;
	const struct ipc_name name = {
		.process = m->exporter->process,
		.slot = m->slot,
		.generation = m->generation,
		.offset = r->offset,
		.length = r->memory.length,
	};
	struct ipc_range **at;

	for (at = bucket(ipc, &name); *at != r; at = &(*at)->hash_next)
		;
	*at = r->hash_next;
	for (at = &m->ranges; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	m->range_count--;
	free(r);
}

/* ---- mappings ---- */

/* Caller holds ipc->lock. */
static void unlink_mapping(struct ipc *ipc, struct ipc_mapping *m)
{
	struct ipc_mapping **at;

	for (at = &ipc->mappings; *at != m; at = &(*at)->next)
		;
	*at = m->next;
}

/* Caller holds ipc->lock; released meanwhile. Unmaps a mapping without references. */
static int unmap(struct ipc *ipc, struct ipc_mapping *m)
{
	int ret;

	m->state = IPC_CLOSING;
	while (m->ranges)
		range_free(ipc, m->ranges);
	pthread_mutex_unlock(&ipc->lock);
	ret = ipc_provider_close(m);
	pthread_mutex_lock(&ipc->lock);
	unlink_mapping(ipc, m);
	ipc_exporter_put(ipc, m->exporter, false);
	free(m);
	__atomic_fetch_sub(&ipc->counters.imports, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&ipc->settled);
	return ret;
}

/*
 * Whether the mapping can be unmapped now. A mapping that belongs to a context needs that context
 * to be current. context: 0: none is current.
 */
static bool can_unmap(const struct ipc_mapping *m, uint64_t context)
{
	if (m->state != IPC_OPEN || m->refs)
		return false;
	if (m->provider->in_context)
		return context;
	return m->gone || !m->provider->context || m->context == context;
}

/*
 * Caller holds ipc->lock; released meanwhile. Finds mappings that ended with their context. That
 * context will never be current again, so only this can find them.
 */
static void find_gone(struct ipc *ipc, uint64_t context)
{
	uint64_t sweep = ++ipc->sweeps;
	struct ipc_mapping *m = ipc->mappings;

	while (m) {
		bool gone;

		if (m->sweep >= sweep || m->state != IPC_OPEN || m->refs || m->gone ||
		    !m->provider->context || m->context == context) {
			m = m->next;
			continue;
		}
		m->sweep = sweep;
		m->state = IPC_CLOSING;		/* keeps other threads from unmapping it */
		pthread_mutex_unlock(&ipc->lock);
		gone = !m->provider->still(m);
		pthread_mutex_lock(&ipc->lock);
		m->state = IPC_OPEN;
		m->gone = gone;
		pthread_cond_broadcast(&ipc->settled);
		m = ipc->mappings;
	}
}

/*
 * Caller holds ipc->lock; released meanwhile. Unmaps mappings without references whose export has
 * ended, and the least recently used above `most`. Returns the first error.
 */
static int sweep(struct ipc *ipc, uint64_t context, unsigned int most)
{
	int ret = 0, error;

	find_gone(ipc, context);
	for (;;) {
		struct ipc_mapping *next = NULL;
		unsigned int cached = 0;

		for (struct ipc_mapping *m = ipc->mappings; m; m = m->next) {
			if (!can_unmap(m, context))
				continue;
			if (!live(m) || ++cached > most)
				next = m;
		}
		if (!next)
			break;
		error = unmap(ipc, next);
		if (!ret)
			ret = error;
	}
	if (context)
		ipc_cuda_pools_end(ipc, false);
	return ret;
}

/* The id of the calling thread's current CUDA context. 0: none. */
static uint64_t context_now(void)
{
	uint64_t context = 0;

	return ipc_cuda.context(&context) ? 0 : context;
}

/* ---- opening ---- */

/*
 * Caller holds ipc->lock. Makes a mapping in the state IPC_OPENING, which other threads find and
 * wait for.
 */
static struct ipc_mapping *mapping_begin(struct ipc *ipc, const struct ipc_name *name,
					 struct ipc_exporter *exporter)
{
	struct ipc_mapping *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->exporter = exporter;
	m->slot = name->slot;
	m->generation = name->generation;
	memcpy(m->key, name->key, IPC_KEY);
	m->state = IPC_OPENING;
	m->next = ipc->mappings;
	ipc->mappings = m;
	return m;
}

/* Takes no lock. Maps the memory of the reply by the provider that the reply names. */
static int map_reply(struct ipc_mapping *m, const struct ipc_name *name,
		     const struct ipc_reply *reply, int fd, uint64_t context)
{
	const struct ipc_provider *provider = ipc_provider(reply->provider);
	int ret, live;

	if (!provider || !reply->length)
		return fail(-EPROTO, "the exporter's memory is of a provider that this release does not know (%u)", reply->provider);
	if (name->offset + name->length > reply->length)
		return fail(-EINVAL, "the handle was altered on its way: its range passes the end of the allocation, %llu bytes",
			    (unsigned long long)reply->length);
	m->provider = provider;
	m->length = reply->length;
	m->exporter_base = reply->base;
	memcpy(m->pci, reply->pci, sizeof(m->pci) - 1);
	m->context = context;
	if (provider->context) {
		ret = provider->context(&m->context);
		if (ret)
			return ret;
	}
	ret = ipc_provider_open(m, reply, fd);
	/*
	 * The export may have ended after the exporter's answer, which also makes providers fail.
	 * Return the same error as if it had ended before.
	 */
	live = ipc_exporter_live(m->exporter, m->slot, m->generation);
	if (!live)
		return ret;
	if (!ret)
		ipc_provider_close(m);
	return ipc_fail_live(m->exporter, live);
}

/*
 * Takes no lock. Finds out whether a provider failed because the exporter is ending. Parts of a
 * process end one after the other: memory may be gone before the thread that holds page->alive. But
 * that thread then answers no more. Returns `error` with its text, or the error of the exporter's
 * end.
 */
static int why_failed(const struct ipc_name *name, int error)
{
	struct own_fd conn = OWN_FD_NONE;
	uint32_t was = attempt_begin();
	struct ipc_reply reply;
	int fds[IPC_FDS], ret;

	ret = ipc_request(name, IPC_OP_MEMORY, 0, &reply, fds, &conn);
	ipc_hang_up(&conn, name->uid);
	ipc_close_fds(name, fds);
	return ipc_ended(was, ret, error);
}

/*
 * Caller holds ipc->lock. Marks mappings of other contexts at the same addresses as gone, because
 * their contexts must have ended. Mappings of the same context stay: a provider may return the same
 * addresses twice, and count the opens.
 */
static void mark_replaced(struct ipc *ipc, const struct ipc_mapping *m)
{
	for (struct ipc_mapping *o = ipc->mappings; o; o = o->next) {
		if (o != m && o->state == IPC_OPEN && o->provider->context &&
		    o->context != m->context && o->base < m->base + m->length &&
		    m->base < o->base + o->length)
			o->gone = true;
	}
}

/* Caller holds ipc->lock; released meanwhile. Opens memory for which there is no mapping. */
static int open_new(struct ipc *ipc, const struct ipc_name *name, uint64_t context,
		    struct ipc_range **range)
{
	struct own_fd conn = OWN_FD_NONE;
	int fds[IPC_FDS], ret;
	struct ipc_mapping *m = NULL;
	struct ipc_exporter *exporter;
	struct ipc_reply reply;

	pthread_mutex_unlock(&ipc->lock);
	ret = ipc_request(name, IPC_OP_MEMORY, 0, &reply, fds, &conn);
	ipc_hang_up(&conn, name->uid);
	pthread_mutex_lock(&ipc->lock);
	if (ret)
		return ret;
	/* Another thread may have opened it meanwhile, or is opening it. */
	if (find_mapping(ipc, name, context)) {
		ret = IPC_LOOK_AGAIN;
		goto out;
	}
	ret = ipc_exporter_get(ipc, name, fds[0], &exporter);
	if (ret)
		goto out;
	m = mapping_begin(ipc, name, exporter);
	if (!m) {
		ipc_exporter_put(ipc, exporter, false);
		ret = fail(-ENOMEM, "%s", error_words(-ENOMEM));
		goto out;
	}
	pthread_mutex_unlock(&ipc->lock);
	ret = map_reply(m, name, &reply, fds[1], context);
	if (ret == -EIO)
		ret = why_failed(name, ret);
	pthread_mutex_lock(&ipc->lock);
	if (!ret) {
		m->state = IPC_OPEN;
		mark_replaced(ipc, m);
		__atomic_fetch_add(&ipc->counters.imports, 1, __ATOMIC_RELAXED);
		*range = range_make(ipc, m, name);
		if (!*range) {
			unmap(ipc, m);
			ret = fail(-ENOMEM, "%s", error_words(-ENOMEM));
		}
	} else {
		unlink_mapping(ipc, m);
		ipc_exporter_put(ipc, m->exporter, false);
		free(m);
	}
	pthread_cond_broadcast(&ipc->settled);
out:
	pthread_mutex_unlock(&ipc->lock);
	ipc_close_fds(name, fds);
	pthread_mutex_lock(&ipc->lock);
	return ret;
}

/* Caller holds ipc->lock; may be released meanwhile. May return IPC_LOOK_AGAIN. */
static int open_locked(struct ipc *ipc, const struct ipc_name *name, uint64_t context,
		       struct ipc_range **range, bool *hit)
{
	struct ipc_mapping *m;
	int ret;

	*hit = false;
	*range = find_range(ipc, name, context);
	m = *range ? (*range)->mapping : find_mapping(ipc, name, context);
	if (!m) {
		pthread_mutex_unlock(&ipc->lock);
		ret = ipc_name_check(ipc, name);
		pthread_mutex_lock(&ipc->lock);
		if (ret)
			return ret;
		sweep(ipc, context, CACHED_MOST);
		return open_new(ipc, name, context, range);
	}
	if (m->state != IPC_OPEN) {
		cancel_safe_wait(&ipc->settled, &ipc->lock);
		return IPC_LOOK_AGAIN;
	}
	if (memcmp(&m->exporter->boot, &name->boot, sizeof(name->boot)))
		return fail(-EREMOTE, "the handle was made on another machine, or before this one was last booted");
	if (m->exporter->uid != name->uid)
		return fail(-EACCES, "the exporter runs as user %u, but the handle is of user %u",
			    m->exporter->uid, name->uid);
	ret = ipc_key_equal(m->key, name->key) ?
	      ipc_exporter_live(m->exporter, m->slot, m->generation) : -EKEYREJECTED;
	if (ret == -EKEYREJECTED)
		return fail(ret, "the key in the handle is not that of this memory; get the handle from the exporter");
	if (ret)
		return ipc_fail_live(m->exporter, ret);
	if (name->offset + name->length > m->length)
		return fail(-EINVAL, "the handle was altered on its way: its range passes the end of the allocation, %llu bytes",
			    (unsigned long long)m->length);
	*hit = true;
	if (*range) {
		(*range)->refs++;
		m->refs++;
	} else {
		*range = range_make(ipc, m, name);
	}
	return *range ? 0 : fail(-ENOMEM, "%s", error_words(-ENOMEM));
}

/* Caller holds ipc->lock. Drops one reference. */
static void range_put(struct ipc *ipc, struct ipc_range *r)
{
	struct ipc_mapping *m = r->mapping;

	m->refs--;
	if (--r->refs)
		return;
	if (m->range_count > RANGES_MOST)
		range_free(ipc, r);
	if (m->refs)
		return;
	/* Move the mapping to the front of the list, which is sorted by last use. */
	unlink_mapping(ipc, m);
	m->next = ipc->mappings;
	ipc->mappings = m;
}

static int open_memory(struct ipc *ipc, const struct ipc_name *name, struct ipc_range **range)
{
	uint64_t context = 0;
	bool hit, known = false, swept = false;
	int ret;

	for (;;) {
		const struct ipc_range *any;

		pthread_mutex_lock(&ipc->lock);
		/* For host memory the context does not matter, so CUDA is not called. */
		any = known ? NULL : find_range(ipc, name, UINT64_MAX);
		if (!known && (!any || any->mapping->provider->context)) {
			pthread_mutex_unlock(&ipc->lock);
			context = context_now();
			known = true;
			continue;
		}
		ret = open_locked(ipc, name, context, range, &hit);
		/*
		 * Mappings whose export ended may occupy the addresses. Unmap them and try once
		 * more.
		 */
		if (ret == -EADDRINUSE && !swept) {
			sweep(ipc, context, CACHED_MOST);
			swept = true;
			ret = IPC_LOOK_AGAIN;
		}
		pthread_mutex_unlock(&ipc->lock);
		if (ret == IPC_LOOK_AGAIN)
			continue;
		if (ret || !hit || !(*range)->mapping->provider->still ||
		    (*range)->mapping->provider->still((*range)->mapping))
			break;
		/*
		 * The context was destroyed with its mappings, or the program has unmapped the
		 * memory.
		 */
		pthread_mutex_lock(&ipc->lock);
		(*range)->mapping->gone = true;
		range_put(ipc, *range);
		pthread_mutex_unlock(&ipc->lock);
	}
	if (!ret)
		ipc_count(ipc, opens);
	if (!ret && hit)
		ipc_count(ipc, hits);
	return ret;
}

EXPORT int peerdma_ipc_open(const void *handle, size_t size, unsigned int flags,
			    struct peerdma_ipc_memory **memory)
{
	struct ipc_range *range = NULL;
	struct ipc_name name;
	struct ipc *ipc;
	uint32_t texts;
	int ret = check_given("peerdma_ipc_open", "handle", handle, "memory", memory, NULL), was;

	if (ret)
		return ret;
	if (flags)
		return fail(-EINVAL, "peerdma_ipc_open: unknown flags; pass 0");
	was = cancel_off();
	texts = attempt_begin();
	ret = ipc_handle_parse(handle, size, IPC_MEMORY, &name);
	ipc = ret ? NULL : ipc_get();
	if (!ret)
		ret = ipc ? open_memory(ipc, &name, &range) : -ENOMEM;
	attempt_end(texts, ret);
	cancel_back(was);
	if (ret)
		return fail(ret, "peerdma_ipc_open: %s", peerdma_last_error());
	*memory = &range->memory;
	return 0;
}

EXPORT int peerdma_ipc_close(struct peerdma_ipc_memory *memory)
{
	struct ipc_range *r = (struct ipc_range *)memory;
	uint64_t context = 0;
	struct ipc *ipc;
	uint32_t texts;
	int ret, was;

	if (!memory || !ipc_mine(r->ipc))
		return 0;
	was = cancel_off();
	texts = attempt_begin();
	ipc = r->ipc;
	if (r->mapping->provider->context || r->mapping->provider->in_context ||
	    __atomic_load_n(&ipc->pools_unused, __ATOMIC_RELAXED))
		context = context_now();
	pthread_mutex_lock(&ipc->lock);
	range_put(ipc, r);
	ret = sweep(ipc, context, CACHED_MOST);
	pthread_mutex_unlock(&ipc->lock);
	attempt_end(texts, ret);
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_close: %s", peerdma_last_error()) : 0;
}

/*
 * Caller holds ipc->lock. Whether a mapping without references needs a current context to be
 * unmapped.
 */
static bool waits_for_context(const struct ipc *ipc)
{
	for (const struct ipc_mapping *m = ipc->mappings; m; m = m->next) {
		if (m->state == IPC_OPEN && !m->refs && m->provider->in_context)
			return true;
	}
	return false;
}

/* Caller holds ipc->lock. Whether another thread is unmapping a mapping. */
static bool closing(const struct ipc *ipc)
{
	for (const struct ipc_mapping *m = ipc->mappings; m; m = m->next) {
		if (m->state == IPC_CLOSING)
			return true;
	}
	return false;
}

/*
 * Caller holds ipc->lock; released meanwhile. On return, no other thread is unmapping a mapping
 * that existed at the call.
 */
static int unmap_all(struct ipc *ipc, uint64_t context)
{
	int ret = sweep(ipc, context, 0), error;

	while (closing(ipc)) {
		cancel_safe_wait(&ipc->settled, &ipc->lock);
		error = sweep(ipc, context, 0);
		if (!ret)
			ret = error;
	}
	return ret;
}

static int trim(const char *call, bool pools)
{
	struct ipc *ipc = ipc_there();
	uint64_t context;
	uint32_t texts;
	int ret, was;

	if (!ipc)
		return 0;
	was = cancel_off();
	texts = attempt_begin();
	context = context_now();
	pthread_mutex_lock(&ipc->lock);
	ret = unmap_all(ipc, context);
	if (!ret && !context &&
	    (waits_for_context(ipc) ||
	     (pools && __atomic_load_n(&ipc->pools_unused, __ATOMIC_RELAXED))))
		ret = fail(-ENODEV,
			   "memory of CUDA's pools stays mapped, or a pool imported, because no CUDA context is current, or the "
			   "current one was destroyed; call cuCtxSetCurrent() first");
	if (pools && context)
		ipc_cuda_pools_end(ipc, true);
	ipc_exporters_end(ipc, false);
	pthread_mutex_unlock(&ipc->lock);
	attempt_end(texts, ret);
	cancel_back(was);
	return ret ? fail(ret, "%s: %s", call, peerdma_last_error()) : 0;
}

EXPORT int peerdma_ipc_trim(void)
{
	return trim("peerdma_ipc_trim", false);
}

EXPORT int peerdma_ipc_trim_pools(void)
{
	return trim("peerdma_ipc_trim_pools", true);
}

/* ---- queries ---- */

EXPORT int peerdma_ipc_query(const void *ptr, struct peerdma_ipc_info *info)
{
	int ret = check_given("peerdma_ipc_query", "info", info, NULL), was;
	struct peerdma_ipc_info i = { 0 };
	struct ipc *ipc = ipc_there();
	uint64_t p = (uintptr_t)ptr;
	bool found = false;

	if (!ret)
		ret = check_size("peerdma_ipc_query", info->size, INFO_FIRST);
	if (ret)
		return ret;
	i.size = info->size;
	if (ipc) {
		was = cancel_off();
		pthread_mutex_lock(&ipc->lock);
		for (const struct ipc_mapping *m = ipc->mappings; m && !found; m = m->next) {
			if (m->state == IPC_OPENING || m->gone ||
			    p - (uintptr_t)m->base >= m->length)
				continue;
			found = true;
			i.live = live(m);
			i.pid = (int32_t)m->exporter->pid;
			i.uid = m->exporter->uid;
			i.base = (uintptr_t)m->base;
			i.length = m->length;
			i.offset = p - i.base;
			i.exporter_ptr = m->exporter_base + i.offset;
			i.references = m->refs;
			strncpy(i.provider, m->provider->name, sizeof(i.provider) - 1);
			memcpy(i.pci, m->pci, sizeof(i.pci));
		}
		pthread_mutex_unlock(&ipc->lock);
		cancel_back(was);
	}
	if (!found)
		return fail(-ENOENT, "peerdma_ipc_query: %p is not in memory that this process has opened by peerdma_ipc_open()", ptr);
	put_out(info, &i, sizeof(i));
	return 0;
}

EXPORT int peerdma_ipc_counters(struct peerdma_ipc_counters *counters)
{
	struct peerdma_ipc_counters c = { 0 };
	int ret = check_given("peerdma_ipc_counters", "counters", counters, NULL), was;
	struct ipc *ipc = ipc_there();

	if (!ret)
		ret = check_size("peerdma_ipc_counters", counters->size, COUNTERS_FIRST);
	if (ret)
		return ret;
	if (ipc) {
		was = cancel_off();
		pthread_mutex_lock(&ipc->lock);
		for (size_t i = offsetof(struct peerdma_ipc_counters, exports); i < sizeof(c);
		     i += sizeof(uint64_t)) {
			uint64_t n = __atomic_load_n((uint64_t *)(void *)((char *)&ipc->counters +
									  i),
						     __ATOMIC_RELAXED);

			memcpy((char *)&c + i, &n, sizeof(n));
		}
		pthread_mutex_unlock(&ipc->lock);
		cancel_back(was);
	}
	c.size = counters->size;
	put_out(counters, &c, sizeof(c));
	return 0;
}
