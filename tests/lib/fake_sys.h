/* SPDX-License-Identifier: MIT */
/*
 * fake_sys.h - a stand-in for sys.c and, behind it, for /dev/peerdma: enough of
 * peerdma.ko to try libpeerdma's own part on any machine.  What only the
 * kernel can show (real revocation, real DMA) is tested in the VM.
 */
#pragma once

#include <stdint.h>

#include "uapi/peerdma_ioctl.h"

#define FAKE_PINS 64
#define FAKE_FD 1000	/* the descriptor of each open; it is not open unless the test opens it */
#define FAKE_VIEW 1UL	/* no ioctl has this number */

struct fake_kernel {
	int open_error;		/* what the next open fails with; 0: it works */
	unsigned int abi;
	int pin_error, unpin_error, map_error, view_error, export_error;	/* likewise, until reset */
	int info_error, query_error, unmap_error, generations_error, read_error, poll_error;	/* likewise */
	int spurious;		/* so many polls say that there is an event; the last one takes all its time, and more */
	int short_read;		/* the next reads give half an event */
	int full_error;		/* when there are FAKE_PINS */
	uint32_t mappings_of, views_of, exports_of;	/* what PEERDMA_QUERY says of each pin */
	struct peerdma_info info;	/* what PEERDMA_INFO says, but for abi */
	int old;		/* a module whose INFO ends with `revocations' */
	void *view_at;		/* where views are mapped; as views of device memory, the kernel cannot read them.  NULL: anywhere */
	uint64_t memlock;	/* sys_memlock_limit() */
	unsigned int segments;	/* that a mapping has */
	int device_memory;	/* pins are of provider "nvidia" */
	int revoked_at_once;	/* so many pins are revoked before the call returns, and another thread has read the event */
	uint64_t allocation, origin;	/* no pin goes beyond a multiple of the first, from the second on; 0: any may */
	int fail_nth, nth_error;	/* the nth pin from now on fails so */
	unsigned long nth_call;	/* the ioctl, or FAKE_VIEW, of which the nth from now on fails with nth_error; 0: none */
	int nth;
	uint32_t busy;		/* the pin with this handle is not ended: -EBUSY */
	int keep_events;	/* of pins that are unpinned, as if they were being read just then */

	int opens, closes, unpins, unmaps, mmaps, munmaps;	/* counted */
	unsigned int last_domain, last_bus, last_devfn;
	/* What the last call of each was given. */
	struct peerdma_pin_args last_pin;
	struct peerdma_pin_dmabuf_args last_dmabuf;
	struct peerdma_map_args last_map;
	struct peerdma_export_args last_export;
	uint64_t last_offset, last_length;	/* of a mapping of memory */
	int last_prot;
	int polls, first_timeout, last_timeout;	/* counted, and in milliseconds */
	struct {
		int live, revoked;
		uint32_t flags, generation;
		uint64_t addr, length, pinned_length;
	} pins[FAKE_PINS];	/* by handle */
	int mappings;		/* alive */
};

extern struct fake_kernel fake;

void fake_reset(void);
void fake_revoke(uint32_t handle);	/* and queues its event */
