// SPDX-License-Identifier: MIT
/* release.c - chooses the release: SOFTGPU_DRIVER, or the parameter of softgpu.ko. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parse.h"
#include "release.h"
#include "transport.h"
#include "uncancelled.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct sg_release *release;
static bool bad_choice;

static const struct sg_release *find(const char *text, size_t length)
{
	uint64_t branch;

	if (!sgu_number(text, length, &branch) || branch > UINT32_MAX)
		return NULL;
	return sg_release_find(branch);
}

/* NULL: softgpu.ko is not loaded, or this library does not know its release. */
static const struct sg_release *of_module(void)
{
	SGU_UNCANCELLED;
	char text[16];
	int fd = open("/sys/module/softgpu/parameters/driver", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return NULL;
	n = read(fd, text, sizeof(text));
	close(fd);
	return n > 1 ? find(text, n - 1) : NULL;	/* it ends with a new line */
}

static void choose(void)
{
	const char *named = getenv("SOFTGPU_DRIVER");

	if (named) {
		release = find(named, strlen(named));
		bad_choice = !release;
	} else {
		release = of_module();
	}
	if (!release)
		release = sg_release_find(SG_RELEASE_DEFAULT);
}

const struct sg_release *sgu_release(void)
{
	pthread_once(&once, choose);
	return release;
}

bool sgu_release_ok(uint32_t branch)
{
	const struct sg_release *mine = sgu_release();

	if (bad_choice)
		sgu_log("SOFTGPU_DRIVER=%s is not a release of the driver that softgpu knows: choose "
			SG_RELEASES, getenv("SOFTGPU_DRIVER"));
	else if (!sg_release_find(branch))
		sgu_log("softgpu.ko stands in for release %u of the driver, which this library does not know: load it with driver= "
			SG_RELEASES ", or install both from one build", branch);
	else if (branch != mine->branch)
		sgu_log("SOFTGPU_DRIVER=%u, but softgpu.ko stands in for release %u: unset it, or load softgpu.ko with driver=%u",
			mine->branch, branch, mine->branch);
	return !bad_choice && branch == mine->branch;
}
