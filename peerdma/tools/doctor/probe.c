// SPDX-License-Identifier: MIT
/*
 * probe.c - lets a card carry data into a GPU's memory and out of it, and compares.
 *
 * The status of a call is shown, but the verdict comes from the comparison: on a path that
 * loses data, calls report success.  The CPU's view of GPU memory is the driver's own copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fpga_ioctl.h"
#include "probe.h"

#define CARDS_MAX	64
#define CARD_WAY	"peerdma_fpga"

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
		if (!ioctl(fd, FPGA_INFO, &info) && info.pci_domain == domain &&
		    info.pci_bus == bus && info.pci_devfn == (slot << 3 | function))
			return fd;
		close(fd);
	}
	return -1;
}

static void judge(struct doctor *d, const struct probe *p, const struct pair *pair,
		  const char *what, int error, bool compared)
{
	const struct machine *m = d->machine;
	const char *a = m->devices[pair->a].label, *b = m->devices[pair->b].label;
	unsigned int wrong = 0, first = 0;
	char between[48];
	struct finding *f;

	if (compared)
		wrong = probe_differ(p, &first);
	snprintf(between, sizeof(between), "%s and %s", a, b);
	if (error)
		moved(d, between, CARD_WAY, what, PROBE_LENGTH, MOVED_FAILED, strerror(error));
	else if (!compared)
		moved(d, between, CARD_WAY, what, PROBE_LENGTH, MOVED_NOT_COMPARED, p->why);
	else
		moved_compared(d, between, CARD_WAY, what, PROBE_LENGTH, wrong, first);
	f = say(d, error || wrong ? VERDICT_BROKEN : compared ? VERDICT_OK : VERDICT_UNKNOWN,
		"%s and %s, %s", a, b, what);
	evidence(d, f, "/dev/fpgaN", "the copy reports %s", error ? strerror(error) : "success");
	if (!compared) {
		evidence(d, f, "cuMemcpy", "%s", p->why);
		consequence(d, f, "the data could not be compared");
		return;
	}
	if (wrong)
		evidence(d, f, "data", "%u of %u bytes differ, the first at %u", wrong,
			 PROBE_LENGTH, first);
	else
		evidence(d, f, "data", "all %u bytes arrived as sent", PROBE_LENGTH);
	if (wrong && !error) {
		consequence(d, f, "data is lost on the way, although success is reported");
		remedy(d, f, "see the findings about the IOMMU and ACS, and dmesg (DMAR, AMD-Vi: page faults)");
	} else if (error) {
		consequence(d, f, "the card could not reach the GPU's memory");
		remedy(d, f, "see dmesg, and the other findings");
	}
}

static int carry(const struct probe *p, uint64_t to, uint64_t from)
{
	struct fpga_copy copy = { .size = sizeof(copy), .dst = to, .src = from,
				  .length = PROBE_LENGTH };

	return ioctl(p->card, FPGA_COPY, &copy) ? errno : 0;
}

static void both_ways(struct doctor *d, struct probe *p, const struct pair *pair)
{
	bool ready, compared;
	int error;

	/* Into the GPU, over memory that is known to hold something else. */
	probe_fill(p->got, 1);
	ready = probe_did(p, p->cuda.to_gpu(p->memory, p->got, PROBE_LENGTH), "cuMemcpyHtoD");
	probe_fill(p->sent, 2);
	error = ready ? carry(p, p->memory, (uintptr_t)p->sent) : 0;
	compared = ready && probe_did(p, p->cuda.to_host(p->got, p->memory, PROBE_LENGTH),
				      "cuMemcpyDtoH");
	judge(d, p, pair, "written to the GPU", error, compared);

	probe_fill(p->sent, 3);
	compared = probe_did(p, p->cuda.to_gpu(p->memory, p->sent, PROBE_LENGTH), "cuMemcpyHtoD");
	probe_fill(p->got, 4);
	error = compared ? carry(p, (uintptr_t)p->got, p->memory) : 0;
	judge(d, p, pair, "read from the GPU", error, compared);
}

static void one(struct doctor *d, const struct pair *pair, const struct device *gpu,
		const struct device *card)
{
	struct finding *f;
	struct probe p;

	if (!probe_begin(&p)) {
		d->no_memory = true;
		goto out;
	}
	p.card = open_card(&p, card);
	if (p.card >= 0 && probe_open_gpu(&p, gpu)) {
		both_ways(d, &p, pair);
		probe_close_gpu(&p);
	} else {
		f = say(d, VERDICT_UNKNOWN, "%s and %s", gpu->label, card->label);
		evidence(d, f, "probe", "%s", p.why);
		consequence(d, f, "no data was moved");
		remedy(d, f,
		       "modprobe -a peerdma_fpga peerdma_nvidia, and see that CUDA works here");
	}
	if (p.card >= 0)
		close(p.card);
out:
	probe_end(&p);
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
		const struct device *a = &m->devices[d->pairs[i].a],
			*b = &m->devices[d->pairs[i].b];
		const struct device *gpu = pair_gpu(d, &d->pairs[i]), *other = gpu == a ? b : a;

		if (!gpu || other->kind < DEVICE_NIC)
			continue;
		any = true;
		if (other->kind == DEVICE_CARD)
			one(d, &d->pairs[i], gpu, other);
	}
	if (any)
		return;
	f = say(d, VERDICT_UNKNOWN, d->chosen ? "this pair" : "this machine");
	evidence(d, f, "probe", "no pair of a GPU and a card, network adapter or drive");
	consequence(d, f, "there is nothing here that carries data to a GPU and back");
}

const struct check check_probe = { "probe", "Data that was moved and compared", applies, run };
