// SPDX-License-Identifier: MIT
/*
 * copy.c - copies between this process's memory and the memory that it has opened, or other memory of
 * its own.
 *
 * All transfers are checked before the first copy. The export's state is checked before and after
 * each copy: if the export ended during a copy, the copy fails, because the bytes may be stale. An
 * importer's mapping keeps the memory allocated, so a copy cannot touch another allocation. There
 * are two exceptions: small allocations of CUDA (cuda.c) and CUDA's pools (cuda_pool.c).
 */
#include <stdlib.h>
#include <string.h>

#include "signal.h"

#define KERNEL_MOST	(16ULL << 20)
#define POLL_MOST	(64ULL << 10)
#define TRANSFER_FIRST END_OF(struct peerdma_ipc_transfer, reserved)

struct batch {
	char *transfers;
	size_t n, size;
	struct peerdma_ipc_signal *done;
	uint64_t value;
	int error;		/* CUDA's error, for all copies by CUDA */
};

static struct peerdma_ipc_transfer *at(const struct batch *b, size_t i)
{
	return (struct peerdma_ipc_transfer *)(b->transfers + i * b->size);
}

static const struct ipc_range *range_of(const struct peerdma_ipc_transfer *t)
{
	return (const struct ipc_range *)t->memory;
}

/* The side that is not `local`: opened memory, or without that, an address of this process. */
static void *there(const struct peerdma_ipc_transfer *t)
{
	return (void *)((t->memory ? (uintptr_t)t->memory->ptr : 0) + (uintptr_t)t->offset);
}

static int live(const struct peerdma_ipc_transfer *t)
{
	const struct ipc_mapping *m;

	if (!t->memory)
		return 0;
	m = range_of(t)->mapping;
	return ipc_exporter_live(m->exporter, m->slot, m->generation);
}

static int fail_live(const struct peerdma_ipc_transfer *t, int error)
{
	return ipc_fail_live(range_of(t)->mapping->exporter, error);
}

/* ---- checks ---- */

static int check_opened(const struct peerdma_ipc_transfer *t, size_t i)
{
	if (!ipc_mine(range_of(t)->ipc))
		return fail(-EPERM, "transfer %zu: a parent process opened the memory; open it here", i);
	if (t->length > t->memory->length || t->offset > t->memory->length - t->length)
		return fail(-EINVAL, "transfer %zu: [%llu, +%llu) passes the end of the memory, which has %llu bytes", i,
			    (unsigned long long)t->offset, (unsigned long long)t->length,
			    (unsigned long long)t->memory->length);
	return 0;
}

static int check(const struct batch *b)
{
	struct peerdma_ipc_transfer known;

	for (size_t i = 0; i < b->n; i++) {
		const struct peerdma_ipc_transfer *t = at(b, i);
		int ret;

		if (t->size != b->size)
			return fail(-EINVAL, "transfer %zu: its size field is %u, but the first transfer's is %zu", i, t->size, b->size);
		ret = take_in("transfers", &known, sizeof(known), TRANSFER_FIRST, t);
		if (ret)
			return ret;
		if (t->flags & ~(PEERDMA_IPC_READ | PEERDMA_IPC_KERNEL | PEERDMA_IPC_POLL) ||
		    !all_zero(t->reserved, sizeof(t->reserved)))
			return fail(-EINVAL,
				    "transfer %zu: unknown flags, or something reserved is set; set both to zero",
				    i);
		if (t->length && (!t->local || !there(t)))
			return fail(-EINVAL, "transfer %zu: %s", i,
				    t->local ? "memory is NULL, and so is the address in offset" : "local is NULL");
		if ((uintptr_t)t->local + t->length < (uintptr_t)t->local ||
		    (uintptr_t)there(t) + t->length < (uintptr_t)there(t))
			return fail(-EINVAL, "transfer %zu: %llu bytes pass the end of the address space", i,
				    (unsigned long long)t->length);
		ret = t->memory ? check_opened(t, i) : 0;
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- choosing the path ---- */

static bool opened_of_cuda(const struct peerdma_ipc_transfer *t)
{
	enum ipc_provider_id provider;

	if (!t->memory)
		return false;
	provider = range_of(t)->mapping->provider->id;

	return provider == IPC_CUDA || provider == IPC_CUDA_VMM || provider == IPC_CUDA_POOL;
}

/* For large copies the copy engines are as fast, and they leave the multiprocessors free. */
static bool kernel_can(const struct peerdma_ipc_transfer *t, struct ipc_reach *reach)
{
	if (t->length > KERNEL_MOST || (t->memory && !opened_of_cuda(t)))
		return false;
	return (t->memory ? ipc_cuda_kernel_reaches_mapping(reach, range_of(t)->mapping) :
			    ipc_cuda_kernel_reaches(reach, &reach->there, there(t), t->length)) &&
	       ipc_cuda_kernel_reaches(reach, &reach->local, t->local, t->length);
}

/* ---- copies ---- */

static void count(const struct peerdma_ipc_transfer *t)
{
	struct ipc *ipc = t->memory ? range_of(t)->ipc : ipc_get();

	if (!ipc)
		return;
	__atomic_fetch_add(&ipc->counters.copies[t->path], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&ipc->counters.bytes[t->path], t->length, __ATOMIC_RELAXED);
}

/* Copies to be submitted by one call of CUDA. */
struct copy_list {
	struct ipc_copies copies;
	struct peerdma_ipc_transfer *of[IPC_COPIES];
	/* copies of one group have one source and one target buffer */
	unsigned int groups[IPC_COPIES];
	unsigned int n;
};

/* The buffer of device memory that was asked about last. */
struct buffer {
	uintptr_t base;
	uint64_t length;
	int device;
};

/* The copies collected for CUDA, and cached answers about their memory. */
struct queue {
	void *stream;
	struct copy_list kernel, engines;
	void *function;		/* the copy kernel */
	bool asked;		/* whether `function` was looked up */
	bool many;		/* the call has more than one transfer */
	bool one_gpu;		/* all in the list for the kernel is memory of one GPU */
	struct buffer local, there;
	const struct ipc_mapping *mapping;	/* mapping and flags of the last copy in a list */
	uint32_t flags;
	unsigned int group;
};

static int add(struct copy_list *g, struct peerdma_ipc_transfer *t, void *to, const void *from)
{
	g->copies.copy[g->n].to = (uintptr_t)to;
	g->copies.copy[g->n].from = (uintptr_t)from;
	g->copies.copy[g->n].length = t->length;
	g->of[g->n++] = t;
	return -EINPROGRESS;
}

static int set_result(struct peerdma_ipc_transfer *t, int error)
{
	if (!error) {
		count(t);
		return 0;
	}
	t->error = error;
	t->path = PEERDMA_IPC_PATH_NONE;
	return error;
}

/*
 * Adjacent buffers of two allocations must not be merged: CUDA copies within one allocation only.
 */
static void set_group(struct queue *queue, struct copy_list *g,
		      const struct peerdma_ipc_transfer *t)
{
	const struct ipc_mapping *mapping = t->memory ? range_of(t)->mapping : NULL;

	if (queue->mapping != mapping || queue->flags != t->flags)
		queue->group++;
	queue->mapping = mapping;
	queue->flags = t->flags;
	g->groups[g->n] = queue->group;
}

static int copy_rows(void *stream, const struct ipc_copy_2d *rows, bool all)
{
	const struct ipc_copy *first = rows->first;

	switch (ipc_rows_of(rows, all)) {
	case IPC_ROWS_ADJOIN:
		return ipc_cuda_copy(stream, first->to, first->from, rows->n * first->length);
	case IPC_ROWS_2D:
		return ipc_cuda_copy_2d(stream, rows);
	default:
		return -EOPNOTSUPP;
	}
}

/* Submits the copies that form rows as 2D copies. The other copies stay, in order. */
static void take_rows(struct queue *queue)
{
	struct copy_list *g = &queue->engines;
	unsigned int left = 0;
	struct ipc_copy_2d rows;

	for (unsigned int i = 0; i < g->n; i += rows.n) {
		bool taken;

		rows = ipc_copy_2d(g->copies.copy, g->groups, i, g->n);
		taken = !copy_rows(queue->stream, &rows, rows.n == g->n);
		if (!taken && rows.n > 1 && rows.n < IPC_ROWS_FEWEST)
			/*
			 * leave the last row for the next call: it may begin another group of rows
			 */
			rows.n--;
		for (unsigned int j = i; j < i + rows.n; j++) {
			if (taken) {
				set_result(g->of[j], 0);
				continue;
			}
			g->copies.copy[left] = g->copies.copy[j];
			g->of[left++] = g->of[j];
		}
	}
	g->n = left;
}

/*
 * Returns the first error. Copies that cannot be in a batch, or that the driver refuses as a batch,
 * are submitted one by one.
 */
static int launch_engines(struct queue *queue)
{
	struct copy_list *g = &queue->engines;
	int error, first = 0;

	take_rows(queue);
	error = g->n > 1 ? ipc_cuda_batch(queue->stream, &g->copies, g->n) : -EOPNOTSUPP;
	for (unsigned int i = 0; i < g->n; i++) {
		int ret = 0;

		if (error)
			ret = ipc_cuda_copy(queue->stream, g->copies.copy[i].to,
					    g->copies.copy[i].from, g->copies.copy[i].length);
		ret = set_result(g->of[i], ret);
		if (!first)
			first = ret;
	}
	g->n = 0;
	return first;
}

/* The engines get what was collected for the kernel. Returns an error of what they had before. */
static int leave_to_engines(struct queue *queue)
{
	struct copy_list *from = &queue->kernel, *to = &queue->engines;
	int ret = to->n + from->n > IPC_COPIES ? launch_engines(queue) : 0;

	for (unsigned int i = 0; i < from->n; i++) {
		from->of[i]->path = PEERDMA_IPC_PATH_CUDA;
		to->copies.copy[to->n] = from->copies.copy[i];
		to->groups[to->n] = from->groups[i];
		to->of[to->n++] = from->of[i];
	}
	from->n = 0;
	return ret;
}

/* Launches the collected kernel copies, unless engines are faster. An error applies to all of them. */
static int launch_kernel(struct queue *queue)
{
	struct copy_list *g = &queue->kernel;
	int ret;

	if (!g->n)
		return 0;
	if (!ipc_kernel_is_faster(&g->copies, g->groups, g->n, queue->one_gpu))
		return leave_to_engines(queue);
	ret = ipc_cuda_kernel(queue->stream, queue->function, &g->copies, g->n);
	for (unsigned int i = 0; i < g->n; i++)
		set_result(g->of[i], ret);
	g->n = 0;
	return ret;
}

static int full(struct queue *queue)
{
	int ret = queue->kernel.n == IPC_COPIES ? launch_kernel(queue) : 0;
	/* The kernel may have left its copies to the engines. */
	int error = queue->engines.n == IPC_COPIES ? launch_engines(queue) : 0;

	return ret ? ret : error;
}

static bool query_device(struct queue *queue, struct buffer *last, const void *ptr)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };

	if (peerdma_query(NULL, ptr, &memory) || memory.kind != PEERDMA_KIND_DEVICE ||
	    memory.flags & PEERDMA_MEMORY_HSA)
		return false;
	*last = (struct buffer){ memory.base, memory.length, memory.device };
	queue->group++;
	return true;
}

/*
 * Consecutive transfers usually use one buffer on each side. The program may not free it during the
 * call, so the last query stays valid.
 */
static bool on_device(struct queue *queue, struct buffer *last, const void *ptr)
{
	return (uintptr_t)ptr - last->base < last->length || query_device(queue, last, ptr);
}

/*
 * Stores the path that can copy the memory at an address of this process. A GPU's path can also
 * copy host memory.
 */
static int path_for(struct queue *queue, struct buffer *last, const void *ptr,
		    enum peerdma_ipc_path *path)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };
	int ret;

	*path = PEERDMA_IPC_PATH_CUDA;
	if (on_device(queue, last, ptr))
		return 0;
	ret = peerdma_query(NULL, ptr, &memory);
	if (ret)
		return ret;
	*path = PEERDMA_IPC_PATH_CPU;
	if (memory.kind == PEERDMA_KIND_DEVICE || memory.kind == PEERDMA_KIND_MANAGED)
		*path = memory.flags & PEERDMA_MEMORY_HSA ? PEERDMA_IPC_PATH_HSA : PEERDMA_IPC_PATH_CUDA;
	return 0;
}

/* The path of opened memory that is not CUDA's. */
static enum peerdma_ipc_path path_of_opened(const struct peerdma_ipc_transfer *t)
{
	return range_of(t)->mapping->provider->id == IPC_HSA ? PEERDMA_IPC_PATH_HSA :
							       PEERDMA_IPC_PATH_CPU;
}

static int choose(struct queue *queue, const struct peerdma_ipc_transfer *t,
		  struct ipc_reach *reach, enum peerdma_ipc_path *path)
{
	enum peerdma_ipc_path of_there = PEERDMA_IPC_PATH_CUDA;
	int ret = 0;

	*path = PEERDMA_IPC_PATH_CUDA;
	if (!opened_of_cuda(t)) {
		ret = path_for(queue, &queue->local, t->local, path);
		if (t->memory)
			of_there = path_of_opened(t);
		else if (!ret)
			ret = path_for(queue, &queue->there, there(t), &of_there);
		if (*path == PEERDMA_IPC_PATH_CPU)
			*path = of_there;
	}
	if (!ret && *path == PEERDMA_IPC_PATH_CUDA && t->flags & PEERDMA_IPC_KERNEL &&
	    kernel_can(t, reach))
		*path = PEERDMA_IPC_PATH_KERNEL;
	return ret;
}

/*
 * Between GPUs, a batch takes half the time of single calls, and rows take a tenth. Host memory may
 * be pageable, so it is in neither.
 */
static bool can_batch(struct queue *queue, const struct peerdma_ipc_transfer *t)
{
	return queue->many && on_device(queue, &queue->local, t->local) &&
	       (t->memory ? opened_of_cuda(t) : on_device(queue, &queue->there, there(t)));
}

/* For a transfer that the kernel can make. */
static void note_gpus(struct queue *queue, const struct peerdma_ipc_transfer *t)
{
	bool one = on_device(queue, &queue->local, t->local) &&
		   on_device(queue, &queue->there, there(t)) &&
		   queue->local.device == queue->there.device;

	queue->one_gpu = one && (queue->one_gpu || !queue->kernel.n);
}

static int copy_one(struct peerdma_ipc_transfer *t, struct queue *queue)
{
	void *to = t->flags & PEERDMA_IPC_READ ? t->local : there(t);
	const void *from = t->flags & PEERDMA_IPC_READ ? there(t) : t->local;
	int ret = live(t);

	if (ret)
		return fail_live(t, ret);
	switch (t->path) {
	case PEERDMA_IPC_PATH_CUDA:
		if (can_batch(queue, t)) {
			set_group(queue, &queue->engines, t);
			return add(&queue->engines, t, to, from);
		}
		ret = ipc_cuda_copy(queue->stream, (uintptr_t)to, (uintptr_t)from, t->length);
		return set_result(t, ret) ? ret : -EINPROGRESS;
	case PEERDMA_IPC_PATH_KERNEL:
		note_gpus(queue, t);
		set_group(queue, &queue->kernel, t);
		return add(&queue->kernel, t, to, from);
	case PEERDMA_IPC_PATH_HSA:
		ret = ipc_hsa_copy(to, from, t->length);
		break;
	default:
		memmove(to, from, t->length);
	}
	if (ret)
		return ret;
	ret = live(t);
	return set_result(t, ret ? fail_live(t, ret) : 0);
}

/*
 * Sets the results of CUDA's copies after they have completed or failed. May run in a thread of
 * CUDA.
 */
static int finish(const struct batch *b)
{
	int first = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct peerdma_ipc_transfer *t = at(b, i);

		if (t->error == -EINPROGRESS) {
			int error = b->error ? b->error : live(t);

			__atomic_store_n(&t->error, error, __ATOMIC_RELEASE);
		}
		if (!first)
			first = t->error;
	}
	return first;
}

static void finish_later(void *stream, int error, void *arg)
{
	struct batch *b = arg;

	b->error = error ? -EIO : 0;
	if (error)
		ipc_cuda_stream_lost(stream);
	finish(b);
	if (ipc_mine(b->done->ipc)) {
		ipc_signal_store(b->done, b->value);
		ipc_signal_put(b->done, true);
	}
	free(b);
}

/*
 * Starts all copies and returns the first error. Sets *pending if CUDA still executes some of them.
 */
static int start(struct batch *b, void **stream, bool *pending)
{
	struct queue queue;
	struct ipc_reach reach = { 0 };
	int first = 0, ret = 0;

	queue.stream = NULL;
	queue.kernel.n = queue.engines.n = 0;
	queue.asked = false;
	queue.many = b->n > 1;
	queue.one_gpu = false;
	queue.local = queue.there = (struct buffer){ 0 };
	queue.mapping = NULL;
	queue.flags = queue.group = 0;
	for (size_t i = 0; i < b->n; i++) {
		struct peerdma_ipc_transfer *t = at(b, i);
		enum peerdma_ipc_path path = PEERDMA_IPC_PATH_NONE;

		t->path = PEERDMA_IPC_PATH_NONE;
		ret = t->length ? choose(&queue, t, &reach, &path) : 0;
		if (!ret && (path == PEERDMA_IPC_PATH_CUDA || path == PEERDMA_IPC_PATH_KERNEL) &&
		    !queue.stream)
			ret = ipc_cuda_stream(&queue.stream);
		if (!ret && path == PEERDMA_IPC_PATH_KERNEL && !queue.asked) {
			queue.function = ipc_cuda_function(queue.stream);
			queue.asked = true;
		}
		if (!ret && path == PEERDMA_IPC_PATH_KERNEL && !queue.function)
			path = PEERDMA_IPC_PATH_CUDA;
		if (!ret && t->length) {
			t->path = path;
			ret = copy_one(t, &queue);
		}
		t->error = ret;
		if (!ret || ret == -EINPROGRESS) {
			*pending |= ret == -EINPROGRESS;
			ret = full(&queue);
		} else {
			t->path = PEERDMA_IPC_PATH_NONE;
		}
		if (!first)
			first = ret;
	}
	ret = launch_kernel(&queue);
	if (!first)
		first = ret;
	ret = launch_engines(&queue);
	*stream = queue.stream;
	return first ? first : ret;
}

/*
 * The kernel moves 16 bytes at once if the addresses are aligned, otherwise 8 bytes or 1. With
 * smaller units a copy engine is faster from a smaller length on.
 */
static bool small_enough(uint64_t to, uint64_t from, uint64_t length)
{
	uint64_t odd = to | from;

	return length <= (odd % 8 ? POLL_MOST >> 5 : odd % 16 ? POLL_MOST >> 2 : POLL_MOST);
}

/* Makes a small copy by the polling kernel. -EOPNOTSUPP: use another path. */
static int polled(struct batch *b)
{
	struct peerdma_ipc_transfer *t = at(b, 0);
	uint64_t other = (uintptr_t)there(t), local = (uintptr_t)t->local;
	bool reads = t->flags & PEERDMA_IPC_READ;
	struct ipc_reach reach = { 0 };
	int ret;

	if (b->n > 1 || b->done || !(t->flags & PEERDMA_IPC_POLL) || !t->length ||
	    !small_enough(other, local, t->length) || live(t) || !kernel_can(t, &reach))
		return -EOPNOTSUPP;
	t->path = PEERDMA_IPC_PATH_POLL;
	ret = ipc_cuda_poll(reach.context, reads ? local : other, reads ? other : local, t->length);
	if (ret == -EOPNOTSUPP)
		return ret;
	if (!ret)
		ret = live(t);
	if (ret && ret != -EIO)
		fail_live(t, ret);
	t->error = set_result(t, ret);
	return ret;
}

static int run(struct batch *b)
{
	struct batch *later;
	void *stream = NULL;
	bool pending = false;
	uint32_t texts;
	int ret = polled(b);

	if (ret != -EOPNOTSUPP)
		return ret;
	ret = start(b, &stream, &pending);
	if (pending && b->done) {
		later = malloc(sizeof(*later));
		if (later) {
			*later = *b;
			ipc_signal_hold(b->done);
			if (!ipc_cuda_then(stream, finish_later, later))
				return ret;
			ipc_signal_put(b->done, false);
			free(later);
		}
	}
	if (pending) {
		texts = fail_count();
		b->error = ipc_cuda_wait(stream);
		if (b->error)
			ipc_cuda_stream_lost(stream);
		if (!ret)
			ret = finish(b);
		else
			finish(b);
		if (ret && texts == fail_count())
			fail(ret, "the export ended while its memory was copied; what was read is worthless");
	}
	if (b->done)
		ipc_signal_store(b->done, b->value);
	return ret;
}

EXPORT int peerdma_ipc_copy(struct peerdma_ipc_transfer *transfers, size_t n,
			    struct peerdma_ipc_signal *done, uint64_t value)
{
	struct batch b = { .transfers = (char *)transfers, .n = n, .done = done, .value = value };
	int ret = check_given("peerdma_ipc_copy", "transfers", transfers, NULL), was, capture;
	uint32_t texts;

	if (ret)
		return ret;
	if (!n)
		return fail(-EINVAL, "peerdma_ipc_copy: no transfers");
	b.size = transfers->size;
	ret = check_size("peerdma_ipc_copy", transfers->size, TRANSFER_FIRST);
	if (!ret && b.size % _Alignof(struct peerdma_ipc_transfer))
		ret = fail(-EINVAL, "peerdma_ipc_copy: the struct's size field is %zu; set it to sizeof(the struct)", b.size);
	if (ret)
		return ret;
	was = cancel_off();
	ret = check(&b);
	if (!ret && done) {
		ret = ipc_signal_usable(done, "the signal");
		for (size_t i = 0; ret && i < n; i++)
			set_result(at(&b, i), ret);
	}
	if (!ret) {
		if (done)
			ipc_signal_hold(done);
		capture = cuda_capture_leave();
		texts = attempt_begin();
		ret = attempt_end(texts, run(&b));
		cuda_capture_return(capture);
		if (done)
			ipc_signal_put(done, false);
	}
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_copy: %s", peerdma_last_error()) : 0;
}
