// SPDX-License-Identifier: MIT
/* fake_intercepts.c - takes the place of functions of the C library, when preloaded, as other allocators do. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int munmap(void *addr, size_t length)
{
	return (int)syscall(SYS_munmap, addr, length);
}

int madvise(void *addr, size_t length, int advice)
{
	return (int)syscall(SYS_madvise, addr, length, advice);
}
