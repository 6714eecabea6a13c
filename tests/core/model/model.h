/* SPDX-License-Identifier: MIT */
/*
 * model.h - programs of random calls, run on the core and on a naive second
 * version of its rules, which must agree after every step.
 *
 * The naive version is flat arrays that are walked: it has no trees, no lists,
 * no reference counts.  What it can say beforehand it says: the errno of each
 * call, the address of each allocation, every handle, buffer id and serial, and
 * which pin chaos takes.
 *
 * A program is a world (how many GPUs, how large) and operations with four
 * numbers each.  What the numbers mean depends on what is there when it runs, so
 * any part of a program is a program: that is what lets failures be shrunk.
 */
#pragma once

#include "util.h"

#define GPUS		3
#define PROCS		3
#define CLIENTS		6
#define CTXS		8
#define MEMS		64
#define RANGES		40
#define BUFS		40
#define PHYS		8
#define RESERVATIONS	6
#define STREAMS		8
#define EVENTS		6
#define SHARES		16
#define PINS		32
#define MOVABLES	8
#define JOBS		24
#define WINDOW_PAGES	256	/* at most */
#define VRAM_MAX	48u	/* pages */
#define MEM_PAGES	VRAM_MAX	/* of one allocation, at most */

#define SLOT		512u	/* small allocations come in these; also what contents are told by */
#define SLOTS		((u32)(PAGE / SLOT))

/* ---- programs ---- */

struct config {
	u32 gpus, procs;
	u32 vram, bar1, reserved, window;	/* pages */
	u32 per_pin, mode, strict;
	u32 clients;			/* bits: which processes are a server's clients */
};

struct op {
	u32 kind;		/* index in op_table */
	u32 arg[4];
};

#define OPS_MAX	4096
struct program {
	struct config config;
	u32 count;
	struct op ops[OPS_MAX];
};

struct op_kind {
	const char *name;
	u32 weight;
	void (*run)(const u32 *arg);
};
extern const struct op_kind op_table[];
extern const u32 op_kinds;

void program_random(struct program *p, u64 seed);
u32 program_length(u64 seed);
void program_print(const struct program *p, FILE *to);
/* 0, or the number of the line that is wrong. */
u32 program_read(struct program *p, FILE *from);
/* Ends the process when the two versions disagree. *step is kept up to date. */
void program_run(const struct program *p, u32 *step);

/* Makes a failing program as short as it gets, by running parts of it in child processes. */
void shrink(struct program *p);
/* Whether it fails, in a child process; its output goes to /dev/null unless `show`. */
bool fails(const struct program *p, bool show, u32 *step);

/* ---- the naive world ---- */

struct n_gpu {
	bool used, removed;
	u8 *vram;
	u64 revocations;
};

struct n_proc {
	char key;		/* its address is the key */
	bool has_window;
	u32 next_handle;
};

struct n_client {
	bool used;
	u32 proc, gpu;
	struct sg_client *c;
};

struct n_ctx {
	bool used, faulted, shared;	/* shared: one with those of its server's other clients */
	u32 proc, client, gpu, handle;
	u64 p2p_token;
	u32 va_space_token;
};

struct n_mem {
	bool used, system;		/* system: moved to system memory */
	u32 gpu, pages;
	u32 imports;
	u8 cells[MEM_PAGES * SLOTS];	/* what each 512 bytes are filled with */
	bool no_rdma;
	u64 phys[MEM_PAGES];		/* once a pin has told; else 0 */
};

enum { FREE, TAKEN, LIMBO };

struct n_range {
	bool used, slab, imported, in_reservation;
	bool copy;			/* what strict mode lets pin of managed memory */
	u32 proc, mem, bufs, access;
	int ctx;			/* -1: none */
	u32 client;			/* of a slab without a context */
	u64 va, pages, seq;
	u8 slots[SLOTS];
};

struct n_buf {
	bool used, sync;
	u32 kind, proc, client, opens, host_flags;
	int ctx, range, phys;		/* -1: none */
	int share, import;		/* its own; the one that it was opened by */
	int copy;			/* MANAGED, strict: a range; -1: not yet */
	u64 va, len, id;
};

struct n_share {
	bool used, dead;
	u64 id, key[2];
	u32 buf;
};

struct n_phys {
	bool used, gone;		/* gone: the handle is released */
	u32 proc, client, handle, mem;
};

struct n_reservation {
	bool used;
	u32 proc, client;
	u64 va, pages;
};

struct n_stream {
	bool used, non_blocking;
	u32 ctx, handle;
};

struct n_event {
	bool used;
	u32 proc, client, handle;
};

struct n_pin {
	struct tpin t;
	bool used, persistent, orphan;
	int range;			/* -1: it has gone, or it is a keep's pin */
	int movable;			/* -1: it is a range's */
	u32 mem;
	u64 va, first, pages, serial;
};

struct n_movable {
	struct sg_movable k;
	bool used;
	u32 proc, mem;
	u64 va, first, pages;
};

/* Work that is queued and perhaps not done. */
struct n_work {
	bool used, held;
	u32 ctx;
	int stream;			/* -1: the default one */
	int mem[2];			/* destination and source; -1: host memory */
	u32 first[2], cells;
	u64 va[2];
};

struct world {
	struct config config;
	struct sg *sg;
	struct n_gpu gpus[GPUS];
	struct n_proc procs[PROCS];
	struct n_client clients[CLIENTS];
	struct n_ctx ctxs[CTXS];
	struct n_mem mems[MEMS];
	struct n_range ranges[RANGES];
	struct n_buf bufs[BUFS];
	struct n_share shares[SHARES];
	struct n_phys phys[PHYS];
	struct n_reservation reservations[RESERVATIONS];
	struct n_stream streams[STREAMS];
	struct n_event events[EVENTS];
	struct n_pin pins[PINS];
	struct n_movable movables[MOVABLES];
	struct n_work works[JOBS];
	struct sg_chaos chaos;
	u32 pins_until_revoke;
	u64 random;			/* of chaos */
	u64 last_id, last_share, last_serial, range_seq;
	u64 broken, managed;		/* rules of strict mode */
	u8 host[16 * SLOT];
};
extern struct world w;
/* Plants a mistake in the naive version, to see it found and shrunk. */
extern bool planted;

#define COUNT(a)	((u32)(sizeof(a) / sizeof((a)[0])))
/* The index of one that is used, chosen by a number; -1 if none is. */
#define PICK(a, n)	pick(&(a)[0].used, sizeof((a)[0]), COUNT(a), n)
/* The index of one that is not used; -1 if all are. */
#define SPARE(a)	spare(&(a)[0].used, sizeof((a)[0]), COUNT(a))
int pick(const bool *used, size_t stride, u32 count, u32 n);
int spare(const bool *used, size_t stride, u32 count);

/* naive.c: what stands where, in the address space of a process; -1: nothing */
int buf_at(u32 proc, u64 va);
int range_at(u32 proc, u64 va);
int reservation_at(u32 proc, u64 va);
bool bufs_overlap(u32 proc, u64 va, u64 len);
bool ranges_overlap(u32 proc, u64 va, u64 len);
/* The lowest free stretch of the window; 0: none. */
u64 window_find(u32 proc, u64 pages, u64 align);
bool window_free(u32 proc, u64 va, u64 pages);
/* Where a process has its window; clients of a server have theirs side by side. */
u64 window_base(u32 proc);
bool is_client(u32 proc);
/* Some context on the GPU that a server's client shares; -1: there is none. */
int shared_on(u32 gpu);
bool same_ctx(int a, int b);
u64 vram_used(u32 gpu);
u64 bar1_used(u32 gpu);
/* With one pin more. */
u64 bar1_used_with(u32 gpu, u32 mem, u64 first, u64 pages);
/* Does it lack aperture for one pin more? */
bool bar1_short(u32 mem, u64 first, u64 pages);
bool is_kept(u32 mem);
u32 ctxs_on(u32 gpu);
u32 pins_on(u32 gpu);
void slab_settle(u32 range);
bool hits(u32 *countdown);
u32 take_handle(u32 proc);
/* A client of the process; -1: it has none. */
int client_of(u32 proc, u32 n);
bool client_removed(u32 client);
/* The GPU of a context, or of the client that allocates in none. */
u32 gpu_for(int ctx, u32 client);
/* Chooses where to allocate, and by which client: a context, or -1 for none; false: there is nothing to choose. */
bool choose_ctx(u32 n, u32 by, bool none, int *ctx, u32 *client);

/* ops_life.c: a GPU's memory has no owner any more */
void vram_away(u8 *vram);

/* ends.c: what goes with what, after the core has done it */
void pin_ended(u32 pin, int callbacks);
void buf_gone(u32 buf);
void ctx_gone(u32 ctx);
void client_gone(u32 client);
void gpu_gone(u32 gpu);
/* Forgets memory that nothing refers to, and GPUs. */
void sweep(void);

/* ops_pin.c: part of a range, or a little more than there is */
u64 some_pages(const struct n_range *r, const u32 *arg, u64 *va);

/* ops_mem.c */
int new_mem(u32 gpu, u64 pages);
int new_range(u32 proc, int ctx, u32 mem, u64 va);

/* ops_work.c: makes queued work done */
void settle_ctx(u32 ctx);
void settle_all(void);
/* Of all contexts but this one. */
void settle_others(int ctx);
/* Work that strict mode holds back and that touches these addresses. */
bool held_work_on(u32 proc, u64 va, u64 len);
/* The CPU's view of a page of live memory on a GPU that is there. */
const u8 *look(u32 range, u32 cell);

/* check.c */
void compare_counts(void);
void check_all(void);

/* The operations, by the file they stand in. */
#define OPS(x)									\
	/* ops_life.c */							\
	x(open, 6) x(close, 3) x(ctx_create, 8) x(ctx_destroy, 4) x(window, 3)	\
	x(gpu_remove, 1) x(gpu_add, 2) x(info, 4)				\
	/* ops_mem.c */								\
	x(alloc_small, 80) x(alloc, 90) x(free, 110)				\
	x(register, 14) x(unregister, 10) x(set_attr, 12) x(query, 40)		\
	/* ops_vmm.c */								\
	x(reserve, 16) x(release, 10) x(phys_create, 18) x(phys_release, 12)	\
	x(map, 36) x(unmap, 20) x(access, 18)					\
	/* ops_ipc.c */								\
	x(ipc_export, 24) x(ipc_open, 40) x(ipc_close, 24)			\
	/* ops_pin.c */								\
	x(pin, 130) x(pin_token, 40) x(put, 110) x(put_wrong, 12) x(hold, 24)	\
	x(pages, 50) x(revoke, 12) x(chaos, 12)					\
	/* ops_movable.c */							\
	x(movable, 24) x(movable_put, 16) x(movable_pin, 30) x(movable_move, 60)		\
	/* ops_work.c */							\
	x(stream_create, 8) x(stream_destroy, 5) x(stream_sync, 8)		\
	x(event_create, 5) x(event_destroy, 3) x(event_record, 5)		\
	x(event_wait, 4) x(event_sync, 5) x(fill, 34) x(copy, 40)		\
	x(read, 16) x(fault, 1) x(ctx_sync, 6)
#define OP_DECLARE(name, weight) void op_##name(const u32 *arg);
OPS(OP_DECLARE)
