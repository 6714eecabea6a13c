// SPDX-License-Identifier: MIT
/*
 * check_peermem.c - the peer-memory clients of the RDMA core: is there one for these GPUs, and does it fit this RDMA stack?
 *
 * NVIDIA's are the modules nvidia-peermem and nv_peer_mem; AMD's is in amdgpu as ROCm builds it, not as Linux has it; this
 * project's, peerdma_peermem, is for both.  For one GPU's memory only one may be there: a core asks the first that
 * registered.  Where dma-buf works, nothing needs them.
 */
#include <stdio.h>
#include <string.h>

#include "adapters.h"
#include "kernel_log.h"

#define REGISTER	PEER_REGISTER
#define CLIENTS		"/sys/kernel/mm/memory_peers"

static bool applies(const struct doctor *d)
{
	return any_gpu_apart(d, 0) && any_of_kind(d, DEVICE_NIC);
}

#define OURS	PEER_OURS

/* vendor: whose GPUs' memory the client is for; 0: of any. */
static struct finding *say_peermem(struct doctor *d, enum verdict v, unsigned int vendor,
				   const char *subject)
{
	return say_maker(d, v, vendor, WAY(WAY_PEERMEM), "%s", subject);
}

static void evidence_client(struct doctor *d, struct finding *f, const struct peer_client *client)
{
	evidence(d, f, client->folder, "%s%s%s", client->name, *client->version ? ", version " : "",
		 client->version);
}

/* "peerdma_peermem 1.0" is loaded. */
static void evidence_module(struct doctor *d, struct finding *f, const char *module)
{
	char path[96], version[64];

	snprintf(path, sizeof(path), "/sys/module/%.32s/version", module);
	if (tree_word(d->tree, path, version, sizeof(version)))
		evidence(d, f, "/sys/module", "%s is loaded", module);
	else
		evidence(d, f, "/sys/module", "%s %s is loaded", module, version);
}

/* "depends:        nvidia,ib_core": the value, "" without one. */
static void modinfo_field(const char *data, const char *key, char *out, size_t size)
{
	size_t n = strlen(key);

	*out = 0;
	for (const char *s = data; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL) {
		if (!strncmp(s, key, n) && s[n] == ':') {
			s += n + 1;
			s += strspn(s, " ");
			tree_clean(out, size, s, strcspn(s, "\n"));
			return;
		}
	}
}

static bool keep_symbol(const char *line, size_t length, void *arg)
{
	(void)arg;
	return memmem(line, length, REGISTER, strlen(REGISTER));
}

/* The first column of the line that has the symbol as its second: "0x1234abcd". */
static bool crc_of(const char *data, char out[16])
{
	for (const char *s = data; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL) {
		size_t length = strcspn(s, " \t\n"), n = strlen(REGISTER);
		const char *name = s + length + strspn(s + length, " \t");

		if (length > 2 && length < 16 && !strncmp(name, REGISTER, n) &&
		    strchr(" \t\n", name[n]) && !strncmp(s, "0x", 2)) {
			tree_clean(out, 16, s, length);
			return true;
		}
	}
	return false;
}

/* The CRC with which the RDMA core that is installed exports the symbol, and where that stands. */
static bool core_crc(struct doctor *d, char out[16], char path[160])
{
	static const char *const places[] = { "/usr/src/ofa_kernel/default",
					      "/usr/src/ofa_kernel/x86_64", "/lib/modules" };
	const char *data, *release = d->machine->release;
	size_t length;

	for (unsigned int i = 0; i < 3; i++) {
		if (i && (!*release || strchr(release, '/')))
			return false;
		snprintf(path, 160, i == 0 ? "%s%.0s/Module.symvers" :
				    i == 1 ? "%s/%s/Module.symvers" : "%s/%s/build/Module.symvers",
			 places[i], release);
		if (!tree_lines(d->tree, path, keep_symbol, NULL, &data, &length) &&
		    crc_of(data, out))
			return true;
	}
	return false;
}

/* The failure that users report most, where all that is installed is as it should be. */
#define VMM	"memory of cuMemCreate() is registered by its address only if it was made with gpuDirectRDMACapable; " \
		"else ibv_reg_mr() says \"Bad address\", and a dma-buf of it works"

static void loaded(struct doctor *d, const char *module)
{
	struct peer_client client;
	bool listed = peer_client_of(d, VENDOR_NVIDIA, &client);
	struct finding *f = say_peermem(d, listed ? VERDICT_OK : VERDICT_UNKNOWN,
					VENDOR_NVIDIA, module);

	evidence_module(d, f, module);
	if (listed) {
		evidence_client(d, f, &client);
		consequence(d, f, "%s", VMM);
	} else {
		evidence(d, f, CLIENTS, "no client of NVIDIA's");
		consequence(d, f, "the module is loaded, but the RDMA core does not show it as a client; some cores show none");
		remedy(d, f, "try a registration of GPU memory (ib_write_bw --use_cuda=0)");
	}
}

/* What is said, and whether programs do without (dma-buf works). */
struct need_of {
	struct finding *finding;
	const char *also;
};

/* The log has what modprobe said: it is installed, and did not load. */
static bool did_not_load(struct doctor *d, const struct need_of *n)
{
	char line[200];

	if (!log_module_failed(d, "nvidia_peermem", line) &&
	    !log_module_failed(d, "nv_peer_mem", line))
		return false;
	evidence(d, n->finding, TREE_LOG, "%s", line);
	consequence(d, n->finding, "it is installed and did not load: it was built for another RDMA core, or another release of NVIDIA's driver%s",
		    n->also);
	remedy(d, n->finding, "build NVIDIA's modules again for this RDMA core (dkms install, or install the driver again), then modprobe "
	       "nvidia-peermem");
	return true;
}

static void not_installed(struct doctor *d, const struct need_of *n)
{
	evidence(d, n->finding, "modinfo nvidia-peermem", "not found");
	if (driver_in_container(d)) {
		evidence(d, n->finding, DRIVER_ROOT, "there: a GPU operator's driver container");
		consequence(d, n->finding, "the driver's modules are in that container, which has not loaded this one%s", n->also);
		remedy(d, n->finding, "set driver.rdma.enabled=true in the GPU operator's ClusterPolicy");
	} else if (d->machine->container) {
		consequence(d, n->finding, "not loaded; whether it is installed cannot be seen in a container%s", n->also);
		remedy(d, n->finding, "have it loaded on the node: modprobe nvidia-peermem");
	} else {
		consequence(d, n->finding, "the module is not installed for this kernel%s", n->also);
		remedy(d, n->finding, "install NVIDIA's driver for Linux %s with its kernel modules", d->machine->release);
	}
}

/* It is built for another RDMA core than the one that is installed. */
static bool other_core(struct doctor *d, const struct need_of *n, char *file)
{
	const char *versions[] = { "modprobe", "--dump-modversions", file, NULL }, *data;
	char mine[16], theirs[16], path[160];
	size_t length;

	if (*file != '/' ||
	    tree_command(d->tree, "modversions-nvidia-peermem", versions, &data, &length) ||
	    !crc_of(data, mine) || !core_crc(d, theirs, path) || !strcmp(mine, theirs))
		return false;
	evidence(d, n->finding, file, REGISTER " %s", mine);
	evidence(d, n->finding, path, REGISTER " %s", theirs);
	consequence(d, n->finding, "it was built for another RDMA core: modprobe fails with \"disagrees about version of symbol " REGISTER "\"%s",
		    n->also);
	remedy(d, n->finding, "build NVIDIA's modules again for this RDMA core (dkms install, or install the driver again), then modprobe "
	       "nvidia-peermem");
	return true;
}

/* What the module itself says. */
static void installed(struct doctor *d, const struct need_of *n, const char *modinfo)
{
	char file[256], depends[160];

	modinfo_field(modinfo, "filename", file, sizeof(file));
	modinfo_field(modinfo, "depends", depends, sizeof(depends));
	evidence(d, n->finding, "modinfo nvidia-peermem", "depends: %s",
		 *depends ? depends : "nothing");
	if (!strstr(depends, "ib_")) {
		consequence(d, n->finding, "it was built without the RDMA core's peer-memory symbols: modprobe says \"Invalid argument\"%s", n->also);
		remedy(d, n->finding, "install NVIDIA's driver again, now that this RDMA core is there: its modules are built against what they find");
	} else if (!other_core(d, n, file)) {
		consequence(d, n->finding, "no service loads it: registrations of GPU memory fail with \"Bad address\"%s", n->also);
		remedy(d, n->finding, "modprobe nvidia-peermem, and put it in /etc/modules-load.d/nvidia-peermem.conf");
	}
}

/* It is not loaded: would it, and is it needed? */
static void not_loaded(struct doctor *d)
{
	static const char *const modinfo[] = { "modinfo", "nvidia-peermem", NULL };
	char why[160];
	bool works = dmabuf_works(d, why) == ANSWER_YES;
	struct need_of n = {
		.finding = say_peermem(d, VERDICT_BROKEN, VENDOR_NVIDIA, "nvidia-peermem"),
		.also = works ? "; programs that use dma-buf do without" : "",
	};
	const char *data;
	size_t length;

	evidence(d, n.finding, "/sys/module/nvidia_peermem", "not there: not loaded");
	if (*why)
		evidence(d, n.finding, "dma-buf", "%s", why);
	if (kernel_symbol(d, REGISTER) == ANSWER_NO) {
		evidence(d, n.finding, "/proc/kallsyms", "no " REGISTER);
		consequence(d, n.finding, "this RDMA core takes no peer-memory clients: modprobe nvidia-peermem says \"Invalid argument\"%s", n.also);
		remedy(d, n.finding, "%s; or install %s, and then NVIDIA's driver again", works ?
		       "use dma-bufs, which work here" :
		       "use NVIDIA's open kernel modules (515 or later) on Linux 5.12 or later for dma-buf",
		       adapters_stack(d));
	} else if (!did_not_load(d, &n)) {
		if (tree_command(d->tree, "modinfo-nvidia-peermem", modinfo, &data, &length))
			not_installed(d, &n);
		else
			installed(d, &n, data);
	}
}

/* Whose core takes clients here?  Whether one is missed, the findings about clients and adapters say. */
static void core(struct doctor *d)
{
	enum answer takes = kernel_symbol(d, REGISTER);
	char version[64];
	struct finding *f;

	if (takes == ANSWER_UNKNOWN)
		return;
	f = say_peermem(d, VERDICT_OK, 0, "the RDMA core");
	if (takes == ANSWER_NO) {
		evidence(d, f, "/proc/kallsyms", "no " REGISTER
			 ": the kernel's own, which takes no peer-memory clients");
	} else if (module_loaded(d, PEER_CORE)) {
		evidence_module(d, f, PEER_CORE);
		consequence(d, f,
			    "it adds peer memory to the kernel's own RDMA core, for development");
	} else if (!tree_word(d->tree, "/sys/module/mlx5_core/version", version, sizeof(version))) {
		evidence(d, f, "/sys/module/mlx5_core/version", "%s: MLNX_OFED or DOCA", version);
	} else {
		evidence(d, f, "/proc/kallsyms", REGISTER ": this kernel's own");
	}
}

/* Both claim one maker's memory. */
static void two_clients(struct doctor *d, const char *one, const char *where, const char *other,
			const char *remove)
{
	struct finding *f = say(d, VERDICT_BROKEN, "%s and %s", one, other);
	evidence(d, f, where, "%s", one);
	evidence(d, f, "/sys/module", "%s is loaded", other);
	consequence(d, f, "both claim the same memory, and the RDMA core asks the one that registered first; only one may be there");
	remedy(d, f, "%s", remove);
}

/* Of the three that speak for NVIDIA's memory; true: there is one, or more. */
static bool nvidia_modules(struct doctor *d)
{
	bool theirs = module_loaded(d, "nvidia_peermem"), old = module_loaded(d, "nv_peer_mem");
	struct finding *f;

	if (theirs && old) {
		f = say(d, VERDICT_BROKEN, "nvidia-peermem and nv_peer_mem");
		evidence(d, f, "/sys/module", "nvidia_peermem and nv_peer_mem are both loaded");
		consequence(d, f, "both claim the same memory; only one may be there");
		remedy(d, f, "service nv_peer_mem stop; rmmod nv_peer_mem; remove the package nvidia-peer-memory");
	}
	if (module_loaded(d, OURS)) {
		if (theirs)
			two_clients(d, "nvidia_peermem", "/sys/module", OURS,
				    "rmmod nvidia_peermem, or rmmod " OURS);
		if (old)
			two_clients(d, "nv_peer_mem", "/sys/module", OURS,
				    "service nv_peer_mem stop; rmmod nv_peer_mem");
		return true;
	}
	if (theirs != old)
		loaded(d, theirs ? "nvidia_peermem" : "nv_peer_mem");
	return theirs || old;
}

static void nvidia(struct doctor *d)
{
	struct peer_client client;
	char path[128];

	if (nvidia_modules(d))
		return;
	if (efa_takes_nvidia(d, NULL, path)) {
		evidence_file(d, say_peermem(d, VERDICT_OK, VENDOR_NVIDIA, "EFA's driver"), path);
		return;
	}
	if (peer_client_of(d, VENDOR_NVIDIA, &client))
		evidence_client(d, say_peermem(d, VERDICT_OK, VENDOR_NVIDIA, "NVIDIA's client"),
				&client);
	else
		not_loaded(d);
}

static void amd_lacks(struct doctor *d)
{
	char why[160];
	bool works = dmabuf_works(d, why) == ANSWER_YES;
	struct finding *f = say_peermem(d, VERDICT_BROKEN, VENDOR_AMD, "AMD's client");
	const char *so = works ? "programs that use dma-buf do without" :
		"registrations of GPU memory by its address fail with \"Bad address\"";

	evidence(d, f, CLIENTS, "no amdkfd");
	if (*why)
		evidence(d, f, "dma-buf", "%s", why);
	if (!amd_can_register(d)) {
		evidence(d, f, "/proc/sys/kernel/osrelease", "%s", d->machine->release);
		consequence(d, f, "amdgpu looks the core's function up by symbol_get(), which since Linux 6.6 finds GPL symbols only, and a vendor's "
			    "core exports others: its client cannot register; %s", so);
		remedy(d, f, "use dma-bufs, with a kernel that has what amdgpu needs for them; or peerdma's core (" PEER_CORE ", " OURS ")");
		return;
	}
	consequence(d, f, "%s", so);
	remedy(d, f, "install ROCm's amdgpu-dkms over %s, or use a kernel with which dma-buf works",
	       adapters_stack(d));
}

static void amd(struct doctor *d)
{
	struct peer_client client;
	bool listed = peer_client_of(d, VENDOR_AMD, &client);

	if (module_loaded(d, OURS)) {
		if (listed)
			two_clients(d, client.name, client.folder, OURS, "rmmod " OURS
				    ", or use an amdgpu without a client of its own");
	} else if (listed) {
		evidence_client(d, say_peermem(d, VERDICT_OK, VENDOR_AMD, "AMD's client"), &client);
	} else {
		amd_lacks(d);
	}
}

/* peerdma_peermem, as the core lists it. */
static void ours(struct doctor *d)
{
	struct peer_client client;
	struct finding *f;
	bool listed = false;
	char stays[8];

	if (!module_loaded(d, OURS))
		return;
	f = say_peermem(d, VERDICT_OK, 0, OURS);
	evidence_module(d, f, OURS);
	for (unsigned int n = 0; peer_client(d, n, &client); n++) {
		if (!client.ours)
			continue;
		evidence_client(d, f, &client);
		listed = true;
	}
	if (!listed)
		evidence(d, f, CLIENTS, "not listed; some cores list no client");
	if (!tree_word(d->tree, "/sys/module/" OURS "/parameters/persistent", stays,
		       sizeof(stays)) && *stays == 'Y') {
		evidence(d, f, "/sys/module/" OURS "/parameters/persistent", "Y");
		consequence(d, f, "for adapters that cannot be stopped, memory stays pinned after it is freed, until its registration ends");
	} else {
		consequence(d, f, "%s", VMM);
	}
}

/* Those that are not looked into further: other makers', and one's own. */
static void others(struct doctor *d)
{
	struct peer_client client;
	struct finding *f;

	for (unsigned int n = 0; peer_client(d, n, &client); n++) {
		if (client.vendor || client.ours)
			continue;
		f = say_peermem(d, VERDICT_OK, 0, "another client");
		evidence_client(d, f, &client);
		consequence(d, f, "the RDMA core asks it, too, about memory that is registered");
	}
}

static void run(struct doctor *d)
{
	core(d);
	ours(d);
	if (any_gpu_apart(d, VENDOR_NVIDIA))
		nvidia(d);
	if (any_gpu_apart(d, VENDOR_AMD))
		amd(d);
	others(d);
}

const struct check check_peermem = { "peermem", "Peer memory for RDMA", applies, run };
