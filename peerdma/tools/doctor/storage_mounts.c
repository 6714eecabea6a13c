// SPDX-License-Identifier: MIT
/*
 * storage_mounts.c - which of the drives' file systems and RAIDs GPUDirect Storage takes.  These are
 * notes: another directory of the same drive may do.
 */
#include <stdio.h>
#include <string.h>

#include "storage.h"

static bool of_drive(const char *line, size_t length, void *arg)
{
	(void)arg;
	return length > 9 && !memcmp(line, "/dev/nvme", 9);
}

static bool of_raid(const char *line, size_t length, void *arg)
{
	(void)arg;
	return memmem(line, length, " nvme", 5);
}

/* "nvme0n1p1" is on "nvme0"; -1: on none that is shown. */
static int drive_of(const struct doctor *d, const char *name)
{
	for (unsigned int i = 0; i < d->machine->count; i++) {
		const struct device *x = &d->machine->devices[i];
		size_t n = strcspn(x->known_as, ",");

		if (x->kind == DEVICE_NVME && device_concerned(d, i) && n &&
		    !strncmp(name, x->known_as, n) && strchr("nc", name[n]))
			return (int)i;
	}
	return -1;
}

/* XFS, and ext4 in ordered mode, which is its default and then not listed. */
static bool is_taken(const char *type, const char *options)
{
	if (strcmp(type, "ext4"))
		return !strcmp(type, "xfs");
	return !strstr(options, "data=journal") && !strstr(options, "data=writeback");
}

static void mount(struct doctor *d, const char *line)
{
	char device[64], where[128], type[32], options[256];
	struct finding *f;
	int drive;

	if (sscanf(line, "/dev/%63s %127s %31s %255s", device, where, type, options) != 4)
		return;
	drive = drive_of(d, device);
	if (drive < 0)
		return;
	f = say_device(d, VERDICT_OK, (unsigned int)drive, 0);
	evidence(d, f, "/proc/mounts", "%s is %s at %s", device, type, where);
	if (!is_taken(type, options))
		consequence(d, f, "cuFile takes files of XFS, and of ext4 with data=ordered: those here go through host memory");
}

static void raid(struct doctor *d, const char *line)
{
	char name[32], state[16], level[32];
	struct finding *f;

	if (sscanf(line, "%31[^ :] : %15s %31s", name, state, level) != 3)
		return;
	f = say(d, VERDICT_OK, "%s", name);
	evidence(d, f, "/proc/mdstat", "%s: %s of NVMe drives", name, level);
	consequence(d, f, "the kernel's RAID takes no memory of p2pdma: files on it go through host memory, or by nvidia-fs");
}

static void each_line(struct doctor *d, const char *file, tree_keep keep,
		      void (*say_line)(struct doctor *, const char *))
{
	const char *data;
	char line[512];
	size_t length;

	if (tree_lines(d->tree, file, keep, NULL, &data, &length))
		return;
	for (const char *s = data; *s; s += strcspn(s, "\n"), s += *s == '\n') {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(s, "\n"), s);
		say_line(d, line);
	}
}

void storage_mounts(struct doctor *d)
{
	each_line(d, "/proc/mounts", of_drive, mount);
	each_line(d, "/proc/mdstat", of_raid, raid);
}
