/* SPDX-License-Identifier: MIT */
/*
 * releases.h - releases of drivers that are known to be bad.
 *
 *   known_releases.c  the table: a new one is a row there, and one in tests/doctor/test_releases.py
 *   check_release.c   compares the machine with it
 */
#pragma once

#include "doctor.h"

struct release {
	unsigned int major, minor, patch;
};

bool release_before(const struct release *a, const struct release *b);

/* From this one on, and before that one.  before {}: no end is known; both {}: no range. */
struct release_range {
	struct release from, before;
};

/* Where the release stands.  A machine without it is none of a row's concern. */
enum software {
	SOFTWARE_NVIDIA,	/* the GPU's driver: /proc/driver/nvidia/version */
	SOFTWARE_OFED,		/* MLNX_OFED or DOCA: the version of mlx5_core */
	SOFTWARE_GDRDRV,	/* gdrcopy's module as it is loaded; it says major.minor only */
	SOFTWARE_GDRDRV_SOURCE,	/* gdrcopy's module as it is installed for DKMS, and not loaded */
	SOFTWARES
};

/* Of NVIDIA's kernel modules. */
enum flavour { FLAVOUR_ANY, FLAVOUR_OPEN, FLAVOUR_PROPRIETARY };

/* What else must be so.  seen: where it stands, and what. */
struct seen {
	char source[96], value[96];
};
typedef enum answer (*release_condition)(struct doctor *d, const struct device *peer,
					 struct seen *seen);

#define RELEASE_RANGES	4
#define PEER(kind)	(1U << (kind))

struct known_release {
	const char *name;	/* "callback-race": the finding's subject, for --ignore */
	enum software of;
	enum flavour flavour;
	/* One for each branch that got the fix by itself; before: the first release that has it */
	struct release_range releases[RELEASE_RANGES];
	struct release_range kernels;	/* {}: any */
	release_condition also;		/* NULL: nothing */
	/* Ways that it bears on; with peers: to devices of these kinds, of each of which `also' is asked */
	unsigned int ways, peers;
	/* The kernel: where a client of nvidia_p2p is loaded, it counts whichever way is wanted */
	bool crashes;
	enum verdict verdict;	/* cannot tell: the range is not read in a report or in source */
	const char *consequence, *remedy;
	const char *source, *date;	/* who reported it, or where it was read, and when */
};

extern const struct known_release known_releases[];	/* ended by one without a name */
