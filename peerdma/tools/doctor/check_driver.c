// SPDX-License-Identifier: MIT
/*
 * check_driver.c - NVIDIA's driver: its flavour, its release, and what that can and cannot do.  Which
 * releases are bad, check_release.c says.
 */
#include <string.h>

#include "releases.h"

static bool applies(const struct doctor *d)
{
	return any_gpu_apart(d, VENDOR_NVIDIA);
}

static struct finding *say_driver(struct doctor *d, enum verdict v, unsigned int ways)
{
	return say_maker(d, v, VENDOR_NVIDIA, ways, "NVIDIA's driver");
}

/* NVML's words for NVML_ERROR_LIB_RM_VERSION_MISMATCH.  CUDA's library comes with NVML's, and refuses by error 803. */
#define MISMATCH	"Driver/library version mismatch"

static void libraries(struct doctor *d)
{
	struct finding *f;

	if (!d->gpus_error || !strstr(d->gpus.why, MISMATCH))
		return;
	f = say_driver(d, VERDICT_BROKEN, WAYS_ALL);
	evidence(d, f, "NVML", "%s", d->gpus.why);
	consequence(d, f, "its libraries are of another release than the module that is loaded: CUDA programs do not start");
	remedy(d, f, "%s", d->machine->container ? "start the container again, so that it gets the libraries of the node's driver" :
	       "boot again, or unload NVIDIA's modules and load them again: an update has replaced the libraries only");
}

static void run(struct doctor *d)
{
	static const struct release persistent = { 525, 105, 17 };
	struct driver_release r;
	struct finding *f;

	libraries(d);
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
	f = say_driver(d, VERDICT_OK, WAY(WAY_NVP2P) | WAY(WAY_PEERMEM));
	evidence(d, f, NVIDIA_VERSION, "%s, %s kernel modules", r.text,
		 r.opened ? "open" : "proprietary");
	if (release_before(&(struct release){ r.major, r.minor, r.patch }, &persistent)) {
		consequence(d, f, "it has no nvidia_p2p_get_pages_persistent()%s",
			    r.opened && r.major >= 515 ? "" : ", and no dma-buf export");
	} else if (!r.opened) {
		consequence(d, f, "the proprietary modules export no dma-buf: adapters need nvidia-peermem");
	}
}

const struct check check_driver = { "driver", "Release of NVIDIA's driver", applies, run };
