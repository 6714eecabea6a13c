// SPDX-License-Identifier: MIT
/* peer_client_util.c - see peer_client_util.h */
#include "dmabuf_mover.h"
#include "peer_client_util.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

uint32_t cards[2];
unsigned int ncards;

/* ---- memory ---- */

/* dma-bufs that the process has mapped. */
static struct buffer {
	char *map;
	size_t length;
	uint32_t number;
	int fd;
} buffers[64];
static bool dmabufs;

static uint64_t buffer_get(size_t length)
{
	struct mover_create c = { .size = sizeof(c), .length = length };
	int mover = open("/dev/dmabuf_mover", O_RDWR | O_CLOEXEC);

	for (struct buffer *b = buffers; b < buffers + 64; b++) {
		if (b->map)
			continue;
		CHECK(!ioctl(mover, MOVER_CREATE, &c));
		close(mover);
		b->fd = c.fd;
		b->number = c.number;
		b->length = length;
		b->map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, 0);
		CHECK(b->map != MAP_FAILED);
		return (uintptr_t)b->map;
	}
	CHECK(!"room for another buffer");
	exit(1);
}

/* Its exporter takes it away from devices. */
static void buffer_free(uint64_t va)
{
	for (struct buffer *b = buffers; b < buffers + 64; b++) {
		if ((uintptr_t)b->map != va)
			continue;
		must_write("revoke", "/sys/kernel/debug/dmabuf_mover/%u", b->number);
		munmap(b->map, b->length);
		close(b->fd);
		b->map = NULL;
		return;
	}
	CHECK(!"such a buffer");
}

uint64_t memory_get(size_t length)
{
	return dmabufs ? buffer_get(length) : gpu_alloc(length);
}

void memory_free(uint64_t va)
{
	if (dmabufs)
		buffer_free(va);
	else
		CHECK(!cu.MemFree(va));
}

void memory_write(uint64_t va, uint64_t value)
{
	if (dmabufs)
		*(volatile uint64_t *)(uintptr_t)va = value;
	else
		CHECK(!cu.MemcpyHtoD(va, &value, sizeof(value)) && !cu.CtxSynchronize());
}

bool memory_begin(const char *provider, const char **why)
{
	setenv("PEERDMA_TEST_PROVIDER", provider, 1);
	dmabufs = !strcmp(provider, "dmabuf");
	return memory_open(why);
}

/* ---- regions ---- */

int peer_call(int fd, struct peer_client_call *c)
{
	return ioctl(fd, PEER_CLIENT_CALL, c) ? -1000 - errno : c->ret;
}

int peer(int fd, uint32_t op, uint32_t arg)
{
	struct peer_client_call c = { .op = op, .arg = arg };

	return peer_call(fd, &c);
}

int region_open(uint32_t on)
{
	int fd = open("/dev/peer_client_test", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror("/dev/peer_client_test");
		exit(1);
	}
	CHECK(!peer(fd, P_ON_INVALIDATE, on));
	return fd;
}

int region_acquire(int fd, uint64_t va, size_t size)
{
	struct peer_client_call c = { .op = P_ACQUIRE, .addr = va, .size = size };

	return peer_call(fd, &c);
}

int region_get(int fd, uint64_t va, size_t size)
{
	struct peer_client_call c = { .op = P_GET_PAGES, .addr = va, .size = size };

	return peer_call(fd, &c);
}

int region_map(int fd, unsigned int card, uint64_t *dma)
{
	struct peer_client_call c = { .op = P_DMA_MAP, .arg = cards[card] };
	int ret = peer_call(fd, &c);

	CHECK(ret || c.value);
	if (dma)
		*dma = c.dma;
	return ret;
}

int region_up(uint32_t on, uint64_t va, size_t size, unsigned int card)
{
	int fd = region_open(on);

	CHECK(region_acquire(fd, va, size) == 1);
	CHECK(!region_get(fd, va, size));
	CHECK(!region_map(fd, card, NULL));
	CHECK(!peer(fd, P_ACTIVATE, 0));
	return fd;
}

void region_down(int fd)
{
	CHECK(!peer(fd, P_DEREGISTER, 0));
	close(fd);
}

uint64_t begun(int fd)
{
	struct peer_client_call c = { .op = P_STATE };

	CHECK(!peer_call(fd, &c));
	return c.bytes;
}

uint64_t done(int fd)
{
	struct peer_client_call c = { .op = P_STATE };

	CHECK(!peer_call(fd, &c));
	return c.dma;
}

uint64_t peek(int fd, uint64_t offset)
{
	struct peer_client_call c = { .op = P_PEEK, .addr = offset };

	CHECK(!peer_call(fd, &c));
	return c.value;
}

bool cards_find(void)
{
	struct peerdma_map_args found[2];

	ncards = find_cards(found, 2);
	for (unsigned int i = 0; i < ncards; i++)
		cards[i] = found[i].bus << 8 | found[i].devfn;
	return ncards;
}

/* ---- pins ---- */

uint64_t pins_now(void)
{
	int fd = dev_open();
	uint64_t n = live_pins(fd);

	close(fd);
	return n;
}

bool pins_are(uint64_t wanted)
{
	if (UNTIL(pins_now() == wanted))
		return true;
	printf("  %llu pins, not %llu\n", (unsigned long long)pins_now(), (unsigned long long)wanted);
	return false;
}

/* ---- a thread that frees ---- */

static void free_it(void *va)
{
	memory_free(*(uint64_t *)va);
}

void free_begin(struct freer *f, uint64_t va)
{
	*f = (struct freer){ .va = va };
	task_begin(&f->task, free_it, &f->va);
}

void free_end(struct freer *f)
{
	task_end(&f->task);
}
