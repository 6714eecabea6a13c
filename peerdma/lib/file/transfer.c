// SPDX-License-Identifier: MIT
/*
 * transfer.c - peerdma_file_read() and peerdma_file_write().
 *
 * A transfer is made of parts, one for each pin.  Of a part, the disk transfers what is aligned as
 * it demands, in the file and in memory; what is before and after that is copied.
 */
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "../backend.h"
#include "file.h"

static void because(struct peerdma_file *file, const char *why)
{
	atomic_store_explicit(&file->why, why, memory_order_relaxed);
}

/* Copies, unless the caller has forbidden it. */
static ssize_t copied(const struct part *part, const char *why)
{
	because(part->file, why);
	if (part->file->flags & PEERDMA_FILE_DIRECT_ONLY)
		return fail(-EOPNOTSUPP, "not directly, as PEERDMA_FILE_DIRECT_ONLY demands: %s", why);
	return bounce(part);
}

static struct part from(const struct part *part, uint64_t done, uint64_t length)
{
	struct part rest = *part;

	rest.at += done;
	rest.offset += done;
	rest.length = length;
	return rest;
}

#define NOT_ALIGNED	"not aligned as the disk demands: offset in the file, address or length"

/* The disk's transfer of a part that is aligned.  If the kernel refuses it all the same, it is copied. */
static ssize_t by_disk(const struct part *part, char *base)
{
	ssize_t n = file_io(part->file->direct, base + part->at, part->length, part->offset,
			    part->write);

	if (!region_usable(part->region))
		return fail(-ESTALE, "the memory was freed");
	if (n >= 0) {
		__atomic_fetch_add(&part->file->direct_bytes, (uint64_t)n, __ATOMIC_RELAXED);
		return n;
	}
	switch (n) {
	case -EINVAL:
		return copied(part, "the file system or the disk refuses this transfer (EINVAL)");
	case -EFAULT:
		return copied(part, "the kernel does not transfer to this memory (EFAULT)");
	case -EREMOTEIO:
		return copied(part, "the disk does not reach the memory (EREMOTEIO)");
	default:
		return fail((int)n, "%s", error_words((int)n));
	}
}

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

static ssize_t transfer_part(const struct part *part)
{
	const char *why = NULL;
	char *base = direct_base(part->file, part->region, &why);
	uint64_t head, middle, align = align_of(part);
	struct part p;
	ssize_t done = 0;

	if (!base)
		return copied(part, why);
	head = head_of(part);
	middle = (part->length - head) / align * align;
	/* Of a transfer that may not be made in part, nothing is made. */
	if (part->file->flags & PEERDMA_FILE_DIRECT_ONLY && middle != part->length &&
	    !ends_before(part, head + middle))
		return copied(part, NOT_ALIGNED);
	p = from(part, 0, middle ? head : part->length);
	if (p.length && !file_step(copied(&p, NOT_ALIGNED), p.length, &done))
		return done;
	p = from(part, head, middle);
	if (!middle || !file_step(by_disk(&p, base), middle, &done))
		return done;
	p = from(part, head + middle, part->length - head - middle);
	if (p.length)
		file_step(copied(&p, NOT_ALIGNED), p.length, &done);
	return done;
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

static ssize_t transfer_region(struct peerdma_file *file, struct peerdma_region *region,
			       uint64_t addr, uint64_t length, uint64_t offset, bool write)
{
	ssize_t done = 0;
	uint64_t end;

	while ((uint64_t)done < length) {
		uint64_t at = addr + (uint64_t)done, left = length - (uint64_t)done;
		struct part part = { .file = file, .write = write };

		part.offset = offset + (uint64_t)done;
		part.region = pin_at(region, at, &end);
		if (!part.region)
			return fail(-ENXIO, "the range is not in its pin");
		part.at = at - (part.region->addr - part.region->offset);
		part.length = left < end - at ? left : end - at;
		if (!file_step(transfer_part(&part), part.length, &done))
			break;
	}
	return done;
}

/* Host memory: the kernel's own calls do what is to be done. */
static ssize_t transfer_host(struct peerdma_file *file, void *ptr, uint64_t length, uint64_t offset,
			     bool write)
{
	bool aligned = !(offset % file->offset_align || length % file->offset_align ||
			 (uintptr_t)ptr % file->memory_align);
	ssize_t n = -EINVAL;

	if (aligned && file->direct >= 0)
		n = file_io(file->direct, ptr, length, offset, write);
	/* Not without the page cache: the memory may have no pages, as a view of a GPU's. */
	if (n == -EINVAL || n == -EFAULT || n == -EEXIST || n == -EREMOTEIO)
		n = file_io(file->fd, ptr, length, offset, write);
	if (n < 0)
		return fail((int)n, "%s", error_words((int)n));
	__atomic_fetch_add(&file->host_bytes, (uint64_t)n, __ATOMIC_RELAXED);
	return n;
}

static int check(const char *call, struct peerdma_file *file, const void *ptr, size_t length,
		 uint64_t offset)
{
	int ret = check_given(call, "file", file, "ptr", ptr, NULL);

	if (!ret)
		ret = check_owner(file->ctx, call);
	if (!ret)
		ret = check_range(call, (uintptr_t)ptr, length);
	if (!ret && (length > SSIZE_MAX || offset > INT64_MAX - length))
		ret = fail(-EINVAL, "%s: offset %llu and length %zu: beyond what a file can have", call,
			   (unsigned long long)offset, length);
	return ret;
}

static ssize_t checked(const char *call, struct peerdma_file *file, void *ptr, size_t length,
		       uint64_t offset, bool write)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };
	struct peerdma_cached *hold;
	ssize_t ret = check(call, file, ptr, length, offset);

	if (!ret)
		ret = peerdma_query(file->ctx, ptr, &memory);
	if (ret)
		return ret;
	if (memory.kind == PEERDMA_KIND_HOST) {
		ret = transfer_host(file, ptr, length, offset, write);
	} else {
		ret = peerdma_cache_get(file->cache, ptr, length, &hold);
		if (ret)
			return ret;
		ret = transfer_region(file, hold->registration, (uintptr_t)ptr, length, offset,
				      write);
		peerdma_cache_put(file->cache, hold);
	}
	return ret < 0 ? fail((int)ret, "%s: %s", call, peerdma_last_error()) : ret;
}

/* What fails on the way, and is done otherwise, leaves no text. */
static ssize_t transfer(const char *call, struct peerdma_file *file, void *ptr, size_t length,
			uint64_t offset, bool write)
{
	uint32_t was = attempt_begin();
	ssize_t ret = checked(call, file, ptr, length, offset, write);

	attempt_end(was, ret < 0 ? -1 : 0);
	return ret;
}

EXPORT ssize_t peerdma_file_read(struct peerdma_file *file, void *ptr, size_t length,
				 uint64_t offset)
{
	return transfer("peerdma_file_read", file, ptr, length, offset, false);
}

EXPORT ssize_t peerdma_file_write(struct peerdma_file *file, const void *ptr, size_t length,
				  uint64_t offset)
{
	return transfer("peerdma_file_write", file, (void *)(uintptr_t)ptr, length, offset, true);
}
