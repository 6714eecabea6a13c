// SPDX-License-Identifier: MIT
/*
 * texts.c - each error's text: "CALL: WHAT: cause; remedy", by the mistakes that are made
 * first.  No GPU, no module, no libibverbs.
 *
 * usage: texts [bare|provided]
 *   bare        a GPU and peerdma.ko, without the provider's module
 *   provided    with it
 */
#include <sys/mman.h>

#include "peerdma_cache.h"
#include "peerdma_copy.h"
#include "peerdma_monitor.h"
#include "peerdma_verbs.h"
#include "checks.h"
#include "cuda_calls.h"

/* The call begins it, once; `cause` and then `remedy` follow. */
static int form(const char *call, const char *cause, const char *remedy)
{
	const char *text = peerdma_last_error(), *at;
	size_t n = strlen(call);

	if (strncmp(text, call, n) != 0 || strncmp(text + n, ": ", 2) != 0 || strstr(text + n, call) || strchr(text, '\n'))
		return 0;
	at = strstr(text + n, cause);
	return at && (!remedy || strstr(at, remedy));
}

static int names(const char *what)
{
	return strstr(peerdma_last_error(), what) != NULL;
}

static void note(void *arg, const struct peerdma_hook_event *event)
{
}

static void of_opening(void)
{
	struct peerdma *ctx;

	CHECK(peerdma_open(&ctx, 1 << 30) == -EINVAL && form("peerdma_open", "flags 0x40000000", NULL), "an unknown flag");
	CHECK(peerdma_open(&ctx, PEERDMA_OPEN_CUDA) == -ENODEV && form("peerdma_open", "libcuda.so.1: cannot load", "; install the GPU's driver"),
	      "no libcuda");
	setenv("PEERDMA_PROVIDER", "karnel", 1);
	CHECK(peerdma_open(&ctx, 0) == -EINVAL && form("peerdma_open", "'karnel'", "; give a comma-separated list"), "a back-end that "
	      "there is not");
	setenv("PEERDMA_PROVIDER", "host\n\033[2Jall is well\x7f\xc2\x9b\xff \xc3\xa9", 1);
	CHECK(peerdma_open(&ctx, 0) == -EINVAL && form("peerdma_open", "'host\\x0a\\x1b[2Jall is well\\x7f\\xc2\\x9b\\xff \xc3\xa9'",
							"; give a comma-separated list"), "a name is printed, whatever is in it");
	setenv("PEERDMA_PROVIDER", "kernel", 1);
	CHECK(peerdma_open(&ctx, 0) < 0 && form("peerdma_open", "/dev/peerdma: ", "; "), "no module, or one that this user may not use");
	setenv("PEERDMA_PROVIDER", "host", 1);
}

static void of_monitors(void)
{
	CHECK(peerdma_monitor_subscribe(7, note, NULL) == -EINVAL && form("peerdma_monitor_subscribe", "memory 0x7", ": give PEERDMA_MEMORY_HOST"),
	      "no kind of memory");
	CHECK(peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, NULL, NULL) == -EINVAL &&
	      form("peerdma_monitor_subscribe", "fn NULL", "and a function"), "no function");
	CHECK(peerdma_monitor_subscribe(PEERDMA_MEMORY_DEVICE, note, NULL) == -EOPNOTSUPP &&
	      form("peerdma_monitor_subscribe", "GPU memory is not monitored: libpeerdma-hooks is not in front", "; preload it"), "no hooks");
	CHECK(peerdma_monitor_start_ucm() == -ENODEV && form("peerdma_monitor_start_ucm", "libucm.so.0: this process has not loaded it", "; load it"),
	      "no ucm");
	CHECK(peerdma_monitor_start(PEERDMA_MEMORY_DEVICE, NULL) == -EINVAL && form("peerdma_monitor_start", "name NULL", "and a name"), "no name");
	CHECK(!peerdma_monitor_start(PEERDMA_MEMORY_DEVICE, "mine"), "a monitor");
	CHECK(peerdma_monitor_start(PEERDMA_MEMORY_DEVICE, "another") == -EBUSY &&
	      form("peerdma_monitor_start", "another: 'mine' already monitors", "; start only one"), "and one more");
}

static void of_pins(struct peerdma *ctx)
{
	char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct peerdma_status status = { .size = 1 };
	struct peerdma_region *region = NULL;
	struct peerdma_mapping *mapping;
	const struct peerdma_mr *mr;
	int fd;

	CHECK(peerdma_pin(ctx, memory, 0, 0, NULL, &region) == -EINVAL && form("peerdma_pin", "+0): empty", "; give a length") &&
	      !names("PEERDMA_HOST"), "no length");
	CHECK(peerdma_pin(ctx, memory, SIZE_MAX, 0, NULL, &region) == -EINVAL && form("peerdma_pin", "past the end", "; give a shorter") &&
	      !names("PEERDMA_HOST"), "too great a length");
	CHECK(peerdma_pin(ctx, (void *)-8192UL, 8192, 0, NULL, &region) == -EINVAL && form("peerdma_pin", "past the end", NULL),
	      "a range that ends at 2^64");
	CHECK(peerdma_pin(ctx, (void *)-8192UL, 100, 0, NULL, &region) == -EFAULT && form("peerdma_pin", "no memory behind it", NULL),
	      "no memory, far up");
	CHECK(peerdma_pin(ctx, memory, 100, PEERDMA_HOST | PEERDMA_DEVICE, NULL, &region) == -EINVAL &&
	      form("peerdma_pin", "flags 0x3: memory is not both", "; give PEERDMA_HOST") && !names("length"), "two kinds of memory");
	CHECK(peerdma_pin(ctx, NULL, 100, 0, NULL, &region) == -EFAULT && form("peerdma_pin", "+100): ", "part of the range has no memory"), "no memory");
	CHECK(peerdma_pin_dmabuf(ctx, 0, 0, 0, PEERDMA_HOST, NULL, &region) == -EINVAL && form("peerdma_pin_dmabuf", "flags 0x1", ": give 0 or "),
	      "flags of a dma-buf, where none can be pinned");
	CHECK(peerdma_pin_dmabuf(ctx, 0, 4096, -4096ULL, 0, NULL, &region) == -EINVAL && form("peerdma_pin_dmabuf", "not in any dma-buf", NULL),
	      "its range");
	CHECK(peerdma_pin_dmabuf(ctx, -1, 0, 0, 0, NULL, &region) == -EBADF && form("peerdma_pin_dmabuf", "descriptor -1", NULL), "its number");
	CHECK(peerdma_pin_dmabuf(ctx, 0, 0, 0, 0, NULL, &region) == -ENODEV && form("peerdma_pin_dmabuf", "only back-end 'kernel' "
										    "pins dma-bufs", ": load peerdma.ko"),
	      "a dma-buf without the module");
	if (!CHECK(!peerdma_pin(ctx, memory, 100, 0, NULL, &region), "a pin"))
		return;
	CHECK(peerdma_status(region, &status) == -EINVAL && form("peerdma_status", "size field is 1", "; set it"), "a struct without its size");
	CHECK(peerdma_map(region, "here", PEERDMA_TO_DEVICE, &mapping) == -EINVAL && form("peerdma_map", "'here'", "PCI address like"), "no device");
	for (unsigned int flags = 0; flags < 16; flags += 4)
		CHECK(peerdma_map(region, "0000:00:00.0", flags, &mapping) == -EINVAL &&
		      form("peerdma_map", "flags 0x", ": give PEERDMA_TO_DEVICE, PEERDMA_FROM_DEVICE or both"),
		      "flags 0x%x, where nothing can be mapped", flags);
	CHECK(peerdma_map(region, "0000:00:00.0", PEERDMA_TO_DEVICE, &mapping) == -EOPNOTSUPP && form("peerdma_map", "back-end 'host'", NULL),
	      "no mappings");
	CHECK(peerdma_export_dmabuf(region, 0, 0, &fd) == -EOPNOTSUPP && form("peerdma_export_dmabuf", "back-end 'host'", NULL), "no dma-bufs");
	CHECK(peerdma_sync(region, 0, 0, 99) == -EINVAL && form("peerdma_sync", "flags 0x63", ": give one of"), "no direction");
	CHECK(peerdma_verbs_mr(region, (void *)memory, 0, &mr) == -ENODEV &&
	      form("peerdma_verbs_mr", "libibverbs.so.1: this process has not loaded it", "; link it"), "no libibverbs");
	peerdma_unpin(region);
	munmap(memory, 8192);
}

/* Memory of cuMemCreate() without gpuDirectRDMACapable. */
static void of_incapable_memory(struct peerdma *ctx, const struct cuda_calls *cuda)
{
	struct cuda_prop prop = { .type = 1, .location_type = 1 };
	struct peerdma_region *region;
	unsigned long long handle;
	const size_t size = 1 << 21;
	gpu_ptr p;

	if (!CHECK(!cuda->cuMemCreate(&handle, size, &prop, 0) && !cuda->cuMemAddressReserve(&p, size, 0, 0, 0) &&
		   !cuda->cuMemMap(p, size, 0, handle, 0), "memory without gpuDirectRDMACapable"))
		return;
	CHECK(peerdma_pin(ctx, (void *)(uintptr_t)p, size, 0, NULL, &region) == -ENXIO &&
	      form("peerdma_pin", "not capable of GPUDirect RDMA", "; give cuMemCreate() allocFlags.gpuDirectRDMACapable = 1"),
	      "memory that its driver does not pin: %s", peerdma_last_error());
	cuda->cuMemUnmap(p, size);
	cuda->cuMemAddressFree(p, size);
	cuda->cuMemRelease(handle);
}

static void of_gpu_memory(struct peerdma *ctx, int provided)
{
	struct peerdma_region *region = NULL;
	struct cuda_calls cuda = { 0 };
	void *context, *memory;
	gpu_ptr p;

	if (!CHECK(cuda_calls_load(&cuda) && !cuda.cuInit(0) && !cuda.cuDevicePrimaryCtxRetain(&context, 0) &&
		   !cuda.cuCtxSetCurrent(context) && !cuda.cuMemAlloc_v2(&p, 1 << 16), "GPU memory"))
		return;
	memory = (void *)(uintptr_t)p;
	if (provided) {
		CHECK(!peerdma_pin(ctx, memory, 1 << 16, 0, NULL, &region), "a pin");
		peerdma_unpin(region);
	} else {
		CHECK(peerdma_pin(ctx, memory, 1 << 16, 0, NULL, &region) == -ENXIO &&
		      form("peerdma_pin", "no provider for this GPU memory is loaded", "; load it with 'modprobe peerdma_nvidia'"), "no provider");
	}
	CHECK(peerdma_pin(ctx, memory, (1 << 16) + 1, 0, NULL, &region) == -ENXIO &&
	      form("peerdma_pin", "the range passes the end of its allocation", "; pin 65536 bytes at most"), "more than there is");
	CHECK(peerdma_pin(ctx, memory, (1 << 16) + 1, PEERDMA_DEVICE, NULL, &region) == -ENXIO &&
	      form("peerdma_pin", "the range passes the end of its allocation", "; pin 65536 bytes at most"), "the same of device memory");
	cuda.cuMemFree_v2(p);
	of_incapable_memory(ctx, &cuda);
}

int main(int argc, char **argv)
{
	struct peerdma *ctx;

	if (argc > 1) {
		if (!CHECK(!peerdma_open(&ctx, 0), "a context"))
			return 1;
		of_gpu_memory(ctx, !strcmp(argv[1], "provided"));
		peerdma_close(ctx);
		return check_end(NULL);
	}
	of_opening();
	of_monitors();
	if (!CHECK(!peerdma_open(&ctx, 0), "a context"))
		return 1;
	of_pins(ctx);
	peerdma_close(ctx);
	return check_end(NULL);
}
