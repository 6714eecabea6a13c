// SPDX-License-Identifier: MIT
/* share.c - see share.h. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "share.h"
#include "uncancelled.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const char magic[16] = "softgpu share 1";

struct content {
	char magic[sizeof(magic)];
	struct sgu_share share;
};

CUresult sgu_share_make(const struct sgu_share *share, int *fd)
{
	SGU_UNCANCELLED;
	int file = memfd_create("softgpu-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct content content;

	if (file < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memset(&content, 0, sizeof(content));
	memcpy(content.magic, magic, sizeof(magic));
	content.share = *share;
	if (write(file, &content, sizeof(content)) == sizeof(content) && !fcntl(file, F_ADD_SEALS, SEALS)) {
		*fd = file;
		return CUDA_SUCCESS;
	}
	close(file);
	return CUDA_ERROR_OPERATING_SYSTEM;
}

/* The seals come first: no other file has them, and of one that has, nothing changes any more. */
CUresult sgu_share_read(int fd, enum sgu_share_type type, struct sgu_share *share)
{
	SGU_UNCANCELLED;
	struct content content;

	if ((fcntl(fd, F_GET_SEALS) & SEALS) != SEALS ||
	    pread(fd, &content, sizeof(content), 0) != sizeof(content) ||
	    memcmp(content.magic, magic, sizeof(magic)) || content.share.type != (uint32_t)type)
		return CUDA_ERROR_INVALID_VALUE;
	*share = content.share;
	return CUDA_SUCCESS;
}
