/* SPDX-License-Identifier: MIT */
/* mover_test.h - between the parts of mover_test: the exporter's side, and the importers'. */
#pragma once

#include "importer.h"
#include "peerdma_test_card.h"

#define LENGTH (16 * PAGE)

/* ---- a buffer: mover_buffer.c ---- */

extern int mover;		/* /dev/dmabuf_mover */
extern uint32_t number;
extern int dmabuf;
extern char *bytes;		/* a program's view of it */

void buffer_make(void);
/* Nothing of it may be mapped any more, and no importer may have written to it after it let go. */
void buffer_end(void);
/* 0 or the errno. */
int control(const char *command);
/* What it tells; -1: nothing of that name. */
long status(const char *name);
/* Is it mapped by an importer where it was before it moved? */
bool holds_old(void);

/* ---- the importer: mover_subject.c; each call gives 0 or an errno ---- */

#define BRIDGE 100		/* no importer_kind */

struct subject {
	const char *name;
	uint32_t kind;		/* enum importer_kind, or BRIDGE */
	bool movable;		/* lets the exporter move what is mapped */
	bool revocable;
	bool keeps;		/* does not unmap when it is told */
	bool newer;		/* only on kernels where importers promise to unmap when they are told */
};

enum { A_STATIC, A_DYNAMIC, A_LAZY, A_PINNING, A_NO_PEER, THE_BRIDGE, BRIDGE_WITHOUT_PIN, A_DEAF, SUBJECTS };
extern const struct subject subjects[SUBJECTS];
extern const struct subject *s;	/* the one under test */

extern int im;			/* /dev/peerdma_importer, or /dev/peerdma */
extern struct peerdma_pin_dmabuf_args pinned;
extern uint64_t address;	/* the card's */

void subject_open(void);
void subject_close(void);
int attach(void);
int map(void);
int unmap_it(void);
void detach(void);
bool bridge_revoked(void);
/* Does the card reach the bytes that a program sees? */
void transfer(void);
