/* SPDX-License-Identifier: MIT */
/* parse.h - what programs and environments give as text, taken strictly. */
#ifndef SGU_PARSE_H
#define SGU_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number that fits, decimal or 0x, and nothing else: no sign, no blank. */
bool sgu_number(const char *text, size_t length, uint64_t *out);

struct sgu_pci {
	unsigned int domain, bus, device, function;
};

/* "domain:bus:device.function", all in hexadecimal; domain and function may be left out. */
bool sgu_pci(const char *text, struct sgu_pci *out);

#endif
