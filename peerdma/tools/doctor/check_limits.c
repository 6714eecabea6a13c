// SPDX-License-Identifier: MIT
/*
 * check_limits.c - what may this user's processes lock and open?
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "base/tool.h"

#define LIMITS		"/proc/self/limits"
#define STATUS		"/proc/self/status"
#define CAP_IPC_LOCK	14

static bool keep_capabilities(const char *line, size_t length, void *arg)
{
	(void)arg;
	return length > 7 && !strncmp(line, "CapEff:", 7);
}

/* Of a line like "Max open files            1024                 524288               files": both values. */
static bool limits_of(const char *data, const char *name, uint64_t *soft, uint64_t *hard)
{
	const char *s = strstr(data, name);
	uint64_t *out[] = { soft, hard };

	if (!s)
		return false;
	s += strlen(name);
	for (int i = 0; i < 2; i++) {
		size_t length;

		s += strspn(s, " ");
		length = strcspn(s, " \n");
		*out[i] = UINT64_MAX;
		if ((length != 9 || strncmp(s, "unlimited", 9)) && !text_u64(s, length, out[i]))
			return false;
		s += length;
	}
	return true;
}

/* "CapEff:\t000001ffffffffff": one that may lock memory is not bound by the limit. */
static bool may_lock(struct doctor *d)
{
	const char *data, *s;

	if (tree_lines(d->tree, STATUS, keep_capabilities, NULL, &data, NULL))
		return false;
	s = strstr(data, "CapEff:");
	return s && strtoull(s + 7 + strspn(s + 7, " \t"), NULL, 16) >> CAP_IPC_LOCK & 1;
}

static const char *amount(uint64_t value, bool bytes, char out[32])
{
	if (value == UINT64_MAX)
		return "unlimited";
	if (bytes)
		return text_mib(value, out);
	snprintf(out, 32, "%llu", (unsigned long long)value);
	return out;
}

struct limit {
	const char *name;
	uint64_t enough;
	bool bytes;
	unsigned int ways;		/* that it limits */
	const char *so, *item;
	uint64_t value;			/* to set at least */
};

static bool any_adapter(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		if (d->machine->devices[i].rdma == RDMA_HAS && device_concerned(d, i))
			return true;
	}
	return false;
}

static void look(struct doctor *d, const char *data, const struct limit *l)
{
	bool exempt = l->bytes && may_lock(d);
	char now[32], most[32];
	struct finding *f;
	uint64_t soft, hard;

	if (!limits_of(data, l->name, &soft, &hard)) {
		f = say(d, VERDICT_UNKNOWN, "%s", l->name);
		evidence(d, f, LIMITS, "has no such line");
		consequence(d, f, "not known how much this user's processes may have");
		return;
	}
	f = say(d, soft < l->enough && !exempt ? VERDICT_SLOW : VERDICT_OK, "%s", l->name);
	/* What they limit is registered for an adapter. */
	f->ways = any_adapter(d) ? l->ways : 0;
	evidence(d, f, LIMITS, "%s of this process, %s at most", amount(soft, l->bytes, now),
		 amount(hard, l->bytes, most));
	if (soft >= l->enough)
		return;
	if (exempt) {
		evidence(d, f, STATUS, "CapEff has CAP_IPC_LOCK");
		consequence(d, f, "it does not bind this user, who may lock memory (root); it may bind others");
		return;
	}
	consequence(d, f, "%s", l->so);
	/* "soft" has no effect above the hard limit, and "-" would lower a hard limit that is higher. */
	if (l->value != UINT64_MAX)
		snprintf(now, sizeof(now), "%llu", (unsigned long long)l->value);
	remedy(d, f, "a line '* %s %s %s' in a file that ends in .conf in /etc/security/limits.d, and log in again (services: "
	       "LimitMEMLOCK= and LimitNOFILE=; containers: --ulimit)", hard > l->value ? "soft" : "-", l->item,
	       l->value == UINT64_MAX ? "unlimited" : now);
}

static void run(struct doctor *d)
{
	static const struct limit all[] = {
		{ "Max locked memory", 1ULL << 30, true, WAYS_RDMA,
		  "registrations of host memory beyond it fail with ENOMEM, and with them transfers that start with GPU memory",
		  "memlock", UINT64_MAX },
		{ "Max open files", 1024, false, WAY(WAY_DMABUF),
		  "each dma-buf is a file until it is closed: programs that keep them open end with EMFILE",
		  "nofile", 65536 },
	};
	const char *data;
	struct finding *f;

	if (tree_read(d->tree, LIMITS, &data, NULL)) {
		f = say(d, VERDICT_UNKNOWN, "this user");
		evidence_file(d, f, LIMITS);
		consequence(d, f, "not known how much its processes may lock and open");
		remedy(d, f, "mount /proc");
		return;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		look(d, data, &all[i]);
}

const struct check check_limits = { "limits", "Limits of processes", NULL, run };
