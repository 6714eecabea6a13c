/* SPDX-License-Identifier: MIT */
/* parse.h - strict parsers for text from programs and the environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Accepts a number that fits into 64 bits, decimal or with 0x. No sign, no blank, nothing else. */
bool sgu_number(const char *text, size_t length, uint64_t *out);

struct sgu_pci {
	unsigned int domain, bus, device, function;
};

/* Accepts "domain:bus:device.function" in hexadecimal. Domain and function are optional. */
bool sgu_pci(const char *text, struct sgu_pci *out);
