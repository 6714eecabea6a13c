/* SPDX-License-Identifier: MIT */
/*
 * child.h - one process under stress: what it holds, and what it may do.
 *
 * A child does random things (ops.c) and ends in a random way (ends.c).  As
 * long as no other process interferes it knows exactly what each call must answer; where
 * threads or processes race, or modules come and go, it knows what is allowed.
 * What it must not see, it prints, and exits with 1.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"
#include "rnd.h"

/* 0 or an errno; errno.h and sys/ioctl.h are the caller's. */
#define CALL(fd, name, arg) \
	((arg)->size = sizeof(*(arg)), ioctl(fd, name, arg) ? errno : 0)

#define AREAS	6
#define PINS	8
#define BUFFERS	2

/* An allocation. */
struct area {
	uint64_t va, len;	/* len 0: none */
	bool device;
	bool queued;		/* a copy from it may not be done: host memory must stay until it is */
	bool busy;		/* others write to it, too: the contents are not known */
	bool known;		/* the first word is `tag' */
	uint64_t tag;
};

/* A dma-buf that peerdma imports. */
struct buffer {
	bool live;
	bool movable;		/* dmabuf_mover's: what follows */
	bool revoked;
	bool wild;		/* orders are out for its importers: what comes of them is not known */
	int fd;
	uint32_t number;
	uint64_t len;
	volatile uint64_t *bytes;
	uint64_t tag;		/* the first word */
};

/* A pin and what was made from it. */
struct held {
	uint32_t handle;	/* 0: none */
	uint32_t slot, generation;
	unsigned int made;		/* counts this child's pins: a handle may have gone to a later one */
	struct area *area;	/* NULL when freed */
	struct buffer *buffer;	/* it is of a dma-buf: no view, no dma-buf of its own */
	bool device, persistent;
	bool revoked;
	bool told;		/* its event was read */
	bool unsure;		/* may be revoked at any moment, or was */
	uint64_t offset;	/* from the pin's start to the area's */
	uint64_t length;
	uint32_t mapping;
	int dmabuf;		/* -1: none */
	volatile uint64_t *view;
	uint64_t view_length;
	bool view_of_dmabuf;
};

struct child {
	struct rnd rnd;
	struct user_gpu gpu;
	bool gpu_open;
	int pd;			/* /dev/peerdma, -1 when closed */
	const volatile uint32_t *generations;
	struct area areas[AREAS];
	struct buffer buffers[BUFFERS];
	struct buffer dropped;	/* what pins are of whose dma-buf the child has closed */
	struct held pins[PINS];
	unsigned int pins_made;
	bool churn;		/* modules come and go meanwhile */
	volatile bool race;	/* another thread does something now */
	uint32_t fpga_percent;
	int cards;
};

/* What all children together have done, in memory that they share. */
enum { DID_ALLOC, DID_FREE, DID_PIN, DID_UNPIN, DID_MAP, DID_VIEW, DID_TOUCH, DID_SIGBUS, DID_EXPORT,
       DID_COPY, DID_FPGA, DID_EVENT, DID_REVOKED, DID_RACE, DID_HEIR, DID_BUFFER, DID_PIN_BUFFER,
       DID_MOVE, DID_REVOKE, DIDS };
extern unsigned long *child_did;

static inline void child_count(int what)
{
	__atomic_add_fetch(&child_did[what], 1, __ATOMIC_RELAXED);
}

/* After about how many pins chaos revokes one of GPU memory, whosoever it is; 0: never. */
extern uint32_t revoke_every;

/* What identifies a child in messages. */
extern char child_name[64];

__attribute__((noreturn, format(printf, 1, 2))) void child_fail(const char *fmt, ...);

/*
 * Gives err back if it is 0, or `fine', or to be expected while others
 * interfere.  Anything else is a failure.
 */
int child_allow(struct child *c, const char *what, int err, int fine);

static inline int child_expect(struct child *c, const char *what, int err)
{
	return child_allow(c, what, err, 0);
}

/* The whole life; the exit code. */
int child_main(uint64_t seed, const struct gpu_ops *gpu, bool churn, uint32_t fpga_percent);

/* Begins a life that only holds a pin of each provider but the host, in a and behind it; false if it cannot. */
bool child_hold(struct child *c, const struct gpu_ops *gpu, struct area *a);

/* ops.c: does one random thing. */
void child_step(struct child *c);

/* pins.c: something random with a pin. */
void child_do_pin(struct child *c);
void child_do_unpin(struct child *c);
void child_do_map(struct child *c);
void child_do_view(struct child *c);

/* And on purpose.  0 or an errno. */
int child_pin(struct child *c, struct area *a, struct held *h);
int child_unpin(struct child *c, struct held *h);
int child_map(struct child *c, struct held *h);
int child_view(struct child *c, struct held *h);
void child_touch(struct child *c, struct held *h);
int child_fpga_copy(struct child *c);
/* Forgets a pin; views and dma-bufs go. */
void child_forget(struct child *c, struct held *h);
struct area *child_area(struct child *c, bool device);
struct held *child_free_slot(struct child *c);
struct held *child_some_pin(struct child *c);
/* For child_allow(). */
int child_may_be_stale(const struct held *h);

/* The memory of these is gone, the call that did it has returned: are the pins, too? */
void child_area_gone(struct child *c, struct area *a);
void child_ctx_gone(struct child *c);
/* After a race: what is still there? */
void child_take_stock(struct child *c);

/* The pin's memory is gone: nothing may lead to it any more. */
void child_check_revoked(struct child *c, struct held *h);

/* buffers.c: something random with a dma-buf, and on purpose.  0 or an errno. */
void child_do_buffer(struct child *c);
int child_make_buffer(struct child *c, struct buffer *b, bool movable);
void child_drop_buffer(struct child *c, struct buffer *b);
int child_pin_buffer(struct child *c, struct buffer *b, struct held *h);
void child_pin_on_buffer(struct child *c, struct buffer *b);
/* To dmabuf_mover, as its document says. */
int child_command(const struct buffer *b, const char *command);
int child_map_may(const struct held *h, int err);

/* ends.c */
void child_race(struct child *c);
int child_end(struct child *c);
