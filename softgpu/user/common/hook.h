/* SPDX-License-Identifier: MIT */
/*
 * hook.h - functions that interposers patch.
 *
 * UCX and its like put a jump over a function's first bytes and run what stood there
 * elsewhere: 5 bytes for a near jump, on x86 12 for a far one.  They can move only
 * a few instructions, and a compiler promises none of them.  So these functions'
 * exported symbols are stubs whose first bytes are the same whatever the compiler
 * and its options: pushes and a move.
 *
 * The body has a hidden name (hooked_*), by which the library itself calls it: an
 * interposer sees one call for each that the program makes.
 */
#ifndef SGU_HOOK_H
#define SGU_HOOK_H

#include "cuda.h"

#if defined(__x86_64__)
/* 1 + 3 + 4 * 2 = 12 bytes before the call, which keeps the stack aligned */
#define SGU_STUB_CODE(body)						\
	"push %rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %rbp, -16\n\t"	\
	"mov %rsp, %rbp\n\t.cfi_def_cfa_register %rbp\n\t"		\
	"push %r15\n\tpush %r14\n\tpush %r13\n\tpush %r12\n\t"		\
	"call " body "\n\t"						\
	"leave\n\t.cfi_def_cfa %rsp, 8\n\t"				\
	"ret\n\t"
#define SGU_STUB_TYPE "@function"
#elif defined(__aarch64__)
/* 20 bytes, none of which depends on where it stands */
#define SGU_STUB_CODE(body)						\
	"stp x29, x30, [sp, #-16]!\n\t.cfi_def_cfa_offset 16\n\t"	\
	".cfi_offset x29, -16\n\t.cfi_offset x30, -8\n\t"		\
	"mov x29, sp\n\tnop\n\tnop\n\tnop\n\t"				\
	"bl " body "\n\t"						\
	"ldp x29, x30, [sp], #16\n\t.cfi_restore x29\n\t.cfi_restore x30\n\t"	\
	".cfi_def_cfa_offset 0\n\t"					\
	"ret\n\t"
#define SGU_STUB_TYPE "%function"
#else
#error "stubs for this processor are to be written"
#endif

/* The exported function `name', which calls the body of `hooked'. */
#define SGU_STUB(name, hooked)						\
	__asm__(".pushsection .text\n\t.balign 16\n\t.globl " #name "\n\t"	\
		".type " #name ", " SGU_STUB_TYPE "\n" #name ":\n\t.cfi_startproc\n\t"	\
		SGU_STUB_CODE("hooked_" #hooked)			\
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection")

/* Begins the definition of a function of up to six arguments, none on the stack. */
#define SGU_HOOKED(name, ...)						\
	__attribute__((visibility("hidden"))) CUresult hooked_##name(__VA_ARGS__);	\
	SGU_STUB(name, name);						\
	__attribute__((used)) CUresult hooked_##name(__VA_ARGS__)

#endif
