// SPDX-License-Identifier: MIT
/*
 * rdma.c - libibverbs, loaded; a queue pair that is connected to itself; transfers.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../lib/verbs/verbs_kernel.h"
#include "rdma.h"

#define PORTS_MAX	4
#define GIDS_MAX	16
/* For a device that reports nothing; its own limits are far below */
#define WAIT_SECONDS	60
#define WAIT_APART	10
#define SLOW_SECONDS	2
#define TRIAL		4096U
#define ACCESS		(VERBS_LOCAL_WRITE | VERBS_REMOTE_WRITE | VERBS_REMOTE_READ)

static bool fail(struct rdma *r, const char *call, int error)
{
	snprintf(r->why, sizeof(r->why), "%s: %s", call, error ? strerror(error) : "failed");
	return false;
}

/* ---- the library ---- */

static bool take(struct rdma *r, const char *name, void *function)
{
	void *symbol = dlsym(r->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	if (!symbol)
		snprintf(r->why, sizeof(r->why), "libibverbs.so.1 has no %s", name);
	return symbol;
}

static bool load(struct rdma *r)
{
	void *optional;

	r->library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!r->library) {
		snprintf(r->why, sizeof(r->why), "libibverbs.so.1 cannot be loaded");
		return false;
	}
	optional = dlsym(r->library, "ibv_reg_dmabuf_mr");
	memcpy(&r->reg_dmabuf, &optional, sizeof(optional));
	return take(r, "ibv_get_device_list", &r->list) &&
	       take(r, "ibv_free_device_list", &r->list_free) &&
	       take(r, "ibv_get_device_name", &r->name) && take(r, "ibv_open_device", &r->open) &&
	       take(r, "ibv_close_device", &r->close) &&
	       take(r, "ibv_query_port", &r->query_port) &&
	       take(r, "ibv_query_gid", &r->query_gid) && take(r, "ibv_alloc_pd", &r->alloc_pd) &&
	       take(r, "ibv_dealloc_pd", &r->dealloc_pd) &&
	       take(r, "ibv_create_cq", &r->create_cq) &&
	       take(r, "ibv_destroy_cq", &r->destroy_cq) &&
	       take(r, "ibv_create_qp", &r->create_qp) && take(r, "ibv_modify_qp", &r->modify_qp) &&
	       take(r, "ibv_destroy_qp", &r->destroy_qp) && take(r, "ibv_reg_mr", &r->reg) &&
	       take(r, "ibv_dereg_mr", &r->dereg) && take(r, "ibv_wc_status_str", &r->status_text);
}

/* ---- the device ---- */

static bool open_named(struct rdma *r, const char *device)
{
	void **all;

	errno = 0;
	all = r->list(NULL);
	snprintf(r->why, sizeof(r->why),
		 "libibverbs does not know %s: is its provider installed (ibverbs-providers)?",
		 device);
	for (int i = 0; all && all[i] && !r->context; i++) {
		if (strcmp(r->name(all[i]), device))
			continue;
		errno = 0;
		r->context = r->open(all[i]);
		if (!r->context)
			fail(r, "ibv_open_device", errno);
	}
	if (all)
		r->list_free(all);
	return r->context;
}

static bool active_port(struct rdma *r)
{
	for (uint8_t i = 1; i <= PORTS_MAX; i++) {
		memset(&r->port, 0, sizeof(r->port));
		if (r->query_port(r->context, i, &r->port))
			break;
		r->port_number = i;
		if (r->port.state == VERBS_PORT_ACTIVE)
			return true;
	}
	snprintf(r->why, sizeof(r->why), "none of its ports is active: no cable, or no address");
	return false;
}

/* ---- the queue pair ---- */

static bool step(struct rdma *r, struct verbs_qp_attr *attr, int which)
{
	int error = r->modify_qp(r->qp, attr, which | VERBS_A_STATE);

	return !error || fail(r, "ibv_modify_qp", error < 0 ? errno : error);
}

static bool make_queue(struct rdma *r)
{
	struct verbs_qp_init init = {
		.send_cq = r->cq, .recv_cq = r->cq, .type = VERBS_RC,
		.cap = { .send_wr = 4, .recv_wr = 1, .send_sge = 1, .recv_sge = 1 },
	};
	struct verbs_qp_attr first = {
		.state = VERBS_INIT, .port = r->port_number, .access = VERBS_REMOTE_WRITE |
		VERBS_REMOTE_READ,
	};

	if (r->qp)
		r->destroy_qp(r->qp);
	errno = 0;
	r->qp = r->create_qp(r->pd, &init);
	if (!r->qp)
		return fail(r, "ibv_create_qp, reliable connection", errno);
	return step(r, &first, VERBS_A_PKEY | VERBS_A_PORT | VERBS_A_ACCESS);
}

static bool connect_to(struct rdma *r, const struct rdma_end *other)
{
	struct verbs_qp_attr second = {
		.state = VERBS_RTR, .mtu = other->mtu, .peer = other->number, .peer_reads = 1,
		.rnr_timer = 12, .address = { .lid = other->lid, .port = r->port_number },
	};
	/*
	 * An answer that does not come is asked for again after a second, seven times; of another machine
	 * after a quarter, so that the device says so before its caller has lost patience.
	 */
	struct verbs_qp_attr third = { .state = VERBS_RTS, .timeout = r->apart ? 16 : 18,
				       .retries = 7, .rnr_retries = 7, .reads = 1 };

	if (r->gid_index >= 0) {
		memcpy(second.address.gid, other->gid, sizeof(other->gid));
		second.address.global = 1;
		second.address.own_gid = (uint8_t)r->gid_index;
		second.address.hop_limit = r->apart ? 64 : 1;
	}
	return step(r, &second, VERBS_A_ADDRESS | VERBS_A_MTU | VERBS_A_PEER | VERBS_A_RQ_PSN |
		    VERBS_A_PEER_READS | VERBS_A_RNR_TIMER) &&
	       step(r, &third, VERBS_A_TIMEOUT | VERBS_A_RETRIES | VERBS_A_RNR_RETRIES |
		    VERBS_A_SQ_PSN | VERBS_A_READS);
}

static void own_end(const struct rdma *r, struct rdma_end *own)
{
	*own = (struct rdma_end){ .number = r->qp->number, .lid = r->port.lid,
				  .mtu = r->port.active_mtu };
	if (r->gid_index >= 0)
		memcpy(own->gid, r->gid, sizeof(own->gid));
}

static bool connect_to_itself(struct rdma *r)
{
	struct rdma_end own;

	if (!make_queue(r))
		return false;
	own_end(r, &own);
	return connect_to(r, &own);
}

bool rdma_offer(struct rdma *r, struct rdma_end *own)
{
	if (!make_queue(r))
		return false;
	own_end(r, own);
	return true;
}

bool rdma_meet(struct rdma *r, const struct rdma_end *other)
{
	struct rdma_end end = *other;

	/* The smaller one reaches both. */
	if (end.mtu > r->port.active_mtu)
		end.mtu = r->port.active_mtu;
	return connect_to(r, &end);
}

/* ---- transfers ---- */

static struct rdma_place place(const struct verbs_mr *mr, const void *at)
{
	return (struct rdma_place){ mr, (uintptr_t)at };
}

static bool completion(struct rdma *r, struct verbs_done *done)
{
	int (*poll)(void *cq, int count, struct verbs_done *out);
	struct timespec now, start;
	bool noticed = false;
	int n;

	memcpy(&poll, &r->context->ops[VERBS_POLL_CQ], sizeof(poll));
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (;;) {
		n = poll(r->cq, 1, done);
		if (n)
			return n > 0 || fail(r, "ibv_poll_cq", 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > start.tv_sec + r->patience)
			return fail(r, "the device reported no completion", ETIMEDOUT);
		if (r->slow && !noticed && now.tv_sec > start.tv_sec + SLOW_SECONDS) {
			noticed = true;
			r->slow();
		}
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
}

static bool transfer(struct rdma *r, int opcode, struct rdma_place local, struct rdma_place remote,
		     uint32_t length)
{
	int (*post)(struct verbs_qp *qp, struct verbs_request *request, struct verbs_request **bad);
	struct verbs_part part = { .addr = local.addr, .length = length, .lkey = local.mr->lkey };
	struct verbs_request *bad, request = {
		.parts = &part, .count = 1, .opcode = opcode, .flags = VERBS_SIGNALED,
		.remote_addr = remote.addr, .rkey = remote.mr->rkey,
	};
	struct verbs_done done = { 0 };
	int error;

	memcpy(&post, &r->context->ops[VERBS_POST_SEND], sizeof(post));
	error = post(r->qp, &request, &bad);
	if (error)
		return fail(r, "ibv_post_send", error < 0 ? errno : error);
	if (!completion(r, &done))
		return false;
	if (done.status)
		snprintf(r->why, sizeof(r->why), "the device reports: %s",
			 r->status_text(done.status));
	return !done.status;
}

bool rdma_carry(struct rdma *r, struct rdma_place to, struct rdma_place from, uint32_t length,
		bool by_read)
{
	bool well = by_read ? transfer(r, VERBS_RDMA_READ, to, from, length) :
		transfer(r, VERBS_RDMA_WRITE, from, to, length);
	char kept[160];

	/* A write is acknowledged before it need be there; a read of its last byte comes after it. */
	if (well && !by_read) {
		to.addr += length - 1;
		well = transfer(r, VERBS_RDMA_READ, place(r->own, r->trial), to, 1);
	}
	if (!well && !r->apart) {
		/* An error ends the queue pair: the next transfer gets another. */
		memcpy(kept, r->why, sizeof(kept));
		connect_to_itself(r);
		memcpy(r->why, kept, sizeof(kept));
	}
	return well;
}

/* ---- regions ---- */

struct verbs_mr *rdma_register(struct rdma *r, void *addr, size_t length)
{
	struct verbs_mr *mr;

	errno = 0;
	mr = r->reg(r->pd, addr, length, ACCESS);
	if (!mr)
		fail(r, "ibv_reg_mr", errno);
	return mr;
}

struct verbs_mr *rdma_register_dmabuf(struct rdma *r, int fd, size_t length, uint64_t iova)
{
	struct verbs_mr *mr;

	r->by_kernel = false;
	if (!r->reg_dmabuf) {
		snprintf(r->why, sizeof(r->why),
			 "this libibverbs has no ibv_reg_dmabuf_mr (rdma-core 34 has)");
		return NULL;
	}
	errno = 0;
	mr = r->reg_dmabuf(r->pd, 0, length, iova, fd, ACCESS);
	if (mr || errno != EOPNOTSUPP) {
		if (!mr)
			fail(r, "ibv_reg_dmabuf_mr", errno);
		return mr;
	}
	/* Some providers have no such call where the kernel's driver has: as libpeerdma-verbs does it. */
	mr = (struct verbs_mr *)verbs_kernel_reg_dmabuf(r->library, r->pd, 0, length, iova, fd,
							ACCESS);
	r->by_kernel = mr;
	if (!mr)
		snprintf(r->why, sizeof(r->why),
			 "ibv_reg_dmabuf_mr: %s by the provider; by the kernel: %s",
			 strerror(EOPNOTSUPP), strerror(errno));
	return mr;
}

void rdma_unregister(struct rdma *r, struct verbs_mr *mr)
{
	int error;

	if (mr && !verbs_kernel_dereg(r->library, (struct ibv_mr *)mr, &error))
		r->dereg(mr);
}

/* ---- all of it ---- */

/* From one half of our own memory to the other, in both manners. */
static bool trial(struct rdma *r)
{
	unsigned char *from = r->trial + TRIAL, *to = from + TRIAL;

	for (int by_read = 0; by_read < 2; by_read++) {
		for (unsigned int i = 0; i < TRIAL; i++) {
			from[i] = (unsigned char)(i * 7 + (unsigned int)by_read * 3 + 1);
			to[i] = 0;
		}
		if (!rdma_carry(r, place(r->own, to), place(r->own, from), TRIAL, by_read))
			return false;
		if (memcmp(from, to, TRIAL)) {
			snprintf(r->why, sizeof(r->why),
				 "a transfer of host memory changed its bytes");
			return false;
		}
	}
	return true;
}

/*
 * On Ethernet a port has addresses of several kinds, and of some nothing comes back: the last that works,
 * for those of IPv4 stand behind the others.  InfiniBand needs none in its own subnet.
 */
static bool connect_by_any_address(struct rdma *r)
{
	static const uint8_t none[16];

	r->gid_index = -1;
	if (r->port.lid && connect_to_itself(r) && trial(r))
		return true;
	for (r->gid_index = GIDS_MAX - 1; r->gid_index >= 0; r->gid_index--) {
		if (r->gid_index >= r->port.gids ||
		    r->query_gid(r->context, r->port_number, r->gid_index, r->gid) ||
		    !memcmp(r->gid, none, sizeof(none)))
			continue;
		if (connect_to_itself(r) && trial(r))
			return true;
	}
	if (!*r->why)
		snprintf(r->why, sizeof(r->why), "port %u has no address", r->port_number);
	return false;
}

static bool open_device(struct rdma *r, const char *device)
{
	*r = (struct rdma){ .gid_index = -1, .patience = WAIT_SECONDS };
	if (!load(r) || !open_named(r, device) || !active_port(r))
		return false;
	errno = 0;
	r->pd = r->alloc_pd(r->context);
	if (!r->pd)
		return fail(r, "ibv_alloc_pd", errno);
	errno = 0;
	r->cq = r->create_cq(r->context, 16, NULL, NULL, 0);
	if (!r->cq)
		return fail(r, "ibv_create_cq", errno);
	r->trial = aligned_alloc(4096, 3UL * TRIAL);
	if (!r->trial)
		return fail(r, "memory", ENOMEM);
	r->own = rdma_register(r, r->trial, 3UL * TRIAL);
	if (!r->own)
		return false;
	*r->why = 0;
	return true;
}

bool rdma_open(struct rdma *r, const char *device)
{
	return open_device(r, device) && connect_by_any_address(r);
}

bool rdma_open_apart(struct rdma *r, const char *device, int gid_index)
{
	static const uint8_t none[16];

	if (!open_device(r, device))
		return false;
	r->apart = true;
	r->patience = WAIT_APART;
	r->gid_index = gid_index;
	if (gid_index < 0)
		return true;
	if (gid_index >= r->port.gids ||
	    r->query_gid(r->context, r->port_number, gid_index, r->gid) ||
	    !memcmp(r->gid, none, sizeof(none))) {
		snprintf(r->why, sizeof(r->why), "port %u has no GID of index %d", r->port_number,
			 gid_index);
		return false;
	}
	return true;
}

/* The library stays loaded: other code may use it. */
void rdma_close(struct rdma *r)
{
	if (r->qp)
		r->destroy_qp(r->qp);
	rdma_unregister(r, r->own);
	if (r->cq)
		r->destroy_cq(r->cq);
	if (r->pd)
		r->dealloc_pd(r->pd);
	if (r->context)
		r->close(r->context);
	free(r->trial);
}
