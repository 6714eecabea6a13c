// SPDX-License-Identifier: MIT
/*
 * check_peermem.c - nvidia-peermem and nv_peer_mem: present, loaded, and fit for this RDMA stack?
 */
#include <stdio.h>
#include <string.h>

#include "doctor.h"

#define REGISTER	"ib_register_peer_memory_client"
#define CLIENTS		"/sys/kernel/mm/memory_peers"

static bool applies(const struct doctor *d)
{
	return any_gpu_of(d, VENDOR_NVIDIA) && any_of_kind(d, DEVICE_NIC);
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

		if (length > 2 && length < 16 && !strncmp(name, REGISTER, n) && strchr(" \t\n", name[n]) && !strncmp(s, "0x", 2)) {
			tree_clean(out, 16, s, length);
			return true;
		}
	}
	return false;
}

/* The CRC with which the RDMA core that is installed exports the symbol, and where that stands. */
static bool core_crc(struct doctor *d, char out[16], char path[160])
{
	static const char *const places[] = { "/usr/src/ofa_kernel/default", "/usr/src/ofa_kernel/x86_64", "/lib/modules" };
	const char *data, *release = d->machine->release;
	size_t length;

	for (unsigned int i = 0; i < 3; i++) {
		if (i && (!*release || strchr(release, '/')))
			return false;
		snprintf(path, 160, i == 0 ? "%s%.0s/Module.symvers" : i == 1 ? "%s/%s/Module.symvers" : "%s/%s/build/Module.symvers",
			 places[i], release);
		if (!tree_lines(d->tree, path, keep_symbol, NULL, &data, &length) && crc_of(data, out))
			return true;
	}
	return false;
}

static void loaded(struct doctor *d, const char *module)
{
	const char *names;
	struct finding *f;
	int ret = tree_list(d->tree, CLIENTS, &names);

	f = say(d, !ret && *names ? VERDICT_OK : VERDICT_UNKNOWN, "%s", module);
	evidence(d, f, "/sys/module", "%s is loaded", module);
	if (!ret && *names) {
		evidence(d, f, CLIENTS, "%s", names);
	} else {
		evidence(d, f, CLIENTS, ret ? "not there" : "empty");
		consequence(d, f, "the module is loaded, but the RDMA core does not show it as a client; some cores show none");
		remedy(d, f, "try a registration of GPU memory (ib_write_bw --use_cuda=0)");
	}
}

/* It is not loaded: would it, and is it needed? */
static void not_loaded(struct doctor *d)
{
	static const char *const modinfo[] = { "modinfo", "nvidia-peermem", NULL };
	const char *versions[] = { "modprobe", "--dump-modversions", NULL, NULL };
	char file[256], depends[160], mine[16], theirs[16], why[160], path[160];
	enum answer core = kernel_symbol(d, REGISTER), dmabuf = dmabuf_works(d, why);
	enum verdict lacking = dmabuf == ANSWER_YES ? VERDICT_OK : dmabuf == ANSWER_UNKNOWN ? VERDICT_UNKNOWN : VERDICT_BROKEN;
	const char *data, *also = dmabuf == ANSWER_YES ? "; programs that use dma-buf do without" : "";
	struct finding *f = say(d, lacking, "nvidia-peermem");
	size_t length;

	evidence(d, f, "/sys/module/nvidia_peermem", "not there: not loaded");
	if (*why)
		evidence(d, f, "dma-buf", "%s", why);
	if (core == ANSWER_NO) {
		evidence(d, f, "/proc/kallsyms", "no " REGISTER);
		consequence(d, f, "this RDMA core takes no peer-memory clients: modprobe nvidia-peermem says \"Invalid argument\"%s", also);
		if (lacking != VERDICT_OK)
			remedy(d, f, "use NVIDIA's open kernel modules (515 or later) on Linux 5.12 or later for dma-buf, or install DOCA-OFED and "
			       "then NVIDIA's driver again");
		return;
	}
	if (tree_command(d->tree, "modinfo-nvidia-peermem", modinfo, &data, &length)) {
		evidence(d, f, "modinfo nvidia-peermem", "not found");
		consequence(d, f, "the module is not installed for this kernel%s", also);
		if (lacking != VERDICT_OK)
			remedy(d, f, "install NVIDIA's driver for Linux %s with its kernel modules", d->machine->release);
		return;
	}
	modinfo_field(data, "filename", file, sizeof(file));
	modinfo_field(data, "depends", depends, sizeof(depends));
	evidence(d, f, "modinfo nvidia-peermem", "depends: %s", *depends ? depends : "nothing");
	if (!strstr(depends, "ib_")) {
		consequence(d, f, "it was built without the RDMA core's peer-memory symbols: modprobe says \"Invalid argument\"%s", also);
		if (lacking != VERDICT_OK)
			remedy(d, f, "install NVIDIA's driver again, now that DOCA-OFED is there: its modules are built against what they find");
		return;
	}
	versions[2] = file;
	if (*file == '/' && !tree_command(d->tree, "modversions-nvidia-peermem", versions, &data, &length) && crc_of(data, mine) &&
	    core_crc(d, theirs, path) && strcmp(mine, theirs)) {
		evidence(d, f, file, REGISTER " %s", mine);
		evidence(d, f, path, REGISTER " %s", theirs);
		consequence(d, f, "it was built for another RDMA core: modprobe fails with \"disagrees about version of symbol " REGISTER "\"%s",
			    also);
		if (lacking != VERDICT_OK)
			remedy(d, f, "build NVIDIA's modules again for this RDMA core (dkms install, or install the driver again), then modprobe "
			       "nvidia-peermem");
		return;
	}
	consequence(d, f, "no service loads it: registrations of GPU memory fail with \"Bad address\"%s", also);
	if (lacking != VERDICT_OK)
		remedy(d, f, "modprobe nvidia-peermem, and put it in /etc/modules-load.d/nvidia-peermem.conf");
}

static void run(struct doctor *d)
{
	bool ours = module_loaded(d, "nvidia_peermem"), old = module_loaded(d, "nv_peer_mem");
	struct finding *f;

	if (ours && old) {
		f = say(d, VERDICT_BROKEN, "nvidia-peermem and nv_peer_mem");
		evidence(d, f, "/sys/module", "nvidia_peermem and nv_peer_mem are both loaded");
		consequence(d, f, "both claim the same memory; only one may be there");
		remedy(d, f, "service nv_peer_mem stop; rmmod nv_peer_mem; remove the package nvidia-peer-memory");
	} else if (ours) {
		loaded(d, "nvidia-peermem");
	} else if (old) {
		loaded(d, "nv_peer_mem");
	} else {
		not_loaded(d);
	}
}

const struct check check_peermem = { "peermem", "Peer memory for RDMA", applies, run };
