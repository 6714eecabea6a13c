/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * softgpu_kapi.h - what softgpu.ko offers its personalities, the modules that stand for a
 * vendor's driver.  They also call these functions of sg.h, for pins: sg_find,
 * sg_find_host, sg_pin_get, sg_pin_put, sg_pin_put_by, sg_pin_is_of, sg_pin_hold,
 * sg_pin_unhold, sg_pin_live, sg_pin_page, sg_pin_pages, sg_pin_uuid, sg_pin_gpu_index,
 * sg_gpu_stats, sg_set_platform; and for chaos: sg_chaos_get, sg_chaos_map, sg_chaos_pin,
 * sg_chaos_pinned.
 */
#ifndef SOFTGPU_KAPI_H
#define SOFTGPU_KAPI_H

#include <linux/types.h>
#include "../core/sg.h"

struct pci_dev;

/* Never NULL while the module is loaded. */
struct sg *softgpu_core(void);

/*
 * The calling process, as a sg_pin_who.proc_key.  Only for comparison: no reference is
 * taken.  It is the thread group's pid, so an exiting task that has no mm any more has the
 * same key as before.
 */
const void *softgpu_current_key(void);

/* Whether any /dev/softgpuN is open. */
bool softgpu_in_use(void);

/*
 * Whether peers can reach GPUs over PCI.  A personality with a parameter for it sets it;
 * all code that maps for peers as NVIDIA's driver does obeys it.
 */
enum softgpu_topo { SOFTGPU_TOPO_DEFAULT, SOFTGPU_TOPO_ALLOW, SOFTGPU_TOPO_DENY };
void softgpu_topology_set(enum softgpu_topo topo);
enum softgpu_topo softgpu_topology(void);

/* The size of the largest VRAM that ever existed: no pin is longer. */
u64 softgpu_max_vram(void);

/* The release of NVIDIA's driver that softgpu.ko was loaded to stand in for. */
const struct sg_release *softgpu_release(void);

/* How a GPU is named. */
struct softgpu_gpu_id {
	char name[SOFTGPU_NAME_LEN];
	char pci[16];		/* 0000:01:00.0; empty: VRAM is system memory */
	u8 uuid[16];
};

/* False: there is no GPU with this index. */
bool softgpu_gpu_id(u32 index, struct softgpu_gpu_id *id);

/* Where a GPU's VRAM is. */
struct softgpu_backing {
	struct pci_dev *pdev;	/* NULL: VRAM is system memory */
	phys_addr_t start;	/* of the BAR; 0 for system memory */
	u64 size;
};

/*
 * The backing of a pin's GPU; valid while the pin is held or cannot reach unmap for another
 * reason.  Memory that was moved out of VRAM is in no BAR: sg_pin_in_system().
 */
const struct softgpu_backing *softgpu_pin_backing(const struct sg_pin *pin);

#endif
