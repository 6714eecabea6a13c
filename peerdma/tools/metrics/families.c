// SPDX-License-Identifier: MIT
/*
 * families.c - all families of metrics.  A new one is a line here and one in metrics.h,
 * and in docs/monitoring.md, which a test compares.
 */
#include "metrics.h"

#define GAUGE(n, h)	{ .name = "peerdma_" n, .help = h }
#define BYTES(n, h)	{ .name = "peerdma_" n "_bytes", .unit = "bytes", .help = h }
#define COUNTER(n, h)	{ .name = "peerdma_" n, .help = h, .counter = true }

const struct metric_family metric_families[METRICS] = {
	[METRIC_SOURCE_READABLE] =
		GAUGE("source_readable", "1 if this source of metrics could be read in full, else 0."),
	[METRIC_MODULE_INFO] = GAUGE("module_info", "1 while the kernel module peerdma is loaded."),
	[METRIC_PINS] = GAUGE("pins", "Pins that exist, by provider of the memory and state."),
	[METRIC_PINNED_BYTES] =
		BYTES("pinned", "Memory held by pins, rounded to the provider's pages."),
	[METRIC_OPERATIONS] =
		COUNTER("operations", "Operations of the kernel module since it was loaded."),
	[METRIC_REVOCATIONS] =
		COUNTER("revocations", "Pins revoked by their provider since the module was loaded."),
	[METRIC_VIEW_FAULTS] =
		COUNTER("view_faults", "Page faults in CPU views since the module was loaded."),
	[METRIC_USER_OBJECTS] =
		GAUGE("user_objects", "Pins, mappings, views and exports charged to a user."),
	[METRIC_USER_OBJECTS_LIMIT] =
		GAUGE("user_objects_limit", "Most of them that one user may have; +Inf without a limit."),
	[METRIC_USER_MEMORY] =
		BYTES("user_memory", "GPU aperture and locked host memory charged to a user."),
	[METRIC_USER_MEMORY_LIMIT] =
		BYTES("user_memory_limit", "Most of it that one user may have; +Inf without a limit."),
	[METRIC_GPU_INFO] = GAUGE("gpu_info", "1 for each GPU, with its name and UUID."),
	[METRIC_BAR1_SIZE] = BYTES("gpu_bar1_size", "Size of BAR1 as the GPU's driver reports it."),
	[METRIC_BAR1_USED] =
		BYTES("gpu_bar1_used", "Used part of BAR1 as the GPU's driver reports it."),
	[METRIC_APERTURE_HELD] =
		BYTES("gpu_aperture_held", "Part of the GPU's aperture that pins of peerdma hold."),
	[METRIC_APERTURE_FREE_RUN] =
		BYTES("gpu_aperture_largest_free", "Largest contiguous part of the aperture that no pin of peerdma holds."),
	[METRIC_DEVICE_MAPPINGS] =
		GAUGE("device_mappings", "Mappings of pinned memory for a device."),
	[METRIC_PROCESS_PINS] = GAUGE("process_pins", "Pins of a process that are not revoked."),
	[METRIC_PROCESS_PINNED] = BYTES("process_pinned", "Memory held by a process' pins."),
	[METRIC_PROCESS_REVOCATIONS] =
		COUNTER("process_revocations", "Pins of a process that were revoked."),
	[METRIC_CACHE_GETS] = COUNTER("cache_gets", "Lookups in a registration cache."),
	[METRIC_CACHE_HITS] = COUNTER("cache_hits", "Lookups that found a registration."),
	[METRIC_CACHE_FAILURES] =
		COUNTER("cache_failures", "Lookups that found none and could not register."),
	[METRIC_CACHE_ENDED] =
		COUNTER("cache_ended", "Registrations that a cache ended, by reason."),
	[METRIC_CACHE_REGIONS] =
		GAUGE("cache_regions", "Regions registered in a cache; ended: still held by a caller."),
	[METRIC_CACHE_REGISTERED] = BYTES("cache_registered", "Memory registered in a cache."),
	[METRIC_CACHE_APERTURE] =
		BYTES("cache_aperture", "GPU aperture that a cache's registrations hold."),
	[METRIC_DOCTOR_MACHINE] =
		GAUGE("doctor_machine_verdict", "Verdict on the paths that are wanted: 0 ok, 1 cannot tell, 2 slow, 3 broken."),
	[METRIC_DOCTOR_VERDICT] = { .name = "peerdma_doctor_verdict", .worst = true,
		.help = "Worst finding of a check that a wanted path depends on: 0 ok, 1 cannot tell, 2 slow, 3 broken." },
	[METRIC_DOCTOR_FINDINGS] =
		GAUGE("doctor_findings", "Findings of peerdma doctor, by verdict; ok if no wanted path depends on it."),
};
