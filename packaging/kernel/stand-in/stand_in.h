/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * stand_in.h - exports a symbol that a header declares, without its code: enough for the kernel's build to compute
 * the version that a driver with that header exports it with, whatever its arguments are in that release.
 */
#include <linux/module.h>

#define STAND_IN(name)						\
	asm(".pushsection .data\n"				\
	    ".globl " #name "\n"				\
	    #name ": .long 0\n"					\
	    ".popsection");					\
	EXPORT_SYMBOL(name)

MODULE_DESCRIPTION("Never loaded: symbol versions of a GPU driver");
MODULE_LICENSE("Dual MIT/GPL");
