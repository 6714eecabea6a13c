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
static struct peerdma_segment segments[64];

/* ---- files and memory ---- */

static int open_into(int *to, const char *path)
{
	*to = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	return *to < 0 ? errno : 0;
}

static int open_peerdma(void)
{
	return open_into(&fd2, "/dev/peerdma");
}

static int card_open(void)
{
	return open_into(&fd2, "/dev/fpga0");
}

static int close_fd2(void)
{
	return close(fd2);
}

static int mem_alloc(void)
{
	return sg_alloc(g.fd, g.ctx, GPU_LENGTH, &va);
}

static int mem_free(void)
{
	return sg_free(g.fd, va);
}

static int mem_free_if_there(void)
{
	mem_free();
	return 0;
}

/* ---- pins, and what is made of them ---- */

OP(info, fd, PEERDMA_INFO, peerdma_info, 0)
OP_GIVES(pin_host, handle, handle, fd, PEERDMA_PIN, peerdma_pin_args,
	 .addr = PTR(host), .length = HOST_LENGTH, .flags = PEERDMA_PIN_HOST)
OP_GIVES(pin_gpu, handle, handle, fd, PEERDMA_PIN, peerdma_pin_args,
	 .addr = va, .length = GPU_LENGTH, .flags = PEERDMA_PIN_DEVICE)
OP_GIVES(pin_persistent, handle, handle, fd, PEERDMA_PIN, peerdma_pin_args,
	 .addr = va, .length = GPU_LENGTH, .flags = PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT)
OP(unpin, fd, PEERDMA_UNPIN, peerdma_handle_args, .handle = handle)
OP(query, fd, PEERDMA_QUERY, peerdma_query_args, .handle = handle)
OP_GIVES(map, mapping, mapping, fd, PEERDMA_MAP, peerdma_map_args,
	 .handle = handle, .bus = card >> 8, .devfn = card & 0xff, .flags = PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE,
	 .segments = PTR(segments), .segment_count = 64)
OP(unmap, fd, PEERDMA_UNMAP, peerdma_handle_args, .handle = mapping)
OP_GIVES(export, dmabuf, fd, fd, PEERDMA_EXPORT, peerdma_export_args, .handle = handle, .fd = -1)

/* Where its struct cannot be copied it does nothing, and the next call does all. */
static int unpin_readable(void)
{
	int err = unpin();

	return err == EFAULT ? unpin() : err;
}

static int close_dmabuf(void)
{
	return close(dmabuf);
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

static int munmap_pin(void)
{
	return munmap(view, PAGE64);
}

static int mmap_generations(void)
{
	return mmap_at(PEERDMA_MMAP_GENERATIONS, PEERDMA_MMAP_GENERATIONS_SIZE, PROT_READ);
}

static int munmap_generations(void)
{
	return munmap(view, PEERDMA_MMAP_GENERATIONS_SIZE);
}

static int use_view(void)
{
	memset(view, 1, 64);
	return 0;
}

/* The kernel reads what the view shows, which has to be found first. */
static int touch(void)
{
	return write(pipe_ends[1], view, 4) == 4 ? 0 : errno;
}

static int drain(void)
{
	char text[4];

	return read(pipe_ends[0], text, 4) != 4;
}

/* ---- importers ---- */

static int attach(uint32_t kind)
{
	struct importer_attach a = { .fd = dmabuf, .kind = kind };

	return ioctl(importer, IMPORTER_ATTACH, &a) ? errno : 0;
}

static int attach_dynamic(void)
{
	return attach(IMPORTER_DYNAMIC);
}

static int attach_static(void)
{
	return attach(IMPORTER_STATIC);
}

static int import_map(void)
{
	struct importer_map m = { 0 };

	return ioctl(importer, IMPORTER_MAP, &m) ? errno : 0;
}

static int detach(void)
{
	return ioctl(importer, IMPORTER_DETACH);
}

/* ---- revocation, with all that can be made of a pin ---- */

static int everything(void)
{
	return mem_alloc() ?: pin_gpu() ?: mmap_pin() ?: use_view() ?: map() ?: export() ?:
	       attach_dynamic() ?: import_map();
}

static int read_event(void)
{
	struct peerdma_event event;

	return read(fd, &event, sizeof(event)) == sizeof(event) ? 0 : errno;
}

static int close_file(void)
{
	return close(fd) ? errno : 0;
}

static int open_again(void)
{
	return open_into(&fd, "/dev/peerdma");
}

/* ---- the card ---- */

OP(card_info, fpga, FPGA_INFO, fpga_info, 0)
OP(card_copy, fpga, FPGA_COPY, fpga_copy, .src = PTR(host), .dst = va, .length = 100)

static const struct stage stages[] = {
	{ "peerdma open", .op = open_peerdma, .undo = { close_fd2 } },
	{ "peerdma info", .op = info },
	{ "peerdma pin, host memory", .op = pin_host, .undo = { unpin } },
	{ "peerdma pin, GPU memory", .flags = FN_NO_SPACE, .op = pin_gpu, .undo = { unpin } },
	{ "peerdma pin, persistent", .flags = FN_NO_SPACE, .op = pin_persistent, .undo = { unpin } },
	{ "peerdma unpin", .flags = FN_CANNOT_FAIL | FN_MAY_BE_CLEAN, .before = { pin_gpu },
	  .op = unpin_readable },
	{ "peerdma query", .before = { pin_gpu }, .op = query, .after = { unpin } },
	{ "peerdma map, host memory", .before = { pin_host }, .op = map, .undo = { unmap }, .after = { unpin } },
	{ "peerdma map, GPU memory", .before = { pin_gpu }, .op = map, .undo = { unmap }, .after = { unpin } },
	{ "peerdma map, persistent", .before = { pin_persistent }, .op = map, .undo = { unmap }, .after = { unpin } },
	{ "peerdma export", .before = { pin_gpu }, .op = export, .undo = { close_dmabuf }, .after = { unpin } },
	{ "peerdma mmap, host memory", .before = { pin_host }, .op = mmap_pin, .undo = { munmap_pin }, .after = { unpin } },
	{ "peerdma mmap, GPU memory", .before = { pin_gpu }, .op = mmap_pin, .undo = { munmap_pin }, .after = { unpin } },
	{ "peerdma mmap, generations", .op = mmap_generations, .undo = { munmap_generations } },
	{ "peerdma touch of a view", .before = { pin_gpu, mmap_pin }, .op = touch, .undo = { drain }, .after = { munmap_pin, unpin } },
	{ "importer attach, dynamic", .before = { pin_gpu, export }, .op = attach_dynamic, .after = { detach, close_dmabuf, unpin } },
	{ "importer attach, static", .before = { pin_host, export }, .op = attach_static, .after = { detach, close_dmabuf, unpin } },
	{ "importer map, dynamic", .before = { pin_gpu, export, attach_dynamic }, .op = import_map, .after = { detach, close_dmabuf, unpin } },
	{ "importer map, static", .before = { pin_host, export, attach_static }, .op = import_map, .after = { detach, close_dmabuf, unpin } },
	{ "fpga open", .op = card_open, .undo = { close_fd2 } },
	{ "fpga info", .op = card_info },
	{ "fpga copy", .flags = FN_NO_SPACE, .op = card_copy },
};

/* These allocate their device memory themselves. */
static const struct stage revocations[] = {
	{ "free under pin, view, mapping, dma-buf", .before = { everything }, .op = mem_free,
	  .after = { mem_free_if_there, munmap_pin, detach, close_dmabuf, unpin } },
	{ "peerdma read of an event", .before = { everything, mem_free }, .op = read_event,
	  .after = { munmap_pin, detach, close_dmabuf, unpin } },
	{ "peerdma close", .flags = FN_CANNOT_FAIL | FN_MAY_BE_CLEAN, .before = { everything }, .op = close_file,
	  .after = { munmap_pin, detach, close_dmabuf, mem_free, open_again } },
};

static void files_up(void)
{
	g = gpu_up(0);
	MUST(!open_again());
	importer = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);
	fpga = open("/dev/fpga0", O_RDWR | O_CLOEXEC);
	MUST(importer >= 0 && fpga >= 0 && !pipe(pipe_ends));
	host = mmap(NULL, HOST_LENGTH, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	MUST(host != MAP_FAILED);
}

static void in_a_process(void *arg)
{
	files_up();
	MUST(!mem_alloc());
	sweep(stages);
	MUST(!mem_free());
	sweep(revocations);
}

static void exit_full(void)
{
	files_up();
	MUST(!everything());
}

void fail_nth_peerdma(void)
{
	CHECK(in_child(in_a_process, NULL), "the process of peerdma's calls was killed");
	idle_begins();
	fail_nth_exits("exit with everything", exit_full, 12, idle);
}
