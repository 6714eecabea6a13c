/* SPDX-License-Identifier: MIT */
/*
 * top.h - what `peerdma top` shows: one look at everything that counts pins and
 * DMA on this machine, and what has changed since the look before.
 *
 *   rows.c     what it is made of
 *   sample.c   takes it; its sources: kernel_files.c, devices.c, gpu_rows.c, processes.c
 *   rates.c    compares two           order.c     sorts processes
 *   render.c   text                   top_json.c  JSON
 *   screen.c   the terminal
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/pci.h"
#include "base/tool.h"

/* What only ever grows while its owner lives. */
enum top_counter {
	TOP_PINS, TOP_UNPINS, TOP_MAPS, TOP_UNMAPS, TOP_EXPORTS, TOP_REVOCATIONS, TOP_FAULTS,
	/* Of caches; ended: regions that were invalidated or found stale */
	TOP_GETS, TOP_HITS, TOP_ENDED,
	TOP_COPIES, TOP_COPIED,		/* a GPU's own engines; of a card: copies begun */
	TOP_READ, TOP_WRITTEN,		/* bytes that devices read from memory, and wrote to it */
	TOP_COUNTERS,
};

struct top_counts {
	uint32_t known;			/* bits of enum top_counter */
	/* Those that were known before as well, and have not begun anew */
	uint32_t rated;
	uint64_t value[TOP_COUNTERS];
	uint64_t change[TOP_COUNTERS];	/* since the look before */
	double rate[TOP_COUNTERS];	/* a second */
};

#define TOP_DEVICES_TEXT 64

struct top_process {
	uint64_t pid;
	char *comm;			/* cleaned */
	uint64_t pins, revoked;		/* there now; revoked: hold nothing, not yet unpinned */
	uint64_t held;			/* bytes */
	uint64_t mappings, views, exports;
	uint64_t caches;
	struct top_counts counts;
};

struct top_device {
	char name[TOP_DEVICES_TEXT];	/* a PCI address, or the kernel's name; cleaned */
	char driver[24];
	uint64_t mappings;
	struct top_counts counts;
};

struct top_gpu {
	uint64_t index;
	char pci[PCI_NAME_MAX];
	char *name, *uuid;		/* cleaned */
	bool has_bar1;
	uint64_t total, used;
	struct top_counts counts;	/* a software GPU's */
};

struct top_sample {
	double time;			/* seconds, of a clock that is never set */
	double interval;		/* since the look before; 0: there was none */
	bool has_module;		/* peerdma.ko's counters */
	uint64_t live;
	struct top_counts module;
	bool has_pins;
	struct top_gpu *gpus;
	size_t gpu_count;
	struct top_device *devices;
	size_t device_count;
	struct top_process *processes;
	size_t process_count;
	char **missing;			/* what could not be read, why, and what to do */
	size_t missing_count;
};

static inline void top_count(struct top_counts *c, enum top_counter which, uint64_t n)
{
	c->known |= 1U << which;
	c->value[which] += n;
}

/* Of a process: all that were counted, which have in them what it holds of revoked pins. */
static inline uint64_t top_revocations(const struct top_process *p)
{
	uint64_t counted = p->counts.value[TOP_REVOCATIONS];

	return counted > p->revoked ? counted : p->revoked;
}

static inline bool top_known(const struct top_counts *c, enum top_counter which)
{
	return c->known & (1U << which);
}

static inline bool top_rated(const struct top_counts *c, enum top_counter which)
{
	return c->rated & (1U << which);
}

/* ---- sample.c ---- */

/* 0 or -ENOMEM.  What cannot be read is in `missing`. */
int top_look(const struct tool *tool, struct top_sample *s);

/* ---- rows.c ---- */

void top_free(struct top_sample *s);
bool top_sees_something(const struct top_sample *s);

/* Found, or added and empty; NULL: out of memory.  `comm` is for a new one: threads may have names of their own. */
struct top_process *top_process(struct top_sample *s, uint64_t pid, const char *comm);
struct top_device *top_device(struct top_sample *s, const char *name);
int top_missing(struct top_sample *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- the sources: 0 or -ENOMEM ---- */

int top_read_module(const struct tool *tool, struct top_sample *s);
int top_read_pins(const struct tool *tool, struct top_sample *s);
int top_read_users(const struct tool *tool, struct top_sample *s);
int top_read_clients(const struct tool *tool, struct top_sample *s);
int top_read_cards(const struct tool *tool, struct top_sample *s);
int top_read_rdma(const struct tool *tool, struct top_sample *s);
int top_read_gpus(const struct tool *tool, struct top_sample *s);
int top_read_caches(const struct tool *tool, struct top_sample *s);

/* ---- kernel_files.c: their inputs may be any bytes ---- */

/* "name\tnumber" or "name: number" in one of the lines: false: there is none. */
bool top_number(const char *data, const char *name, uint64_t *out);
/* One line that begins with `name`, what is after it; cleaned, cut to `size`. */
bool top_word(const char *data, const char *name, char *out, size_t size);
/* A driver's table of clients; of one without devices, of processes alone.  0, -ENOMEM, or -EBADMSG: none of its lines was taken. */
int top_clients_parse(const char *data, size_t length, const char *driver, struct top_sample *s);
/* "0000:03:00.0:2,0000:04:00.0:1" of a pin. */
int top_pin_devices(const char *text, struct top_sample *s);

/* ---- rates.c ---- */

void top_rates(const struct top_sample *before, struct top_sample *now);
/* Bytes both ways a second, where one is known. */
bool top_dma(const struct top_counts *c, double *rate);

/* ---- order.c ---- */

/* Of `name`, NULL or an abbreviation of one: false: there is none. */
enum top_order { TOP_BY_HELD, TOP_BY_GETS, TOP_BY_DMA, TOP_BY_REVOCATIONS, TOP_BY_PID, TOP_BY_NAME,
		 TOP_ORDERS };
bool top_order_find(const char *name, enum top_order *order);
const char *top_order_name(enum top_order order);
void top_sort(struct top_sample *s, enum top_order order);

/* ---- render.c, top_json.c ---- */

/* Tables are no wider than `columns`; other lines may be. */
void top_text(const struct tool *tool, const struct top_sample *s, enum top_order order,
	      unsigned int columns, FILE *to);
int top_json(const struct top_sample *s);

/* ---- screen.c ---- */

struct top_wish {
	double delay;		/* seconds */
	uint64_t count;		/* 0: until it is ended */
	enum top_order order;
};
/* The exit code. */
int top_screen(const struct tool *tool, const struct top_wish *wish);
