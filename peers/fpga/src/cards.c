// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cards.h"

#define PROGRESS_AFTER_MS	2000
#define PROGRESS_MS		100

/* The ABI fixes these layouts. */
_Static_assert(sizeof(struct fpga_info) == 104, "fpga_info");
_Static_assert(sizeof(struct fpga_end) == 40, "fpga_end");
_Static_assert(sizeof(struct fpga_copy) == 152, "fpga_copy");

static bool card_info(int fd, struct fpga_info *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	return !ioctl(fd, FPGA_INFO, info);
}

/* 1: opened; 0: no such card; -1 and why. */
static int card_open(struct card *card, unsigned int index, struct why *why)
{
	snprintf(card->node, sizeof(card->node), "/dev/fpga%u", index);
	card->fd = open(card->node, O_RDWR | O_CLOEXEC);
	if (card->fd < 0 && errno == ENOENT)
		return 0;
	if (card->fd < 0) {
		why_set(why, "%s: %s", card->node, strerror(errno));
		return -1;
	}
	if (!card_info(card->fd, &card->info)) {
		why_set(why, "%s does not answer as an FPGA card: %s", card->node,
			strerror(errno));
		goto fail;
	}
	if (card->info.abi != FPGA_ABI) {
		why_set(why, "%s speaks version %u, this program %u: build both from one tree",
			card->node, card->info.abi, FPGA_ABI);
		goto fail;
	}
	snprintf(card->pci, sizeof(card->pci), "%04x:%02x:%02x.%u", card->info.pci_domain & 0xffff,
		 card->info.pci_bus & 0xff, card->info.pci_devfn >> 3 & 0x1f,
		 card->info.pci_devfn & 7);
	return 1;
fail:
	close(card->fd);
	return -1;
}

static bool cards_open_all(struct card cards[CARDS_MAX], int *count, struct why *why)
{
	int got;

	/* Indices may have gaps: a card can be removed. */
	for (unsigned int index = 0; index < CARDS_MAX; index++) {
		got = card_open(&cards[*count], index, why);
		if (got < 0)
			return false;
		*count += got;
	}
	if (!*count)
		why_set(why, "no FPGA card: load peerdma_fpga.ko on a machine that has one (vm/run --cards)");
	return *count;
}

static bool cards_open_list(const char *list, struct card cards[CARDS_MAX], int *count,
			    struct why *why)
{
	char *end;
	int got;

	for (;; list = end + 1) {
		unsigned long index = strtoul(list, &end, 10);

		if (end == list || *list < '0' || *list > '9' || index >= CARDS_MAX ||
		    (*end && *end != ',')) {
			why_set(why, "'%s' is no list of cards: give all, or indices as in 0,2",
				list);
			return false;
		}
		for (int i = 0; i < *count; i++) {
			if (cards[i].info.index == index) {
				why_set(why, "card %lu is named twice", index);
				return false;
			}
		}
		got = card_open(&cards[*count], (unsigned int)index, why);
		if (got < 0)
			return false;
		if (!got) {
			why_set(why, "/dev/fpga%lu: no such card (fpga-copy --list shows them)",
				index);
			return false;
		}
		++*count;
		if (!*end)
			return true;
	}
}

bool cards_open(const char *list, struct card cards[CARDS_MAX], int *count, struct why *why)
{
	bool ok;

	*count = 0;
	ok = strcmp(list, "all") ? cards_open_list(list, cards, count, why) :
				   cards_open_all(cards, count, why);
	if (!ok)
		cards_close(cards, *count);
	return ok;
}

void cards_close(struct card cards[], int count)
{
	for (int i = 0; i < count; i++)
		close(cards[i].fd);
}

bool cards_totals(const struct card cards[], int count, struct card_totals *totals,
		  struct why *why)
{
	memset(totals, 0, sizeof(*totals));
	for (int i = 0; i < count; i++) {
		struct fpga_info info;

		if (!card_info(cards[i].fd, &info)) {
			why_set(why, "%s: %s", cards[i].node, strerror(errno));
			return false;
		}
		totals->busy += info.state == FPGA_STATE_BUSY;
		totals->transfers += info.transfers;
		totals->interrupts += info.interrupts;
		totals->bytes_read += info.bytes_read;
		totals->bytes_written += info.bytes_written;
		totals->revocations += info.revocations;
		totals->pins += info.pins;
		totals->mappings += info.mappings;
	}
	return true;
}

static void *part_run(void *arg)
{
	struct part *part = arg;

	part->error = ioctl(part->card->fd, FPGA_COPY, &part->copy) ? errno : 0;
	atomic_store(&part->ended, true);
	return NULL;
}

bool job_start(struct job *job, struct card cards[], int count, struct place dst, struct place src,
	       uint64_t length, struct why *why)
{
	/* A part is a whole number of full transfers, except the last one. */
	uint64_t piece = cards[0].info.max_transfer;
	uint64_t pieces = (length + piece - 1) / piece;
	struct fpga_info info;
	uint64_t at = 0;

	memset(job, 0, sizeof(*job));
	job->length = length;
	job->begun_ns = now_ns();
	for (int i = 0; i < count && at < length; i++) {
		struct part *part = &job->parts[job->count++];
		uint64_t share = pieces / (uint64_t)count + ((uint64_t)i < pieces % (uint64_t)count);
		uint64_t bytes = share * piece;

		if (bytes > length - at)
			bytes = length - at;
		part->card = &cards[i];
		if (card_info(part->card->fd, &info))
			part->transfers_before = info.transfers;
		part->copy.size = sizeof(part->copy);
		part->copy.flags = (dst.dmabuf ? FPGA_DST_DMABUF : 0) | (src.dmabuf ? FPGA_SRC_DMABUF : 0);
		part->copy.dst = dst.addr + at;
		part->copy.dst_fd = dst.dmabuf;
		part->copy.src = src.addr + at;
		part->copy.src_fd = src.dmabuf;
		part->copy.length = bytes;
		at += bytes;
		if (pthread_create(&part->thread, NULL, part_run, part)) {
			why_set(why, "no thread for %s: %s", part->card->node, strerror(EAGAIN));
			job_wait(job);
			return false;
		}
		part->started = true;
	}
	return true;
}

bool job_running(const struct job *job)
{
	for (int i = 0; i < job->count; i++)
		if (job->parts[i].started && !atomic_load(&job->parts[i].ended))
			return true;
	return false;
}

void job_wait_begun(const struct job *job, uint64_t transfers)
{
	struct fpga_info info;

	for (int i = 0; i < job->count; i++) {
		const struct part *part = &job->parts[i];

		while (part->started && !atomic_load(&part->ended) &&
		       card_info(part->card->fd, &info) &&
		       info.transfers - part->transfers_before < transfers)
			sleep_ms(10);
	}
}

void job_wait(struct job *job)
{
	job->done = job->transfers = job->interrupts = 0;
	job->error = 0;
	for (int i = 0; i < job->count; i++) {
		struct part *part = &job->parts[i];

		if (!part->started)
			continue;
		pthread_join(part->thread, NULL);
		part->started = false;
		job->done += part->copy.done;
		job->transfers += part->copy.transfers;
		job->interrupts += part->copy.interrupts;
		if (part->error && !job->error) {
			job->error = part->error;
			job->failed = part->card;
		}
	}
	job->time_ns = now_ns() - job->begun_ns;
}

static uint64_t job_written(const struct job *job)
{
	uint64_t bytes = 0;
	struct fpga_info info;

	for (int i = 0; i < job->count; i++)
		if (card_info(job->parts[i].card->fd, &info))
			bytes += info.bytes_written;
	return bytes;
}

void job_wait_shown(struct job *job, FILE *terminal)
{
	uint64_t before = job_written(job);
	bool shown = false;

	while (terminal && isatty(fileno(terminal)) && job_running(job)) {
		sleep_ms(PROGRESS_MS);
		if (now_ns() - job->begun_ns < PROGRESS_AFTER_MS * 1000000ull)
			continue;
		fprintf(terminal, "\r%llu of %llu bytes",
			(unsigned long long)(job_written(job) - before),
			(unsigned long long)job->length);
		fflush(terminal);
		shown = true;
	}
	if (shown) {
		fprintf(terminal, "\r\033[K");
		fflush(terminal);
	}
	job_wait(job);
}

void job_why(const struct job *job, struct why *why)
{
	const char *text;

	switch (job->error) {
	case ECANCELED:
		text = "the memory was freed under the copy";
		break;
	case ETIMEDOUT:
		text = "a transfer did not end in time; the card is off the bus until it does";
		break;
	case EIO:
		text = "the card is still busy with a transfer that timed out; try again";
		break;
	case ENODEV:
		text = "the card was removed";
		break;
	case ENXIO:
		text = "no GPU driver knows this address: is its peerdma provider loaded (peerdma_nvidia.ko)?";
		break;
	case EFAULT:
		text = "no memory at this address can be pinned: if it is GPU memory, is its peerdma provider loaded "
		"(peerdma_nvidia.ko)?";
		break;
	case ENOMEM:
		text = "no room: for host memory, see the locked-memory limit (ulimit -l)";
		break;
	case ENOSPC:
		text = "the GPU's BAR1 aperture is full: see who holds it with peerdma pins";
		break;
	case EOPNOTSUPP:
		text = "there is no path between the card and that GPU";
		break;
	default:
		text = strerror(job->error);
	}
	why_set(why, "%s: %s", job->failed ? job->failed->node : "the copy", text);
}

bool job_run(struct job *job, struct card cards[], int count, struct place dst, struct place src,
	     uint64_t length, struct why *why)
{
	if (!job_start(job, cards, count, dst, src, length, why))
		return false;
	job_wait(job);
	if (job->error)
		job_why(job, why);
	return !job->error;
}
