// SPDX-License-Identifier: MIT
/* toy_provider_test.c - memory of toy_provider.ko, through /dev/peerdma: pinned, used, and freed under the pin. */
#include <poll.h>

#include "peerdma_test_card.h"

#define LENGTH	(4 * PAGE)

static int fd;		/* of /dev/peerdma */

/* Closing it frees the memory. */
static int toy_alloc(uint64_t *addr)
{
	int toy = open("/dev/toy", O_RDWR | O_CLOEXEC);

	CHECK(toy >= 0 && read(toy, addr, sizeof(*addr)) == sizeof(*addr));
	return toy;
}

static int pin_fails(void *addr)
{
	struct peerdma_pin_args a;

	return pin_va(dev_open(), *(uint64_t *)addr, LENGTH, PEERDMA_PIN_DEVICE, &a) ? errno : 0;
}

static void refused(void)
{
	struct peerdma_pin_args a;
	uint64_t addr;
	int toy = toy_alloc(&addr);

	FAILS(ENXIO, pin_va(fd, addr + PAGE, LENGTH, PEERDMA_PIN_DEVICE, &a));
	FAILS(ENXIO, pin_va(fd, addr - PAGE, LENGTH, PEERDMA_PIN_DEVICE, &a));
	CHECK(check_in_child(pin_fails, &addr) == ENXIO);
	close(toy);
	FAILS(ENXIO, pin_va(fd, addr, LENGTH, PEERDMA_PIN_DEVICE, &a));
}

static bool has_event(const struct peerdma_pin_args *a)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct peerdma_event event;

	return poll(&p, 1, 0) == 1 && read(fd, &event, sizeof(event)) == sizeof(event) &&
	       event.type == PEERDMA_EVENT_REVOKED && event.handle == a->handle;
}

/* The card copies from toy memory at offset 8 to its second half; a CPU view sees both. */
static void used(void)
{
	struct peerdma_query_args q;
	struct peerdma_pin_args a;
	struct peerdma_segment seg;
	uint32_t count = 1, mapping;
	uint64_t addr;
	char *cpu;
	int toy = toy_alloc(&addr);

	WORKS(pin_va(fd, addr, LENGTH, PEERDMA_PIN_DEVICE, &a));
	WORKS(query(fd, a.handle, &q));
	CHECK(!strcmp(q.provider, "toy") && q.flags == PEERDMA_PIN_DEVICE && q.pinned_length == LENGTH);
	CHECK(generations(fd)[a.slot] == a.generation);
	cpu = view(fd, a.handle, LENGTH, PROT_READ | PROT_WRITE);
	strcpy(cpu + 8, "toy");
	WORKS(card_map(fd, a.handle, BOTH, &seg, &count, &mapping));
	card_copy(seg.dma_addr + 8, seg.dma_addr + LENGTH / 2, 4);
	CHECK(!strcmp(cpu + LENGTH / 2, "toy"));

	close(toy);
	CHECK(generations(fd)[a.slot] != a.generation);
	CHECK(has_event(&a));
	CHECK(signal_of_read(cpu) == SIGBUS);
	WORKS(query(fd, a.handle, &q));
	CHECK(q.state == PEERDMA_STATE_REVOKED && !q.mappings);
	WORKS(unpin(fd, a.handle));
	CHECK(live_pins(fd) == 0);
}

/* Of two pins of an allocation, one is unpinned before the free. */
static void freed_later(void)
{
	struct peerdma_pin_args first, second;
	uint64_t addr;
	int toy = toy_alloc(&addr);

	WORKS(pin_va(fd, addr, PAGE, PEERDMA_PIN_DEVICE, &first));
	WORKS(pin_va(fd, addr, LENGTH, PEERDMA_PIN_DEVICE, &second));
	WORKS(unpin(fd, first.handle));
	close(toy);
	CHECK(has_event(&second) && !has_event(&first));
	WORKS(unpin(fd, second.handle));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = dev_open();
	if (!card_open())
		check_skip("there is no DMA card");
	run("what is not the process's toy memory", refused);
	run("used, and freed under the pin", used);
	run("unpinned, then freed", freed_later);
	return check_end("memory of toy_provider.ko");
}
