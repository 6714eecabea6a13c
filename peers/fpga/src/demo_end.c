// SPDX-License-Identifier: MIT
/*
 * Steps 6 and 7: memory that is freed under the cards, and the final count.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

#define REVOKE_AFTER	3	/* transfers of each card: mid-way through the second piece */
#define SETTLE_MS	300	/* longer than any transfer that might still be under way */
#define REVOKE_PIECES	10	/* a card's part: takes two seconds, unless it is stopped */
#define CANARY		0xa5
#define LOOK_BYTES	64

struct revocation {
	struct surface src, dst;
	uint64_t free_ns;		/* how long cuMemFree took */
	uint64_t callbacks;		/* counted by peerdma; the cards' count must agree */
	uint64_t callbacks_cards;
	uint64_t under_way;		/* transfers under way when cuMemFree returned */
	uint64_t begun_later;
};

/* Frees dst while all cards write to it. */
static bool free_under_copy(struct demo *demo, struct revocation *r)
{
	struct card_totals before, at_free, later;
	uint64_t callbacks, now;
	bool ok;

	if (!cards_totals(demo->cards, demo->card_count, &before, &demo->why) ||
	    !demo_revocations(demo, &callbacks) ||
	    !job_start(&demo->job, demo->cards, demo->card_count, surface_place(&r->dst),
		       surface_place(&r->src), r->dst.length, &demo->why))
		return false;
	job_wait_begun(&demo->job, REVOKE_AFTER);
	r->free_ns = now_ns();
	ok = surface_end(&r->dst, &demo->why);
	r->free_ns = now_ns() - r->free_ns;
	if (demo->make_b->later)
		job_wait(&demo->job);
	ok = ok && cards_totals(demo->cards, demo->card_count, &at_free, &demo->why);
	sleep_ms(SETTLE_MS);
	ok = ok && cards_totals(demo->cards, demo->card_count, &later, &demo->why);
	if (!demo->make_b->later)
		job_wait(&demo->job);
	if (!ok || !demo_revocations(demo, &now))
		return false;
	r->callbacks = now - callbacks;
	r->callbacks_cards = later.revocations - before.revocations;
	r->under_way = at_free.busy;
	r->begun_later = later.transfers - at_free.transfers;
	return true;
}

/* Number of parts that ended as they should: cancelled because of the destination. */
static int parts_cancelled(const struct job *job)
{
	int count = 0;

	for (int i = 0; i < job->count; i++)
		count += job->parts[i].error == ECANCELED &&
			 job->parts[i].copy.revoked == FPGA_REVOKED_DST;
	return count;
}

static size_t changed(const unsigned char *bytes, size_t length)
{
	size_t wrong = 0;

	for (size_t i = 0; i < length; i++)
		wrong += bytes[i] != CANARY;
	return wrong;
}

/*
 * Allocates memory anew, writes a canary, and checks that it does not change.  A card
 * reports where the new memory lies: it should be where the freed one was.
 */
static bool check_canary(struct demo *demo, uint64_t freed_phys, size_t length)
{
	unsigned char *bytes = malloc(length);
	struct surface s = { 0 }, look = { 0 };
	struct job job;
	uint64_t phys;
	size_t wrong;
	bool ok = false;

	if (!bytes) {
		why_set(&demo->why, "no memory for %zu bytes", length);
		return false;
	}
	if (!surface_new(&s, demo->gpu_b, length, &demo->why) ||
	    !surface_new(&look, NULL, LOOK_BYTES, &demo->why) ||
	    !gpu_set(demo->gpu_b, s.addr, CANARY, length, &demo->why) ||
	    !job_run(&job, demo->cards, 1, surface_place(&look), surface_place(&s), LOOK_BYTES, &demo->why))
		goto out;
	sleep_ms(SETTLE_MS);
	if (!surface_read(&s, bytes, &demo->why))
		goto out;
	wrong = changed(bytes, length);
	phys = job.parts[0].copy.from.phys_addr;
	screen_check(!wrong, "afterwards", "%s memory allocated anew and marked: %zu bytes changed",
		     phys == freed_phys ? "the same" : "other", wrong);
	ok = true;
out:
	ok &= surface_end(&s, &demo->why) && surface_end(&look, &demo->why);
	free(bytes);
	return ok;
}

static bool revocation_new(struct demo *demo, struct revocation *r, size_t length)
{
	return surface_new(&r->src, demo->gpu_a, length, &demo->why) &&
	       surface_new(&r->dst, demo->gpu_b, length, &demo->why) &&
	       gpu_set(demo->gpu_a, r->src.addr, 0x11, length, &demo->why);
}

static bool revoke(struct demo *demo, struct revocation *r, size_t length)
{
	const char *call = demo->make_b->free;
	const struct job *job = &demo->job;
	char took[SCREEN_CELL];

	screen_step(6, "Revoke", "%s of memory that the cards are writing to", call);
	if (!revocation_new(demo, r, length) || !free_under_copy(demo, r))
		return false;
	screen_check(r->callbacks == (uint64_t)job->count && r->callbacks_cards == r->callbacks,
		     "callback", "took back %" PRIu64 " pins of %d cards; %s waited %s%s",
		     r->callbacks, job->count, call, screen_time(took, r->free_ns),
		     demo->make_b->later ? "; the pages stay until they have ended" : ", for their transfers");
	screen_check(parts_cancelled(job) == job->count && job->done < length, "the copies",
		     "%d of %d cancelled after %" PRIu64 " transfers, %" PRIu64 " of %zu bytes",
		     parts_cancelled(job), job->count, job->transfers, job->done, length);
	screen_check(!r->under_way && !r->begun_later, "DMA",
		     "%" PRIu64 " transfers under way when %s, %" PRIu64 " begun later",
		     r->under_way, demo->make_b->later ? "the pins had ended" : "it returned", r->begun_later);
	return check_canary(demo, job->parts[0].copy.to.phys_addr, length);
}

/*
 * For memory whose pins outlive its free: memory that is allocated while the cards still
 * write must be other memory.
 */
static bool outlive(struct demo *demo, struct revocation *r, size_t length)
{
	unsigned char *bytes = malloc(length);
	const char *call = demo->make_b->free;
	struct surface s = { 0 };
	uint64_t callbacks, now = 0;
	bool ok, early;

	screen_step(6, "Outlive", "%s of memory that the cards are writing to: theirs until they are done", call);
	if (!bytes) {
		why_set(&demo->why, "no memory for %zu bytes", length);
		return false;
	}
	ok = revocation_new(demo, r, length) && demo_revocations(demo, &callbacks) &&
	     job_start(&demo->job, demo->cards, demo->card_count, surface_place(&r->dst), surface_place(&r->src),
		       length, &demo->why);
	if (!ok)
		goto out;
	job_wait_begun(&demo->job, REVOKE_AFTER);
	ok = surface_end(&r->dst, &demo->why);
	early = job_running(&demo->job);
	ok = ok && surface_new(&s, demo->gpu_b, length, &demo->why) &&
	     gpu_set(demo->gpu_b, s.addr, CANARY, length, &demo->why);
	job_wait(&demo->job);
	ok = ok && surface_read(&s, bytes, &demo->why) && demo_revocations(demo, &now);
	if (!ok)
		goto out;
	screen_check(now == callbacks, "callback", "none: %s returned %s", call,
		     early ? "while the cards worked" : "when they had done");
	screen_check(!demo->job.error && demo->job.done == length, "the copies",
		     "all ended as if nothing had happened: %" PRIu64 " of %zu bytes", demo->job.done, length);
	screen_check(!changed(bytes, length), "meanwhile", "memory allocated anew and marked: %zu bytes changed",
		     changed(bytes, length));
out:
	ok &= surface_end(&s, &demo->why);
	free(bytes);
	return ok;
}

bool demo_revoke(struct demo *demo)
{
	size_t length = (size_t)demo->card_count * REVOKE_PIECES * demo->cards[0].info.max_transfer;
	struct revocation r = { 0 };
	struct why ignored;
	bool ok = demo->make_b->outlives ? outlive(demo, &r, length) : revoke(demo, &r, length);

	/* The destination was not freed if the step failed before. */
	surface_end(&r.dst, &ignored);
	return surface_end(&r.src, &demo->why) && ok;
}

static void count_check(const char *label, uint64_t before, uint64_t after, bool bytes)
{
	char was[SCREEN_CELL], is[SCREEN_CELL];

	if (bytes)
		screen_check(before == after, label, "%s before, %s after",
			     screen_bytes(was, before), screen_bytes(is, after));
	else
		screen_check(before == after, label, "%" PRIu64 " before, %" PRIu64 " after", before,
			     after);
}

/* Shows all modules if no reference count has changed, else those that are still referenced. */
static void count_modules_check(const int before[], const int after[])
{
	char text[SCREEN_WIDTH] = "";
	bool same = !memcmp(before, after, COUNT_MODULES * sizeof(before[0]));

	for (int i = 0; i < COUNT_MODULES; i++) {
		size_t used = strlen(text);

		if (same && after[i] < 0)
			continue;	/* not loaded */
		if (same)
			snprintf(text + used, sizeof(text) - used, "%s %d, ", count_modules[i],
				 after[i]);
		else if (before[i] != after[i])
			snprintf(text + used, sizeof(text) - used, "%s %d before, %d after; ",
				 count_modules[i], before[i], after[i]);
	}
	screen_check(same, "module uses", "%s%s", text, same ? "as before" : "");
}

bool demo_count(struct demo *demo)
{
	const struct counts *before = &demo->before;
	struct counts after;

	screen_step(7, "Count", "all memory is freed: everything must be as it was before step 1");
	if (demo->broken == BREAK_SKIP_UNPIN && !demo_leave_pinned(demo, &demo->a))
		return false;
	if (!surface_end(&demo->a, &demo->why) || !surface_end(&demo->b, &demo->why) ||
	    !demo_counts(demo, &after))
		return false;
	count_check("pins", before->pins, after.pins, false);
	count_check("DMA mappings", before->mappings, after.mappings, false);
	if (before->nvml) {
		count_check("BAR1 used", before->bar1, after.bar1, true);
		count_check("VRAM used", before->vram, after.vram, true);
	}
	count_modules_check(before->refs, after.refs);
	return true;
}
