/* SPDX-License-Identifier: MIT */
/*
 * clients.h - the core's highest layer: clients, their contexts and handles, the calls of
 * softgpu_uapi.h, what personalities call, and the GPUs of the machine.
 */
#ifndef SG_CLIENTS_H
#define SG_CLIENTS_H

#include "../work/work.h"

/* Memory without an address. */
struct sg_phys {
	struct sg_obj obj;
	struct sg_mem *mem;
};

struct sg_reservation {
	struct sg_node node;		/* in proc->reservations */
	struct sg_link in_client;
	struct sg_extent *window;
};

/* Processes that share contexts, as with MPS. */
struct sg_server {
	struct sg_link link;		/* sg->servers */
	u64 user;			/* fixed, as is number */
	u32 number;
	u32 procs;			/* its member processes; freed with the last one */
	struct sg_shared_ctx at[SOFTGPU_MAX_GPUS];	/* by the GPU's index */
};

/* ---- server.c ---- */

/*
 * Makes a process with this window a client of a server.  -EEXIST: the window overlaps
 * another client's; -ENOMEM.
 */
int sg_server_join_locked(struct sg_proc *proc, u64 user, u32 number, u64 base, u64 length);
void sg_server_leave_locked(struct sg_proc *proc);
/* A context joins or leaves those that its server's clients share. */
void sg_shared_enter_locked(struct sg_ctx *ctx);
void sg_shared_leave_locked(struct sg_ctx *ctx);

/* ---- ctx.c ---- */

int sg_ctx_create(struct sg_client *client, u32 flags, u32 *handle);
/* Drops the lock.  Frees everything that belongs to the context; the caller holds a reference. */
void sg_ctx_destroy_locked(struct sg_ctx *ctx);
/*
 * Returns the context with these tokens, or NULL.  If several share them, the one whose
 * process has va in its window.
 */
struct sg_ctx *sg_ctx_by_token_locked(struct sg *sg, u64 p2p_token, u32 va_space_token, u64 va);

/* ---- allocate.c ---- */

/* Returns the heap of a context with a reference, as sg_ctx_live_locked(); 0: the client's own. */
int sg_heap_get_locked(struct sg_client *client, u32 ctx, struct sg_heap **out);
void sg_heap_put_locked(struct sg_heap *heap);
int sg_buf_alloc(struct sg_client *client, struct softgpu_mem_alloc *a);
/* kinds: a bit for each enum softgpu_kind. */
int sg_buf_free(struct sg_client *client, u64 va, u32 kinds);
int sg_buf_register(struct sg_client *client, struct softgpu_host_register *a);
int sg_buf_unregister(struct sg_client *client, u64 va);

/* ---- vmm.c ---- */

int sg_vmm_window(struct sg_client *client, struct softgpu_window *a);
int sg_vmm_reserve(struct sg_client *client, struct softgpu_va_reserve *a);
int sg_vmm_release(struct sg_client *client, u64 va);
int sg_vmm_map(struct sg_client *client, struct softgpu_map *a);
int sg_vmm_unmap(struct sg_client *client, u64 va, u64 len);
int sg_vmm_access(struct sg_client *client, u64 va, u64 len, u32 access);
/* Drops the lock.  Frees the bufs in a reservation, then the reservation. */
void sg_reservation_destroy_locked(struct sg_proc *proc, struct sg_reservation *r);

/* ---- ipc.c ---- */

int sg_ipc_export(struct sg_client *client, struct softgpu_ipc_export *a);
int sg_ipc_open(struct sg_client *client, struct softgpu_ipc_open *a);
int sg_ipc_close(struct sg_client *client, u64 va, u32 kinds);

/* ---- phys.c ---- */

int sg_phys_create(struct sg_client *client, struct softgpu_phys_create *a);
int sg_phys_export(struct sg_client *client, struct softgpu_phys_export *a);
int sg_phys_import(struct sg_client *client, struct softgpu_phys_import *a);

/* ---- query.c ---- */

int sg_query(struct sg_client *client, struct softgpu_query *a);
int sg_set_attr(struct sg_client *client, struct softgpu_set_attr *a);
int sg_info_call(struct sg_client *client, struct softgpu_info *a);

#endif
