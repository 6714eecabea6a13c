// SPDX-License-Identifier: MIT
/*
 * stale_dma.c - a device goes on with an address that it should have forgotten.
 * GPU memory is mapped for the card by the bridge, and by a client of nvidia_p2p
 * that never unmaps; the mapping ends in each way that it can; the memory is
 * freed, and all of VRAM given out again; and the card writes to the old address.
 * Behind an IOMMU that must reach nobody: every new byte is still zero.
 */
#include <fcntl.h>
#include <unistd.h>

#include "nvp2p_test.h"
#include "peerdma_test_card.h"
#include "peerdma_test_gpu.h"

#define BOTH		(PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE)
#define LENGTH		(4 * GPU_PAGE)
#define PIECES_MAX	1024

static uint64_t source;		/* the card's address of what it writes */
static int client;		/* nvp2p_test.ko, which never unmaps by itself */
static uint32_t bdf;

/* ---- two who map ---- */

static int file;
static uint32_t handle, mapping;

static uint64_t map_by_bridge(uint64_t va, uint32_t flags)
{
	struct peerdma_segment segs[LENGTH / GPU_PAGE];
	struct peerdma_pin_args a;
	uint32_t count = LENGTH / GPU_PAGE;

	file = dev_open();
	WORKS(pin_va(file, va, LENGTH, PEERDMA_PIN_DEVICE | flags, &a));
	WORKS(card_map(file, a.handle, BOTH, segs, &count, &mapping));
	handle = a.handle;
	return segs[0].dma_addr;
}

static int client_call(struct nvp2p_test_call c)
{
	CHECK(!ioctl(client, NVP2P_TEST_CALL, &c));
	return c.ret;
}
#define CLIENT(...) client_call((struct nvp2p_test_call){ __VA_ARGS__ })

static uint64_t map_by_client(uint64_t va)
{
	uint64_t dma[LENGTH / GPU_PAGE] = { 0 };

	CHECK(!CLIENT(.op = T_GET, .va = va, .length = LENGTH));
	CHECK(!CLIENT(.op = T_DMA_MAP, .bdf = bdf));
	CHECK(!CLIENT(.op = T_DMA_ADDRESSES, .data = (uintptr_t)dma, .length = LENGTH / GPU_PAGE));
	return dma[0];
}

/* ---- what the card reaches ---- */

/* How many bytes of the memory are not zero. */
static size_t written(uint64_t va, size_t length)
{
	static unsigned char back[LENGTH];
	size_t n = 0;

	CHECK(!cu.MemcpyDtoH(back, va, length));
	for (size_t i = 0; i < length; i++)
		n += back[i] != 0;
	return n;
}

static void write_by_card(uint64_t to)
{
	card_copy(source, to, 4092);
}

/* All of VRAM is somebody's now, and the card uses the address that it had. */
static size_t reached_anew(uint64_t stale)
{
	static unsigned long long pieces[PIECES_MAX];
	size_t n = 0, reached = 0;

	while (n < PIECES_MAX && !cu.MemAlloc(&pieces[n], LENGTH))
		n++;
	CHECK(n > 0 && n < PIECES_MAX);
	write_by_card(stale);
	while (n--) {
		reached += written(pieces[n], LENGTH);
		CHECK(!cu.MemFree(pieces[n]));
	}
	return reached;
}

enum end { FREED, UNMAPPED, UNPINNED, CLOSED, PERSISTENT, CLIENT_FREED, CLIENT_PUT, CLIENT_UNMAPPED, ENDS };

static const char *const names[ENDS] = {
	"memory freed", "unmapped", "unpinned", "closed", "a persistent pin unpinned",
	"memory freed, and the client leaves its mapping", "put, and the client leaves its mapping",
	"unmapped by the client",
};

static void one(enum end end)
{
	uint64_t va = gpu_alloc(LENGTH);
	uint64_t dma = end >= CLIENT_FREED ? map_by_client(va) :
		       map_by_bridge(va, end == PERSISTENT ? PEERDMA_PIN_PERSISTENT : 0);
	size_t before = failures;

	/* The address is good as long as it should be. */
	write_by_card(dma);
	CHECK(written(va, LENGTH) == 4092);
	switch (end) {
	case UNMAPPED:
		WORKS(unmap(file, mapping));
		break;
	case UNPINNED:
	case PERSISTENT:
		WORKS(unpin(file, handle));
		break;
	case CLOSED:
		close(file);
		break;
	case CLIENT_PUT:
		CHECK(!CLIENT(.op = T_PUT));
		break;
	case CLIENT_UNMAPPED:
		CHECK(!CLIENT(.op = T_DMA_UNMAP, .bdf = bdf));
		break;
	default:
		break;
	}
	CHECK(!cu.MemFree(va));
	CHECK(reached_anew(dma) == 0);
	printf("%s: %s\n", names[end], (size_t)failures == before ? "out of reach" : "NOT OK");
	if (end < CLIENT_FREED && end != CLOSED)
		close(file);
	CLIENT(.op = T_RESET);
}

int main(void)
{
	struct peerdma_map_args card = { 0 };
	struct peerdma_segment seg;
	struct peerdma_pin_args a;
	uint32_t count = 1, m;
	const char *why = "";
	char *memory;
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	client = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (client < 0 || !card_open() || !card_behind_iommu() || !memory_open(&why)) {
		printf("skip: nvp2p_test.ko, a card behind an IOMMU and a GPU are needed %s\n", why);
		return 77;
	}
	find_card(&card);
	bdf = card.bus << 8 | card.devfn;
	memory = host_memory(PAGE);
	memset(memory, 0x5a, PAGE);
	fd = dev_open();
	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(card_map(fd, a.handle, PEERDMA_MAP_TO_DEVICE, &seg, &count, &m));
	source = seg.dma_addr;
	for (int end = 0; end < ENDS && !failures; end++)
		one(end);
	close(fd);
	printf("%s\n", failures ? "FAILED" : "all passed");
	return failures ? 1 : 0;
}
