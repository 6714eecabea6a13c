// SPDX-License-Identifier: MIT
/* sites_x86_64.c - see sites.h. */
#ifdef __x86_64__
#include <cpuid.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sites.h"

#define SITES_MAX	64
#define INSTRUCTION	5	/* bytes that are replaced */
#define SITE		7	/* bytes, including the system call */

/*
 * The system calls that take memory away. All are below 256, so only the lowest byte of `mov
 * $number, %eax` differs.
 */
static const uint8_t numbers[] = {
	SYS_munmap, SYS_mmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_shmat, SYS_shmdt,
	SYS_remap_file_pages,
};

#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/*
 * Called by a stub, which has pushed the number above the return address. Like the kernel, it
 * changes only rax, rcx and r11. The caller is C library code between two of its instructions, so
 * vector registers may be in use, too, but not their upper halves.
 *
 * For unwinders, the C library's function calls this function, because they have no tables for the
 * stub. So the frame begins above the words that the stub pushed, and the return address is the
 * target of the stub's last jump. The distance of that jump is 9 bytes after this function's return
 * address, and counts from 4 bytes further.
 */
/* from the stack pointer at entry to the C library's: return address, number, 128 bytes */
#define FRAME	"144"
#define RETURN_ADDRESS								\
	"	.cfi_escape 0x16, 16, 18"	/* its value, of 18 bytes: the frame's address */ \
	", 0x08, " FRAME ", 0x1c, 0x06"			/* - FRAME; what is there */ \
	", 0x12, 0x23, 9, 0x94, 4"			/* twice; the 4 bytes at + 9 */ \
	", 0x08, 32, 0x24, 0x08, 32, 0x26"		/* with their sign: << 32, >> 32 */ \
	", 0x22, 0x23, 13\n"				/* added to the first, + 13 */

__asm__(
	".text\n"
	".p2align 4\n"
	".type monitor_entry, @function\n"
	"monitor_entry:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa %rsp, " FRAME "\n"
	RETURN_ADDRESS
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rbp, 0\n"
	"	mov %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	push %r9\n"
	"	push %r8\n"
	"	push %r10\n"
	"	push %rdx\n"
	"	push %rsi\n"
	"	push %rdi\n"
	"	sub $272, %rsp\n"
	"	and $-16, %rsp\n"
	"	movaps %xmm0, (%rsp)\n"
	"	movaps %xmm1, 16(%rsp)\n"
	"	movaps %xmm2, 32(%rsp)\n"
	"	movaps %xmm3, 48(%rsp)\n"
	"	movaps %xmm4, 64(%rsp)\n"
	"	movaps %xmm5, 80(%rsp)\n"
	"	movaps %xmm6, 96(%rsp)\n"
	"	movaps %xmm7, 112(%rsp)\n"
	"	movaps %xmm8, 128(%rsp)\n"
	"	movaps %xmm9, 144(%rsp)\n"
	"	movaps %xmm10, 160(%rsp)\n"
	"	movaps %xmm11, 176(%rsp)\n"
	"	movaps %xmm12, 192(%rsp)\n"
	"	movaps %xmm13, 208(%rsp)\n"
	"	movaps %xmm14, 224(%rsp)\n"
	"	movaps %xmm15, 240(%rsp)\n"
	"	cld\n"
	"	mov 16(%rbp), %rdi\n"
	"	lea -48(%rbp), %rsi\n"
	"	call *monitor_handler(%rip)\n"
	"	movaps (%rsp), %xmm0\n"
	"	movaps 16(%rsp), %xmm1\n"
	"	movaps 32(%rsp), %xmm2\n"
	"	movaps 48(%rsp), %xmm3\n"
	"	movaps 64(%rsp), %xmm4\n"
	"	movaps 80(%rsp), %xmm5\n"
	"	movaps 96(%rsp), %xmm6\n"
	"	movaps 112(%rsp), %xmm7\n"
	"	movaps 128(%rsp), %xmm8\n"
	"	movaps 144(%rsp), %xmm9\n"
	"	movaps 160(%rsp), %xmm10\n"
	"	movaps 176(%rsp), %xmm11\n"
	"	movaps 192(%rsp), %xmm12\n"
	"	movaps 208(%rsp), %xmm13\n"
	"	movaps 224(%rsp), %xmm14\n"
	"	movaps 240(%rsp), %xmm15\n"
	"	lea -48(%rbp), %rsp\n"
	"	pop %rdi\n"
	"	pop %rsi\n"
	"	pop %rdx\n"
	"	pop %r10\n"
	"	pop %r8\n"
	"	pop %r9\n"
	"	pop %rbp\n"
	"	.cfi_restore %rbp\n"
	"	.cfi_def_cfa %rsp, " FRAME "\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size monitor_entry, . - monitor_entry\n");

void monitor_entry(void) __attribute__((visibility("hidden")));
/* Set before the first jump is stored. */
sites_handler monitor_handler __attribute__((visibility("hidden"), used));

/* store() needs cmpxchg16b, which the first x86-64 processors lack. */
bool sites_known(void)
{
	unsigned int a, b, c = 0, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_CMPXCHG16B);
}

/* Not instrumented: a sanitizer's call would change the registers. */
__attribute__((no_sanitize("address", "thread", "undefined")))
long system_call(long number, const long *args)
{
	register long r10 __asm__("r10") = args[3];
	register long r8 __asm__("r8") = args[4];
	register long r9 __asm__("r9") = args[5];
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(number), "D"(args[0]), "S"(args[1]),
			 "d"(args[2]),
			 "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

/*
 * Code is read and written byte by byte. Sanitizers know of no data there, neither in their shadow
 * memory nor in their replacement of memcpy().
 */
#define CODE_ACCESS __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

CODE_ACCESS static void copy(void *to, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile uint8_t *)to)[i] = ((const volatile uint8_t *)from)[i];
}

/* ---- stubs ---- */

struct writer {
	uint8_t *p, *end;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
	if ((size_t)(w->end - w->p) >= n)
		copy(w->p, bytes, n);
	w->p += n;
}

#define PUT(w, ...) \
	put(w, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void put_distance(struct writer *w, uintptr_t to)
{
	int32_t distance = (int32_t)(to - ((uintptr_t)w->p + 4));

	put(w, &distance, 4);
}

/*
 * Writes the stub for `site`. In syscall(), the program gives the number. For numbers that are not
 * in `numbers`, the stub returns to the original system call, as clone() and similar calls need.
 * The stub skips the 128 bytes below the stack pointer, because they belong to the interrupted
 * function.
 */
CODE_ACCESS static void put_stub(struct writer *w, uintptr_t site, uintptr_t entry_word)
{
	uint8_t *jumps[NUMBERS];

	put(w, (const void *)site, INSTRUCTION);
	if (*(const uint8_t *)site != 0xb8) {
		for (size_t i = 0; i < NUMBERS; i++) {
			PUT(w, 0x48, 0x3d, numbers[i], 0, 0, 0);	/* cmp $number, %rax */
			PUT(w, 0x74, 0);				/* je */
			jumps[i] = w->p;
		}
		PUT(w, 0xe9); /* jmp: to the system call */
		put_distance(w, site + INSTRUCTION);
		for (size_t i = 0; i < NUMBERS; i++)
			if (jumps[i] <= w->end)
				jumps[i][-1] = (uint8_t)(w->p - jumps[i]);
	}
	PUT(w, 0x48, 0x8d, 0x64, 0x24, 0x80);				/* lea -128(%rsp), %rsp */
	PUT(w, 0x50);							/* push %rax */
	PUT(w, 0xff, 0x15);						/* call *entry_word(%rip) */
	put_distance(w, entry_word);
	/* RETURN_ADDRESS depends on these: 8 bytes, then a jump. */
	PUT(w, 0x48, 0x8d, 0xa4, 0x24, 0x88, 0, 0, 0);			/* lea 136(%rsp), %rsp */
	PUT(w, 0xe9); /* jmp: behind the system call */
	put_distance(w, site + SITE);
}

/* ---- sites ---- */

CODE_ACCESS static bool is_site(const uint8_t *p)
{
	if (p[5] != 0x0f || p[6] != 0x05)
		return false;
	/* In syscall(): mov 8(%rsp), %r9, because the sixth argument is loaded last. */
	if (p[0] == 0x4c && p[1] == 0x8b && p[2] == 0x4c && p[3] == 0x24 && p[4] == 0x08)
		return true;
	for (size_t i = 0; i < NUMBERS; i++) {
		if (p[0] == 0xb8 && p[1] == numbers[i] && !p[2] && !p[3] && !p[4])
			return true;
	}
	return false;
}

static int find(uintptr_t text, uintptr_t end, uintptr_t *sites)
{
	int n = 0;

	for (uintptr_t p = text; p + SITE <= end; p++) {
		if (!is_site((const uint8_t *)p))
			continue;
		if (n == SITES_MAX)
			return -EOPNOTSUPP;
		sites[n++] = p;
	}
	return n;
}

/* Whether another copy of this library has redirected the places. */
CODE_ACCESS static bool redirected(uintptr_t text, uintptr_t end, uintptr_t room,
				   uintptr_t room_end)
{
	for (const uint8_t *p = (const uint8_t *)text; (uintptr_t)p + SITE <= end; p++) {
		uintptr_t to;
		int32_t distance;

		if (p[0] != 0xe9 || p[5] != 0x0f || p[6] != 0x05)
			continue;
		copy(&distance, p + 1, 4);
		to = (uintptr_t)p + INSTRUCTION + (uintptr_t)(intptr_t)distance;
		if (to >= room && to < room_end)
			return true;
	}
	return false;
}

/* Makes the jump. False: it cannot be written by one store within 16 aligned bytes. */
CODE_ACCESS static bool make_jump(uintptr_t site, uintptr_t stub, uint8_t *jump)
{
	int64_t distance = (int64_t)(stub - (site + INSTRUCTION));
	int32_t narrow = (int32_t)distance;
	size_t changed = INSTRUCTION;

	jump[0] = 0xe9;
	copy(jump + 1, &narrow, 4);
	if (jump[4] == ((const uint8_t *)site)[4])
		changed--;
	return narrow == distance && site % 16 + changed <= 16;
}

CODE_ACCESS static void store(uintptr_t site, const uint8_t *jump)
{
	uint64_t *words = (uint64_t *)(site & ~15UL), before[2], after[2];
	size_t at = site % 16, n = at + INSTRUCTION <= 16 ? INSTRUCTION : 16 - at;

	copy(before, words, 16);
	copy(after, before, 16);
	copy((uint8_t *)after + at, jump, n);
	__asm__ volatile("lock cmpxchg16b %0" : "+m"(*(__uint128_t *)words), "+a"(before[0]),
			 "+d"(before[1]) :
			 "b"(after[0]), "c"(after[1]) : "cc");
}

static int protect(uintptr_t from, uintptr_t to, int prot)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = from & ~(page - 1);

	return mprotect((void *)start, to - start, prot) ? -EACCES : 0;
}

#define CODE		(PROT_READ | PROT_EXEC)
#define OPEN_CODE	(PROT_READ | PROT_WRITE | PROT_EXEC)

int sites_redirect(uintptr_t text, uintptr_t end, uintptr_t room, uintptr_t room_end,
		   sites_handler handler, uintptr_t *sites, size_t max)
{
	uintptr_t found[SITES_MAX], stubs[SITES_MAX], entry = (uintptr_t)monitor_entry;
	struct writer w = { (uint8_t *)((room + 15) & ~15UL), (uint8_t *)room_end };
	uintptr_t word = (uintptr_t)w.p;
	uint8_t jump[INSTRUCTION];
	int n = find(text, end, found), ret;

	if (!n && redirected(text, end, room, room_end))
		return -EALREADY;
	if (n <= 0)
		return n;
	ret = protect(room, room_end, OPEN_CODE);
	if (ret)
		return ret;
	monitor_handler = handler;
	put(&w, &entry, sizeof(entry));
	for (int i = 0; i < n; i++) {
		stubs[i] = (uintptr_t)w.p;
		put_stub(&w, found[i], word);
	}
	ret = w.p > w.end ? -ENOSPC : protect(room, room_end, CODE);
	for (int i = 0; !ret && i < n; i++)
		ret = make_jump(found[i], stubs[i], jump) ? 0 : -EOPNOTSUPP;
	if (!ret)
		ret = protect(found[0], found[n - 1] + SITE, OPEN_CODE);
	if (ret)
		return ret;
	for (int i = 0; i < n; i++) {
		make_jump(found[i], stubs[i], jump);
		store(found[i], jump);
		if ((size_t)i < max)
			sites[i] = found[i];
	}
	ret = protect(found[0], found[n - 1] + SITE, CODE);
	return ret ? ret : n;
}
#endif
