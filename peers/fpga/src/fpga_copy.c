// SPDX-License-Identifier: MIT
/* fpga-copy - copies memory through FPGA cards, and validates the result.  See fpga-copy(1). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cards.h"
#include "copy_options.h"
#include "gpu.h"
#include "surface.h"
#include "util.h"

#define REVOKE_AFTER	3	/* transfers of each card: mid-way through the second piece */
#define SETTLE_MS	300	/* longer than any transfer that might still be under way */

struct run {
	struct options opt;
	struct gpu gpus[GPUS_MAX];
	int gpu_count;
	struct gpu as_other[2];	/* of source and destination, if not of cuMemAlloc */
	struct card cards[CARDS_MAX];
	int card_count;
	struct surface src, dst;
	struct surface bounce_in, bounce_out;
	unsigned char *expected, *found;
	struct job job;
	uint64_t engine_bytes;	/* copied by a GPU's engine as part of the job */
	uint64_t host_bytes;	/* of bounce buffers */
	uint64_t time_ns;
	struct why why;
};

static int complain(const struct run *run, int code)
{
	fprintf(stderr, "fpga-copy: %s\n", run->why.text);
	return code;
}

static bool carry(struct run *run, const struct surface *dst, const struct surface *src)
{
	if (!job_start(&run->job, run->cards, run->card_count, surface_place(dst), surface_place(src),
		       run->opt.size, &run->why))
		return false;
	job_wait_shown(&run->job, run->opt.json ? NULL : stderr);
	if (run->job.error)
		job_why(&run->job, &run->why);
	return !run->job.error;
}

/* Copies between a GPU's memory and its bounce buffer, as a program without peer-to-peer does. */
static bool bounce(struct run *run, const struct surface *gpu, const struct surface *host, bool out)
{
	void *buffer = (void *)(uintptr_t)host->addr;

	return out ? surface_read(gpu, buffer, &run->why) : surface_write(gpu, buffer, &run->why);
}

static bool copy(struct run *run)
{
	const struct surface *from = &run->src, *to = &run->dst;
	uint64_t begun = now_ns(), engine = gpu_bytes_copied();
	uint64_t host = surface_host_bytes();
	bool ok;

	if (run->opt.bounce && run->src.gpu) {
		from = &run->bounce_in;
		if (!surface_new(&run->bounce_in, NULL, run->opt.size, &run->why) ||
		    !bounce(run, &run->src, from, true))
			return false;
	}
	if (run->opt.bounce && run->dst.gpu) {
		to = &run->bounce_out;
		if (!surface_new(&run->bounce_out, NULL, run->opt.size, &run->why))
			return false;
	}
	ok = carry(run, to, from);
	if (ok && to == &run->bounce_out)
		ok = bounce(run, &run->dst, to, false);
	run->time_ns = now_ns() - begun;
	run->engine_bytes = gpu_bytes_copied() - engine;
	run->host_bytes = surface_host_bytes() - host;
	return ok;
}

static void print_ends(const struct fpga_copy *copy)
{
	const struct fpga_end *ends[] = { &copy->from, &copy->to };

	for (int i = 0; i < 2; i++) {
		printf("%s %s memory, %u run%s of DMA addresses", i ? "to  " : "from",
		       ends[i]->provider, ends[i]->segments, ends[i]->segments == 1 ? "" : "s");
		if (ends[i]->dma_addr)
			printf(", the first at %#" PRIx64 " (physical %#" PRIx64 ")",
			       (uint64_t)ends[i]->dma_addr, (uint64_t)ends[i]->phys_addr);
		putchar('\n');
	}
}

static void report(const struct run *run, const char *result, size_t differs,
		   const char *sum_expected, const char *sum_found)
{
	const struct job *job = &run->job;

	if (run->opt.json) {
		printf("{\"result\":\"%s\",\"bytes\":%" PRIu64 ",\"done\":%" PRIu64
		       ",\"cards\":%d,\"transfers\":%" PRIu64 ",\"interrupts\":%" PRIu64
		       ",\"engine_bytes\":%" PRIu64 ",\"host_bytes\":%" PRIu64
		       ",\"time_ns\":%" PRIu64 ",\"error\":%d", result, run->opt.size, job->done,
		       job->count, job->transfers, job->interrupts, run->engine_bytes,
		       run->host_bytes, run->time_ns, job->error);
		if (*sum_found)
			printf(",\"sha256\":\"%s\",\"sha256_expected\":\"%s\"", sum_found,
			       sum_expected);
		puts("}");
		return;
	}
	print_ends(&job->parts[0].copy);
	printf("%" PRIu64 " of %" PRIu64 " bytes by %d card%s: %" PRIu64 " transfers, %" PRIu64
	       " interrupts, %.2f s\n", job->done, run->opt.size, job->count,
	       job->count == 1 ? "" : "s", job->transfers, job->interrupts,
	       (double)run->time_ns / 1e9);
	if (run->opt.bounce)
		printf("bounced: %" PRIu64 " bytes copied by the GPU's engine, %" PRIu64
		       " bytes of host memory\n", run->engine_bytes, run->host_bytes);
	if (*sum_found)
		printf("SHA-256 %s\n", sum_found);
	if (differs < run->opt.size)
		printf("byte %zu differs%s%s\n", differs, *sum_expected ? "; SHA-256 should be " : "",
		       sum_expected);
	puts(result);
}

static int copy_and_validate(struct run *run)
{
	char expected[DIGEST_HEX] = "", found[DIGEST_HEX] = "";
	size_t differs;

	if (!copy(run) || !surface_read(&run->dst, run->found, &run->why))
		return complain(run, EXIT_FAILED);
	differs = first_difference(run->expected, run->found, run->opt.size);
	digest(run->expected, run->opt.size, expected);
	digest(run->found, run->opt.size, found);
	report(run, differs < run->opt.size ? "wrong" : "right", differs, expected, found);
	return differs < run->opt.size ? EXIT_WRONG : EXIT_OK;
}

/* The destination is freed under the copy: it must stop, and stay stopped. */
static int copy_and_revoke(struct run *run)
{
	struct card_totals at_free, later;
	uint64_t begun = now_ns();

	if (!job_start(&run->job, run->cards, run->card_count, surface_place(&run->dst), surface_place(&run->src),
		       run->opt.size, &run->why))
		return complain(run, EXIT_FAILED);
	job_wait_begun(&run->job, REVOKE_AFTER);
	if (!surface_end(&run->dst, &run->why) ||
	    !cards_totals(run->cards, run->card_count, &at_free, &run->why)) {
		job_wait(&run->job);
		return complain(run, EXIT_FAILED);
	}
	sleep_ms(SETTLE_MS);
	if (!cards_totals(run->cards, run->card_count, &later, &run->why)) {
		job_wait(&run->job);
		return complain(run, EXIT_FAILED);
	}
	job_wait(&run->job);
	run->time_ns = now_ns() - begun;

	if (run->job.error && run->job.error != ECANCELED) {
		job_why(&run->job, &run->why);
		return complain(run, EXIT_FAILED);
	}
	if (!run->job.error) {
		why_set(&run->why, "the copy was over before the memory was freed: give a larger --size");
		return complain(run, EXIT_FAILED);
	}
	if (at_free.busy || later.transfers != at_free.transfers) {
		report(run, "wrong: the cards went on after the memory was freed", run->opt.size,
		       "", "");
		return EXIT_WRONG;
	}
	report(run, "revoked", run->opt.size, "", "");
	return EXIT_OK;
}

static void list_cards(const struct run *run)
{
	static const char *const iommu[] = { "no IOMMU", "IOMMU passes through",
					     "IOMMU translates" };

	for (int i = 0; i < run->card_count; i++) {
		const struct fpga_info *info = &run->cards[i].info;

		printf("%s  %s  buffer %u bytes  %s  %" PRIu64 " transfers\n", run->cards[i].node,
		       run->cards[i].pci, info->buffer_size,
		       info->iommu < 3 ? iommu[info->iommu] : "IOMMU unknown",
		       (uint64_t)info->transfers);
	}
}

/* Finds the GPU for an end.  False and why; *gpu is NULL for host memory. */
static bool choose(struct run *run, int index, const struct gpu_make *make, struct gpu *other, const struct gpu **gpu)
{
	*gpu = index == HOST ? NULL : &run->gpus[index];
	if (!*gpu || make == &make_nvidia)
		return true;
	*gpu = other;
	return gpu_as(&run->gpus[index], make, other, &run->why);
}

static int prepare(struct run *run)
{
	const struct gpu *src, *dst;
	const struct options *opt = &run->opt;
	int highest = opt->src > opt->dst ? opt->src : opt->dst;

	if (highest != HOST && !gpus_open(run->gpus, &run->gpu_count, &run->why))
		return complain(run, EXIT_MISSING);
	if (highest >= run->gpu_count && highest != HOST) {
		why_set(&run->why, "there is no GPU %d: CUDA has %d GPUs", highest, run->gpu_count);
		return complain(run, EXIT_MISSING);
	}
	if (opt->revoke && highest != HOST && opt->dst_make->outlives) {
		why_set(&run->why, "--revoke: pins of this memory outlive its free (%s)", opt->dst_make->free);
		return complain(run, EXIT_USAGE);
	}
	if (!choose(run, opt->src, opt->src_make, &run->as_other[0], &src) ||
	    !choose(run, opt->dst, opt->dst_make, &run->as_other[1], &dst))
		return complain(run, EXIT_MISSING);
	if (opt->file) {
		size_t length;

		run->expected = read_file(opt->file, &length, &run->why);
		if (!run->expected)
			return complain(run, EXIT_MISSING);
		run->opt.size = length;
	} else {
		run->expected = malloc(opt->size);
		if (run->expected)
			pattern_fill(run->expected, opt->size, opt->seed);
	}
	run->found = calloc(1, opt->size);
	if (!run->expected || !run->found) {
		why_set(&run->why, "no memory for twice %" PRIu64 " bytes", opt->size);
		return complain(run, EXIT_FAILED);
	}
	/* `found' is still all zero: the destination's initial contents. */
	if (!surface_new(&run->src, src, opt->size, &run->why) ||
	    !surface_new(&run->dst, dst, opt->size, &run->why) ||
	    !surface_write(&run->src, run->expected, &run->why) ||
	    !surface_write(&run->dst, run->found, &run->why))
		return complain(run, EXIT_FAILED);
	return EXIT_OK;
}

static void finish(struct run *run)
{
	struct surface *surfaces[] = { &run->src, &run->dst, &run->bounce_in, &run->bounce_out };

	for (int i = 0; i < 4; i++)
		surface_end(surfaces[i], &run->why);
	free(run->expected);
	free(run->found);
	cards_close(run->cards, run->card_count);
	if (run->gpu_count)
		gpus_close(run->gpus, run->gpu_count);
}

int main(int argc, char **argv)
{
	static struct run run;
	int code;

	options_parse(argc, argv, &run.opt);
	if (!cards_open(run.opt.cards, run.cards, &run.card_count, &run.why))
		return complain(&run, EXIT_MISSING);
	if (run.opt.list) {
		list_cards(&run);
		cards_close(run.cards, run.card_count);
		return EXIT_OK;
	}
	code = prepare(&run);
	if (code == EXIT_OK)
		code = run.opt.revoke ? copy_and_revoke(&run) : copy_and_validate(&run);
	finish(&run);
	return code;
}
