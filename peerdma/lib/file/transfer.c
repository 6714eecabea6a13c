// SPDX-License-Identifier: MIT
/*
 * transfer.c - a transfer between a file and memory, in steps; peerdma_file_read() and
 * peerdma_file_write(), which make the steps one after the other.
 *
 * A transfer is made of parts, one for each pin.  Of a part, the disk transfers what is aligned as
 * it demands, in the file and in memory; what is before and after that is copied.  Where the next
 * step begins is all that decides what it is, so a transfer that was interrupted goes on from there.
 */
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "../backend.h"
#include "cache/cache.h"
#include "transfer.h"

static void because(struct peerdma_file *file, const char *why)
{
	atomic_store_explicit(&file->why, why, memory_order_relaxed);
}

#define NOT_ALIGNED	"not aligned as the disk demands: offset in the file, address or length"

/*
 * What is written at once without the page cache begins and ends with a page: two threads may write parts
 * of one file that lie side by side, and a page in the cache would bring back what the other has written.
 */
static uint64_t align_of(const struct part *part)
{
	uint64_t align = part->file->offset_align;

	return part->write && align < page_size() ? page_size() : align;
}

/* How much of the part is before its first aligned byte; all of it, if there is none. */
static uint64_t head_of(const struct part *part)
{
	uint64_t align = align_of(part), over = part->offset % align;
	uint64_t head = over ? align - over : 0;

	if (head >= part->length || (part->at + head) % part->file->memory_align)
		return part->length;
	return head;
}

/* Of a read: does the file end before the part's byte `to', so that the rest has nothing to transfer? */
static bool ends_before(const struct part *part, uint64_t to)
{
	struct stat s;

	return !part->write && !head_of(part) && !fstat(part->file->fd, &s) && S_ISREG(s.st_mode) &&
	       (uint64_t)s.st_size <= part->offset + to;
}

/* The pin of a region that has the address, and where in it; *end: where that pin's part of the range ends. */
static struct peerdma_region *pin_at(struct peerdma_region *region, uint64_t addr, uint64_t *end)
{
	struct peerdma_region *const *pins;
	size_t count;

	pins = peerdma_segments(region, &count);
	for (size_t i = 0; i < count; i++) {
		if (addr - pins[i]->addr < pins[i]->length) {
			*end = pins[i]->addr + pins[i]->length;
			return pins[i];
		}
	}
	return NULL;
}

/* ---- the next step ---- */

/* Takes what a step has returned: the transfer goes on behind it, or is over. */
static void take(struct transfer *t, ssize_t n, uint64_t wanted)
{
	t->over = !file_step(n, wanted, &t->done) || (uint64_t)t->done == t->length;
}

/* The rest of the transfer that is one pin's. */
static bool part_at(const struct transfer *t, struct part *part)
{
	uint64_t at = (uintptr_t)t->ptr + (uint64_t)t->done;
	uint64_t left = t->length - (uint64_t)t->done, end;

	*part = (struct part){ .file = t->file, .offset = t->offset + (uint64_t)t->done,
			       .write = t->write };
	part->region = pin_at(t->hold->registration, at, &end);
	if (!part->region)
		return false;
	part->at = at - (part->region->addr - part->region->offset);
	part->length = left < end - at ? left : end - at;
	return true;
}

static void disk_step(struct step *step, const char *base)
{
	step->way = STEP_DISK;
	step->fd = step->part.file->direct;
	step->memory = (char *)base + step->part.at;
}

/* Copies so much of the part, unless the caller has forbidden it. */
static bool copy_step(struct transfer *t, struct step *step, uint64_t length, const char *why)
{
	because(t->file, why);
	if (t->file->flags & PEERDMA_FILE_DIRECT_ONLY) {
		take(t,
		     fail(-EOPNOTSUPP, "not directly, as PEERDMA_FILE_DIRECT_ONLY demands: %s",
			  why), length);
		return false;
	}
	step->way = STEP_COPY;
	step->part.length = length;
	return true;
}

static bool next_of_gpu(struct transfer *t, struct step *step)
{
	struct part *part = &step->part;
	uint64_t head, middle, align;
	const char *why, *base;

	if (!part_at(t, part)) {
		take(t, fail(-ENXIO, "the range is not in its pin"), t->length);
		return false;
	}
	base = direct_base(t->file, part->region, &why);
	if (!base)
		return copy_step(t, step, part->length, why);
	if ((uint64_t)t->done < t->refused_to)
		return copy_step(t, step, t->refused_to - (uint64_t)t->done, t->refused);
	align = align_of(part);
	head = head_of(part);
	middle = (part->length - head) / align * align;
	/* Of a transfer that may not be made in part, nothing is made. */
	if (t->file->flags & PEERDMA_FILE_DIRECT_ONLY && middle != part->length &&
	    !ends_before(part, head + middle))
		return copy_step(t, step, part->length, NOT_ALIGNED);
	if (!middle || head)
		return copy_step(t, step, middle ? head : part->length, NOT_ALIGNED);
	part->length = middle;
	disk_step(step, base);
	return true;
}

/* Host memory: the kernel's own calls do what is to be done. */
static void next_of_host(const struct transfer *t, struct step *step)
{
	const struct peerdma_file *file = t->file;
	bool aligned = !(t->offset % file->offset_align || t->length % file->offset_align ||
			 (uintptr_t)t->ptr % file->memory_align);

	*step = (struct step){
		.way = STEP_HOST, .memory = t->ptr,
		.fd = aligned && file->direct >= 0 && !t->refused ? file->direct : file->fd,
		.part = { .file = t->file, .length = t->length, .offset = t->offset,
			  .write = t->write },
	};
}

bool transfer_next(struct transfer *t, struct step *step)
{
	if (t->over)
		return false;
	step->moved = 0;
	if (t->hold)
		return next_of_gpu(t, step);
	next_of_host(t, step);
	return true;
}

/* ---- what a step has returned ---- */

/* Why the kernel refuses to transfer directly what can be copied; NULL: it is an error. */
static const char *refusal(ssize_t error)
{
	switch (error) {
	case -EINVAL:
		return "the file system or the disk refuses this transfer (EINVAL)";
	case -EFAULT:
		return "the kernel does not transfer to this memory (EFAULT)";
	case -EREMOTEIO:
		return "the disk does not reach the memory (EREMOTEIO)";
	default:
		return NULL;
	}
}

static void refuse(struct transfer *t, const struct step *step, const char *why)
{
	t->refused = why;
	t->refused_to = (uint64_t)t->done + step->part.length;
}

static void disk_ended(struct transfer *t, const struct step *step, ssize_t n)
{
	const char *why = refusal(n);

	if (!region_usable(step->part.region)) {
		n = fail(-ESTALE, "the memory was freed");
	} else if (why) {
		refuse(t, step, why);
		return;
	} else if (n < 0) {
		fail((int)n, "%s", error_words((int)n));
	} else {
		__atomic_fetch_add(&t->file->direct_bytes, (uint64_t)n, __ATOMIC_RELAXED);
	}
	take(t, n, step->part.length);
}

/* Not without the page cache: the memory may have no pages, as a view of a GPU's. */
static void host_ended(struct transfer *t, const struct step *step, ssize_t n)
{
	if (step->fd != t->file->fd && (refusal(n) || n == -EEXIST)) {
		refuse(t, step, "the kernel does not transfer to this memory");
		return;
	}
	if (n < 0)
		fail((int)n, "%s", error_words((int)n));
	else
		__atomic_fetch_add(&t->file->host_bytes, (uint64_t)n, __ATOMIC_RELAXED);
	take(t, n, step->part.length);
}

void transfer_took(struct transfer *t, const struct step *step, ssize_t n)
{
	switch (step->way) {
	case STEP_DISK:
		disk_ended(t, step, n);
		break;
	case STEP_HOST:
		host_ended(t, step, n);
		break;
	case STEP_COPY:
		take(t, n, step->part.length);
	}
}

static ssize_t make(const struct step *step)
{
	const struct part *part = &step->part;

	return step->way == STEP_COPY ?
		       bounce(part) :
		       file_io(step->fd, step->memory, part->length, part->offset, part->write);
}

ssize_t transfer_rest(struct transfer *t)
{
	struct step step;

	while (transfer_next(t, &step))
		transfer_took(t, &step, make(&step));
	return t->done;
}

/* ---- its begin and end ---- */

int transfer_check(const char *call, const struct transfer *t)
{
	int ret = t->file && t->ptr ? 0 : check_given(call, "file", t->file, "ptr", t->ptr, NULL);

	if (!ret)
		ret = check_owner(t->file->ctx, call);
	if (!ret)
		ret = check_range(call, (uintptr_t)t->ptr, t->length);
	if (!ret && (t->length > SSIZE_MAX || t->offset > INT64_MAX - t->length))
		ret = fail(-EINVAL, "%s: offset %llu and length %llu: beyond what a file can have",
			   call, (unsigned long long)t->offset, (unsigned long long)t->length);
	return ret;
}

/* A cache may have pins of host memory, too.  What memory a pin is of is asked once: all of it is of one kind. */
static bool known_gpu(const struct transfer *t)
{
	const struct peerdma_region *region = t->hold->registration;

	return __atomic_load_n(&region->known_gpu, __ATOMIC_RELAXED);
}

static void know_gpu(const struct transfer *t)
{
	struct peerdma_region *region = t->hold->registration;

	__atomic_store_n(&region->known_gpu, true, __ATOMIC_RELAXED);
}

static int ask(struct transfer *t)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };
	int ret = peerdma_query(t->file->ctx, t->ptr, &memory);

	if (ret || memory.kind == PEERDMA_KIND_HOST)
		transfer_end(t);
	else if (!t->hold)
		ret = peerdma_cache_get(t->file->cache, t->ptr, t->length, &t->hold);
	if (!ret && t->hold)
		know_gpu(t);
	return ret;
}

int transfer_begin(struct transfer *t)
{
	if (cache_find(t->file->cache, t->ptr, t->length, &t->hold) && known_gpu(t))
		return 0;
	return ask(t);
}

void transfer_end(struct transfer *t)
{
	peerdma_cache_put(t->file->cache, t->hold);
	t->hold = NULL;
}

/* What fails on the way, and is done otherwise, leaves no text. */
static ssize_t transfer(const char *call, struct transfer t)
{
	uint32_t was = attempt_begin();
	ssize_t ret = transfer_check(call, &t);

	if (!ret) {
		ret = transfer_begin(&t);
		if (!ret) {
			ret = transfer_rest(&t);
			transfer_end(&t);
		}
		if (ret < 0)
			fail((int)ret, "%s: %s", call, peerdma_last_error());
	}
	attempt_end(was, ret < 0 ? -1 : 0);
	return ret;
}

EXPORT ssize_t peerdma_file_read(struct peerdma_file *file, void *ptr, size_t length,
				 uint64_t offset)
{
	return transfer("peerdma_file_read",
			(struct transfer){ .file = file, .ptr = ptr, .length = length,
					   .offset = offset });
}

EXPORT ssize_t peerdma_file_write(struct peerdma_file *file, const void *ptr, size_t length,
				  uint64_t offset)
{
	return transfer("peerdma_file_write",
			(struct transfer){ .file = file, .ptr = (void *)(uintptr_t)ptr,
					   .length = length, .offset = offset, .write = true });
}
