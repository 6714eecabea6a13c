// SPDX-License-Identifier: MIT
/*
 * check_limits.c - what may this user's processes lock and open?
 */
#include <string.h>

#include "doctor.h"
#include "base/tool.h"

#define LIMITS "/proc/self/limits"

/* The soft limit in a line like "Max open files            1024                 524288               files". */
static bool soft_limit(const char *data, const char *name, uint64_t *out)
{
	const char *s = strstr(data, name);

	if (!s)
		return false;
	s += strlen(name);
	s += strspn(s, " ");
	*out = UINT64_MAX;
	return !strncmp(s, "unlimited", 9) || text_u64(s, strcspn(s, " \n"), out);
}

static void limit(struct doctor *d, const char *data, const char *name, uint64_t enough,
		  const char *so, const char *what)
{
	struct finding *f;
	uint64_t value;

	if (!soft_limit(data, name, &value)) {
		f = say(d, VERDICT_UNKNOWN, "%s", name);
		evidence(d, f, LIMITS, "has no such line");
		return;
	}
	f = say(d, value < enough ? VERDICT_SLOW : VERDICT_OK, "%s", name);
	f->ways = WAYS_RDMA;
	if (value == UINT64_MAX)
		evidence(d, f, LIMITS, "unlimited");
	else
		evidence(d, f, LIMITS, "%llu", (unsigned long long)value);
	if (value < enough) {
		consequence(d, f, "%s", so);
		remedy(d, f, "%s in /etc/security/limits.d (services: LimitMEMLOCK= and LimitNOFILE=; containers: --ulimit)", what);
	}
}

static void run(struct doctor *d)
{
	const char *data;
	struct finding *f;

	if (tree_read(d->tree, LIMITS, &data, NULL)) {
		f = say(d, VERDICT_UNKNOWN, "this user");
		evidence_file(d, f, LIMITS);
		consequence(d, f, "not known how much its processes may lock and open");
		remedy(d, f, "mount /proc");
		return;
	}
	limit(d, data, "Max locked memory", 1ULL << 30, "registrations of host memory beyond it fail with ENOMEM, and with them transfers that "
	      "start with GPU memory", "* soft memlock unlimited");
	limit(d, data, "Max open files", 4096, "each dma-buf is a file until it is closed: programs that keep them open end with EMFILE",
	      "* soft nofile 65536");
}

const struct check check_limits = { "limits", "Limits of processes", NULL, run };
