/* SPDX-License-Identifier: MIT */
/*
 * hook.h - functions that interposers patch.
 *
 * UCX and similar libraries write a jump over the first bytes of a function and run the replaced
 * instructions elsewhere: 5 bytes for a near jump, 12 bytes for a far jump on x86. They can move
 * only a few kinds of instructions, and a compiler may emit any. So the exported symbols of these
 * functions are stubs whose first bytes are always the same, for any compiler and options: pushes
 * and a move.
 *
 * The body has a hidden name (hooked_*), which the library itself calls. So an interposer sees one
 * call for each call of the program.
 */
#pragma once

#include "cuda.h"

#if defined(__x86_64__)
/* 1 + 3 + 4 * 2 = 12 bytes before the call; they keep the stack aligned */
#define SGU_STUB_CODE(body)						\
	"push %rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %rbp, -16\n\t"	\
	"mov %rsp, %rbp\n\t.cfi_def_cfa_register %rbp\n\t"		\
	"push %r15\n\tpush %r14\n\tpush %r13\n\tpush %r12\n\t"		\
	"call " body "\n\t"						\
	"leave\n\t.cfi_def_cfa %rsp, 8\n\t"				\
	"ret\n\t"
#define SGU_STUB_TYPE "@function"
#elif defined(__aarch64__)
/* 20 bytes of position-independent instructions */
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

/* Defines the exported function `name`, which calls the body of `hooked`. */
#define SGU_STUB(name, hooked)						\
	__asm__(".pushsection .text\n\t.balign 16\n\t.globl " #name "\n\t"	\
		".type " #name ", " SGU_STUB_TYPE "\n" #name ":\n\t.cfi_startproc\n\t"	\
		SGU_STUB_CODE("hooked_" #hooked)			\
		".cfi_endproc\n\t.size " #name ", . - " #name "\n\t.popsection")

/* Begins the definition of a function of up to six arguments, none of them on the stack. */
#define SGU_HOOKED(name, ...)						\
	__attribute__((visibility("hidden"))) CUresult hooked_##name(__VA_ARGS__);	\
	SGU_STUB(name, name);						\
	__attribute__((used)) CUresult hooked_##name(__VA_ARGS__)
