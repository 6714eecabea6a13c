/* SPDX-License-Identifier: MIT */
/* util.h - a software GPU in this process, and short words for its calls. */
#pragma once

#include "../check.h"
#include "sg.h"
#include "softgpu_uapi.h"

#define WINDOW_BASE	0x200000000ULL
#define WINDOW_LEN	0x100000000ULL
#define PAGE		SG_PAGE_SIZE
#define VRAM_PHYS	0xe0000000ULL	/* where the tests' GPU 0 pretends its BAR is */
#define MAX_TEST_GPUS	4

/* Printed with each failure: seed and step of a random run. */
extern u64 test_seed, test_step;

struct machine {
	struct sg *sg;
	u32 gpus;
	u8 *vram[MAX_TEST_GPUS];
	u64 vram_size;
	/* Of struct sg_gpu_desc; set before machine_up. */
	void (*hide)(void *priv, const void *proc_key, u64 va, u64 length);
};

/* Its memory may be moved to system memory, whose physical addresses are its addresses. */
void machine_system(struct sg_gpu_desc *desc);
/* GPUs with that much VRAM each; aperture and reserved as sg_gpu_desc has them. */
void machine_up(struct machine *m, u32 gpus, u64 vram, u64 bar1, u64 reserved);
/* Checks that every count is back where it started. */
void machine_down(struct machine *m);
void machine_idle(struct machine *m);

/* A client of process `key` with a window and a context. */
struct user {
	struct sg_client *client;
	u32 ctx;
	struct sg *sg;
	const void *key;
};
void user_up(struct user *u, struct machine *m, u32 gpu, const void *key);
/* With a window of the test's choice. */
void user_up_at(struct user *u, struct machine *m, u32 gpu, const void *key, u64 base, u64 length);
/*
 * With a window that is memory of this process, so that host memory in it can be touched:
 * storage has length and a page more.  As much as is reserved in it is at what is returned.
 */
u8 *user_up_in(struct user *u, struct machine *m, const void *key, u8 *storage, u64 length, u64 reserved);
/* Unless it is down. */
void user_down(struct user *u);
/* Copies to and from this process; an address in the zero page faults, as it does for real. */
extern const struct sg_host_ops user_host_ops;

/* The calls, with the struct's size filled in; they return what sg_call() does. */
#define CALL(client, name, arg) ({						\
	__typeof__(arg) arg_ = (arg);						\
	arg_->size = sizeof(*arg_);						\
	sg_call(client, _IOC_NR(name), arg_, sizeof(*arg_));			\
})

int mem_alloc(struct user *u, u64 len, u64 *va);
int mem_free(struct user *u, u64 va);
/* Or the program ends. */
u64 mem_new(struct user *u, u64 len);
/* One that does not wait for the default stream, and one that does. */
u32 stream_new(struct user *u);
u32 stream_blocking(struct user *u);
struct softgpu_query query(struct user *u, u64 va);
int copy(struct user *u, u32 stream, u64 dst, u64 src, u64 len, u32 flags);
/* Bytes. */
int fill(struct user *u, u32 stream, u64 dst, u64 len, u32 value, u32 flags);
int stream_sync(struct user *u, u32 stream);
int stream_query(struct user *u, u32 stream);
/* A word as this user sees it. */
u32 word_at(struct user *u, u64 va);
void set_word_at(struct user *u, u64 va, u32 word);
/* Makes host memory, of a kind that is the host's, known to the context; and unknown again. */
int enlist(struct user *u, u32 kind, u64 va, u64 len);
int discharge(struct user *u, u64 va);
#define HOST(p) ((u64)(uintptr_t)(p))

struct sg_gpu_stats stats_of(struct machine *m, u32 gpu);
#define CHAOS(m, ...) sg_chaos_set((m)->sg, &(struct sg_chaos){ __VA_ARGS__ })

/* rnd() for this type of number. */
u64 rnd_u64(u64 *state);

/* A pin that counts what happens to it. */
struct tpin {
	struct sg_pin pin;
	int callbacks, unmaps, frees;		/* atomic */
	void (*on_callback)(struct tpin *t);	/* inside the callback */
	void *arg;
};
extern const struct sg_pin_ops tpin_ops;
int tpin_get(struct tpin *t, struct user *u, u64 va, u64 len, bool persistent);
/* Puts it, and waits until its storage is the caller's again, which a revocation may have had when the put came. */
int tpin_put(struct tpin *t, struct user *u, bool persistent);

/* One store by a device, through the aperture of GPU 0. */
void dma_write(struct machine *m, struct user *u, u64 va, u32 value);
int tpin_count(const int *p);
