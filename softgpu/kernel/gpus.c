// SPDX-License-Identifier: MIT OR GPL-2.0
/* gpus.c - the table of GPUs, and what other files and the personalities ask of it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include "softgpu.h"

unsigned int softgpu_driver = SG_RELEASE_DEFAULT;
module_param_named(driver, softgpu_driver, uint, 0444);
MODULE_PARM_DESC(driver, "Release of NVIDIA's driver to stand in for: " SG_RELEASES " (default 610)");

char *softgpu_name = "softgpu (software GPU)";
module_param_named(name, softgpu_name, charp, 0444);
MODULE_PARM_DESC(name, "Name that the GPUs report");

struct sg *softgpu_sg;

/* Guards the table; see softgpu.h for the order. */
static DEFINE_MUTEX(devices_lock);
static struct softgpu_device *devices[SOFTGPU_MAX_GPUS];
static u64 max_vram;

void softgpu_table_add(struct softgpu_device *device)
{
	mutex_lock(&devices_lock);
	WRITE_ONCE(devices[device->index], device);
	WRITE_ONCE(max_vram, max(max_vram, device->backing.size));
	mutex_unlock(&devices_lock);
}

/* The index may belong to another GPU already. */
void softgpu_table_remove(struct softgpu_device *device)
{
	mutex_lock(&devices_lock);
	if (devices[device->index] == device)
		WRITE_ONCE(devices[device->index], NULL);
	mutex_unlock(&devices_lock);
}

/* Called before any GPU is made. */
int softgpu_gpus_init(void)
{
	if (sg_release_find(softgpu_driver))
		return 0;
	pr_err("driver=%u: must be " SG_RELEASES "\n", softgpu_driver);
	return -EINVAL;
}

const struct sg_release *softgpu_release(void)
{
	return sg_release_find(softgpu_driver);
}
EXPORT_SYMBOL_GPL(softgpu_release);

bool softgpu_device_ready(u32 index)
{
	return index < SOFTGPU_MAX_GPUS && READ_ONCE(devices[index]);
}

struct sg *softgpu_core(void)
{
	return softgpu_sg;
}
EXPORT_SYMBOL_GPL(softgpu_core);

const void *softgpu_current_key(void)
{
	return task_tgid(current);
}
EXPORT_SYMBOL_GPL(softgpu_current_key);

bool softgpu_in_use(void)
{
	struct sg_gpu_stats stats;
	bool used = false;
	u32 i;

	for (i = 0; i < SOFTGPU_MAX_GPUS && !used; i++)
		used = !sg_gpu_stats(softgpu_sg, i, &stats) && stats.clients;
	return used;
}
EXPORT_SYMBOL_GPL(softgpu_in_use);

static enum softgpu_topo topology;

void softgpu_topology_set(enum softgpu_topo topo)
{
	WRITE_ONCE(topology, topo);
}
EXPORT_SYMBOL_GPL(softgpu_topology_set);

enum softgpu_topo softgpu_topology(void)
{
	return READ_ONCE(topology);
}
EXPORT_SYMBOL_GPL(softgpu_topology);

u64 softgpu_max_vram(void)
{
	return READ_ONCE(max_vram);
}
EXPORT_SYMBOL_GPL(softgpu_max_vram);

bool softgpu_gpu_has_bar(u32 index)
{
	bool has;

	mutex_lock(&devices_lock);
	has = devices[index] && devices[index]->backing.pdev;
	mutex_unlock(&devices_lock);
	return has;
}

bool softgpu_gpu_id(u32 index, struct softgpu_gpu_id *id)
{
	const struct softgpu_device *device;

	memset(id, 0, sizeof(*id));
	mutex_lock(&devices_lock);
	device = index < SOFTGPU_MAX_GPUS ? devices[index] : NULL;
	if (device) {
		strscpy(id->name, softgpu_name, sizeof(id->name));
		memcpy(id->uuid, device->uuid, sizeof(id->uuid));
		if (device->backing.pdev)
			strscpy(id->pci, pci_name(device->backing.pdev), sizeof(id->pci));
	}
	mutex_unlock(&devices_lock);
	return device;
}
EXPORT_SYMBOL_GPL(softgpu_gpu_id);

/* The pin cannot be unmapped meanwhile, so its GPU is not yet removed and the entry exists. */
const struct softgpu_backing *softgpu_pin_backing(const struct sg_pin *pin)
{
	static const struct softgpu_backing system;

	if (sg_pin_in_system(pin))
		return &system;
	return &READ_ONCE(devices[sg_pin_gpu_index(pin)])->backing;
}
EXPORT_SYMBOL_GPL(softgpu_pin_backing);
