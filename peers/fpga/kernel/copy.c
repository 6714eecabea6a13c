// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * copy.c - a copy: pins both ends and maps them for the card, transfers pieces that fit the
 * engine to the card and back, each in a turn of its own, then unmaps and unpins (card.h).
 *
 * When the memory of an end is freed, peerdma calls copy_revoke() in the thread that frees
 * it.  That function waits for the transfer under way, and the copy finds its stop flag set
 * before the next one.
 */
#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/overflow.h>
#include <linux/sched/signal.h>

#include "peerdma_kapi.h"
#include "peerdma_ioctl.h"
#include "fpga_ioctl.h"
#include "card.h"

static unsigned long fault_dma_offset;
module_param(fault_dma_offset, ulong, 0644);
MODULE_PARM_DESC(fault_dma_offset,
		 "FAULT INJECTION, for tests: added to every GPU address that a card writes to");

struct copy_job;

struct copy_end {
	struct copy_job *job;
	struct dma_buf *dmabuf;		/* NULL: it is the caller's memory */
	struct peerdma_pin *pin;
	struct peerdma_mapping *map;
	bool revoked;
	/* Current position: `skip` bytes into `sg`. */
	struct scatterlist *sg;
	unsigned int skip;
};

struct copy_job {
	struct fpga_card *card;
	struct fpga_client *client;
	struct copy_end src;
	struct copy_end dst;
	struct card_job engine;
};

static void copy_revoke(struct peerdma_pin *pin, void *priv)
{
	struct copy_end *end = priv;
	struct fpga_card *card = end->job->card;

	WRITE_ONCE(end->revoked, true);
	card_stop(card, &end->job->engine);
	atomic64_inc(&card->revocations);
	atomic64_inc(&end->job->client->revocations);
}

static const struct peerdma_client_ops copy_client = {
	.owner = THIS_MODULE,
	.name = "fpga",
	.revoke = copy_revoke,
};

static void end_advance(struct copy_end *end, unsigned int length)
{
	end->skip += length;
	while (end->sg && end->skip >= sg_dma_len(end->sg)) {
		end->skip -= sg_dma_len(end->sg);
		end->sg = sg_next(end->sg);
	}
}

/*
 * Fault injection: the offset added to addresses that the card writes to.  Never added for
 * host memory: without an IOMMU that would overwrite other memory.
 */
static unsigned long end_fault(const struct copy_end *end)
{
	return strcmp(peerdma_pin_provider(end->pin), "host") ? READ_ONCE(fault_dma_offset) : 0;
}

static dma_addr_t end_dma_addr(const struct copy_end *end)
{
	return sg_dma_address(end->sg) + end->skip;
}

static unsigned int end_room(const struct copy_end *end)
{
	return sg_dma_len(end->sg) - end->skip;
}

/* Sets the position to the requested first byte, which may lie pages into the pin. */
static int end_rewind(struct copy_end *end, u64 length)
{
	struct scatterlist *sg;
	u64 offset = peerdma_pin_offset(end->pin);
	u64 total = 0;
	unsigned int i;

	for_each_sgtable_dma_sg(&end->map->sgt, sg, i)
		total += sg_dma_len(sg);
	if (WARN_ON_ONCE(offset > total || length > total - offset))
		return -EIO;
	end->sg = end->map->sgt.sgl;
	for (; offset >= sg_dma_len(end->sg); end->sg = sg_next(end->sg))
		offset -= sg_dma_len(end->sg);
	end->skip = offset;
	return 0;
}

/* Faults in the caller's memory, which may never end: nothing is held meanwhile. */
static int end_pin(struct copy_end *end, u64 addr, u64 length, u32 flags)
{
	struct peerdma_pin *pin;

	pin = end->dmabuf ? peerdma_pin_dmabuf(end->dmabuf, addr, length, flags, &copy_client, end) :
			    peerdma_pin_user(addr, length, flags, &copy_client, end);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	end->pin = pin;
	atomic_inc(&end->job->card->pins);
	return 0;
}

static void end_unpin(struct copy_end *end)
{
	if (!end->pin)
		return;
	peerdma_unpin(end->pin);
	atomic_dec(&end->job->card->pins);
}

/* Between card_enter() and card_leave(), as end_unmap(). */
static int end_map(struct copy_end *end, u64 length, enum dma_data_direction dir)
{
	struct fpga_card *card = end->job->card;
	struct peerdma_mapping *map = peerdma_map(end->pin, &card->pdev->dev, dir);

	if (IS_ERR(map))
		return PTR_ERR(map);
	end->map = map;
	atomic_inc(&card->mappings);
	return end_rewind(end, length);
}

static void end_unmap(struct copy_end *end)
{
	if (!end->map)
		return;
	peerdma_unmap(end->map);
	atomic_dec(&end->job->card->mappings);
}

/* Gets the end's dma-buf, if any.  Undone by end_put(). */
static int end_get(struct copy_end *end, struct copy_job *job, bool is_dmabuf, int fd)
{
	end->job = job;
	if (!is_dmabuf)
		return 0;
	end->dmabuf = dma_buf_get(fd);
	if (!IS_ERR(end->dmabuf))
		return 0;
	fd = PTR_ERR(end->dmabuf);
	end->dmabuf = NULL;
	return fd;
}

static void end_put(struct copy_end *end)
{
	if (end->dmabuf)
		dma_buf_put(end->dmabuf);
}

static void end_report(const struct copy_end *end, struct fpga_end *out)
{
	unsigned int shift = peerdma_pin_page_shift(end->pin);
	u64 offset = peerdma_pin_offset(end->pin);

	out->segments = end->map->sgt.nents;
	out->page_shift = shift;
	strscpy(out->provider, peerdma_pin_provider(end->pin), sizeof(out->provider));
	if (!capable(CAP_SYS_RAWIO))
		return;
	out->dma_addr = end_dma_addr(end);
	out->phys_addr = peerdma_pin_page(end->pin, offset >> shift) +
			 (offset & ((1ULL << shift) - 1));
}

/* Transfers the next piece to the card and from it.  Returns its size or -errno. */
static int copy_piece(struct copy_job *job, u64 left, u32 *transfers)
{
	struct fpga_card *card = job->card;
	unsigned int piece;
	int ret;

	piece = min3(end_room(&job->src), end_room(&job->dst), CARD_MAX_TRANSFER);
	piece = min_t(u64, piece, left);

	ret = card_transfer(card, CARD_READS, end_dma_addr(&job->src), piece, &job->engine);
	if (ret)
		return ret;
	++*transfers;
	atomic64_add(piece, &job->client->bytes[CARD_READS]);
	ret = card_transfer(card, CARD_WRITES, end_dma_addr(&job->dst) + end_fault(&job->dst),
			    piece, &job->engine);
	if (ret)
		return ret;
	++*transfers;
	atomic64_add(piece, &job->client->bytes[CARD_WRITES]);
	end_advance(&job->src, piece);
	end_advance(&job->dst, piece);
	return piece;
}

/* Other copies have their turns between the pieces. */
static int copy_carry(struct copy_job *job, struct fpga_copy *args)
{
	int ret;

	while (args->done < args->length) {
		if (signal_pending(current))
			return -EINTR;
		ret = card_turn_begin(job->client);
		if (ret)
			return ret;
		ret = copy_piece(job, args->length - args->done, &args->transfers);
		card_turn_end(job->client);
		if (ret < 0)
			return ret;
		args->done += ret;
	}
	return 0;
}

static int copy_check(const struct fpga_copy *args)
{
	u64 src_end, dst_end;

	if (args->flags & ~(FPGA_SRC_DMABUF | FPGA_DST_DMABUF) || args->reserved || !args->length ||
	    (args->src_fd && !(args->flags & FPGA_SRC_DMABUF)) || (args->dst_fd && !(args->flags & FPGA_DST_DMABUF)))
		return -EINVAL;
	if (check_add_overflow(args->src, args->length, &src_end) ||
	    check_add_overflow(args->dst, args->length, &dst_end))
		return -EINVAL;
	return 0;
}

/* If the ranges overlap, later pieces would read what earlier ones wrote. */
static bool copy_overlaps(const struct copy_job *job, const struct fpga_copy *args)
{
	return job->src.dmabuf == job->dst.dmabuf && args->src < args->dst + args->length &&
	       args->dst < args->src + args->length;
}

/* Both ends are pinned. */
static int copy_pinned(struct copy_job *job, struct fpga_copy *args)
{
	int ret;

	ret = card_enter(job->card);
	if (ret)
		return ret;
	ret = end_map(&job->src, args->length, DMA_TO_DEVICE);
	if (ret)
		goto out_unmap;
	ret = end_map(&job->dst, args->length, DMA_FROM_DEVICE);
	if (ret)
		goto out_unmap;
	end_report(&job->src, &args->from);
	end_report(&job->dst, &args->to);

	atomic64_inc(&job->client->copies);
	ret = copy_carry(job, args);
out_unmap:
	end_unmap(&job->dst);
	end_unmap(&job->src);
	card_leave(job->card);
	return ret;
}

/* end_get() has succeeded for both ends. */
static int copy_run(struct copy_job *job, struct fpga_copy *args)
{
	ktime_t start = ktime_get();
	int ret;

	ret = end_pin(&job->src, args->src, args->length, PEERDMA_PIN_READONLY);
	if (!ret)
		ret = end_pin(&job->dst, args->dst, args->length, 0);
	if (!ret)
		ret = copy_pinned(job, args);
	end_unpin(&job->dst);
	end_unpin(&job->src);
	/* After unpinning, no revocation is under way or will come. */
	if (job->src.revoked)
		args->revoked |= FPGA_REVOKED_SRC;
	if (job->dst.revoked)
		args->revoked |= FPGA_REVOKED_DST;
	if (ret == -ESTALE)
		ret = -ECANCELED;	/* revoked before it was mapped: the same to the caller */
	args->interrupts = job->engine.interrupts;
	args->time_ns = ktime_to_ns(ktime_sub(ktime_get(), start));
	return ret;
}

int fpga_copy_run(struct fpga_client *client, struct fpga_copy *args)
{
	struct copy_job job = { .card = client->card, .client = client };
	int ret;

	ret = copy_check(args);
	if (ret)
		return ret;
	args->done = 0;
	args->time_ns = 0;
	args->transfers = 0;
	args->interrupts = 0;
	args->revoked = 0;
	memset(&args->from, 0, sizeof(args->from));
	memset(&args->to, 0, sizeof(args->to));

	ret = end_get(&job.src, &job, args->flags & FPGA_SRC_DMABUF, args->src_fd);
	if (!ret)
		ret = end_get(&job.dst, &job, args->flags & FPGA_DST_DMABUF, args->dst_fd);
	if (!ret)
		ret = copy_overlaps(&job, args) ? -EINVAL : copy_run(&job, args);
	end_put(&job.dst);
	end_put(&job.src);
	return ret;
}
