// SPDX-License-Identifier: MIT
/* fake_rdma.c - see fake_rdma.h.  Names, layouts and errors are those of verbs. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>

#include "doctor/verbs_abi.h"
#include "fake_rdma.h"

#define REGIONS		8
#define QUEUES		4
#define GIDS		4
#define FAR_ERROR	12	/* the peer does not answer */
#define ACCESS_ERROR	10	/* the peer refuses */

static struct fake_rdma fake;

struct region {
	struct verbs_mr mr;	/* first */
	int access;
};

static struct region regions[REGIONS];
static struct verbs_opened opened;
static char completions[QUEUES], device;
struct queue {
	struct verbs_qp qp;	/* first */
	struct verbs_qp_attr attr;
	struct verbs_cap cap;
	int state, pending, status;
	bool used;
};

static struct queue queues[QUEUES];
/* As libibverbs' own begins. */
static struct {
	void *context;
} domain;

/* What was written, and not yet placed. */
static struct {
	char bytes[16384];
	uint64_t to, length;
} late;

struct fake_rdma *fake_rdma(void)
{
	return &fake;
}

void **ibv_get_device_list(int *count)
{
	static void *list[] = { &device, NULL };

	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(void **list)
{
}

const char *ibv_get_device_name(void *d)
{
	return "fake0";
}

/* ---- transfers ---- */

static void place_late(void)
{
	if (late.length)
		memcpy((void *)(uintptr_t)late.to, late.bytes, late.length);
	late.length = 0;
}

static bool allowed(uint32_t key, bool remote, uint64_t addr, uint64_t length, int access)
{
	for (struct region *r = regions; r < regions + REGIONS; r++) {
		if (key && key == (remote ? r->mr.rkey : r->mr.lkey))
			return addr >= (uintptr_t)r->mr.addr && addr + length <= (uintptr_t)r->mr.addr + r->mr.length &&
			       (r->access & access) == access;
	}
	return false;
}

static void move(uint64_t to, uint64_t from, uint64_t length, bool is_write)
{
	if (fake.transfers == fake.lose)
		return;
	if (is_write && fake.late && length <= sizeof(late.bytes)) {
		memcpy(late.bytes, (void *)(uintptr_t)from, length);
		late.to = to;
		late.length = length;
	} else {
		memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, length);
	}
	if (fake.transfers == fake.flip)
		((char *)(uintptr_t)to)[length / 2] ^= 1;
}

static struct queue *numbered(uint32_t number)
{
	for (struct queue *q = queues; q < queues + QUEUES; q++) {
		if (q->used && q->qp.number == number)
			return q;
	}
	return NULL;
}

/* Each has the other for its peer, by the address that it has. */
static bool are_connected(const struct queue *q)
{
	const struct queue *peer = numbered(q->attr.peer);

	if (!peer || peer->state < VERBS_RTR || peer->attr.peer != q->qp.number)
		return false;
	return !q->attr.address.global || (q->attr.address.gid[0] == peer->attr.address.own_gid &&
					    q->attr.address.gid[15] == peer->attr.address.own_gid);
}

static int post_send(struct verbs_qp *qp, struct verbs_request *r, struct verbs_request **bad)
{
	struct queue *q = (struct queue *)qp;
	bool is_write = r->opcode == VERBS_RDMA_WRITE;

	if (fake.post_error) {
		*bad = r;
		/* Some providers return the error, some set errno. */
		errno = fake.post_error < 0 ? -fake.post_error : 0;
		return fake.post_error < 0 ? -1 : fake.post_error;
	}
	if (q < queues || q >= queues + QUEUES || !q->used || q->state != VERBS_RTS || q->pending ||
	    (uint32_t)r->count > q->cap.send_sge) {
		*bad = r;
		return EINVAL;
	}
	if (!q->cap.send_wr) {
		*bad = r;
		return ENOMEM;
	}
	q->pending = 1;
	q->status = 0;
	fake.transfers++;
	place_late();
	if (!are_connected(q) || (q->attr.address.global && q->attr.address.own_gid >= GIDS - fake.bad_gids))
		q->status = FAR_ERROR;
	else if (fake.transfers == fake.fail ||
		 !allowed(r->parts->lkey, false, r->parts->addr, r->parts->length, is_write ? 0 : VERBS_LOCAL_WRITE) ||
		 !allowed(r->rkey, true, r->remote_addr, r->parts->length, is_write ? VERBS_REMOTE_WRITE : VERBS_REMOTE_READ))
		q->status = ACCESS_ERROR;
	else
		move(is_write ? r->remote_addr : r->parts->addr, is_write ? r->parts->addr : r->remote_addr, r->parts->length, is_write);
	if (q->status)
		q->state = 0;
	return 0;
}

static int poll_cq(void *cq, int count, struct verbs_done *out)
{
	if (fake.slow && fake.slow--)
		return 0;
	if (fake.poll_error)
		return fake.poll_error;
	for (struct queue *q = queues; q < queues + QUEUES; q++) {
		if (!q->used || q->qp.send_cq != cq || !q->pending || count < 1)
			continue;
		q->pending = 0;
		*out = (struct verbs_done){ .status = q->status };
		return 1;
	}
	return 0;
}

const char *ibv_wc_status_str(int s)
{
	return s == FAR_ERROR ? "transport retry counter exceeded" : "remote access error";
}

/* ---- objects ---- */

struct verbs_opened *ibv_open_device(void *d)
{
	int (*poll)(void *cq, int count, struct verbs_done *out) = poll_cq;
	int (*post)(struct verbs_qp *qp, struct verbs_request *r, struct verbs_request **bad) = post_send;

	errno = fake.open_error;
	if (errno)
		return NULL;
	opened.device = d;
	memcpy(&opened.ops[VERBS_POLL_CQ], &poll, sizeof(poll));
	memcpy(&opened.ops[VERBS_POST_SEND], &post, sizeof(post));
	fake.live++;
	return &opened;
}

static int gone(void)
{
	fake.live--;
	return 0;
}

int ibv_close_device(struct verbs_opened *o)
{
	return gone();
}

int ibv_query_port(struct verbs_opened *o, uint8_t port, struct verbs_port *out)
{
	if (port > 2)
		return EINVAL;
	*out = (struct verbs_port){ .state = port > fake.port_down ? VERBS_PORT_ACTIVE : 1, .active_mtu = 3, .gids = GIDS,
				    .lid = fake.lid ? 7 : 0 };
	return 0;
}

/* The first is none. */
int ibv_query_gid(struct verbs_opened *o, uint8_t port, int index, void *gid)
{
	memset(gid, index, 16);
	return index < GIDS ? 0 : -1;
}

void *ibv_alloc_pd(struct verbs_opened *o)
{
	errno = fake.pd_error;
	if (errno)
		return NULL;
	domain.context = o;
	fake.live++;
	return &domain;
}

int ibv_dealloc_pd(void *pd)
{
	return gone();
}

void *ibv_create_cq(struct verbs_opened *o, int entries, void *own, void *channel, int vector)
{
	static unsigned int next;

	errno = fake.cq_error ? fake.cq_error : entries < 1 || vector ? EINVAL : 0;
	if (errno)
		return NULL;
	fake.live++;
	return &completions[next++ % QUEUES];
}

int ibv_destroy_cq(void *cq)
{
	return gone();
}

/* Some adapters, such as those of mlx4, make no queue that has no room to receive, whether anything is to be received or not. */
struct verbs_qp *ibv_create_qp(void *pd, struct verbs_qp_init *init)
{
	bool none = (char *)init->send_cq < completions || (char *)init->send_cq >= completions + QUEUES ||
		init->recv_cq != init->send_cq || !init->cap.recv_wr || !init->cap.recv_sge;
	static uint32_t number;
	struct queue *q = queues;

	errno = fake.create_error ? fake.create_error : pd != &domain || init->type != VERBS_RC || none ? EINVAL : 0;
	if (errno)
		return NULL;
	while (q < queues + QUEUES && q->used)
		q++;
	if (q == queues + QUEUES) {
		errno = ENOMEM;
		return NULL;
	}
	fake.live++;
	*q = (struct queue){ .qp = { .number = ++number, .send_cq = init->send_cq }, .cap = init->cap, .used = true };
	late.length = 0;
	return &q->qp;
}

/* In their order, and connected to one that is there. */
int ibv_modify_qp(struct verbs_qp *qp, struct verbs_qp_attr *a, int which)
{
	struct queue *q = (struct queue *)qp;

	if (!(which & VERBS_A_STATE) || a->state != q->state + 1 || (a->state == VERBS_RTR && !numbered(a->peer)))
		return EINVAL;
	if (a->state == VERBS_RTR)
		q->attr = *a;
	q->state = a->state;
	return 0;
}

int ibv_destroy_qp(struct verbs_qp *qp)
{
	((struct queue *)qp)->used = false;
	return gone();
}

/* ---- regions ---- */

static struct verbs_mr *region(void *addr, size_t length, int access)
{
	static uint32_t key;

	for (struct region *r = regions; r < regions + REGIONS; r++) {
		if (r->mr.lkey)
			continue;
		key += 2;
		*r = (struct region){ .mr = { .addr = addr, .length = length, .lkey = key, .rkey = key + 1 }, .access = access };
		fake.live++;
		return &r->mr;
	}
	errno = ENOMEM;
	return NULL;
}

struct verbs_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access)
{
	if (fake.reg_error && fake.not_host && (char *)addr >= fake.not_host &&
	    (char *)addr < fake.not_host + fake.not_host_length) {
		errno = fake.reg_error;
		return NULL;
	}
	return region(addr, length, access);
}

/* The tests' address of the memory is the processor's. */
struct verbs_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	errno = fake.dmabuf_error ? fake.dmabuf_error : offset || fcntl(fd, F_GETFD) < 0 ? EINVAL : 0;
	if (errno)
		return NULL;
	fake.dmabufs++;
	return region((void *)(uintptr_t)iova, length, access);
}

int ibv_dereg_mr(struct verbs_mr *mr)
{
	memset(mr, 0, sizeof(*mr));
	return gone();
}

/* What providers call: the MR is the caller's, its handle is what names it here. */
int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, struct verbs_mr *mr, void *attributes)
{
	struct verbs_mr *made;

	if (fake.kernel_error >= 0)
		return fake.kernel_error ? fake.kernel_error : EOPNOTSUPP;
	if (offset || fcntl(fd, F_GETFD) < 0)
		return EINVAL;
	made = region((void *)(uintptr_t)iova, length, access);
	if (!made)
		return ENOMEM;
	fake.past++;
	mr->handle = (uint32_t)((struct region *)made - regions);
	mr->lkey = made->lkey;
	mr->rkey = made->rkey;
	return 0;
}

int ibv_cmd_dereg_mr(struct verbs_mr *mr)
{
	return ibv_dereg_mr(&regions[mr->handle].mr);
}
