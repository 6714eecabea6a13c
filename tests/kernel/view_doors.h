/* SPDX-License-Identifier: MIT */
/*
 * view_doors.h - doors through which other parts of the kernel could reach the memory of a
 * CPU view after its revocation.
 */
#pragma once

#include "peerdma_test.h"

#define VIEW_LENGTH	(2 * GPU_PAGE)
#define OWNED		'o'	/* the bytes of the memory while the view is live */
#define REUSED		'r'	/* and when it is in use by others */

struct door {
	const char *name;
	const char *(*missing)(void);	/* optional: why this machine lacks the door, or NULL */
	/* Asks for the memory at the view, and checks the refusal; or leaves the door open. */
	void (*enter)(char *view);
	/* Optional.  The pin has ended and the memory belongs to others: nothing reaches it. */
	void (*after)(char *view);
};

/* A call that looks for the view's pages with get_user_pages(). */
#define NO_PAGES(call)	CHECK((call) < 0 && (errno == EFAULT || errno == EEXIST))

/* view_doors_calls.c: system calls.  A list that ends with an empty door. */
extern const struct door doors_of_calls[];
/* Before the process gives up its rights: opens what only root may. */
void doors_of_calls_prepare(const char *disk);

/* view_doors_vfio.c: `card' is the PCI address of a card that is bound to vfio-pci, or "-". */
extern const struct door door_vfio;
void door_vfio_prepare(const char *card);

/* view_doors_kvm.c */
extern const struct door door_kvm;
