// SPDX-License-Identifier: MIT
/*
 * check_driver.c - NVIDIA's driver: its flavour, its release, and what that can and cannot do.
 */
#include "doctor.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_of(d, VENDOR_NVIDIA);
}

static bool before(const struct driver_release *r, unsigned int major, unsigned int minor,
		   unsigned int patch)
{
	if (r->major != major)
		return r->major < major;
	return r->minor != minor ? r->minor < minor : r->patch < patch;
}

/* From R515 on, until 525.105.17 in that branch, and 535.14 in R535. */
static bool has_callback_race(const struct driver_release *r)
{
	if (r->major < 515 || r->major > 535)
		return false;
	if (r->major == 525)
		return before(r, 525, 105, 17);
	return r->major != 535 || before(r, 535, 14, 0);
}

static struct finding *say_driver(struct doctor *d, enum verdict v, unsigned int ways)
{
	struct finding *f = say(d, v, "NVIDIA's driver");

	f->ways = ways;
	return f;
}

static void run(struct doctor *d)
{
	struct driver_release r;
	struct finding *f;

	nvidia_release(d, &r);
	if (!r.known) {
		bool loaded = module_loaded(d, "nvidia");

		f = say_driver(d, loaded ? VERDICT_UNKNOWN : VERDICT_BROKEN, WAYS_ALL);
		evidence_file(d, f, NVIDIA_VERSION);
		evidence(d, f, "/sys/module/nvidia", loaded ? "there" : "not there");
		consequence(d, f, loaded ? "the release could not be read" :
			    "the driver is not loaded: nothing can pin GPU memory");
		remedy(d, f, loaded ? "in a container, see that /proc/driver/nvidia is passed in" :
		       "modprobe nvidia; if it fails, dmesg says why");
		return;
	}
	/* What can crash the kernel counts whichever way is wanted. */
	f = say_driver(d, has_callback_race(&r) ? VERDICT_BROKEN : VERDICT_OK, 0);
	evidence(d, f, NVIDIA_VERSION, "%s, %s kernel modules", r.text,
		 r.opened ? "open" : "proprietary");
	if (has_callback_race(&r)) {
		consequence(d, f, "releases from R515 to R535 have a race: memory that is freed while a driver unpins it can crash the "
			    "kernel (a NULL pointer in the free callback)");
		remedy(d, f, "update NVIDIA's driver to 525.105.17, 535.14 or any later release of a later branch");
	} else if (before(&r, 525, 105, 17)) {
		consequence(d, f,
			    "it has no nvidia_p2p_get_pages_persistent(), and no dma-buf export");
	} else if (!r.opened) {
		consequence(d, f, "the proprietary modules export no dma-buf: adapters need nvidia-peermem");
	}
}

const struct check check_driver = { "driver", "Release of NVIDIA's driver", applies, run };
