// SPDX-License-Identifier: MIT
/*
 * probe.c - lets a card carry data into a GPU's memory and out of it, and compares.
 *
 * What the calls report is told, but not believed: on a way that loses data they
 * report success.  The CPU's view of the GPU's memory is the driver's own copy.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "doctor.h"
#include "fpga_ioctl.h"

#define LENGTH		9000U	/* several transfers, the last one short */
#define CARDS_MAX	64

/* The names, numbers and layouts of CUDA's ABI. */
typedef int cuda_result;
typedef int cuda_device;
typedef void *cuda_context;
typedef uint64_t cuda_pointer;
#define SYNC_MEMOPS 6

struct cuda {
	void *library;
	cuda_result (*init)(unsigned int flags);
	cuda_result (*by_pci)(cuda_device *device, const char *pci);
	cuda_result (*retain)(cuda_context *context, cuda_device device);
	cuda_result (*release)(cuda_device device);
	cuda_result (*set_current)(cuda_context context);
	cuda_result (*alloc)(cuda_pointer *p, size_t size);
	cuda_result (*free)(cuda_pointer p);
	cuda_result (*to_gpu)(cuda_pointer to, const void *from, size_t size);
	cuda_result (*to_host)(void *to, cuda_pointer from, size_t size);
	cuda_result (*set_attribute)(const void *value, int attribute, cuda_pointer p);
};

struct probe {
	struct cuda cuda;
	cuda_device device;
	cuda_pointer memory;
	int card;
	unsigned char *sent, *got;	/* LENGTH bytes each */
	char why[160];
};

static bool take(struct probe *p, const char *name, void *function)
{
	void *symbol = dlsym(p->cuda.library, name);

	memcpy(function, &symbol, sizeof(symbol));
	if (!symbol)
		snprintf(p->why, sizeof(p->why), "libcuda.so.1 has no %s", name);
	return symbol;
}

static bool did(struct probe *p, cuda_result r, const char *call)
{
	if (r)
		snprintf(p->why, sizeof(p->why), "%s: CUDA error %d", call, r);
	return !r;
}

static bool open_gpu(struct probe *p, const struct device *gpu)
{
	struct cuda *c = &p->cuda;
	cuda_context context;
	unsigned int on = 1;

	c->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!c->library) {
		snprintf(p->why, sizeof(p->why), "libcuda.so.1 cannot be loaded");
		return false;
	}
	if (!take(p, "cuInit", &c->init) || !take(p, "cuDeviceGetByPCIBusId", &c->by_pci) ||
	    !take(p, "cuDevicePrimaryCtxRetain", &c->retain) || !take(p, "cuDevicePrimaryCtxRelease_v2", &c->release) ||
	    !take(p, "cuCtxSetCurrent", &c->set_current) || !take(p, "cuMemAlloc_v2", &c->alloc) ||
	    !take(p, "cuMemFree_v2", &c->free) || !take(p, "cuMemcpyHtoD_v2", &c->to_gpu) ||
	    !take(p, "cuMemcpyDtoH_v2", &c->to_host) || !take(p, "cuPointerSetAttribute", &c->set_attribute))
		return false;
	if (!did(p, c->init(0), "cuInit") || !did(p, c->by_pci(&p->device, gpu->name), "cuDeviceGetByPCIBusId"))
		return false;
	if (!did(p, c->retain(&context, p->device), "cuDevicePrimaryCtxRetain"))
		return false;
	if (did(p, c->set_current(context), "cuCtxSetCurrent") && did(p, c->alloc(&p->memory, LENGTH), "cuMemAlloc")) {
		if (did(p, c->set_attribute(&on, SYNC_MEMOPS, p->memory), "cuPointerSetAttribute"))
			return true;
		c->free(p->memory);
	}
	c->release(p->device);
	return false;
}

static void close_gpu(struct probe *p)
{
	p->cuda.free(p->memory);
	p->cuda.release(p->device);
}

/* The node of the card with this PCI address, or -1. */
static int open_card(struct probe *p, const struct device *card)
{
	unsigned int domain, bus, slot, function;

	if (sscanf(card->name, "%8x:%2x:%2x.%1x", &domain, &bus, &slot, &function) != 4)
		return -1;
	snprintf(p->why, sizeof(p->why), "no /dev/fpgaN is this card: load peerdma_fpga");
	for (unsigned int i = 0; i < CARDS_MAX; i++) {
		struct fpga_info info = { .size = sizeof(info) };
		char node[32];
		int fd;

		snprintf(node, sizeof(node), "/dev/fpga%u", i);
		fd = open(node, O_RDWR | O_CLOEXEC);
		if (fd < 0) {
			if (errno != ENOENT)
				snprintf(p->why, sizeof(p->why), "%s: %s", node, strerror(errno));
			continue;
		}
		if (!ioctl(fd, FPGA_INFO, &info) && info.pci_domain == domain && info.pci_bus == bus &&
		    info.pci_devfn == (slot << 3 | function))
			return fd;
		close(fd);
	}
	return -1;
}

/* A pattern that no other memory has by chance, and no two positions have alike. */
static void fill(unsigned char *to, unsigned int salt)
{
	uint32_t x = 2463534242U + salt;

	for (unsigned int i = 0; i < LENGTH; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		to[i] = (unsigned char)(x >> 8);
	}
}

static void judge(struct doctor *d, const struct probe *p, const struct pair *pair, const char *what, int error, bool compared)
{
	const struct machine *m = d->machine;
	const char *a = m->devices[pair->a].label, *b = m->devices[pair->b].label;
	unsigned int wrong = 0, first = 0;
	struct finding *f;

	for (unsigned int i = LENGTH; compared && i-- > 0;) {
		if (p->sent[i] != p->got[i]) {
			wrong++;
			first = i;
		}
	}
	f = say(d, error || wrong ? VERDICT_BROKEN : compared ? VERDICT_OK : VERDICT_UNKNOWN, "%s and %s, %s", a, b, what);
	evidence(d, f, "/dev/fpgaN", "the copy reports %s", error ? strerror(error) : "success");
	if (!compared) {
		evidence(d, f, "cuMemcpy", "%s", p->why);
		consequence(d, f, "the data could not be compared");
		return;
	}
	if (wrong)
		evidence(d, f, "data", "%u of %u bytes differ, the first at %u", wrong, LENGTH, first);
	else
		evidence(d, f, "data", "all %u bytes are what was sent", LENGTH);
	if (wrong && !error) {
		consequence(d, f, "data is lost on the way, and success is reported");
		remedy(d, f, "see the findings about the IOMMU and ACS, and dmesg (DMAR, AMD-Vi: page faults)");
	} else if (error) {
		consequence(d, f, "the card could not reach the GPU's memory");
		remedy(d, f, "see dmesg, and the other findings");
	}
}

static int carry(const struct probe *p, uint64_t to, uint64_t from)
{
	struct fpga_copy copy = { .size = sizeof(copy), .dst = to, .src = from, .length = LENGTH };

	return ioctl(p->card, FPGA_COPY, &copy) ? errno : 0;
}

static void both_ways(struct doctor *d, struct probe *p, const struct pair *pair)
{
	bool ready, compared;
	int error;

	/* Into the GPU, over memory that is known to hold something else. */
	fill(p->got, 1);
	ready = did(p, p->cuda.to_gpu(p->memory, p->got, LENGTH), "cuMemcpyHtoD");
	fill(p->sent, 2);
	error = ready ? carry(p, p->memory, (uintptr_t)p->sent) : 0;
	compared = ready && did(p, p->cuda.to_host(p->got, p->memory, LENGTH), "cuMemcpyDtoH");
	judge(d, p, pair, "written to the GPU", error, compared);

	fill(p->sent, 3);
	compared = did(p, p->cuda.to_gpu(p->memory, p->sent, LENGTH), "cuMemcpyHtoD");
	fill(p->got, 4);
	error = compared ? carry(p, (uintptr_t)p->got, p->memory) : 0;
	judge(d, p, pair, "read from the GPU", error, compared);
}

static void one(struct doctor *d, const struct pair *pair, const struct device *gpu, const struct device *card)
{
	struct probe p = { .card = -1 };
	struct finding *f;

	p.sent = aligned_alloc(4096, (LENGTH + 4095) / 4096 * 4096);
	p.got = aligned_alloc(4096, (LENGTH + 4095) / 4096 * 4096);
	if (!p.sent || !p.got) {
		d->no_memory = true;
		goto out;
	}
	p.card = open_card(&p, card);
	if (p.card >= 0 && open_gpu(&p, gpu)) {
		both_ways(d, &p, pair);
		close_gpu(&p);
	} else {
		f = say(d, VERDICT_UNKNOWN, "%s and %s", gpu->label, card->label);
		evidence(d, f, "probe", "%s", p.why);
		consequence(d, f, "no data was moved");
		remedy(d, f, "modprobe peerdma_fpga peerdma_nvidia, and see that CUDA works here");
	}
	if (p.card >= 0)
		close(p.card);
	/* The library stays: CUDA's does not bear being closed. */
out:
	free(p.sent);
	free(p.got);
}

static bool applies(const struct doctor *d)
{
	return d->probe;
}

static void run(struct doctor *d)
{
	const struct machine *m = d->machine;
	bool any = false;
	struct finding *f;

	for (unsigned int i = 0; i < d->pair_count; i++) {
		const struct device *a = &m->devices[d->pairs[i].a], *b = &m->devices[d->pairs[i].b];
		const struct device *gpu = pair_gpu(d, &d->pairs[i]), *other = gpu == a ? b : a;

		if (!gpu || other->kind != DEVICE_CARD)
			continue;
		any = true;
		one(d, &d->pairs[i], gpu, other);
	}
	if (any)
		return;
	f = say(d, VERDICT_UNKNOWN, d->chosen ? "this pair" : "this machine");
	evidence(d, f, "probe", "no pair of a GPU and a card with peerdma's driver");
	consequence(d, f, "no data was moved: network adapters and drives are not probed by this release");
	remedy(d, f, "for an adapter: ib_write_bw --use_cuda=0 moves data, but does not compare it");
}

const struct check check_probe = { "probe", "Data that was moved and compared", applies, run };
