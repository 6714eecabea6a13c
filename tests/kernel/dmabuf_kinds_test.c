// SPDX-License-Identifier: MIT
/*
 * dmabuf_kinds_test.c - the two ways in which device memory is exported: as NVIDIA's
 * driver does, where it stands still, and as AMD's, where it may be moved; with the
 * importers of peerdma_importer.ko and, if peerdma.ko is there, the bridge.
 */
#include <pthread.h>

#include "peerdma_importer.h"
#include "sgraw.h"
#include "uapi/peerdma_ioctl.h"

#define LENGTH (3 * PAGE64)
#define DEBUGFS "/sys/kernel/debug/softgpu/"
#define KIND "/sys/module/softgpu/parameters/dmabuf_kind"
#define TIMEOUT "/sys/module/softgpu/parameters/dmabuf_timeout_ms"

enum { AS_ITS_MAKER, STATIC, DYNAMIC };

static struct gpu g;
static uint32_t visible;		/* a context of HSA's */

static int put(const char *path, unsigned long long n)
{
	char text[24];
	int fd = open(path, O_WRONLY | O_CLOEXEC), err;

	NEED(fd >= 0);
	snprintf(text, sizeof(text), "%llu", n);
	err = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return err;
}

/* The last dma-buf that can be moved: a column of its line; 0 and none: no line. */
static unsigned long long last(int column, bool *any)
{
	unsigned long long v[7] = { 0 }, w[7];
	char line[256];
	FILE *f = fopen(DEBUGFS "dmabufs", "r");

	NEED(f);
	*any = false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llu %llu %llu %llu %llu %llu %llu", w, w + 1, w + 2, w + 3, w + 4, w + 5, w + 6) != 7)
			continue;
		memcpy(v, w, sizeof(v));
		*any = true;
	}
	fclose(f);
	return v[column];
}

enum { NUMBER, SIZE, USERS, PLACED, MOVES, BUSY, LATE };

static unsigned long long field(int column)
{
	bool any;
	unsigned long long v = last(column, &any);

	CHECK(any, "no dma-buf that can be moved");
	return v;
}

static bool movable(void)
{
	bool any;

	last(NUMBER, &any);
	return any;
}

static int export(uint64_t va)
{
	struct softgpu_dmabuf a = { .va = va, .length = LENGTH };

	EXPECT(SG_CALL(g.fd, SOFTGPU_DMABUF, &a), 0);
	return a.fd;
}

static uint64_t alloc(uint32_t ctx)
{
	uint64_t va;

	NEED(!sg_alloc(g.fd, ctx, LENGTH, &va));
	return va;
}

static void free_visible(uint64_t va)
{
	struct softgpu_va a = { .flags = SOFTGPU_FREE_VISIBLE, .va = va };

	EXPECT(SG_CALL(g.fd, SOFTGPU_MEM_FREE, &a), 0);
}

static int attach(int im, int dmabuf, uint32_t kind)
{
	struct importer_attach a = { .fd = dmabuf, .kind = kind };

	return ioctl(im, IMPORTER_ATTACH, &a) ? errno : 0;
}

static int map(int im, uint64_t *addr)
{
	struct importer_map m = { 0 };
	int err = ioctl(im, IMPORTER_MAP, &m) ? errno : 0;

	CHECK(err || m.length == LENGTH, "%llu bytes", (unsigned long long)m.length);
	*addr = m.dma_addr;
	return err;
}

static struct importer_state state(int im)
{
	struct importer_state s = { 0 };

	NEED(!ioctl(im, IMPORTER_STATE, &s));
	return s;
}

static int importer(void)
{
	int im = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);

	NEED(im >= 0);
	return im;
}

static void detach(int im)
{
	NEED(!ioctl(im, IMPORTER_DETACH));
}

static void fill(volatile char *p, int with)
{
	for (size_t i = 0; i < LENGTH; i += 512)
		p[i] = (char)(with + i / 512);
}

static bool filled(const volatile char *p, int with)
{
	for (size_t i = 0; i < LENGTH; i += 512)
		if (p[i] != (char)(with + i / 512))
			return false;
	return true;
}

/* Of a static one importers of every kind may have it, programs only where that was allowed. */
static void is_static(uint64_t va)
{
	int dmabuf = export(va), im = importer();
	uint64_t addr;

	CHECK(!movable(), "a static export can be moved");
	CHECK(mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED && errno == 524, "errno %d", errno);
	EXPECT(attach(im, dmabuf, IMPORTER_STATIC), 0);
	EXPECT(map(im, &addr), 0);
	detach(im);
	EXPECT(attach(im, dmabuf, IMPORTER_PINNING), 0);
	EXPECT(map(im, &addr), 0);
	close(im);
	close(dmabuf);
}

/* Of a dynamic one those may who can do without struct pages. */
static void attaching(void)
{
	uint64_t va = alloc(visible), addr;
	int dmabuf = export(va), im = importer();

	EXPECT(attach(im, dmabuf, IMPORTER_STATIC), EOPNOTSUPP);
	EXPECT(attach(im, dmabuf, IMPORTER_NO_PEER), EOPNOTSUPP);
	CHECK(field(SIZE) == LENGTH && !field(USERS) && !field(PLACED), "users and a place without any");
	EXPECT(attach(im, dmabuf, IMPORTER_DYNAMIC), 0);
	CHECK(!field(PLACED), "attached has a place");
	EXPECT(map(im, &addr), 0);
	CHECK(field(USERS) >= 1 && field(PLACED), "mapped has no place");
	detach(im);
	CHECK(!field(USERS) && !field(PLACED), "the place is still taken");
	EXPECT(attach(im, dmabuf, IMPORTER_PINNING), 0);
	CHECK(field(PLACED), "pinned has no place");
	EXPECT(map(im, &addr), 0);
	close(im);
	CHECK(!field(USERS), "users without any");
	close(dmabuf);
	CHECK(!movable(), "it is still there");
	free_visible(va);
}

static void moves(void)
{
	uint64_t va = alloc(visible), before, after;
	int dmabuf = export(va), im = importer();
	char *own, *view, *host = malloc(LENGTH);
	unsigned long long number = field(NUMBER);

	NEED(host);
	own = mmap((void *)va, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, g.fd, (off_t)va);
	view = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	NEED(own != MAP_FAILED && view != MAP_FAILED);
	fill(own, 3);
	CHECK(filled(view, 3), "the dma-buf shows other bytes");
	/* With nobody but programs, which find it again. */
	EXPECT(put(DEBUGFS "move", number), 0);
	CHECK(filled(view, 3) && filled(own, 3), "bytes are lost in a move");
	EXPECT(attach(im, dmabuf, IMPORTER_DYNAMIC), 0);
	EXPECT(map(im, &before), 0);
	EXPECT(put(DEBUGFS "move", number), 0);
	CHECK(state(im).notified == 1 && !state(im).mapped, "%u calls", state(im).notified);
	EXPECT(map(im, &after), 0);
	fill(view, 9);
	CHECK(filled(own, 9), "the two views differ");
	EXPECT(sg_copy(g.fd, visible, PTR(host), va, LENGTH, SOFTGPU_OP_SYNC), 0);
	CHECK(filled(host, 9), "the GPU sees other bytes");
	CHECK(field(MOVES) == 2, "%llu moves", field(MOVES));
	detach(im);

	/* The memory stays where it is for who keeps it, or has said so; only the former is asked. */
	EXPECT(put(TIMEOUT, 50), 0);
	EXPECT(attach(im, dmabuf, IMPORTER_LAZY), 0);
	EXPECT(map(im, &before), 0);
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	CHECK(state(im).notified >= 1 && state(im).mapped, "%u calls", state(im).notified);
	detach(im);
	EXPECT(attach(im, dmabuf, IMPORTER_PINNING), 0);
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	CHECK(state(im).notified == 0, "%u calls", state(im).notified);
	detach(im);
	CHECK(field(BUSY) == 2, "%llu refused", field(BUSY));
	EXPECT(put(TIMEOUT, 10000), 0);
	EXPECT(put(DEBUGFS "move", number + 1), ENOENT);

	/* Freed, it is the dma-buf's alone. */
	free_visible(va);
	CHECK(filled(view, 9), "bytes are lost with the allocation");
	EXPECT(put(DEBUGFS "move", number), 0);
	CHECK(filled(view, 9), "bytes are lost in a move");
	munmap(view, LENGTH);
	close(dmabuf);
	close(im);
	free(host);
}

static void *mover(void *arg)
{
	return (void *)(uintptr_t)put(DEBUGFS "move", *(unsigned long long *)arg);
}

/* Importers that promise to unmap soon, as since Linux 7.1: they have a limited time, and who is late is named. */
static void promises(void)
{
	uint64_t va, before, after;
	unsigned long long number;
	int dmabuf, im = importer();
	pthread_t thread;
	void *err;

	if (ioctl(im, IMPORTER_PROMISES) != 1) {
		close(im);
		return;
	}
	va = alloc(visible);
	dmabuf = export(va);
	number = field(NUMBER);

	/* In time. */
	EXPECT(put(TIMEOUT, 600000), 0);
	EXPECT(attach(im, dmabuf, IMPORTER_LAZY), 0);
	EXPECT(map(im, &before), 0);
	NEED(!pthread_create(&thread, NULL, mover, &number));
	while (!state(im).notified)
		usleep(1000);
	CHECK(state(im).mapped, "not mapped any more");
	NEED(!ioctl(im, IMPORTER_UNMAP));
	NEED(!pthread_join(thread, &err));
	CHECK(!err, "errno %d", (int)(uintptr_t)err);
	CHECK(field(MOVES) == 1 && field(LATE) == 0, "%llu moves, %llu late", field(MOVES), field(LATE));
	EXPECT(map(im, &after), 0);

	/* Late. */
	EXPECT(put(TIMEOUT, 50), 0);
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	CHECK(field(MOVES) == 1 && field(LATE) == 1, "%llu moves, %llu late", field(MOVES), field(LATE));
	detach(im);
	EXPECT(put(DEBUGFS "move", number), 0);

	/* Not to be told. */
	EXPECT(attach(im, dmabuf, IMPORTER_DEAF), 0);
	EXPECT(put(DEBUGFS "move", number), 0);
	EXPECT(map(im, &before), 0);
	EXPECT(put(DEBUGFS "move", number), EBUSY);
	CHECK(state(im).notified == 0 && field(LATE) == 1, "%llu late", field(LATE));
	close(im);
	EXPECT(put(DEBUGFS "move", number), 0);
	EXPECT(put(TIMEOUT, 10000), 0);
	close(dmabuf);
	free_visible(va);
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
	NEED(!ioctl(fd, PEERDMA_PIN_DMABUF_FD, &p));
	/* Not mapped, it is wherever it likes. */
	EXPECT(put(DEBUGFS "move", field(NUMBER)), 0);
	h.handle = p.handle;
	NEED(!ioctl(fd, PEERDMA_UNPIN, &h));
	close(fd);
	close(p.fd);
	free_visible(va);
}

int main(void)
{
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };
	struct idle idle;
	uint64_t cuda, hsa;
	int dmabuf;

	g = gpu_up(0);
	NEED(!SG_CALL(g.fd, SOFTGPU_CTX_CREATE, &c));
	visible = c.ctx;
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
	NEED(!sg_free(g.fd, cuda));
	free_visible(hsa);
	check_idle(g.fd, &idle, "the two kinds");

	attaching();
	check_idle(g.fd, &idle, "importers");
	moves();
	check_idle(g.fd, &idle, "moves");
	promises();
	check_idle(g.fd, &idle, "promises");
	bridge();
	check_idle(g.fd, &idle, "the bridge");
	return test_end("dmabuf_kinds_test");
}
