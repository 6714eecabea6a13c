// SPDX-License-Identifier: MIT
/*
 * pci_config.c - what PCI capabilities tell.  Without root sysfs shows the first
 * 64 bytes only; then nothing is known, which is not the same as nothing there.
 */
#include <string.h>

#include "machine.h"

#define STATUS			0x06
#define  STATUS_CAPABILITIES	0x10
#define HEADER_TYPE		0x0e
#define SUBSYSTEM		0x2c
#define CAPABILITIES		0x34
#define  CAP_EXPRESS		0x10
#define EXTENDED		0x100
#define  EXT_SERIAL		0x0003
#define  EXT_ACS		0x000d
#define  EXT_ATS		0x000f
#define   ATS_ENABLE		0x8000
#define  EXT_REBAR		0x0015

static uint16_t le16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t le32(const uint8_t *p)
{
	return le16(p) | (uint32_t)le16(p + 2) << 16;
}

static void resizable_bar(struct device *d, const uint8_t *config, size_t length, unsigned int at)
{
	unsigned int count;

	if (at + 12U > length)
		return;
	count = le32(config + at + 8) >> 5 & 7;
	for (unsigned int i = 0; i < count && at + 12U + i * 8U <= length; i++) {
		const uint8_t *entry = config + at + 4 + i * 8U;
		/* Bit 4 of the register: 1 MiB */
		uint64_t sizes = (uint64_t)(le32(entry) >> 4) << 20;

		if (sizes > d->rebar_sizes) {
			d->rebar_sizes = sizes;
			d->rebar_bar = le32(entry + 4) & 7;
		}
	}
}

/*
 * The capability after the one at `at`, or the first (0); 0: no more.  They may come in any order; what
 * goes round in circles ends when there is no room for as many.
 */
static unsigned int extended(const uint8_t *config, size_t length, unsigned int at,
			     unsigned int *left)
{
	unsigned int next = at ? le32(config + at) >> 20 & 0xffcU : EXTENDED;
	uint32_t header;

	if (!at)
		*left = (4096 - EXTENDED) / 4;
	if (next < EXTENDED || next + 4U > length || !(*left)--)
		return 0;
	header = le32(config + next);
	return header && header != UINT32_MAX ? next : 0;
}

void pci_config_parse(struct device *d, const uint8_t *config, size_t length)
{
	unsigned int at, left, express = 0;

	d->port = PORT_UNKNOWN;
	d->acs = ACS_UNKNOWN;
	if (length >= 64 && !(config[HEADER_TYPE] & 0x7f)) {
		d->subvendor = le16(config + SUBSYSTEM);
		d->subdevice = le16(config + SUBSYSTEM + 2);
	}
	if (length < 256 || !(config[STATUS] & STATUS_CAPABILITIES))
		goto extended_capabilities;
	at = config[CAPABILITIES] & 0xfcU;
	for (unsigned int i = 0; i < 48 && at >= 0x40 && at + 4 <= 256;
	     i++, at = config[at + 1] & 0xfcU) {
		if (config[at] == CAP_EXPRESS) {
			express = at;
			break;
		}
	}
	if (express)
		d->port = (enum port_type)(le16(config + express + 2) >> 4 & 0xf);
extended_capabilities:
	if (length < EXTENDED)
		return;
	d->acs = ACS_NONE;
	/* A device without extended capabilities has zeros or ones there, or sysfs ends at 256. */
	if (length < EXTENDED + 4) {
		if (express)
			d->acs = ACS_UNKNOWN;
		return;
	}
	for (at = extended(config, length, 0, &left); at;
	     at = extended(config, length, at, &left)) {
		unsigned int cap = le16(config + at);

		if (cap == EXT_ACS && at + 8U <= length) {
			d->acs_control = le16(config + at + 6);
			d->acs = d->acs_control & PEERDMA_ACS_REDIRECT ? ACS_REDIRECT : ACS_OFF;
		}
		if (cap == EXT_ATS && at + 8U <= length)
			d->ats = le16(config + at + 6) & ATS_ENABLE;
		if (cap == EXT_REBAR)
			resizable_bar(d, config, length, at);
	}
}

void pci_config_anonymous(uint8_t *config, size_t length)
{
	unsigned int left;

	for (unsigned int at = extended(config, length, 0, &left); at;
	     at = extended(config, length, at, &left)) {
		if (le16(config + at) == EXT_SERIAL && at + 12U <= length)
			memset(config + at + 4, 0, 8);
	}
}
