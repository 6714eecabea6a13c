/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * peerdma_client.h - a test module that pins memory as a driver does, by
 * peerdma_kapi.h: /dev/peerdma_client.  One pin per open file.
 */
#ifndef PEERDMA_CLIENT_H
#define PEERDMA_CLIENT_H

#include <linux/ioctl.h>
#include <linux/types.h>

struct client_pin {
	__u64 addr;
	__u64 length;
	__u32 delay_ms;		/* how long its revoke takes */
	__u32 reserved;
};

struct client_state {
	__u32 begun;		/* calls of revoke, and how many have returned */
	__u32 done;
	__u64 page;		/* what peerdma_pin_page() said inside; ~0: it was not asked */
};

struct client_map {
	__u64 dma_addr;		/* out: of the first run */
	__u64 length;
};

#define CLIENT_PIN	_IOW(0xb9, 0, struct client_pin)
#define CLIENT_UNPIN	_IO(0xb9, 1)
#define CLIENT_STATE	_IOR(0xb9, 2, struct client_state)
/* As a provider that is late: a pin is revoked by generation << 32 | handle. */
#define CLIENT_REVOKE	_IOW(0xb9, 3, __u64)

/*
 * CLIENT_HOLD: a call that unmaps pages at these addresses of the calling process waits until CLIENT_LET_GO, or until this file is
 * closed.  It can be given once per open file, and does not use delay_ms.  CLIENT_HOLDS returns when such a call waits; after 10 s
 * without one it fails with ETIMEDOUT.
 */
#define CLIENT_HOLD	_IOW(0xb9, 4, struct client_pin)
#define CLIENT_HOLDS	_IO(0xb9, 5)
#define CLIENT_LET_GO	_IO(0xb9, 6)

/* Maps the pin for the DMA card, for both directions; one mapping per open file.  Without the card: ENODEV. */
#define CLIENT_MAP	_IOR(0xb9, 7, struct client_map)
#define CLIENT_UNMAP	_IO(0xb9, 8)

#endif
