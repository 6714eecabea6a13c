// SPDX-License-Identifier: MIT
/*
 * server.c - several processes in one context of a GPU, as with MPS.
 *
 * Each client has contexts of its own, whose handles, streams and memory no other client
 * can use and which end with that client.  The contexts share what a GPU knows of a
 * context: its tokens, its count in exclusive mode, its state after a fault, and the
 * address space, which is why the windows of the clients must not overlap.
 */
#include "clients.h"

static struct sg_server *find_locked(struct sg *sg, u64 user, u32 number)
{
	struct sg_server *server;

	sg_list_for_each(server, &sg->servers, struct sg_server, link) {
		if (server->user == user && server->number == number)
			return server;
	}
	return NULL;
}

static bool is_taken_locked(const struct sg_server *server, struct sg *sg, u64 base, u64 length)
{
	const struct sg_proc *proc;

	sg_list_for_each(proc, &sg->procs, struct sg_proc, link) {
		if (proc->server == server && base < proc->window_base + proc->window_len &&
		    proc->window_base < base + length)
			return true;
	}
	return false;
}

int sg_server_join_locked(struct sg_proc *proc, u64 user, u32 number, u64 base, u64 length)
{
	struct sg *sg = proc->sg;
	struct sg_server *server = find_locked(sg, user, number);

	if (server && is_taken_locked(server, sg, base, length))
		return -EEXIST;
	if (!server) {
		server = sg_zalloc(sizeof(*server));
		if (!server)
			return -ENOMEM;
		server->user = user;
		server->number = number;
		sg_list_add_tail(&sg->servers, &server->link);
	}
	server->procs++;
	proc->server = server;
	return 0;
}

void sg_server_leave_locked(struct sg_proc *proc)
{
	struct sg_server *server = proc->server;

	if (!server || --server->procs)
		return;
	sg_list_del(&server->link);
	sg_free(server);
}

void sg_shared_enter_locked(struct sg_ctx *ctx)
{
	struct sg_shared_ctx *shared = ctx->shared;

	if (!shared)
		return;
	if (!shared->ctxs++) {
		shared->p2p_token = ctx->p2p_token;
		shared->va_space_token = ctx->va_space_token;
		shared->faulted = false;
	}
	ctx->p2p_token = shared->p2p_token;
	ctx->va_space_token = shared->va_space_token;
}

void sg_shared_leave_locked(struct sg_ctx *ctx)
{
	if (ctx->shared)
		ctx->shared->ctxs--;
}
