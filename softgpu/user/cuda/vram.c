// SPDX-License-Identifier: MIT
/* vram.c - see vram.h: a file in memory per GPU, and an empty one for what is hidden. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu_uapi.h"
#include "vram.h"

static struct {
	void *base;
	int file;		/* -1: none */
} vram[SOFTGPU_MAX_GPUS];
static int empty = -1;

/* Without files in memory (an old kernel, a strict container) there is VRAM all the same, but no second view of it. */
void *sgu_vram_make(unsigned int gpu, size_t size)
{
	int file = memfd_create("softgpu-vram", MFD_CLOEXEC), flags = MAP_SHARED;
	void *base;

	if (empty < 0)
		empty = memfd_create("softgpu-nothing", MFD_CLOEXEC);
	if (file >= 0 && (empty < 0 || ftruncate(file, (off_t)size))) {
		close(file);
		file = -1;
	}
	if (file < 0)
		flags = MAP_PRIVATE | MAP_ANONYMOUS;
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
	if (base == MAP_FAILED) {
		if (file >= 0)
			close(file);
		return NULL;
	}
	/* a child has no GPU, and no use for a copy of one's memory */
	madvise(base, size, MADV_DONTFORK);
	vram[gpu].base = base;
	vram[gpu].file = file;
	return base;
}

int sgu_vram_map(unsigned int gpu, uint64_t from, uint64_t length, int prot, void *at)
{
	if (vram[gpu].file < 0)
		return -EOPNOTSUPP;
	if (mmap(at, length, prot, MAP_SHARED | MAP_FIXED, vram[gpu].file,
		 (off_t)(from - (uintptr_t)vram[gpu].base)) == MAP_FAILED)
		return -errno;
	return 0;
}

void sgu_vram_hide(void *at, uint64_t length)
{
	/* Behind a file's end there is nothing. */
	if (mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0) == MAP_FAILED)
		mprotect(at, length, PROT_NONE);	/* another signal, as good a wall */
	madvise(at, length, MADV_DONTFORK);
}
