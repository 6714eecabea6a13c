// SPDX-License-Identifier: MIT
/* card.c - see card.h. */
#include "card.h"

#include <string.h>
#include <time.h>

uint8_t *bus_decode(struct bus *bus, uint64_t addr, size_t len)
{
	for (int i = 0; i < bus->count; i++) {
		uint64_t offset = addr - bus->windows[i].base;

		if (addr >= bus->windows[i].base && offset < bus->windows[i].length &&
		    len <= bus->windows[i].length - offset)
			return bus->windows[i].behind + offset;
	}
	return NULL;
}

void card_init(struct card *card, struct bus *bus)
{
	memset(card, 0, sizeof(*card));
	card->bus = bus;
	card->next_iova = 0xfff00000;
	pthread_mutex_init(&card->lock, NULL);
	pthread_cond_init(&card->idle, NULL);
}

uint64_t card_map(struct card *card, uint64_t bus_addr, uint64_t length)
{
	uint64_t iova = 0;

	pthread_mutex_lock(&card->lock);
	for (int i = 0; i < IOMMU_ENTRIES; i++) {
		if (card->iommu[i].used)
			continue;
		/* Allocated downwards and never reused, so that a stale address faults. */
		card->next_iova -= length;
		iova = card->next_iova;
		card->iommu[i].iova = iova;
		card->iommu[i].bus_addr = bus_addr;
		card->iommu[i].length = length;
		card->iommu[i].used = true;
		break;
	}
	pthread_mutex_unlock(&card->lock);
	return iova;
}

void card_unmap(struct card *card, uint64_t iova)
{
	pthread_mutex_lock(&card->lock);
	for (int i = 0; i < IOMMU_ENTRIES; i++) {
		if (card->iommu[i].used && card->iommu[i].iova == iova)
			card->iommu[i].used = false;
	}
	pthread_mutex_unlock(&card->lock);
}

struct card_totals card_totals(struct card *card)
{
	struct card_totals totals;

	pthread_mutex_lock(&card->lock);
	totals = card->totals;
	totals.mappings = 0;
	for (int i = 0; i < IOMMU_ENTRIES; i++)
		totals.mappings += card->iommu[i].used;
	pthread_mutex_unlock(&card->lock);
	return totals;
}

/* Translates the card's address to memory; NULL: a fault. The lock is held. */
static uint8_t *translate(struct card *card, uint64_t iova, size_t len)
{
	for (int i = 0; i < IOMMU_ENTRIES; i++) {
		uint64_t offset = iova - card->iommu[i].iova;

		if (card->iommu[i].used && iova >= card->iommu[i].iova &&
		    offset < card->iommu[i].length && len <= card->iommu[i].length - offset)
			return bus_decode(card->bus, card->iommu[i].bus_addr + offset, len);
	}
	return NULL;
}

/* One transfer in and one out. The lock is held. */
static bool transfer(struct card *card, uint64_t dst, uint64_t src, size_t len)
{
	uint8_t *from = translate(card, src, len);
	uint8_t *to = translate(card, dst + card->wrong_by, len);

	if (!from || !to) {
		card->totals.faults++;
		return false;
	}
	memcpy(card->buffer, from, len);
	memcpy(to, card->buffer, len);
	card->totals.transfers += 2;
	card->totals.bytes += len;
	return true;
}

uint64_t card_copy(struct card *card, uint64_t dst, uint64_t src, uint64_t length)
{
	uint64_t done = 0;
	bool ok = true;

	pthread_mutex_lock(&card->lock);
	card->running = true;
	while (done < length && !card->stop && ok) {
		size_t len = length - done < CARD_TRANSFER_MAX ? length - done : CARD_TRANSFER_MAX;

		ok = transfer(card, dst + done, src + done, len);
		if (ok)
			done += len;
		if (card->transfer_us) {
			struct timespec t = { 0, (long)card->transfer_us * 1000 };

			pthread_mutex_unlock(&card->lock);
			nanosleep(&t, NULL);
			pthread_mutex_lock(&card->lock);
		}
	}
	card->running = false;
	pthread_cond_broadcast(&card->idle);
	pthread_mutex_unlock(&card->lock);
	return done;
}

void card_stop(struct card *card)
{
	pthread_mutex_lock(&card->lock);
	card->stop = true;
	while (card->running)
		pthread_cond_wait(&card->idle, &card->lock);
	pthread_mutex_unlock(&card->lock);
}

void card_start_again(struct card *card)
{
	pthread_mutex_lock(&card->lock);
	card->stop = false;
	pthread_mutex_unlock(&card->lock);
}
