// SPDX-License-Identifier: MIT
/* release.c - the table of releases. */
#include "release.h"

/* CUDA's release notes name the driver that each version came with. */
static const struct sg_release releases[] = {
	{ 560, "560.00.01", 12060, 80, false },
	{ 570, "570.00.01", 12080, 90, false },
	{ 575, "575.00.01", 12090, 90, false },
	{ 580, "580.00.01", 13000, 90, false },
	{ 590, "590.00.01", 13010, 100, false },
	{ 595, "595.00.01", 13020, 100, false },
	{ SG_RELEASE_DEFAULT, SG_RELEASE_DEFAULT_VERSION, 13030, 100, true },
};

const struct sg_release *sg_release_find(u32 branch)
{
	u32 i;

	for (i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
		if (releases[i].branch == branch)
			return &releases[i];
	return NULL;
}
