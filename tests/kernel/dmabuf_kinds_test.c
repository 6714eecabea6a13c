// SPDX-License-Identifier: MIT
/*
 * dmabuf_kinds_test.c - the two ways in which device memory is exported: as NVIDIA's
 * driver does, where it stands still, and as AMD's, where it may be moved; with the
 * importers of peerdma_importer.ko and, if peerdma.ko is there, the bridge.
 */
#include <linux/dma-buf.h>

#include "dmabuf_kinds.h"
#include "uapi/peerdma_ioctl.h"

#define KIND "/sys/module/softgpu/parameters/dmabuf_kind"
#define READS_MOVE "/sys/module/softgpu/parameters/dmabuf_cpu_reads_move"

enum { AS_ITS_MAKER, STATIC, DYNAMIC };

static bool on_pci;			/* VRAM is in a BAR */

static int sync_cpu(int dmabuf, uint64_t flags)
{
	struct dma_buf_sync a = { .flags = flags };

	return ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &a) ? errno : 0;
}

/* The kernel's view; *iomem: of a BAR. */
static int view(int im, int dmabuf, bool *iomem)
{
	return importer_view(im, dmabuf, iomem) ? errno : 0;
}

static void unview(int im)
{
	MUST(!ioctl(im, IMPORTER_VUNMAP));
}

/* Of a static one importers of every kind may have it, programs only where that was allowed. */
static void is_static(uint64_t va)
{
	int dmabuf = export(va), im = importer_open();
	bool iomem;

	CHECK(!movable(), "a static export can be moved");
	/* What the original has no callback for: nothing to do, and no view for the kernel. */
	EXPECT(sync_cpu(dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW), 0);
	EXPECT(sync_cpu(dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW), 0);
	EXPECT(view(im, dmabuf, &iomem), EINVAL);
	CHECK(mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED && errno == 524, "errno %d", errno);
	EXPECT(attach(im, dmabuf, IMPORTER_STATIC), 0);
	EXPECT(map(im), 0);
	detach(im);
	EXPECT(attach(im, dmabuf, IMPORTER_PINNING), 0);
	EXPECT(map(im), 0);
	close(im);
	close(dmabuf);
}

/* When it attaches, pins or maps: kernels differ in when they pin for an importer. */
static void refused(int im, int dmabuf, uint32_t kind)
{
	int err = attach(im, dmabuf, kind);

	if (!err) {
		err = map(im);
		detach(im);
	}
	CHECK(err == EINVAL || err == EBUSY, "errno %d", err);
}

/* An importer that needs struct pages has it moved to where there are some, unless another keeps it where it is. */
static void attaching(void)
{
	uint64_t va = alloc(visible);
	int dmabuf = export(va), im = importer_open(), second = importer_open();

	CHECK(field(SIZE) == LENGTH && !field(USERS) && !field(PLACED), "users and a place without any");
	EXPECT(attach(im, dmabuf, IMPORTER_DYNAMIC), 0);
	CHECK(!field(PLACED), "attached has a place");
	EXPECT(map(im), 0);
	CHECK(!mapped.pages == on_pci && field(IN_SYSTEM) == 0, "mapped with %u", mapped.pages);
	CHECK(field(USERS) >= 1 && field(PLACED), "mapped has no place");
	detach(im);
	CHECK(!field(USERS) && !field(PLACED), "the place is still taken");
	EXPECT(attach(im, dmabuf, IMPORTER_PINNING), 0);
	CHECK(field(PLACED), "pinned has no place");
	EXPECT(map(im), 0);
	if (on_pci) {
		refused(second, dmabuf, IMPORTER_STATIC);
		refused(second, dmabuf, IMPORTER_NO_PEER);
		CHECK(field(IN_SYSTEM) == 0, "what is pinned was moved");
	}
	close(im);
	CHECK(!field(USERS), "users without any");
	close(second);
	close(dmabuf);
	CHECK(!movable(), "it is still there");
	EXPECT(sg_free_visible(g.fd, va), 0);
}

/* The memory of two views, filled with what is written through one of them. */
struct seen {
	uint64_t va;
	int dmabuf;
	char *own, *view, *host;
};

static struct seen seen_make(int with)
{
	struct seen s = { .va = alloc(visible), .host = malloc(LENGTH) };

	s.dmabuf = export(s.va);
	s.own = mmap((void *)s.va, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, g.fd, (off_t)s.va);
	s.view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, s.dmabuf, 0);
	MUST(s.host && s.own != MAP_FAILED && s.view != MAP_FAILED);
	fill(s.own, with);
	return s;
}

/* Program, dma-buf and GPU alike. */
static void is_filled(const struct seen *s, int with)
{
	CHECK(filled(s->own, with), "the program sees other bytes than %d", with);
	CHECK(filled(s->view, with), "the dma-buf shows other bytes than %d", with);
	EXPECT(sg_copy(g.fd, visible, PTR(s->host), s->va, LENGTH, SOFTGPU_OP_SYNC), 0);
	CHECK(filled(s->host, with), "the GPU sees other bytes than %d", with);
}

static void seen_end(struct seen *s)
{
	munmap(s->view, LENGTH);
	close(s->dmabuf);
	EXPECT(sg_free_visible(g.fd, s->va), 0);
	free(s->host);
}

static uint64_t vram_free(void)
{
	return sg_need_info(g.fd).vram_free;
}

/*
 * For an importer that cannot reach VRAM the exporter moves the memory to system memory. It notifies an importer that
 * can, which finds the memory there.
 */
static void evictions(uint32_t kind)
{
	int im = importer_open(), other = importer_open();
	struct seen s = seen_make(5);
	uint64_t vram = vram_free(), number = field(NUMBER);

	EXPECT(attach(im, s.dmabuf, IMPORTER_DYNAMIC), 0);
	EXPECT(map(im), 0);
	EXPECT(attach(other, s.dmabuf, kind), 0);
	EXPECT(map(other), 0);
	CHECK(mapped.pages, "no struct pages");
	CHECK(mapped.first == (uint8_t)s.own[0], "another byte: %u", mapped.first);
	CHECK(field(EVICTIONS) == on_pci && field(IN_SYSTEM) == on_pci, "%llu times", field(EVICTIONS));
	CHECK(vram_free() == vram + on_pci * LENGTH, "VRAM is still taken");
	CHECK(importer_state(im).notified == on_pci && importer_state(im).mapped == !on_pci, "%u calls", importer_state(im).notified);
	if (on_pci)
		EXPECT(map(im), 0);
	CHECK(mapped.pages && mapped.first == (uint8_t)s.own[0], "not where the other one has it");
	is_filled(&s, 5);
	fill(s.view, 50);
	is_filled(&s, 50);
	/* A static one keeps it, the others let go: back to VRAM, and out of it on command. */
	EXPECT(put(DEBUGFS "move", number), kind == IMPORTER_STATIC ? EBUSY : 0);
	detach(im);
	detach(other);
	EXPECT(put(DEBUGFS "evict", number), 0);
	EXPECT(put(DEBUGFS "evict", number), 0);
	CHECK(field(IN_SYSTEM) == 1, "not in system memory");
	is_filled(&s, 50);
	EXPECT(put(DEBUGFS "move", number), 0);
	CHECK(field(IN_SYSTEM) == 0 && vram_free() == vram, "not in VRAM");
	is_filled(&s, 50);
	EXPECT(put(DEBUGFS "evict", number), 0);
	seen_end(&s);
	close(im);
	close(other);
}

/* A CPU that says that it will read has it in system memory, where it is not pinned. */
static void cpu_access(void)
{
	struct seen s = seen_make(8);
	uint64_t number = field(NUMBER);
	int im = importer_open();

	EXPECT(sync_cpu(s.dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE), 0);
	CHECK(!field(IN_SYSTEM), "moved to be written");
	EXPECT(sync_cpu(s.dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE), 0);
	EXPECT(attach(im, s.dmabuf, IMPORTER_PINNING), 0);
	EXPECT(sync_cpu(s.dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ), 0);
	CHECK(!field(IN_SYSTEM), "moved, pinned as it was");
	detach(im);
	EXPECT(put(READS_MOVE, 0), 0);
	EXPECT(sync_cpu(s.dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ), 0);
	CHECK(!field(IN_SYSTEM), "moved, though it must not");
	EXPECT(put(READS_MOVE, 1), 0);
	EXPECT(attach(im, s.dmabuf, IMPORTER_DYNAMIC), 0);
	EXPECT(map(im), 0);
	EXPECT(sync_cpu(s.dmabuf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ), 0);
	CHECK(field(IN_SYSTEM) == on_pci, "not moved to be read");
	CHECK(importer_state(im).notified == on_pci, "%u calls", importer_state(im).notified);
	is_filled(&s, 8);
	EXPECT(sync_cpu(s.dmabuf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ), 0);
	CHECK(field(IN_SYSTEM) == on_pci, "taken back by itself");
	detach(im);
	EXPECT(put(DEBUGFS "move", number), 0);
	seen_end(&s);
	close(im);
}

/* What the kernel looks at stays where it is until it no longer does. */
static void kernel_views(void)
{
	struct seen s = seen_make(30);
	uint64_t number = field(NUMBER);
	int im = importer_open(), other = importer_open();
	bool iomem;

	EXPECT(view(im, s.dmabuf, &iomem), 0);
	CHECK(iomem == on_pci && !field(IN_SYSTEM) && field(PLACED), "not a view of VRAM");
	CHECK(importer_peek(im, LENGTH - 512) == (uint8_t)s.own[LENGTH - 512], "another byte");
	importer_poke(im, LENGTH - 512, 201);
	CHECK((uint8_t)s.own[LENGTH - 512] == 201, "written elsewhere");
	s.view[LENGTH - 512] = (char)(30 + LENGTH / 512 - 1);
	CHECK(importer_peek(im, LENGTH - 512) == (uint8_t)(30 + LENGTH / 512 - 1), "another byte");
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	EXPECT(put(DEBUGFS "evict", number), EBUSY);
	if (on_pci)
		refused(other, s.dmabuf, IMPORTER_STATIC);
	unview(im);
	CHECK(!field(USERS), "users without any");
	EXPECT(put(DEBUGFS "evict", number), 0);
	EXPECT(view(im, s.dmabuf, &iomem), 0);
	CHECK(!iomem && field(IN_SYSTEM), "not a view of system memory");
	CHECK(importer_peek(im, 512) == (uint8_t)s.own[512], "another byte");
	importer_poke(im, 512, 202);
	CHECK((uint8_t)s.own[512] == 202, "written elsewhere");
	importer_poke(im, 512, 31);
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	/* It goes with the file. */
	close(im);
	EXPECT(put(DEBUGFS "move", number), 0);
	is_filled(&s, 30);
	close(other);
	seen_end(&s);
}

/* Of pieces here and there in a BAR there is no view: they are moved to where there is. */
static void view_of_pieces(void)
{
	uint64_t holes[3], between[3], rest = 0;
	int im = importer_open();
	struct seen s;
	bool iomem;

	if (!on_pci)
		return;
	for (int i = 0; i < 3; i++)
		MUST(!sg_alloc(g.fd, g.ctx, PAGE64, holes + i) && !sg_alloc(g.fd, g.ctx, PAGE64, between + i));
	if (vram_free())
		MUST(!sg_alloc(g.fd, g.ctx, vram_free(), &rest));
	for (int i = 0; i < 3; i++)
		MUST(!sg_free(g.fd, holes[i]));
	s = seen_make(60);
	CHECK(!vram_free(), "there is more VRAM than the holes");
	EXPECT(view(im, s.dmabuf, &iomem), 0);
	CHECK(!iomem && field(IN_SYSTEM) && field(EVICTIONS) == 1, "a view of pieces");
	for (uint64_t i = 0; i < LENGTH; i += PAGE64)
		CHECK(importer_peek(im, i) == (uint8_t)s.own[i], "another byte at %llu", (unsigned long long)i);
	close(im);
	seen_end(&s);
	for (int i = 0; i < 3; i++)
		MUST(!sg_free(g.fd, between[i]));
	if (rest)
		MUST(!sg_free(g.fd, rest));
}

static void moves(void)
{
	struct seen s = seen_make(3);
	unsigned long long number = field(NUMBER);
	int im = importer_open();

	is_filled(&s, 3);
	/* With no importer; programs find it again. */
	EXPECT(put(DEBUGFS "move", number), 0);
	is_filled(&s, 3);
	EXPECT(attach(im, s.dmabuf, IMPORTER_DYNAMIC), 0);
	EXPECT(map(im), 0);
	EXPECT(put(DEBUGFS "move", number), 0);
	CHECK(importer_state(im).notified == 1 && !importer_state(im).mapped, "%u calls", importer_state(im).notified);
	EXPECT(map(im), 0);
	fill(s.view, 9);
	is_filled(&s, 9);
	CHECK(field(MOVES) == 2, "%llu moves", field(MOVES));
	detach(im);

	/*
	 * The memory stays where it is for an importer that keeps it, or has said so; only the former is asked.
	 * On kernels where the former promises to let go it is waited for: see promises().
	 */
	EXPECT(put(TIMEOUT, 50), 0);
	EXPECT(attach(im, s.dmabuf, IMPORTER_LAZY), 0);
	EXPECT(map(im), 0);
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	CHECK(importer_state(im).notified >= 1 && importer_state(im).mapped, "%u calls", importer_state(im).notified);
	detach(im);
	EXPECT(attach(im, s.dmabuf, IMPORTER_PINNING), 0);
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	CHECK(importer_state(im).notified == 0, "%u calls", importer_state(im).notified);
	detach(im);
	CHECK(field(BUSY) == 2, "%llu refused", field(BUSY));
	EXPECT(put(TIMEOUT, 10000), 0);
	EXPECT(put(DEBUGFS "move", number + 1), ENOENT);

	/* Freed, it is the dma-buf's alone. */
	EXPECT(sg_free_visible(g.fd, s.va), 0);
	CHECK(filled(s.view, 9), "bytes are lost with the allocation");
	EXPECT(put(DEBUGFS "move", number), 0);
	CHECK(filled(s.view, 9), "bytes are lost in a move");
	munmap(s.view, LENGTH);
	close(s.dmabuf);
	close(im);
	free(s.host);
}

/* The bridge asks that it stays, and has it until it lets go. */
static void bridge(void)
{
	struct peerdma_pin_dmabuf_args p = { .size = sizeof(p) };
	struct peerdma_handle_args h = { .size = sizeof(h) };
	uint64_t va = alloc(visible);
	int fd = open("/dev/peerdma", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	p.fd = export(va);
	MUST(!ioctl(fd, PEERDMA_PIN_DMABUF_FD, &p));
	/* Not mapped, it is wherever it likes. */
	EXPECT(put(DEBUGFS "move", field(NUMBER)), 0);
	h.handle = p.handle;
	MUST(!ioctl(fd, PEERDMA_UNPIN, &h));
	close(fd);
	close(p.fd);
	EXPECT(sg_free_visible(g.fd, va), 0);
}

int main(void)
{
	struct idle idle;
	uint64_t cuda, hsa;
	int dmabuf;

	g = gpu_up(0);
	visible = sg_ctx_visible(g.fd);
	on_pci = sg_need_info(g.fd).on_pci;
	idle = idle_now(g.fd);

	cuda = alloc(g.ctx);
	hsa = alloc(visible);
	is_static(cuda);
	EXPECT(put(KIND, STATIC), 0);
	is_static(hsa);
	EXPECT(put(KIND, DYNAMIC), 0);
	dmabuf = export(cuda);
	EXPECT(put(DEBUGFS "move", field(NUMBER)), 0);
	close(dmabuf);
	EXPECT(put(KIND, AS_ITS_MAKER), 0);
	MUST(!sg_free(g.fd, cuda));
	EXPECT(sg_free_visible(g.fd, hsa), 0);
	check_idle(g.fd, &idle, "the two kinds");

	attaching();
	check_idle(g.fd, &idle, "importers");
	moves();
	check_idle(g.fd, &idle, "moves");
	promises();
	check_idle(g.fd, &idle, "promises");
	evictions(IMPORTER_NO_PEER);
	evictions(IMPORTER_STATIC);
	check_idle(g.fd, &idle, "system memory");
	cpu_access();
	kernel_views();
	view_of_pieces();
	if (on_pci)
		faults_while_moving();
	check_idle(g.fd, &idle, "the CPU");
	bridge();
	check_idle(g.fd, &idle, "the bridge");
	return check_end("dmabuf_kinds_test");
}
