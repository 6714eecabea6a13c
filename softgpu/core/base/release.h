/* SPDX-License-Identifier: MIT */
/*
 * release.h - the releases of NVIDIA's driver that softgpu can stand in for.
 *
 * A release decides what programs and drivers are told together: CUDA's version and with it the
 * names that libcuda gives out, the compute capability, NVML's strings, /proc/driver/nvidia, and
 * the rules of nvidia_p2p that changed. The kernel module's parameter `driver` chooses it, and for
 * a GPU inside a process the environment variable SOFTGPU_DRIVER.
 */
#ifndef SG_RELEASE_H
#define SG_RELEASE_H

#include "../sg_os.h"

struct sg_release {
	u32 branch;		/* what a user names: 580 */
	const char *version;	/* as the driver prints it; the end is no release of NVIDIA's */
	u32 cuda;		/* 13000: CUDA 13.0 */
	u32 capability;		/* 90: 9.0, that of the data centre GPU of this release's time */
	bool rejects_null;	/* as reported: put_pages(NULL) is an error, not nothing to do */
};

#define SG_RELEASE_DEFAULT		610
/* Also of nvidia.ko's file (modinfo), which has one version whatever `driver` chooses, and of the folder /usr/src/nvidia-VERSION. */
#define SG_RELEASE_DEFAULT_VERSION	"610.00.01"

/* The choices, for messages. */
#define SG_RELEASES		"560, 570, 575, 580, 590, 595 or 610"

/* NULL: not one of SG_RELEASES.  The result lives forever. */
const struct sg_release *sg_release_find(u32 branch);

#endif
