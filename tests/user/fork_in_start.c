// SPDX-License-Identifier: MIT
/*
 * fork_in_start.c - a child that is forked while cuInit() has the driver's files open: it must not keep them, because
 * the driver frees the parent's memory when the last copy of a file is closed.
 */
#include <fcntl.h>

#include "test.h"

static pid_t child = -1;
static unsigned int before;

static unsigned int descriptors(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The library looks for this variable after it has opened the files. */
char *getenv(const char *name)
{
	if (!strcmp(name, "SOFTGPU_MPS") && child < 0) {
		unsigned int open = descriptors() - before;

		fflush(NULL);
		child = fork();
		if (!child)
			_exit(!open ? 2 : descriptors() != before ? 3 : cuInit(0) != CUDA_ERROR_NOT_INITIALIZED);
	}
	return secure_getenv(name);
}

CASE(closes_the_files)
{
	int status;

	before = descriptors();
	OK(cuInit(0));
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

MAIN(NULL, NULL)
