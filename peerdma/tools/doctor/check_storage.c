// SPDX-License-Identifier: MIT
/*
 * check_storage.c - GPUDirect Storage: what drives need to reach the GPUs' memory by p2pdma, and by
 * nvidia-fs.  That the kernel has p2pdma at all, check_kernel.c says.
 */
#include <stdio.h>
#include <string.h>

#include "nvidia_params.h"
#include "storage.h"

#define P2PDMA	WAY(WAY_P2PDMA)
#define KEYS	"options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\" in /etc/modprobe.d, a new initramfs, " \
		"and boot again"

static bool applies(const struct doctor *d)
{
	return any_of_kind(d, DEVICE_NVME) &&
	       (any_gpu_apart(d, VENDOR_NVIDIA) || any_gpu_apart(d, VENDOR_AMD));
}

/* On paths of NVIDIA's GPUs to drives. */
static struct finding *say_storage(struct doctor *d, enum verdict v, unsigned int ways,
				   const char *subject)
{
	struct finding *f = say_maker(d, v, VENDOR_NVIDIA, ways, "%s", subject);

	f->peer = DEVICE_NVME;
	return f;
}

static enum verdict verdict_of(enum answer a)
{
	return a == ANSWER_YES ? VERDICT_OK : a == ANSWER_NO ? VERDICT_BROKEN : VERDICT_UNKNOWN;
}

/* ---- NVIDIA's driver, for p2pdma ---- */

static bool driver_has_pages(struct doctor *d)
{
	struct driver_release r;
	struct finding *f;
	bool has;

	nvidia_release(d, &r);
	if (!r.known)
		return false;
	has = r.opened && r.major >= 565;
	f = say_storage(d, has ? VERDICT_OK : VERDICT_BROKEN, P2PDMA, "NVIDIA's driver");
	evidence(d, f, NVIDIA_VERSION, "%s, %s kernel modules", r.text,
		 r.opened ? "open" : "proprietary");
	if (!has) {
		consequence(d, f, "the GPU's driver gives the kernel no struct pages of its memory");
		remedy(d, f, "use NVIDIA's open kernel modules, release 565 or later, on GPUs since Ampere");
	}
	return has;
}

static void key(struct doctor *d, const char *name, const char *subject, const char *lacking)
{
	uint64_t value = 0;
	enum answer there = nvidia_registry(d, name, &value);
	enum answer on = there == ANSWER_UNKNOWN ? there :
			 there == ANSWER_YES && value == 1 ? ANSWER_YES : ANSWER_NO;
	struct finding *f = say_storage(d, verdict_of(on), P2PDMA, subject);

	if (there == ANSWER_YES)
		evidence(d, f, NVIDIA_PARAMS, "RegistryDwords: %s=%u", name, (unsigned int)value);
	else
		evidence(d, f, NVIDIA_PARAMS, there == ANSWER_NO ? "RegistryDwords has no %s" :
			 "cannot be read: %s is not known", name);
	if (on == ANSWER_YES)
		return;
	consequence(d, f, "%s%s", on == ANSWER_NO ? "" : "not known whether it is so: ", lacking);
	remedy(d, f, "%s", KEYS);
}

/* NVIDIA's driver makes such pages on x86, and has others where the processor's link is coherent. */
static bool is_other_processor(struct doctor *d)
{
	struct finding *f;

	if (d->machine->arch == ARCH_X86 || d->machine->arch == ARCH_UNKNOWN)
		return false;
	f = say_storage(d, VERDICT_UNKNOWN, P2PDMA, "this processor");
	evidence(d, f, "processor", d->machine->arch == ARCH_ARM64 ? "ARM64" : "POWER");
	consequence(d, f, "NVIDIA documents p2pdma of drives for x86 only; elsewhere its driver has pages on coherent GPUs at most");
	remedy(d, f, "try it: gdscheck -p says whether NVMe P2PDMA is supported");
	return true;
}

static void nvidia_pages(struct doctor *d)
{
	if (!driver_has_pages(d) || is_other_processor(d))
		return;
	key(d, "RMForceStaticBar1", "static BAR1", "without a static BAR1 the GPU's driver makes no struct pages of its memory");
	key(d, "RmForceDisableIomapWC", "write combining",
	    "where the driver maps BAR1 write-combined, it makes no struct pages of it");
}

/* ---- drives, for p2pdma ---- */

#define MULTIPATH	"/sys/module/nvme_core/parameters/multipath"

/* Its namespaces are paths of a device above: nvme0c0n1 instead of nvme0n1. */
static enum answer is_multipath(struct doctor *d, const struct device *x, char value[64])
{
	const char *names;
	char path[160], controller[32];
	enum answer is = ANSWER_UNKNOWN;

	snprintf(value, 64, "no namespace is seen");
	snprintf(controller, sizeof(controller), "%.*s", (int)strcspn(x->known_as, ","),
		 x->known_as);
	snprintf(path, sizeof(path), PCI_DEVICES "%s/nvme/%s", x->name, controller);
	if (!*controller || tree_list(d->tree, path, &names))
		return is;
	for (; *names; names = tree_next(names)) {
		const char *s = names + strlen(controller);

		if (strncmp(names, controller, strlen(controller)) || (*s != 'n' && *s != 'c'))
			continue;
		tree_clean(value, 64, names, strlen(names));
		if (*s == 'c')
			return ANSWER_YES;
		is = ANSWER_NO;
	}
	return is;
}

static void drive(struct doctor *d, unsigned int i, bool on)
{
	char seen[64] = "";
	enum answer many = on ? is_multipath(d, &d->machine->devices[i], seen) : ANSWER_NO;
	/* The block layer's p2pdma flag did not pass to the device above up to 7.1; later ones were not read. */
	enum answer works = many == ANSWER_NO ? ANSWER_YES : many == ANSWER_UNKNOWN ||
			    kernel_at_least(d, 7, 2) != ANSWER_NO ? ANSWER_UNKNOWN : ANSWER_NO;
	struct finding *f = say_device(d, verdict_of(works), i, P2PDMA);

	evidence_file(d, f, MULTIPATH);
	if (*seen)
		evidence(d, f, "namespace", "%s", seen);
	if (works == ANSWER_YES)
		return;
	consequence(d, f, "%snative multipath of NVMe takes no memory of p2pdma",
		    works == ANSWER_NO ? "" : "not known whether it is so here: ");
	remedy(d, f, "options nvme_core multipath=N in /etc/modprobe.d, a new initramfs, and boot again");
}

static void drives(struct doctor *d)
{
	char word[8];
	bool on = !tree_word(d->tree, MULTIPATH, word, sizeof(word)) && *word == 'Y';

	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].kind == DEVICE_NVME && device_concerned(d, i))
			drive(d, i, on);
	}
}

/* ---- nvidia-fs ---- */

static bool of_nvme(const char *line, size_t length, void *arg)
{
	(void)arg;
	return length > 5 && !memcmp(line, "nvme:", 5);
}

#define NVFS_MODULES	"/proc/driver/nvidia-fs/modules"

/* It looks for the symbols when it is first used; then its list has the driver. */
static enum answer nvme_registers(struct doctor *d)
{
	enum answer first = kernel_symbol(d, NVFS_SYMBOL_1);
	enum answer second = kernel_symbol(d, NVFS_SYMBOL_2);
	const char *data;
	size_t length;

	if (!tree_lines(d->tree, NVFS_MODULES, of_nvme, NULL, &data, &length) && length)
		return ANSWER_YES;
	return first == ANSWER_NO ? second : first;
}

static void nvidia_fs(struct doctor *d)
{
	enum answer registers;
	struct finding *f;

	if (!module_loaded(d, "nvidia_fs"))
		return;
	registers = nvme_registers(d);
	f = say_storage(d, verdict_of(registers), WAY(WAY_NVP2P), "nvidia-fs");
	evidence_file(d, f, "/sys/module/nvidia_fs/version");
	evidence(d, f, "/proc/kallsyms", "the NVMe driver has nvme_v1 or nvme_v2_register_nvfs_dma_ops: %s",
		 answer_word(registers));
	if (registers == ANSWER_YES)
		return;
	consequence(d, f, "%sthe NVMe driver takes no memory from nvidia-fs: cuFile copies through host memory",
		    registers == ANSWER_NO ? "" : "not known whether it is so: ");
	remedy(d, f, registers == ANSWER_NO ? "install DOCA-OFED's NVMe driver (mlnx-nvme), or use p2pdma" :
	       "run as root, so that /proc/kallsyms can be read");
}

/* ---- cuFile ---- */

static void say_config(struct doctor *d, const struct cufile *c)
{
	struct finding *f = say_storage(d, c->p2pdma ? VERDICT_OK : VERDICT_BROKEN, P2PDMA,
					CUFILE_JSON);

	if (c->state == CUFILE_MISSING)
		evidence(d, f, CUFILE_JSON, "not there");
	else
		evidence(d, f, CUFILE_JSON, "use_pci_p2pdma: %s, allow_compat_mode: %s",
			 c->p2pdma ? "true" : "false", c->compat ? "true" : "false");
	if (!c->p2pdma) {
		consequence(d, f, "cuFile does not use p2pdma: %s", c->compat ?
			    "without nvidia-fs it copies through host memory, without a word" :
			    "without nvidia-fs it refuses files");
		remedy(d, f, "in \"properties\" of " CUFILE_JSON " set \"use_pci_p2pdma\": true");
	}
}

/* What a program names in CUFILE_ENV_PATH_JSON instead is not known. */
static void cufile(struct doctor *d)
{
	const struct cufile *c = cufile_read(d);
	struct finding *f;

	if (c->state == CUFILE_MISSING || c->state == CUFILE_READ) {
		say_config(d, c);
		return;
	}
	f = say_storage(d, c->state == CUFILE_MALFORMED ? VERDICT_BROKEN : VERDICT_UNKNOWN,
			P2PDMA | WAY(WAY_NVP2P), CUFILE_JSON);
	evidence(d, f, CUFILE_JSON, "%s", c->why);
	if (c->state == CUFILE_MALFORMED) {
		consequence(d, f, "cufile.json is malformed: cuFile does not start with it");
		remedy(d, f, "correct it; comments begin with //");
	} else {
		consequence(d, f, "not known how cuFile is set up");
		remedy(d, f, "see that " CUFILE_JSON " can be read here");
	}
}

static void run(struct doctor *d)
{
	if (any_gpu_of(d, VENDOR_NVIDIA)) {
		nvidia_pages(d);
		cufile(d);
		nvidia_fs(d);
	}
	drives(d);
	storage_mounts(d);
}

const struct check check_storage = { "storage", "GPUDirect Storage", applies, run };
