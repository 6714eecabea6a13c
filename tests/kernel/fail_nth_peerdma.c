// SPDX-License-Identifier: MIT
/* fail_nth_peerdma.c - every call of /dev/peerdma, importers of its dma-bufs, and a DMA card. */
#include "fail_nth.h"
#include "fail_nth_test.h"
#include "fpga_ioctl.h"
#include "peerdma_importer.h"
#include "uapi/peerdma_ioctl.h"

#define GPU_LENGTH	(4 * PAGE64)
#define HOST_LENGTH	(40 * 4096)

static struct gpu g;
static uint64_t va;		/* device memory */
static char *host;
static int fd = -1, fd2 = -1, dmabuf = -1, importer = -1, fpga = -1;
static uint32_t handle, mapping;
static void *view;
static int pipe_ends[2];
static uint32_t kind;		/* of importer */

static int open_peerdma(void)
{
	fd2 = open("/dev/peerdma", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return fd2 < 0 ? errno : 0;
}

static void close_fd2(void)
{
	close(fd2);
}

static int info(void)
{
	struct peerdma_info i = { .size = sizeof(i) };

	return ioctl(fd, PEERDMA_INFO, &i) ? errno : 0;
}

/* ---- pins ---- */

static int pin(uint64_t addr, uint64_t length, uint32_t flags)
{
	struct peerdma_pin_args a = {
		.size = sizeof(a), .addr = addr, .length = length, .flags = flags,
	};
	int err = ioctl(fd, PEERDMA_PIN, &a) ? errno : 0;

	handle = a.handle;
	return err;
}

static int pin_host(void)
{
	return pin(PTR(host), HOST_LENGTH, PEERDMA_PIN_HOST);
}

static int pin_gpu(void)
{
	return pin(va, GPU_LENGTH, PEERDMA_PIN_DEVICE);
}

static int pin_persistent(void)
{
	return pin(va, GPU_LENGTH, PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT);
}

static int unpin(void)
{
	struct peerdma_handle_args a = { .size = sizeof(a), .handle = handle };

	return ioctl(fd, PEERDMA_UNPIN, &a) ? errno : 0;
}

static void need_unpin(void)
{
	NEED(!unpin());
}

static void need_pin_host(void)
{
	NEED(!pin_host());
}

static void need_pin_gpu(void)
{
	NEED(!pin_gpu());
}

static void need_pin_persistent(void)
{
	NEED(!pin_persistent());
}

static int query(void)
{
	struct peerdma_query_args q = { .size = sizeof(q), .handle = handle };

	return ioctl(fd, PEERDMA_QUERY, &q) ? errno : 0;
}

/* ---- what is made of them ---- */

static int map(void)
{
	struct peerdma_segment segments[64];
	struct peerdma_map_args a = {
		.size = sizeof(a), .handle = handle, .bus = card >> 8, .devfn = card & 0xff,
		.flags = PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE,
		.segments = PTR(segments), .segment_count = 64,
	};
	int err = ioctl(fd, PEERDMA_MAP, &a) ? errno : 0;

	mapping = a.mapping;
	return err;
}

static void unmap(void)
{
	struct peerdma_handle_args a = { .size = sizeof(a), .handle = mapping };

	NEED(!ioctl(fd, PEERDMA_UNMAP, &a));
}

static int export(void)
{
	struct peerdma_export_args a = { .size = sizeof(a), .handle = handle, .fd = -1 };
	int err = ioctl(fd, PEERDMA_EXPORT, &a) ? errno : 0;

	dmabuf = a.fd;
	return err;
}

static void close_dmabuf(void)
{
	close(dmabuf);
}

static int mmap_at(uint64_t offset, size_t length, int prot)
{
	view = mmap(NULL, length, prot, MAP_SHARED, fd, (off_t)offset);
	return view == MAP_FAILED ? errno : 0;
}

static int mmap_pin(void)
{
	return mmap_at(PEERDMA_MMAP_PIN(handle), PAGE64, PROT_READ | PROT_WRITE);
}

static int mmap_generations(void)
{
	return mmap_at(PEERDMA_MMAP_GENERATIONS, PEERDMA_MMAP_GENERATIONS_SIZE, PROT_READ);
}

static void munmap_pin(void)
{
	NEED(!munmap(view, PAGE64));
}

static void munmap_generations(void)
{
	NEED(!munmap(view, PEERDMA_MMAP_GENERATIONS_SIZE));
}

static void need_mmap_gpu(void)
{
	need_pin_gpu();
	NEED(!mmap_pin());
}

/* The kernel reads what the view shows, which has to be found first. */
static int touch(void)
{
	return write(pipe_ends[1], view, 4) == 4 ? 0 : errno;
}

static void drain(void)
{
	char text[4];

	NEED(read(pipe_ends[0], text, 4) == 4);
}

static void unmap_and_unpin(void)
{
	munmap_pin();
	need_unpin();
}

/* ---- importers ---- */

static int attach(void)
{
	struct importer_attach a = { .fd = dmabuf, .kind = kind };

	return ioctl(importer, IMPORTER_ATTACH, &a) ? errno : 0;
}

static int import_map(void)
{
	struct importer_map m = { 0 };

	return ioctl(importer, IMPORTER_MAP, &m) ? errno : 0;
}

static void detach(void)
{
	NEED(!ioctl(importer, IMPORTER_DETACH));
}

static void exported_gpu(void)
{
	kind = IMPORTER_DYNAMIC;
	need_pin_gpu();
	NEED(!export());
}

static void exported_host(void)
{
	kind = IMPORTER_STATIC;
	need_pin_host();
	NEED(!export());
}

static void attached_gpu(void)
{
	exported_gpu();
	NEED(!attach());
}

static void attached_host(void)
{
	exported_host();
	NEED(!attach());
}

static void end_export(void)
{
	NEED(!ioctl(importer, IMPORTER_DETACH));
	close_dmabuf();
	need_unpin();
}

/* ---- revocation, with all that can be made of a pin ---- */

static void everything(void)
{
	NEED(!sg_alloc(g.fd, g.ctx, GPU_LENGTH, &va));
	kind = IMPORTER_DYNAMIC;
	need_mmap_gpu();
	memset(view, 1, 64);
	NEED(!map() && !export() && !attach() && !import_map());
}

static int mem_free(void)
{
	return sg_free(g.fd, va);
}

static void everything_down(void)
{
	sg_free(g.fd, va);
	munmap_pin();
	end_export();
}

static int read_event(void)
{
	struct peerdma_event event;

	return read(fd, &event, sizeof(event)) == sizeof(event) ? 0 : errno;
}

static void revoked(void)
{
	everything();
	NEED(!mem_free());
}

static void full_file(void)
{
	everything();
	fd2 = fd;
}

static int close_full(void)
{
	return close(fd) ? errno : 0;
}

static void full_file_down(void)
{
	munmap_pin();
	detach();
	close_dmabuf();
	sg_free(g.fd, va);
	NEED(!open_peerdma());
	fd = fd2;
}

/* ---- the card ---- */

static int copy(uint64_t from, uint64_t to)
{
	struct fpga_copy c = { .size = sizeof(c), .src = from, .dst = to, .length = 100 };

	return ioctl(fpga, FPGA_COPY, &c) ? errno : 0;
}

static int card_open(void)
{
	fd2 = open("/dev/fpga0", O_RDWR | O_CLOEXEC);
	return fd2 < 0 ? errno : 0;
}

static int card_info(void)
{
	struct fpga_info i = { .size = sizeof(i) };

	return ioctl(fpga, FPGA_INFO, &i) ? errno : 0;
}

static int card_copy(void)
{
	return copy(PTR(host), va);
}

static const struct stage stages[] = {
	{ "peerdma open", .op = open_peerdma, .undo = close_fd2 },
	{ "peerdma info", .op = info },
	{ "peerdma pin, host memory", .op = pin_host, .undo = need_unpin },
	{ "peerdma pin, GPU memory", .flags = FN_NO_SPACE, .op = pin_gpu, .undo = need_unpin },
	{ "peerdma pin, persistent", .flags = FN_NO_SPACE, .op = pin_persistent, .undo = need_unpin },
	{ "peerdma unpin", .flags = FN_CANNOT_FAIL | FN_MAY_BE_CLEAN, .before = need_pin_gpu, .op = unpin },
	{ "peerdma query", .before = need_pin_gpu, .op = query, .after = need_unpin },
	{ "peerdma map, host memory", .before = need_pin_host, .op = map, .undo = unmap, .after = need_unpin },
	{ "peerdma map, GPU memory", .before = need_pin_gpu, .op = map, .undo = unmap, .after = need_unpin },
	{ "peerdma map, persistent", .before = need_pin_persistent, .op = map, .undo = unmap, .after = need_unpin },
	{ "peerdma export", .before = need_pin_gpu, .op = export, .undo = close_dmabuf, .after = need_unpin },
	{ "peerdma mmap, host memory", .before = need_pin_host, .op = mmap_pin, .undo = munmap_pin, .after = need_unpin },
	{ "peerdma mmap, GPU memory", .before = need_pin_gpu, .op = mmap_pin, .undo = munmap_pin, .after = need_unpin },
	{ "peerdma mmap, generations", .op = mmap_generations, .undo = munmap_generations },
	{ "peerdma touch of a view", .before = need_mmap_gpu, .op = touch, .undo = drain, .after = unmap_and_unpin },
	{ "importer attach, dynamic", .before = exported_gpu, .op = attach, .after = end_export },
	{ "importer attach, static", .before = exported_host, .op = attach, .after = end_export },
	{ "importer map, dynamic", .before = attached_gpu, .op = import_map, .after = end_export },
	{ "importer map, static", .before = attached_host, .op = import_map, .after = end_export },
	{ "fpga open", .op = card_open, .undo = close_fd2 },
	{ "fpga info", .op = card_info },
	{ "fpga copy", .flags = FN_NO_SPACE, .op = card_copy },
};

/* These allocate their device memory themselves. */
static const struct stage revocations[] = {
	{ "free under pin, view, mapping, dma-buf", .before = everything, .op = mem_free, .after = everything_down },
	{ "peerdma read of an event", .before = revoked, .op = read_event, .after = everything_down },
	{ "peerdma close", .flags = FN_CANNOT_FAIL | FN_MAY_BE_CLEAN, .before = full_file, .op = close_full, .after = full_file_down },
};

static void files_up(void)
{
	g = gpu_up(0);
	NEED(!open_peerdma());
	fd = fd2;
	importer = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);
	fpga = open("/dev/fpga0", O_RDWR | O_CLOEXEC);
	NEED(importer >= 0 && fpga >= 0 && !pipe(pipe_ends));
	host = mmap(NULL, HOST_LENGTH, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	NEED(host != MAP_FAILED);
}

static void in_a_process(void *arg)
{
	(void)arg;
	files_up();
	NEED(!sg_alloc(g.fd, g.ctx, GPU_LENGTH, &va));
	sweep(stages);
	NEED(!sg_free(g.fd, va));
	sweep(revocations);
}

static void exit_full(void)
{
	files_up();
	everything();
}

void fail_nth_peerdma(void)
{
	CHECK(in_child(in_a_process, NULL), "the process of peerdma's calls was killed");
	idle_begins();
	fail_nth_exits("exit with everything", exit_full, 12, idle);
}
