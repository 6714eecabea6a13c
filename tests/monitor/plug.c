// SPDX-License-Identifier: MIT
/* plug.c - a library with variables, to be unloaded. */
char plug_memory[1 << 16] __attribute__((aligned(4096)));
