// SPDX-License-Identifier: MIT
/*
 * adapters.c - see adapters.h.
 *
 * Whether a driver imports dma-bufs depends on the kernel (bnxt_re of 6.1 does not, that of 6.12 does), so its symbols are
 * asked.  Whether it may get peer memory, the core decides: this project's by its table, a vendor's by the vendor's drivers.
 */
#include <stdio.h>
#include <string.h>

#include "../../peermem/core/known_drivers.h"
#include "adapters.h"

/* Adapters whose RDMA driver is another module than the one that has the PCI function. */
static const char *const rdma_drivers[][2] = {
	{ "mlx5_core", "mlx5_ib" }, { "mlx4_core", "mlx4_ib" }, { "bnxt_en", "bnxt_re" },
	{ "ice", "irdma" }, { "i40e", "irdma" },
	{ "mana", "mana_ib" }, { "cxgb4", "iw_cxgb4" }, { "qede", "qedr" },
	{ "hns3", "hns_roce_hw_v2" }, { "ionic", "ionic_rdma" },
};

static void set(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

static const struct device *function_of(const struct doctor *d, const char *name, bool *given)
{
	const struct machine *m = d->machine;
	const struct rdma_name *r = rdma_find(m, name);

	*given = !r || r->given;
	return !r || r->function < 0 ? NULL : &m->devices[r->function];
}

void adapter_read(struct doctor *d, const char *name, struct adapter *a)
{
	char path[192], netdev[32];

	*a = (struct adapter){ 0 };
	set(a->name, sizeof(a->name), name);
	a->function = function_of(d, name, &a->given);
	/* Only rxe has this file: the name of the network device below it. */
	snprintf(path, sizeof(path), INFINIBAND "/%s/parent", a->name);
	if (!tree_word(d->tree, path, netdev, sizeof(netdev))) {
		a->software = true;
		set(a->driver, sizeof(a->driver),
		    a->function || module_loaded(d, "peerdma_hca") ? "peerdma_hca" : "rdma_rxe");
		return;
	}
	if (!a->function) {
		const char *target;

		snprintf(path, sizeof(path), INFINIBAND "/%s", a->name);
		a->software = !tree_link(d->tree, path, &target) && strstr(target, "/virtual/");
		return;
	}
	set(a->driver, sizeof(a->driver), a->function->driver);
	for (size_t i = 0; i < sizeof(rdma_drivers) / sizeof(rdma_drivers[0]); i++) {
		if (!strcmp(a->function->driver, rdma_drivers[i][0]))
			set(a->driver, sizeof(a->driver), rdma_drivers[i][1]);
	}
}

static void answer(struct adapter_answer *out, enum answer is, const char *source,
		   const char *remedy)
{
	out->answer = is;
	out->remedy = remedy;
	set(out->source, sizeof(out->source), source);
}

#define OTHER_FUNCTION "use an adapter that is a PCI function (in software: peerdma_hca on a network device that is one)"

/* What reaches no memory of devices at all. */
static bool no_function(const struct adapter *a, struct adapter_answer *out)
{
	if (a->function || !a->software)
		return false;
	answer(out, ANSWER_NO, INFINIBAND, OTHER_FUNCTION);
	snprintf(out->why, sizeof(out->why),
		 "%s is not a PCI function: it reaches host memory only", a->name);
	return true;
}

static bool no_driver(const struct adapter *a, struct adapter_answer *out)
{
	if (*a->driver)
		return false;
	answer(out, ANSWER_UNKNOWN, INFINIBAND, NULL);
	snprintf(out->why, sizeof(out->why), "the driver of %s is not known", a->name);
	return true;
}

/* Do this kernel and its RDMA core take dma-bufs at all? */
static enum answer rdma_takes_dmabuf(struct doctor *d, char why[160])
{
	*why = 0;
	if (kernel_at_least(d, 5, 12) == ANSWER_NO) {
		snprintf(why, 160, "RDMA takes dma-buf since Linux 5.12, and this is %s",
			 d->machine->release);
		return ANSWER_NO;
	}
	if (kernel_symbol(d, "ib_umem_dmabuf_get") == ANSWER_NO) {
		snprintf(why, 160, "this RDMA core has no ib_umem_dmabuf_get");
		return ANSWER_NO;
	}
	return kernel_symbol(d, "ib_umem_dmabuf_get");
}

void adapter_dmabuf(struct doctor *d, const struct adapter *a, struct adapter_answer *out)
{
	*out = (struct adapter_answer){ 0 };
	if (no_function(a, out) || no_driver(a, out))
		return;
	if (rdma_takes_dmabuf(d, out->why) == ANSWER_NO) {
		answer(out, ANSWER_NO, "/proc/kallsyms", "boot a newer kernel, or use peer memory");
		return;
	}
	answer(out, driver_imports_dmabuf(d, a->driver), "/proc/kallsyms", NULL);
	if (out->answer == ANSWER_UNKNOWN) {
		snprintf(out->why, sizeof(out->why), "not known whether %s imports dma-bufs: the kernel's symbols cannot be read",
			 a->driver);
		return;
	}
	snprintf(out->why, sizeof(out->why), "%s has %s function that registers dma-bufs",
		 a->driver, out->answer == ANSWER_YES ? "a" : "no");
	if (out->answer == ANSWER_NO)
		out->remedy = "a newer kernel's driver may import dma-bufs (bnxt_re and irdma of 6.1 do not, those of 6.12 do); else peer memory";
}

static const struct stack {
	const char *driver, *stack, *remedy;
} stacks[] = {
#define STACK(driver, stack)	\
	{ driver, stack, "modprobe peerdma_peermem (for development), or install " stack "; or use dma-bufs" }
	STACK("mlx5_ib", "DOCA-OFED"),
	STACK("mlx4_ib", "MLNX_OFED"),
	STACK("bnxt_re", "Broadcom's own driver bnxt_re with its ib_peer_mem"),
	STACK("ionic_rdma", "AMD Pensando's own driver ionic_rdma with its peer-memory core"),
	/* Of any other: the last one */
	STACK("", "the RDMA drivers of the adapter's maker, if they take peer memory"),
#undef STACK
};

static const struct stack *stack_of(const char *driver)
{
	const struct stack *s = stacks;

	while (*s->driver && strcmp(s->driver, driver))
		s++;
	return s;
}

const char *adapters_stack(struct doctor *d)
{
	const struct stack *of = NULL, *other = stack_of("");
	const char *names = "";
	struct adapter a;

	if (tree_list(d->tree, INFINIBAND, &names))
		return other->stack;
	for (; *names; names = tree_next(names)) {
		adapter_read(d, names, &a);
		if (!a.function || !a.given)
			continue;
		if (of && of != stack_of(a.driver))
			return other->stack;
		of = stack_of(a.driver);
	}
	return of ? of->stack : other->stack;
}

const char *adapter_module(const struct device *nic)
{
	for (size_t i = 0; i < sizeof(rdma_drivers) / sizeof(rdma_drivers[0]); i++) {
		if (!strcmp(nic->driver, rdma_drivers[i][0]))
			return rdma_drivers[i][1];
	}
	switch (nic->vendor) {
	case 0x1d0f:
		return "efa";
	case 0x1414:
		return "mana_ib";
	case 0x8086:
	case 0x434e:
		return "hfi1";
	default:
		return "mlx5_ib";
	}
}

/* Among the names that the administrator gave the core: "NAME,NAME+inval". */
static bool was_added(struct doctor *d, const char *driver, bool *can_stop)
{
	char names[128];
	size_t length;

	if (tree_word(d->tree, "/sys/module/" PEER_CORE "/parameters/drivers", names,
		      sizeof(names)))
		return false;
	for (const char *s = names; *s; s += length + (s[length] == ',')) {
		size_t name = strcspn(s, ",+");

		length = strcspn(s, ",");
		if (name != strlen(driver) || strncmp(s, driver, name))
			continue;
		*can_stop = s[name] == '+';
		return true;
	}
	return false;
}

static bool is_known(const char *driver, bool *can_stop)
{
	for (size_t i = 0; i < sizeof(known_drivers) / sizeof(known_drivers[0]); i++) {
		if (!strcmp(known_drivers[i].name, driver)) {
			*can_stop = known_drivers[i].can_stop;
			return true;
		}
	}
	return false;
}

/* A client for adapters that cannot be stopped: peerdma_peermem's and nvidia-peermem's names for it end so. */
static bool is_persistent(const char *client)
{
	size_t length = strlen(client);

	return length > 3 && !strcmp(client + length - 3, "_nc");
}

static void clients(struct doctor *d, bool *any, bool *persistent)
{
	struct peer_client client;

	*any = *persistent = false;
	for (unsigned int n = 0; peer_client(d, n, &client); n++) {
		*any = true;
		*persistent |= is_persistent(client.name);
	}
}

static void by_our_core(struct doctor *d, const struct adapter *a, struct adapter_answer *out)
{
	bool can_stop = false, any, persistent;

	if (!is_known(a->driver, &can_stop) && !was_added(d, a->driver, &can_stop)) {
		answer(out, ANSWER_NO, PEER_CORE,
		       "use dma-bufs; or, if the driver's source uses no page of a umem, load "
		       PEER_CORE " with drivers=NAME");
		snprintf(out->why, sizeof(out->why),
			 "%s is not in the core's table: it may need struct pages", a->driver);
		return;
	}
	clients(d, &any, &persistent);
	answer(out, any && (can_stop || persistent) ? ANSWER_YES : ANSWER_NO, PEER_CORE,
	       !any ? "modprobe peerdma_peermem" : "reload peerdma_peermem with persistent=1, and deregister memory before it is freed");
	snprintf(out->why, sizeof(out->why), "the core gives %s peer memory%s", a->driver,
		 !any ? ", but no client is registered" : can_stop ? " that can be revoked" :
		 persistent ? " that stays" :
		 " that stays, but the client has only memory that can be revoked");
	if (out->answer == ANSWER_YES)
		out->remedy = NULL;
}

/* Of drivers beside a vendor's core only those that come with it call it. */
static void by_vendor(struct doctor *d, const struct adapter *a, struct adapter_answer *out)
{
	char version[64];
	bool with_it = (!tree_word(d->tree, "/sys/module/mlx5_core/version", version,
				   sizeof(version)) && !strcmp(a->driver, "mlx5_ib")) ||
		/* Broadcom's own core, and the driver that comes with it */
		(module_loaded(d, "ib_peer_mem") && !strcmp(a->driver, "bnxt_re"));

	answer(out, with_it ? ANSWER_YES : ANSWER_UNKNOWN, "/proc/kallsyms", NULL);
	snprintf(out->why, sizeof(out->why), "a vendor's core: %s%s", a->driver,
		 with_it ? " comes with it" : " asks it about memory only if it was built for it");
}

void adapter_peer(struct doctor *d, const struct adapter *a, struct adapter_answer *out)
{
	char path[128];

	*out = (struct adapter_answer){ 0 };
	if (no_function(a, out) || no_driver(a, out))
		return;
	if (a->function && efa_takes_nvidia(d, a->function, path)) {
		answer(out, ANSWER_YES, "p2p", NULL);
		set(out->why, sizeof(out->why), "efa asks NVIDIA's driver about memory by itself");
		return;
	}
	switch (kernel_symbol(d, PEER_REGISTER)) {
	case ANSWER_YES:
		if (module_loaded(d, PEER_CORE))
			by_our_core(d, a, out);
		else
			by_vendor(d, a, out);
		break;
	case ANSWER_NO:
		answer(out, ANSWER_NO, "/proc/kallsyms", stack_of(a->driver)->remedy);
		set(out->why, sizeof(out->why), "this RDMA core takes no peer-memory clients: no "
		    PEER_REGISTER);
		break;
	case ANSWER_UNKNOWN:
		answer(out, ANSWER_UNKNOWN, "/proc/kallsyms", NULL);
		set(out->why, sizeof(out->why), "not known whether the RDMA core takes clients: the kernel's symbols cannot be read");
		break;
	}
}

/* One of its RDMA devices; as above. */
static bool device_can_work(struct doctor *d, const struct adapter *a, char why[160],
			    char remedy[160])
{
	struct adapter_answer dmabuf, peer;
	const char *change;

	adapter_dmabuf(d, a, &dmabuf);
	adapter_peer(d, a, &peer);
	if (dmabuf.answer != ANSWER_NO || peer.answer != ANSWER_NO)
		return true;
	change = peer.remedy ? peer.remedy : dmabuf.remedy;
	snprintf(why, 160, "%s", dmabuf.why);
	snprintf(remedy, 160, "%s", change ? change : "use another adapter");
	return false;
}

bool adapter_can_work(struct doctor *d, const struct device *nic, char why[160], char remedy[160])
{
	const char *names = "";
	struct adapter a;

	snprintf(why, 160, "no RDMA device");
	snprintf(remedy, 160, "modprobe %s; if that fails, dmesg says why", adapter_module(nic));
	if (tree_list(d->tree, INFINIBAND, &names))
		return nic->rdma == RDMA_HAS;
	for (; *names; names = tree_next(names)) {
		adapter_read(d, names, &a);
		if (a.function == nic && a.given && device_can_work(d, &a, why, remedy))
			return true;
	}
	return false;
}

/* Of all adapters here: YES if one imports dma-bufs, or there is none. */
static enum answer adapters_import_dmabuf(struct doctor *d)
{
	enum answer best = ANSWER_NO;
	struct adapter_answer one;
	struct adapter a;
	const char *names;

	/* Without a device nothing refuses: that there is none, another finding says. */
	if (tree_list(d->tree, INFINIBAND, &names) || !*names)
		return ANSWER_YES;
	for (; *names; names = tree_next(names)) {
		adapter_read(d, names, &a);
		adapter_dmabuf(d, &a, &one);
		if (one.answer == ANSWER_YES)
			return ANSWER_YES;
		if (one.answer == ANSWER_UNKNOWN)
			best = ANSWER_UNKNOWN;
	}
	return best;
}

/* Do the kernel and the GPU's driver give its memory as a dma-buf? */
static enum answer amd_exports(struct doctor *d, char why[160])
{
	char file[128], moves, p2p;

	moves = always_moves(d) ? 'y' : kernel_config(d, "DMABUF_MOVE_NOTIFY", file);
	p2p = kernel_config(d, "PCI_P2PDMA", file);
	if (moves == '?' || p2p == '?') {
		snprintf(why, 160, "the kernel's configuration cannot be read");
		return ANSWER_UNKNOWN;
	}
	if (moves != 'y' || p2p != 'y') {
		snprintf(why, 160, "the kernel is built without %s",
			 moves != 'y' ? "DMABUF_MOVE_NOTIFY" : "PCI_P2PDMA");
		return ANSWER_NO;
	}
	return ANSWER_YES;
}

static enum answer nvidia_exports(struct doctor *d, char why[160])
{
	struct driver_release release;

	nvidia_release(d, &release);
	if (!release.known) {
		snprintf(why, 160, "the release of NVIDIA's driver is not known");
		return ANSWER_UNKNOWN;
	}
	if (release.opened && release.major >= 515)
		return ANSWER_YES;
	snprintf(why, 160, "only NVIDIA's open kernel modules from 515 on export dma-buf, and this is %s %s",
		 release.opened ? "open" : "proprietary", release.text);
	return ANSWER_NO;
}

enum answer gpu_exports_dmabuf(struct doctor *d, const struct device *gpu, char why[160])
{
	*why = 0;
	if (gpu->vendor == VENDOR_AMD)
		return amd_exports(d, why);
	if (gpu->vendor == VENDOR_NVIDIA)
		return nvidia_exports(d, why);
	if (device_is_softgpu(gpu) && *gpu->driver)
		return ANSWER_YES;
	snprintf(why, 160, "not known whether this maker's driver exports dma-bufs");
	return ANSWER_UNKNOWN;
}

enum answer dmabuf_works(struct doctor *d, char why[160])
{
	enum answer imports = adapters_import_dmabuf(d), takes = rdma_takes_dmabuf(d, why), exports;

	if (takes == ANSWER_NO)
		return takes;
	if (imports == ANSWER_NO) {
		snprintf(why, 160, "no RDMA driver that is loaded imports dma-bufs");
		return ANSWER_NO;
	}
	exports = any_gpu_of(d, VENDOR_AMD) ? amd_exports(d, why) : nvidia_exports(d, why);
	if (exports != ANSWER_YES)
		return exports;
	return imports == ANSWER_YES ? takes : ANSWER_UNKNOWN;
}
