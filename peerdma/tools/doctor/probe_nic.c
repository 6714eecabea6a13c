// SPDX-License-Identifier: MIT
/*
 * probe_nic.c - lets a network adapter's RDMA engine write to GPU memory and read it, over a queue
 * pair that is connected to itself, in each way in which it accepts that memory, and compares.
 *
 * Before that it does the same with host memory, so that a later failure is due to the path to the
 * GPU.  The adapter's status of a transfer is shown, but the verdict comes from the comparison.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapters.h"
#include "peerdma.h"
#include "probe.h"
#include "rdma.h"

#define DMA_BUF_FD 1	/* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define WHY	192

/* One GPU and one RDMA device. */
struct trial {
	struct doctor *d;
	struct probe *p;
	struct rdma *r;
	struct verbs_mr *host;		/* of p->room: sent, then got */
	char subject[160];
	bool software;			/* the RDMA device is a program */
};

/* A way in which the device may take the memory: registers it, or says why not. */
struct nic_way {
	const char *name;
	bool direct;		/* it leads to the memory by an address of the bus */
	const char *remedy;	/* where the device does not take it */
	struct verbs_mr *(*enroll)(struct trial *t, struct peerdma **ctx, struct rdma_place *gpu,
				   char why[WHY]);
};

static struct verbs_mr *enrolled(const struct trial *t, struct verbs_mr *mr, char why[WHY])
{
	if (!mr)
		snprintf(why, WHY, "%s", t->r->why);
	return mr;
}

struct verbs_mr *probe_nic_dmabuf(struct probe *p, struct rdma *r)
{
	struct verbs_mr *mr;
	int fd = -1;

	if (!p->cuda.get_handle) {
		snprintf(r->why, sizeof(r->why),
			 "libcuda.so.1 has no cuMemGetHandleForAddressRange");
		return NULL;
	}
	if (!probe_did(p, p->cuda.get_handle(&fd, p->memory, PROBE_MEMORY, DMA_BUF_FD, 0),
		       "cuMemGetHandleForAddressRange")) {
		snprintf(r->why, sizeof(r->why), "%s", p->why);
		return NULL;
	}
	mr = rdma_register_dmabuf(r, fd, PROBE_MEMORY, p->memory);
	close(fd);
	return mr;
}

static struct verbs_mr *by_dmabuf(struct trial *t, struct peerdma **ctx, struct rdma_place *gpu,
				  char why[WHY])
{
	(void)ctx;
	gpu->addr = t->p->memory;
	return enrolled(t, probe_nic_dmabuf(t->p, t->r), why);
}

static struct verbs_mr *by_peer(struct trial *t, struct peerdma **ctx, struct rdma_place *gpu,
				char why[WHY])
{
	(void)ctx;
	gpu->addr = t->p->memory;
	return enrolled(t, rdma_register(t->r, (void *)(uintptr_t)t->p->memory, PROBE_MEMORY), why);
}

static struct verbs_mr *by_view(struct trial *t, struct peerdma **ctx, struct rdma_place *gpu,
				char why[WHY])
{
	void *view = NULL;

	if (!probe_view(t->p, ctx, &view)) {
		snprintf(why, WHY, "%s", peerdma_last_error());
		return NULL;
	}
	gpu->addr = (uintptr_t)view;
	return enrolled(t, rdma_register(t->r, view, PROBE_MEMORY), why);
}

static const struct nic_way ways[] = {
	{ "dma-buf", true,
	  "use peer memory, or an adapter whose driver and provider import dma-bufs", by_dmabuf },
	{ "peer memory", true, "use dma-bufs, or load an RDMA core with peer memory and a client for this GPU (peerdma_peermem)", by_peer },
	{ "the CPU's view", false, NULL, by_view },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* ---- one way ---- */

/* What is compared: p->sent with p->got, each of which one of the two sides has had in the GPU's memory. */
struct result {
	bool compared;
	const char *failed;	/* the call that failed, and its error; NULL: all report success */
	char text[WHY];
	unsigned int wrong, first;
};

static void carry(struct trial *t, struct rdma_place gpu, bool to_gpu, bool by_read,
		  unsigned int salt, struct result *out)
{
	struct probe *p = t->p;
	struct rdma_place host = { t->host, (uintptr_t)(to_gpu ? p->sent : p->got) };
	bool ready;

	*out = (struct result){ 0 };
	/* Over memory that is known to hold something else. */
	probe_fill(p->got, salt + 1);
	probe_fill(p->sent, salt);
	ready = probe_did(p, p->cuda.to_gpu(p->memory, to_gpu ? p->got : p->sent, PROBE_LENGTH),
			  "cuMemcpyHtoD");
	if (ready && !rdma_carry(t->r, to_gpu ? gpu : host, to_gpu ? host : gpu, PROBE_LENGTH,
				 by_read)) {
		snprintf(out->text, sizeof(out->text), "%s", t->r->why);
		out->failed = out->text;
		return;
	}
	if (ready && to_gpu) {
		memset(p->got, 0, PROBE_LENGTH);
		ready = probe_did(p, p->cuda.to_host(p->got, p->memory, PROBE_LENGTH),
				  "cuMemcpyDtoH");
	}
	out->compared = ready;
	if (ready)
		out->wrong = probe_differ(p, &out->first);
	else
		snprintf(out->text, sizeof(out->text), "%s", p->why);
}

static void judge(struct trial *t, const struct nic_way *way, const char *what,
		  const struct result *r)
{
	struct doctor *d = t->d;
	struct finding *f = say(d, r->failed || r->wrong ? VERDICT_BROKEN :
				   r->compared ? VERDICT_OK : VERDICT_UNKNOWN,
				"%s, %s, by %s", t->subject, what, way->name);

	if (!r->failed && !r->compared) {
		moved(d, t->subject, way->name, what, PROBE_LENGTH, MOVED_NOT_COMPARED, r->text);
		evidence(d, f, "cuMemcpy", "%s", r->text);
		consequence(d, f, "the data could not be compared");
		return;
	}
	evidence(d, f, "libibverbs", "%s", r->failed ? r->failed : "the device reports success");
	if (r->failed)
		moved(d, t->subject, way->name, what, PROBE_LENGTH, MOVED_FAILED, r->failed);
	else
		moved_compared(d, t->subject, way->name, what, PROBE_LENGTH, r->wrong, r->first);
	if (r->failed) {
		consequence(d, f, "the device registered the GPU's memory, but cannot reach it");
		remedy(d, f, "see dmesg, and the findings about the IOMMU, ACS and host bridges");
		return;
	}
	if (!r->wrong) {
		evidence(d, f, "data", "all %u bytes arrived as sent", PROBE_LENGTH);
		if (t->software)
			consequence(d, f, "this RDMA device is software: the processor carried the data, not a device");
		else if (!way->direct)
			consequence(d, f, "the adapter can register memory that the processor has mapped");
		return;
	}
	evidence(d, f, "data", "%u of %u bytes differ, the first at %u", r->wrong, PROBE_LENGTH,
		 r->first);
	consequence(d, f, "data is lost on the way, although success is reported");
	remedy(d, f,
	       "see the findings about the IOMMU and ACS, and dmesg (DMAR, AMD-Vi: page faults)");
}

/* Both ways, each in both manners: the device writes to what it sees as remote, and reads from it. */
static void all_ways_of(struct trial *t, const struct nic_way *way, struct rdma_place gpu)
{
	static const struct {
		const char *what;
		bool to_gpu, by_read;
	} turns[] = {
		{ "RDMA write to the GPU", true, false }, { "RDMA write from the GPU", false,
							    false },
		{ "RDMA read into the GPU", true, true }, { "RDMA read from the GPU", false, true },
	};
	struct result r;

	for (unsigned int i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		carry(t, gpu, turns[i].to_gpu, turns[i].by_read, 16 + 2 * i, &r);
		judge(t, way, turns[i].what, &r);
	}
}

/* ---- all ways ---- */

/* The kernel's driver takes dma-bufs, and the provider library of programs does not ask it. */
static void past_provider(struct trial *t)
{
	struct finding *f = say(t->d, VERDICT_OK, "%s, ibv_reg_dmabuf_mr()", t->subject);

	evidence(t->d, f, "ibv_reg_dmabuf_mr",
		 "Operation not supported, by the device's libibverbs provider");
	evidence(t->d, f, "ibv_cmd_reg_dmabuf_mr", "registered, by the kernel's driver");
	consequence(t->d, f, "programs cannot register dma-bufs with this provider, although the kernel's driver can");
	remedy(t->d, f, "start programs with LD_PRELOAD=libpeerdma-verbs.so.0, or install a provider that registers dma-bufs");
}

/* Not in this way, but in another. */
static void lacks(struct trial *t, const struct nic_way *way, const char *why)
{
	struct finding *f = say(t->d, VERDICT_OK, "%s, by %s", t->subject, way->name);

	evidence(t->d, f, way->name, "%s", why);
	consequence(t->d, f, "the device cannot register GPU memory by %s, but can by another path",
		    way->name);
	remedy(t->d, f, "%s", way->remedy);
}

static void not_taken(struct trial *t, char why[WAYS][WHY])
{
	struct doctor *d = t->d;
	struct finding *f = say(d, t->software ? VERDICT_UNKNOWN : VERDICT_BROKEN, "%s",
				t->subject);

	evidence(d, f, "memory of the host", "arrived by RDMA write and read, compared");
	for (size_t i = 0; i < WAYS; i++)
		evidence(d, f, ways[i].name, "%s", why[i]);
	if (t->software) {
		consequence(d, f, "this RDMA device is software, and cannot register GPU memory; that says nothing about adapters");
		remedy(d, f, "try it with an adapter; programs can go through a copy in host memory (staging) here");
		return;
	}
	consequence(d, f, "the adapter cannot register GPU memory: programs fail, or go through a copy in host memory (staging)");
	remedy(d, f, "see the findings about the RDMA stack and peer memory: one of dma-buf and nvidia-peermem is needed");
}

void probe_nic_try(struct doctor *d, struct probe *p, struct rdma *r, const char *subject,
		   bool software)
{
	struct trial t = { .d = d, .p = p, .r = r, .software = software };
	char why[WAYS][WHY] = { 0 };
	bool any = false, direct = false;

	snprintf(t.subject, sizeof(t.subject), "%s", subject);
	t.host = rdma_register(r, p->room, PROBE_ROOM);
	if (!t.host) {
		struct finding *f = say(d, VERDICT_UNKNOWN, "%s", subject);

		evidence(d, f, "host memory", "%s", r->why);
		consequence(d, f, "no data was moved");
		remedy(d, f, "see the limit of locked memory: ulimit -l");
		return;
	}
	/* The processor's view is for where there is no other. */
	for (size_t i = 0; i < WAYS && (ways[i].direct || !any); i++) {
		struct peerdma *ctx = NULL;
		struct rdma_place gpu = { 0 };
		struct verbs_mr *mr = ways[i].enroll(&t, &ctx, &gpu, why[i]);

		if (mr) {
			any = true;
			direct |= ways[i].direct;
			gpu.mr = mr;
			all_ways_of(&t, &ways[i], gpu);
			if (ways[i].enroll == by_dmabuf && r->by_kernel)
				past_provider(&t);
			rdma_unregister(r, mr);
		} else {
			moved(d, t.subject, ways[i].name, "", 0, MOVED_NOT_TAKEN, why[i]);
		}
		peerdma_close(ctx);
	}
	if (!any)
		not_taken(&t, why);
	for (size_t i = 0; i < WAYS && direct; i++) {
		if (*why[i])
			lacks(&t, &ways[i], why[i]);
	}
	rdma_unregister(r, t.host);
}

static void one(struct doctor *d, const struct device *gpu, const char *subject, const char *device,
		bool software)
{
	struct finding *f;
	struct probe p;
	struct rdma r;
	bool ready = rdma_open(&r, device);

	if (!probe_begin(&p)) {
		d->no_memory = true;
	} else if (!ready || !probe_open_gpu(&p, gpu)) {
		f = say(d, VERDICT_UNKNOWN, "%s", subject);
		evidence(d, f, ready ? "CUDA" : "libibverbs", "%s", ready ? p.why : r.why);
		consequence(d, f, ready ? "no data was moved" :
			    "no data was moved; not even a test with host memory was possible");
		remedy(d, f, ready ? "see that CUDA works here" : "see that the link is up (rdma link), that the adapter's provider for libibverbs "
		       "is installed, and that this user may use /dev/infiniband");
	} else {
		probe_nic_try(d, &p, &r, subject, software);
		probe_close_gpu(&p);
	}
	probe_end(&p);
	rdma_close(&r);
}

/* ---- which ---- */

static bool is_software(struct doctor *d, const char *device)
{
	struct adapter a;

	adapter_read(d, device, &a);
	return a.software;
}

/* Software over any network device, which has no PCI function: rxe, siw. */
static bool has_no_function(struct doctor *d, const char *device)
{
	struct adapter a;

	adapter_read(d, device, &a);
	return a.software && !a.function;
}

/* A program's device works on a network device, which may be an adapter's. */
static bool is_over(struct doctor *d, const char *device, char netdev[32], const struct device *nic)
{
	const char *target;
	char path[160], part[PCI_NAME_MAX + 2];

	snprintf(path, sizeof(path), INFINIBAND "/%s/ports/1/gid_attrs/ndevs/0", device);
	if (tree_word(d->tree, path, netdev, 32) || !*netdev || strchr(netdev, '/'))
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%s", netdev);
	snprintf(part, sizeof(part), "/%s/", nic ? nic->name : "");
	return nic && !tree_link(d->tree, path, &target) && strstr(target, part);
}

/* The adapter's own devices, and programs' over it.  How many there are. */
static unsigned int of_adapter(struct doctor *d, const struct device *gpu, const struct device *nic)
{
	char path[128], subject[160], netdev[32];
	unsigned int count = 0;
	const char *names;

	snprintf(path, sizeof(path), PCI_DEVICES "%s/infiniband", nic->name);
	if (!tree_list(d->tree, path, &names)) {
		for (; *names; names = tree_next(names), count++) {
			bool software = is_software(d, names);

			snprintf(subject, sizeof(subject), "%s and %s (%.64s%s)", gpu->label,
				 nic->label, names, software ? ", software" : "");
			one(d, gpu, subject, names, software);
		}
	}
	if (tree_list(d->tree, INFINIBAND, &names))
		return count;
	for (; *names; names = tree_next(names)) {
		if (!has_no_function(d, names) || !is_over(d, names, netdev, nic))
			continue;
		snprintf(subject, sizeof(subject), "%s and %s (%.64s, software)", gpu->label,
			 nic->label, names);
		one(d, gpu, subject, names, true);
		count++;
	}
	return count;
}

static bool over_any_adapter(struct doctor *d, const char *device, char netdev[32])
{
	const struct machine *m = d->machine;

	for (unsigned int i = 0; i < m->count; i++) {
		if (m->devices[i].kind == DEVICE_NIC && is_over(d, device, netdev, &m->devices[i]))
			return true;
	}
	is_over(d, device, netdev, NULL);
	return false;
}

/* Programs' devices over the loopback interface and the like, which belong to no adapter. */
static void of_nobody(struct doctor *d, const struct device *gpu, const char *label)
{
	char subject[160], netdev[32] = "";
	const char *names;

	if (tree_list(d->tree, INFINIBAND, &names))
		return;
	for (; *names; names = tree_next(names)) {
		if (!has_no_function(d, names) || over_any_adapter(d, names, netdev))
			continue;
		snprintf(subject, sizeof(subject), "%s and %.64s (software, on %.16s)", label,
			 names, *netdev ? netdev : "nothing");
		one(d, gpu, subject, names, true);
	}
}

/* A software GPU that is in this process is in no list of PCI devices. */
static bool gpu_inside(void)
{
	const char *named = getenv("PEERDMA_PROVIDER");

	return named && strstr(named, "soft");
}

static bool applies(const struct doctor *d)
{
	return d->probe;
}

static void run(struct doctor *d)
{
	const struct machine *m = d->machine;

	for (unsigned int i = 0; i < d->pair_count; i++) {
		const struct device *a = &m->devices[d->pairs[i].a],
			*b = &m->devices[d->pairs[i].b];
		const struct device *gpu = pair_gpu(d, &d->pairs[i]), *nic = gpu == a ? b : a;
		struct finding *f;

		if (!gpu || nic->kind != DEVICE_NIC || of_adapter(d, gpu, nic))
			continue;
		f = say(d, VERDICT_UNKNOWN, "%s and %s", gpu->label, nic->label);
		evidence(d, f, INFINIBAND, "no RDMA device belongs to this adapter");
		consequence(d, f, "no data was moved: without RDMA the adapter reaches no memory for programs");
		remedy(d, f, "load the adapter's RDMA driver (modprobe mlx5_ib, efa, irdma...)");
	}
	if (d->chosen)
		return;
	for (unsigned int i = 0; i < m->count && !gpu_inside(); i++) {
		if (m->devices[i].kind == DEVICE_GPU && device_concerned(d, i))
			of_nobody(d, &m->devices[i], m->devices[i].label);
	}
	if (gpu_inside())
		of_nobody(d, NULL, "the GPU in this process");
}

const struct check check_probe_nic = { "probe-nic", "Data moved by an RDMA device", applies, run };
