// SPDX-License-Identifier: MIT
/* demo_state.c - the counts that are compared before and after. */
#include <errno.h>
#include <string.h>

#include "demo.h"
#include "peerdma_ioctl.h"
#include "sysfs.h"

const char *const count_modules[COUNT_MODULES] = {
	"softgpu", "nvidia", "nvidia_p2p", "amdgpu", "peerdma", "peerdma_nvidia", "peerdma_tegra", "peerdma_amd",
	"peerdma_fpga",
};

static bool peerdma_info(struct demo *demo, struct peerdma_info *info)
{
	*info = (struct peerdma_info){ .size = sizeof(*info) };
	if (!ioctl(demo->peerdma, PEERDMA_INFO, info))
		return true;
	why_set(&demo->why, "/dev/peerdma: %s", strerror(errno));
	return false;
}

bool demo_revocations(struct demo *demo, uint64_t *count)
{
	struct peerdma_info info;

	if (!peerdma_info(demo, &info))
		return false;
	*count = info.revocations;
	return true;
}

bool demo_counts(struct demo *demo, struct counts *counts)
{
	struct card_totals totals;
	struct peerdma_info info;

	if (!peerdma_info(demo, &info) ||
	    !cards_totals(demo->cards, demo->card_count, &totals, &demo->why))
		return false;
	*counts = (struct counts){
		.nvml = true,
		.pins = info.pins,
		.mappings = totals.mappings,
	};
	for (int i = 0; i < demo->gpu_count; i++) {
		struct gpu_usage usage = gpu_usage(&demo->gpus[i]);

		counts->nvml &= usage.known;
		counts->bar1 += usage.bar1_used;
		counts->vram += usage.vram_used;
	}
	for (int i = 0; i < COUNT_MODULES; i++)
		counts->refs[i] = module_refs(count_modules[i]);
	return true;
}

/* A cost is a difference of counters: cost_begin() saves their values. */
static bool cost_read(struct demo *demo, struct cost *cost)
{
	struct card_totals totals;

	if (!cards_totals(demo->cards, demo->card_count, &totals, &demo->why))
		return false;
	*cost = (struct cost){
		.dma_in = totals.bytes_read,
		.dma_out = totals.bytes_written,
		.transfers = totals.transfers,
		.interrupts = totals.interrupts,
		.engine = gpu_bytes_copied(),
		.cpu = surface_cpu_bytes(),
		.host = surface_host_bytes(),
		.time_ns = now_ns(),
	};
	return true;
}

bool cost_begin(struct demo *demo, struct cost *cost)
{
	return cost_read(demo, cost);
}

bool cost_end(struct demo *demo, struct cost *cost)
{
	struct cost now;

	if (!cost_read(demo, &now))
		return false;
	cost->dma_in = now.dma_in - cost->dma_in;
	cost->dma_out = now.dma_out - cost->dma_out;
	cost->transfers = now.transfers - cost->transfers;
	cost->interrupts = now.interrupts - cost->interrupts;
	cost->engine = now.engine - cost->engine;
	cost->cpu = now.cpu - cost->cpu;
	cost->host = now.host - cost->host;
	cost->time_ns = now.time_ns - cost->time_ns;
	return true;
}

bool demo_leave_pinned(struct demo *demo, const struct surface *s)
{
	struct peerdma_pin_args pin = {
		.size = sizeof(pin),
		.flags = PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT,
		.addr = s->addr,
		.length = s->length,
	};

	/* The handle is dropped: the pin lives until the file is closed. */
	if (!ioctl(demo->peerdma, PEERDMA_PIN, &pin))
		return true;
	why_set(&demo->why, "cannot leave a pin behind, as asked for: %s", strerror(errno));
	return false;
}
