// SPDX-License-Identifier: MIT
/*
 * host.c - recognizes addresses of host memory, as fast as possible without guessing.
 *
 * CUDA takes its device addresses from mmap(), and so do large buffers in host
 * memory: an address of the mmap area may be either, at different times, and only
 * CUDA knows.  But mmap() never returns addresses of three areas, which are
 * recognized by the address:
 *
 * - the stack of the calling thread, from its stack pointer upwards (below it
 *   the stack may not have grown yet);
 * - the heap that brk() moves, up to where it ends now;
 * - the program's own variables (.data, .bss), which are never unloaded.
 *
 * For all other addresses CUDA is asked.  Answers are not cached here: nothing would
 * report that the memory has changed hands.
 */
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

/* Between the main thread's stack and the mmap area the kernel leaves at least 128 MiB. */
#define MAIN_STACK_MAX (64UL << 20)

struct span {
	uintptr_t start, end;
};

/* In the room that the loader keeps for such: no call is needed to find it. */
static _Thread_local struct span stack __attribute__((tls_model("initial-exec")));
static struct span image;
static uintptr_t heap_start;		/* UINTPTR_MAX: not known */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool found;

static bool in(const struct span *s, uintptr_t p)
{
	return p >= s->start && p < s->end;
}

/*
 * The program's writable segment, from the headers that the kernel points to.
 * One segment only: there may be holes between two, and those are mmap()'s.
 */
static void image_find(void)
{
	const ElfW(Phdr) *ph = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	unsigned long n = getauxval(AT_PHNUM);
	uintptr_t base = 0;
	bool based = false;

	for (unsigned long i = 0; ph && i < n; i++) {
		if (ph[i].p_type == PT_PHDR) {
			base = (uintptr_t)ph - ph[i].p_vaddr;
			based = true;
		}
	}
	if (!based)
		return;		/* a static program; it has no libcuda either */
	for (unsigned long i = 0; i < n; i++) {
		if (ph[i].p_type == PT_LOAD && ph[i].p_flags & PF_W) {
			image.start = base + ph[i].p_vaddr;
			image.end = image.start + ph[i].p_memsz;
		}
	}
}

uintptr_t host_heap_start(const char *stat)
{
	const char *p = strrchr(stat, ')');

	for (int field = 2; p && field < 47; field++) {
		p = strchr(p, ' ');
		if (p)
			p++;
	}
	/* 0: hidden from this process */
	if (p && *p >= '1' && *p <= '9')
		return strtoul(p, NULL, 10);
	return UINTPTR_MAX;
}

static void heap_find(void)
{
	FILE *f = fopen("/proc/self/stat", "re");
	char line[2048];
	size_t n;

	heap_start = UINTPTR_MAX;
	if (!f)
		return;
	n = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[n] = 0;
	heap_start = host_heap_start(line);
}

static void find_once(void)
{
	image_find();
	heap_find();
	atomic_store_explicit(&found, true, memory_order_release);
}

static void stack_find(void)
{
	struct span s = { 1, 1 };	/* nothing is in it, and it is not looked for again */
	pthread_attr_t attr;
	size_t size;
	void *low;

	if (!pthread_getattr_np(pthread_self(), &attr)) {
		if (!pthread_attr_getstack(&attr, &low, &size)) {
			s.start = (uintptr_t)low;
			s.end = s.start + size;
			if (getpid() == gettid() && size > MAIN_STACK_MAX)
				s.start = s.end - MAIN_STACK_MAX;
		}
		pthread_attr_destroy(&attr);
	}
	stack = s;
}

bool host_for_certain(const void *ptr)
{
	uintptr_t p = (uintptr_t)ptr, sp = (uintptr_t)__builtin_frame_address(0);

	if (!stack.end)
		stack_find();
	/* A coroutine's stack pointer is elsewhere: then nothing follows from it. */
	if (in(&stack, sp) && p >= sp && p < stack.end)
		return true;

	if (!atomic_load_explicit(&found, memory_order_acquire))
		pthread_once(&once, find_once);
	return in(&image, p) || (p >= heap_start && p < (uintptr_t)sbrk(0));
}

uint64_t page_size(void)
{
	return (uint64_t)getpagesize();
}

/* Since Linux 5.14; older headers do not name it. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/*
 * Must neither fault nor, unlike a load, read a device's registers.  Three methods are
 * tried; the kernel refuses mappings of registers to the first two:
 *
 * - madvise(MADV_POPULATE_READ) makes the page readable.  It takes half the time of the
 *   second.  If it fails, the kernel may not know it.
 * - process_vm_readv() reads a byte, as a debugger would.  A container may forbid it.
 * - rt_sigprocmask() reads its argument before it finds that `how` is invalid, so its
 *   errno shows whether the memory can be read.  8 bytes, aligned: they lie in one page.
 */
bool host_readable(const void *ptr)
{
	uintptr_t p = (uintptr_t)ptr;
	char byte;
	struct iovec to = { .iov_base = &byte, .iov_len = 1 };
	struct iovec from = { .iov_base = (void *)p, .iov_len = 1 };

	if (!madvise((void *)(p & -page_size()), 1, MADV_POPULATE_READ))
		return true;
	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1)
		return true;
	if (errno == EFAULT)
		return false;
	p &= ~(uintptr_t)7;
	return p && syscall(SYS_rt_sigprocmask, ~0, p, NULL, 8) < 0 && errno == EINVAL;
}
