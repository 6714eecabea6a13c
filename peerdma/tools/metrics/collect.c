// SPDX-License-Identifier: MIT
/*
 * collect.c - fills the metrics. A source that cannot be read is a sample of its own
 * (peerdma_source_readable), so that what is missing does not look like zero.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pins/accounts.h"
#include "../doctor/doctor.h"
#include "../doctor/wanted.h"
#include "bar1/gpu_aperture.h"
#include "../remote_cache.h"
#include "../top/top.h"
#include "metrics.h"

static const char *number(uint64_t n, char buf[24])
{
	snprintf(buf, 24, "%" PRIu64, n);
	return buf;
}

static void source(struct metrics *m, const char *name, bool readable)
{
	metric_add(m, METRIC_SOURCE_READABLE, readable, "source", name, NULL);
}

static void malformed(struct metrics *m, const char *what)
{
	warn("metrics: %s is malformed, and left out or not complete; use the command and the module of one release", what);
	m->malformed = true;
}

/* ---- the kernel module ---- */

static void module_info(const struct tool *tool, struct metrics *m)
{
	char *version = NULL, *clean = NULL;
	size_t length;

	if (!file_exists(tool->root, "/sys/module/peerdma"))
		return;
	if (!file_read(tool->root, "/sys/module/peerdma/version", &version, &length))
		clean = text_clean(version, strcspn(version, "\n"));
	metric_add(m, METRIC_MODULE_INFO, 1, "version", clean ? clean : "", NULL);
	free(version);
	free(clean);
}

static int module(const struct tool *tool, bool processes, struct metrics *m)
{
	static const struct {
		enum top_counter counter;
		const char *operation;
	} operations[] = {
		{ TOP_PINS, "pin" }, { TOP_UNPINS, "unpin" }, { TOP_MAPS, "map" },
		{ TOP_UNMAPS, "unmap" }, { TOP_EXPORTS, "export" },
	};
	struct top_sample s = { 0 };
	char pid[24];
	int ret = top_read_module(tool, &s);

	module_info(tool, m);
	if (!ret)
		ret = top_read_users(tool, &s);
	source(m, "module", s.has_module);
	m->something |= s.has_module;
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (top_known(&s.module, operations[i].counter))
			metric_add(m, METRIC_OPERATIONS, s.module.value[operations[i].counter],
				   "operation", operations[i].operation, NULL);
	}
	if (top_known(&s.module, TOP_REVOCATIONS))
		metric_add(m, METRIC_REVOCATIONS, s.module.value[TOP_REVOCATIONS], NULL);
	if (top_known(&s.module, TOP_FAULTS))
		metric_add(m, METRIC_VIEW_FAULTS, s.module.value[TOP_FAULTS], NULL);
	for (size_t i = 0; processes && i < s.process_count; i++)
		metric_add(m, METRIC_PROCESS_REVOCATIONS, top_revocations(&s.processes[i]), "pid",
			   number(s.processes[i].pid, pid),
			   "comm", s.processes[i].comm, NULL);
	top_free(&s);
	return ret;
}

static int mappings(const struct pins_table *table, struct metrics *m)
{
	struct top_sample s = { 0 };
	int ret = 0;

	for (size_t i = 0; !ret && i < table->count; i++)
		ret = top_pin_devices(table->pins[i].devices, &s);
	for (size_t i = 0; !ret && i < s.device_count; i++)
		metric_add(m, METRIC_DEVICE_MAPPINGS, s.devices[i].mappings, "device",
			   s.devices[i].name, NULL);
	top_free(&s);
	return ret;
}

static void pin(const struct pin *p, bool processes, struct metrics *m)
{
	bool holds = strcmp(p->state, "revoked");
	char pid[24];

	metric_add(m, METRIC_PINS, 1, "provider", p->provider, "state", p->state, NULL);
	metric_add(m, METRIC_PINNED_BYTES, holds ? p->pinned_length : 0, "provider", p->provider,
		   NULL);
	if (!processes)
		return;
	number(p->pid, pid);
	metric_add(m, METRIC_PROCESS_PINS, holds, "pid", pid, "comm", p->comm, NULL);
	metric_add(m, METRIC_PROCESS_PINNED, holds ? p->pinned_length : 0, "pid", pid, "comm",
		   p->comm, NULL);
}

/* The table stays the caller's, empty if it cannot be read. */
static int pins(const struct tool *tool, bool processes, struct pins_table *table, bool *known,
		struct metrics *m)
{
	int ret = pins_read(tool->root, table);

	if (ret == -ENOMEM)
		return ret;
	*known = !ret;
	source(m, "pins", *known);
	m->something |= !ret;
	if (ret == -EBADMSG || (!ret && table->malformed))
		malformed(m, PINS_PATH);
	if (ret) {
		memset(table, 0, sizeof(*table));
		return 0;
	}
	for (size_t i = 0; i < table->count; i++)
		pin(&table->pins[i], processes, m);
	return mappings(table, m);
}

static bool is_memory(int what)
{
	return what == TAKEN_APERTURE || what == TAKEN_LOCKED;
}

static int accounts(const struct tool *tool, struct metrics *m)
{
	struct accounts a;
	char uid[24];
	int ret = accounts_read(tool->root, &a);

	if (ret == -ENOMEM)
		return ret;
	source(m, "accounts", !ret);
	if (ret == -EBADMSG || (!ret && a.malformed))
		malformed(m, ACCOUNTS_PATH);
	if (ret)
		return 0;
	for (int k = 0; k < TAKEN; k++) {
		if (a.limit_known[k])
			metric_add(m, is_memory(k) ? METRIC_USER_MEMORY_LIMIT :
						     METRIC_USER_OBJECTS_LIMIT,
				   a.limits[k] ? a.limits[k] : METRIC_UNLIMITED,
				   "resource", taken_names[k], NULL);
		for (size_t i = 0; i < a.count; i++)
			metric_add(m, is_memory(k) ? METRIC_USER_MEMORY : METRIC_USER_OBJECTS,
				   a.users[i].taken[k],
				   "uid", number(a.users[i].uid, uid), "resource", taken_names[k],
				   NULL);
	}
	accounts_free(&a);
	return 0;
}

/* ---- GPUs ---- */

static int gpu(const struct tool *tool, const struct gpu *g, const struct pins_table *table,
	       bool pins_known, struct metrics *m)
{
	struct gpu_aperture v;
	char index[24];
	int ret = gpu_aperture_fill(tool->root, g, table, &v);

	if (ret)
		return ret;
	number(g->index, index);
	metric_add(m, METRIC_GPU_INFO, 1, "gpu", index, "pci", g->pci, "name", g->name, "uuid",
		   g->uuid, NULL);
	if (g->has_bar1) {
		metric_add(m, METRIC_BAR1_SIZE, g->total, "gpu", index, "pci", g->pci, NULL);
		metric_add(m, METRIC_BAR1_USED, g->used, "gpu", index, "pci", g->pci, NULL);
	}
	if (v.bar >= 0 && pins_known) {
		metric_add(m, METRIC_APERTURE_HELD, v.aperture.held, "gpu", index, "pci", g->pci,
			   NULL);
		if (!v.scattered)
			metric_add(m, METRIC_APERTURE_FREE_RUN, v.aperture.free.largest, "gpu",
				   index, "pci", g->pci, NULL);
	}
	aperture_free(&v.aperture);
	return 0;
}

static int gpus(const struct tool *tool, const struct pins_table *table, bool pins_known,
		struct metrics *m)
{
	struct gpus all;
	int ret = gpus_read(tool->root, &all);

	if (ret == -ENOMEM)
		return ret;
	source(m, "gpus", !ret);
	if (ret == -EBADMSG)
		malformed(m, GPUS_PATH);
	if (ret)
		return 0;
	m->something = true;
	for (size_t i = 0; !ret && i < all.count; i++)
		ret = gpu(tool, &all.gpus[i], table, pins_known, m);
	gpus_free(&all);
	return ret;
}

/* ---- registration caches ---- */

/* A label for each cache: a counter must not go back when a process closes one of several. */
static void cache(const struct remote_process *p, const struct remote_cache *from,
		  struct metrics *m)
{
	const struct peerdma_cache_counters *c = &from->counters;
	const struct {
		const char *reason;
		uint64_t value;
	} ended[] = {
		{ "merged", c->merges }, { "evicted", c->evictions },
		{ "invalidated", c->invalidations }, { "stale", c->stale },
	};
	char pid[24], serial[24];

	number(p->pid, pid);
	number(from->serial, serial);
#define PROCESS "pid", pid, "comm", p->comm, "cache", serial
	metric_add(m, METRIC_CACHE_GETS, c->gets, PROCESS, NULL);
	metric_add(m, METRIC_CACHE_HITS, c->hits, PROCESS, NULL);
	metric_add(m, METRIC_CACHE_FAILURES, c->failures, PROCESS, NULL);
	for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++)
		metric_add(m, METRIC_CACHE_ENDED, ended[i].value, PROCESS, "reason",
			   ended[i].reason, NULL);
	metric_add(m, METRIC_CACHE_REGIONS, c->regions, PROCESS, "state", "live", NULL);
	metric_add(m, METRIC_CACHE_REGIONS, c->dead, PROCESS, "state", "ended", NULL);
	metric_add(m, METRIC_CACHE_REGISTERED, c->bytes, PROCESS, NULL);
	metric_add(m, METRIC_CACHE_APERTURE, c->aperture, PROCESS, NULL);
#undef PROCESS
}

static int caches(const struct tool *tool, struct metrics *m)
{
	struct remote_processes all;
	int ret;

	/* What is in the memory of processes is not in a captured tree. */
	if (*tool->root)
		return 0;
	ret = remote_processes_read(0, &all);
	if (ret == -ENOMEM)
		return ret;
	source(m, "caches", !ret && !all.refused && !all.unread_count);
	if (ret)
		return 0;
	m->something |= all.count;
	for (size_t i = 0; i < all.count; i++) {
		for (size_t k = 0; k < all.processes[i].caches.count; k++)
			cache(&all.processes[i], &all.processes[i].caches.caches[k], m);
	}
	remote_processes_free(&all);
	return 0;
}

/* ---- the doctor ---- */

/*
 * As the doctor's configuration says; false: it cannot be read, so what is wanted is not known.  The limits are this
 * process's own, a service's: no program's.
 */
static bool what_is_wanted(const struct tool *tool, struct wanted *wanted, struct metrics *m)
{
	char why[WANTED_WHY];
	int ret;

	/* Before the file, which may have as many as there is room for. */
	wanted_ignore(wanted, "metrics", "limits", why);
	ret = *tool->root ? -ENOENT : wanted_read(wanted, WANTED_FILE, why);
	if (ret && ret != -ENOENT) {
		warn("metrics: %s", why);
		m->malformed = true;
		return false;
	}
	return true;
}

static int findings(struct machine *machine, const struct wanted *wanted, struct metrics *m)
{
	struct doctor d;
	int ret;

	ret = doctor_run(&d, machine, &(struct doctor_options){
		.a = -1, .b = -1, .wanted = wanted,
	});
	if (!ret)
		metric_add(m, METRIC_DOCTOR_MACHINE, doctor_verdict(&d), NULL);
	for (enum verdict v = VERDICT_OK; !ret && v <= VERDICT_BROKEN; v++)
		metric_add(m, METRIC_DOCTOR_FINDINGS, 0, "verdict", verdict_word(v), NULL);
	for (unsigned int i = 0; !ret && i < d.count; i++) {
		const struct finding *f = &d.findings[i];
		enum verdict v = f->counts ? f->verdict : VERDICT_OK;

		if (f->ignored)
			continue;
		metric_add(m, METRIC_DOCTOR_FINDINGS, 1, "verdict", verdict_word(v), NULL);
		metric_add(m, METRIC_DOCTOR_VERDICT, v, "check", f->check->name, "subject",
			   f->subject, NULL);
	}
	doctor_free(&d);
	return ret;
}

static int doctor(const struct tool *tool, struct metrics *m)
{
	struct tree *tree = tree_open(tool->root);
	struct wanted wanted = { 0 };
	struct machine machine;
	bool known;
	int ret;

	if (!tree) {
		if (errno == ENOMEM)
			return -ENOMEM;
		source(m, "doctor", false);
		malformed(m, TREE_INDEX);
		return 0;
	}
	ret = machine_read(&machine, tree);
	known = ret != -ENOMEM && (!ret || machine.tegra) && what_is_wanted(tool, &wanted, m);
	source(m, "doctor", known);
	if (known)
		ret = findings(&machine, &wanted, m);
	machine_free(&machine);
	tree_close(tree);
	return ret == -ENOMEM ? ret : 0;
}

int metrics_collect(const struct tool *tool, bool by_process, bool with_doctor, struct metrics *m)
{
	struct pins_table table = { 0 };
	bool pins_known = false;
	int ret;

	memset(m, 0, sizeof(*m));
	ret = module(tool, by_process, m);
	if (!ret)
		ret = pins(tool, by_process, &table, &pins_known, m);
	if (!ret)
		ret = accounts(tool, m);
	if (!ret)
		ret = gpus(tool, &table, pins_known, m);
	pins_free(&table);
	if (!ret && by_process)
		ret = caches(tool, m);
	if (!ret && with_doctor)
		ret = doctor(tool, m);
	return m->no_memory ? -ENOMEM : ret;
}
