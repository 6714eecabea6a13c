// SPDX-License-Identifier: MIT
/*
 * known_releases.c - the table of releases that are known to be bad.
 *
 * A new row needs a source that others can read: an issue, a document, or the driver's source, with
 * the releases between which it was read.  Where the range is a guess, say "from memory" in the
 * source, and make the verdict "cannot tell".  docs/doctor.md, "Add a known bad release".
 */
#include <stdio.h>

#include "releases.h"
#include "storage.h"

/* ---- conditions -------------------------------------------------------------- */

static enum answer peer_is_translated(struct doctor *d, const struct device *peer,
				      struct seen *seen)
{
	(void)d;
	snprintf(seen->source, sizeof(seen->source), "IOMMU of %s", peer->name);
	snprintf(seen->value, sizeof(seen->value), "%s",
		 peer->iommu == IOMMU_UNKNOWN ? "not known" :
		 peer->iommu == IOMMU_TRANSLATING ? "translating" : "not translating");
	return peer->iommu == IOMMU_UNKNOWN ? ANSWER_UNKNOWN :
	       peer->iommu == IOMMU_TRANSLATING ? ANSWER_YES : ANSWER_NO;
}

/* NVIDIA's unified memory uses the kernel's HMM, unless that is switched off. */
static enum answer uses_hmm(struct doctor *d, const struct device *peer, struct seen *seen)
{
	static const char file[] = "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm";
	char word[8];

	(void)peer;
	snprintf(seen->source, sizeof(seen->source), "%s", file);
	if (tree_word(d->tree, file, word, sizeof(word))) {
		snprintf(seen->value, sizeof(seen->value), "cannot be read");
		return ANSWER_UNKNOWN;
	}
	snprintf(seen->value, sizeof(seen->value), "%s", word);
	return *word == 'Y' ? ANSWER_NO : ANSWER_YES;
}

/* nvidia-fs looks for the first of the two names, the drive's driver has the second. */
static enum answer nvme_has_other_name(struct doctor *d, const struct device *peer,
				       struct seen *seen)
{
	enum answer second = kernel_symbol(d, NVFS_SYMBOL_2);

	(void)peer;
	snprintf(seen->source, sizeof(seen->source), "/proc/kallsyms");
	snprintf(seen->value, sizeof(seen->value), NVFS_SYMBOL_2 ": %s", answer_word(second));
	if (!module_loaded(d, "nvidia_fs") || kernel_symbol(d, NVFS_SYMBOL_1) == ANSWER_YES)
		return ANSWER_NO;
	return second;
}

/* ---- the table --------------------------------------------------------------- */

#define P2P		(WAY(WAY_NVP2P) | WAY(WAY_PEERMEM))
#define DMA_CLIENTS	(PEER(DEVICE_NIC) | PEER(DEVICE_CARD))
#define RAW_BAR1	"with a translating IOMMU, dma-bufs give the peer raw addresses of the GPU's BAR1: its writes are lost"
#define RAW_BAR1_REMEDY	"boot with iommu=pt (not on a host of confidential machines), or use another release of NVIDIA's driver"
#define NO_PAGES	"the driver mistakes Linux 6.15's page counts: CUDA says that p2pdma is not supported"

const struct known_release known_releases[] = {
	{
		.name = "callback-race",
		.of = SOFTWARE_NVIDIA,
		.releases = { { { 515, 0, 0 }, { 525, 105, 17 } },
			      { { 526, 0, 0 }, { 535, 14, 0 } } },
		.ways = P2P,
		.crashes = true,
		.verdict = VERDICT_BROKEN,
		.consequence = "memory that is freed while a driver unpins it can crash the kernel (a NULL pointer in the free callback)",
		.remedy = "update NVIDIA's driver to 525.105.17, 535.14 or any later release of a later branch",
		.source = "NVIDIA's GPUDirect RDMA document, changes in CUDA 12.2",
		.date = "2023-06",
	}, {
		.name = "get-pages-double-free",
		.of = SOFTWARE_NVIDIA,
		.releases = { { { 515, 0, 0 }, { 525, 147, 5 } },
			      { { 530, 0, 0 }, { 535, 129, 3 } },
			      { { 545, 0, 0 }, { 545, 29, 2 } } },
		.ways = P2P,
		.crashes = true,
		.verdict = VERDICT_BROKEN,
		.consequence = "memory that is freed while a driver pins it can corrupt the kernel's memory (nvidia_p2p_get_pages() frees twice)",
		.remedy = "update NVIDIA's driver to 525.147.05, 535.129.03, 545.29.02 or any later branch",
		.source = "open-gpu-kernel-modules pull 557; ranges: its source",
		.date = "2023-09-11",
	}, {
		.name = "exit-panic",
		.of = SOFTWARE_NVIDIA,
		.releases = { { { 595, 0, 0 }, { 610, 0, 0 } } },
		.also = uses_hmm,
		.ways = WAY(WAY_NVP2P),
		.verdict = VERDICT_BROKEN,
		.consequence = "the kernel can crash when a program exits whose memory a card used (nvidia-uvm: devmem is NULL)",
		.remedy = "update NVIDIA's driver to 610 or later; until then: options nvidia_uvm uvm_disable_hmm=1",
		.source = "slaclab/aes-stream-drivers pull 301",
		.date = "2026-07-16",
	}, {
		.name = "dmabuf-raw-bar1",
		.of = SOFTWARE_NVIDIA,
		.flavour = FLAVOUR_OPEN,
		.releases = { { { 595, 84, 0 }, { 595, 85, 0 } } },
		.kernels = { { 7, 0, 0 }, { 7, 1, 0 } },
		.also = peer_is_translated,
		.ways = WAY(WAY_DMABUF),
		.peers = DMA_CLIENTS,
		.verdict = VERDICT_BROKEN,
		.consequence = RAW_BAR1,
		.remedy = RAW_BAR1_REMEDY,
		.source = "open-gpu-kernel-modules issue 1324",
		.date = "2026-08-27",
	}, {
		.name = "dmabuf-raw-bar1-later-kernels",
		.of = SOFTWARE_NVIDIA,
		.flavour = FLAVOUR_OPEN,
		.releases = { { { 595, 84, 0 }, { 595, 85, 0 } } },
		.kernels = { { 7, 1, 0 }, { 0 } },
		.also = peer_is_translated,
		.ways = WAY(WAY_DMABUF),
		.peers = DMA_CLIENTS,
		.verdict = VERDICT_UNKNOWN,
		.consequence = "reported of Linux 7.0: " RAW_BAR1,
		.remedy = RAW_BAR1_REMEDY,
		.source = "open-gpu-kernel-modules issue 1324; no report of this kernel",
		.date = "2026-08-27",
	}, {
		.name = "dmabuf-raw-bar1-later-drivers",
		.of = SOFTWARE_NVIDIA,
		.flavour = FLAVOUR_OPEN,
		.releases = { { { 595, 85, 0 }, { 596, 0, 0 } } },
		.kernels = { { 7, 0, 0 }, { 0 } },
		.also = peer_is_translated,
		.ways = WAY(WAY_DMABUF),
		.peers = DMA_CLIENTS,
		.verdict = VERDICT_UNKNOWN,
		.consequence = "reported of 595.84, and no fix is known: " RAW_BAR1,
		.remedy = RAW_BAR1_REMEDY,
		.source = "open-gpu-kernel-modules issue 1324; no report of this release",
		.date = "2026-08-27",
	}, {
		.name = "p2pdma-page-counts",
		.of = SOFTWARE_NVIDIA,
		.flavour = FLAVOUR_OPEN,
		.releases = { { { 565, 0, 0 }, { 580, 142, 1 } },
			      { { 590, 0, 0 }, { 595, 44, 2 } } },
		.kernels = { { 6, 15, 0 }, { 0 } },
		.ways = WAY(WAY_P2PDMA),
		.verdict = VERDICT_BROKEN,
		.consequence = NO_PAGES,
		.remedy = "update NVIDIA's driver to 595.44.02 or later, or boot a kernel before 6.15",
		.source = "open-gpu-kernel-modules issue 1023; ranges: its source",
		.date = "2026-02-12",
	}, {
		.name = "p2pdma-page-counts-later-580",
		.of = SOFTWARE_NVIDIA,
		.flavour = FLAVOUR_OPEN,
		.releases = { { { 580, 142, 1 }, { 590, 0, 0 } } },
		.kernels = { { 6, 15, 0 }, { 0 } },
		.ways = WAY(WAY_P2PDMA),
		.verdict = VERDICT_UNKNOWN,
		.consequence = "not known whether this branch got the fix: " NO_PAGES,
		.remedy = "update NVIDIA's driver to 595.44.02 or later, or boot a kernel before 6.15",
		.source = "open-gpu-kernel-modules issue 1023; source read up to 580.142",
		.date = "2026-02-12",
	}, {
		.name = "nvme-symbol-of-ofed",
		.of = SOFTWARE_OFED,
		.releases = { { { 26, 1, 0 }, { 26, 4, 0 } } },
		/* Later ones have what the second name stands for */
		.kernels = { { 0 }, { 6, 16, 0 } },
		.also = nvme_has_other_name,
		.ways = WAY(WAY_NVP2P),
		.peers = PEER(DEVICE_NVME),
		.verdict = VERDICT_BROKEN,
		.consequence = "its NVMe driver has the wrong name for nvidia-fs: cuFile copies through host memory without a word",
		.remedy = "update DOCA-OFED to 26.04 or later",
		.source = "NVIDIA/gds-nvidia-fs issue 87",
		.date = "2026-09-01",
	}, {
		.name = "gdrcopy-build",
		.of = SOFTWARE_GDRDRV_SOURCE,
		.releases = { { { 0 }, { 2, 5, 2 } } },
		.kernels = { { 6, 15, 0 }, { 0 } },
		.verdict = VERDICT_SLOW,
		.consequence = "gdrcopy's module does not build on this kernel: small copies by the CPU are slower without it",
		.remedy = "update gdrcopy to 2.5.2 or later",
		.source = "NVIDIA/gdrcopy issue 335, changes of 2.5.2",
		.date = "2025-12-17",
	}, {
		.name = "gdrcopy-use-after-free",
		.of = SOFTWARE_GDRDRV,
		.releases = { { { 0 }, { 2, 5, 0 } } },
		.verdict = VERDICT_UNKNOWN,
		.consequence = "before 2.4.4 gdrcopy's module can use memory that it freed; 2.4.4 calls itself 2.4, too",
		.remedy = "update gdrcopy to 2.5 or later",
		.source = "gdrcopy's changes of 2.4.4; first bad release not known",
		.date = "2024-12-16",
	},
	{ 0 },
};
