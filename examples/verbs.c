// SPDX-License-Identifier: MIT
/*
 * verbs.c - an RDMA device with a registration cache: it writes the same buffers many times,
 * and registers each only once.
 *
 *	cc -o verbs verbs.c $(pkg-config --cflags --libs libpeerdma libibverbs) -lcuda	(or softgpu: behind.c)
 *	./verbs [gpu] [DEVICE]			on one machine
 *	./verbs -s [gpu] [DEVICE]		on two machines: waits for the client, which writes to it
 *	./verbs -c HOST [gpu] [DEVICE]		the client
 *	-n ROUNDS				default 1000; the same on both machines
 *
 * The buffers are in host memory, or with "gpu" in GPU memory. The device writes from one buffer to another: of the
 * other machine, or of the same program, by a queue pair that is connected to itself. Any RDMA device can be used,
 * also a software one: "rdma link add rxe0 type rxe netdev lo". If the device cannot access the memory itself, the
 * program uses a copy in host memory, and prints that.
 */
#include <cuda.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <peerdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFERS	4
#define LENGTH	65536UL
#define PORT	"18515"

static int rounds = 1000;
static struct ibv_context *device;
static struct ibv_pd *domain;
static struct ibv_cq *completions;
static struct ibv_qp *queue;
static struct peerdma_cache *cache;

/* ---- a transfer ---- */

static int wait_for_completion(void)
{
	struct ibv_wc done;
	int n;

	do
		n = ibv_poll_cq(completions, 1, &done);
	while (!n);
	return n == 1 && done.status == IBV_WC_SUCCESS ? 0 : -1;
}

static int mr_of(struct peerdma_cached *hold, const struct peerdma_mr **mr)
{
	return peerdma_cache_mr(cache, hold, domain, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, mr);
}

/* Where the device has a copy. */
static int staged(struct peerdma_cached *hold, const char *buffer, unsigned int flags)
{
	return peerdma_sync(hold->registration, (uintptr_t)buffer - hold->addr, LENGTH, flags);
}

/* To a buffer of this program's, or of the other machine's. */
static int write_one(struct peerdma_cached *hold, char *from, uint64_t to, uint32_t rkey)
{
	struct ibv_send_wr *bad, write = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1 };
	struct ibv_sge part = { .addr = (uintptr_t)from, .length = LENGTH };
	const struct peerdma_mr *source;
	int ret = mr_of(hold, &source);

	if (!ret)
		ret = staged(hold, from, PEERDMA_TO_DEVICE);
	if (ret)
		return ret;
	part.lkey = source->lkey;
	write.sg_list = &part;
	write.wr.rdma.remote_addr = to;
	write.wr.rdma.rkey = rkey;
	return ibv_post_send(queue, &write, &bad) || wait_for_completion() ? -EIO : 0;
}

static int copy(char *to, char *from)
{
	struct peerdma_cached *holds[2];
	const struct peerdma_mr *sink;
	int ret = peerdma_cache_get(cache, from, LENGTH, &holds[0]);

	if (ret)
		return ret;
	ret = peerdma_cache_get(cache, to, LENGTH, &holds[1]);
	if (!ret) {
		ret = mr_of(holds[1], &sink);
		if (!ret)
			ret = write_one(holds[0], from, (uintptr_t)to, sink->rkey);
		if (!ret)
			ret = staged(holds[1], to, PEERDMA_FROM_DEVICE);
		peerdma_cache_put(cache, holds[1]);
	}
	peerdma_cache_put(cache, holds[0]);
	return ret;
}

/* ---- buffers ---- */

static int gpu;

static int gpu_begin(void)
{
	CUcontext context;
	CUdevice first;

	return cuInit(0) || cuDeviceGet(&first, 0) || cuDevicePrimaryCtxRetain(&context, first) || cuCtxSetCurrent(context);
}

static char *buffer_get(void)
{
	CUdeviceptr p = 0;
	void *host;

	if (gpu)
		return cuMemAlloc(&p, LENGTH) ? NULL : (char *)(uintptr_t)p;
	host = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return host == MAP_FAILED ? NULL : host;
}

static void buffer_fill(char *buffer, int byte)
{
	if (gpu)
		cuMemsetD8((uintptr_t)buffer, (unsigned char)byte, LENGTH);
	else
		memset(buffer, byte, LENGTH);
}

static int buffer_is(const char *buffer, int byte)
{
	static char bytes[LENGTH];

	if (!gpu)
		memcpy(bytes, buffer, LENGTH);
	else if (cuMemcpyDtoH(bytes, (uintptr_t)buffer, LENGTH))
		return 0;
	return bytes[0] == (char)byte && !memcmp(bytes, bytes + 1, LENGTH - 1);
}

/* Of a GPU's memory the cache hears by itself. Of the host's it does with peerdma.ko; PEERDMA_CACHE_CALLS: we tell, too. */
static void buffer_put(char *buffer)
{
	if (gpu) {
		cuMemFree((uintptr_t)buffer);
	} else {
		peerdma_cache_invalidate(cache, buffer, LENGTH);
		peerdma_cache_drain(cache);
		munmap(buffer, LENGTH);
	}
}

/* ---- the device ---- */

static int open_device(const char *name)
{
	struct ibv_device **all = ibv_get_device_list(NULL);

	for (int i = 0; all && all[i] && !device; i++) {
		if (!name || !strcmp(name, ibv_get_device_name(all[i])))
			device = ibv_open_device(all[i]);
	}
	if (all)
		ibv_free_device_list(all);
	return device ? 0 : -1;
}

/* The last address that the port has: on Ethernet, where there are several, that of IPv4. */
static int own_address(union ibv_gid *gid)
{
	union ibv_gid found, none = { .raw = { 0 } };
	int index = -1;

	for (int i = 0; i < 8 && !ibv_query_gid(device, 1, i, &found); i++) {
		if (memcmp(&found, &none, sizeof(none))) {
			*gid = found;
			index = i;
		}
	}
	return index;
}

/* What one end tells the other. */
struct end {
	union ibv_gid gid;
	uint32_t queue, lid;
	uint64_t addr[BUFFERS];
	uint32_t rkey[BUFFERS];
};

static int gid_index;

static int create_queue(struct end *own)
{
	struct ibv_qp_init_attr init = {
		.send_cq = completions, .recv_cq = completions, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_port_attr port;

	queue = ibv_create_qp(domain, &init);
	if (!queue || ibv_query_port(device, 1, &port))
		return -1;
	gid_index = own_address(&own->gid);
	own->queue = queue->qp_num;
	own->lid = port.lid;
	return 0;
}

/* The other end may be this one. */
static int connect_queue(const struct end *other)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	if (ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other->queue, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = { .dlid = (uint16_t)other->lid, .port_num = 1 },
	};
	if (gid_index >= 0) {
		a.ah_attr.is_global = 1;
		a.ah_attr.grh.dgid = other->gid;
		a.ah_attr.grh.sgid_index = (uint8_t)gid_index;
		a.ah_attr.grh.hop_limit = 1;
	}
	if (ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 19, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	return ibv_modify_qp(queue, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC);
}

/* How the device gets at a buffer, in words. */
static int say(const char *buffer)
{
	struct peerdma_status status = { .size = sizeof(status) };
	const struct peerdma_mr *mr;
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, buffer, LENGTH, &hold);

	if (ret)
		return ret;
	ret = mr_of(hold, &mr);
	if (!ret)
		ret = peerdma_status(hold->registration, &status);
	if (!ret)
		printf("%s: a pin of back-end %s, an MR by way of %s%s%s\n", ibv_get_device_name(device->device), status.backend,
		       mr->way, *mr->why ? "; " : "", mr->why);
	peerdma_cache_put(cache, hold);
	return ret;
}

/* ---- the other machine ---- */

/* The connection; host: NULL: waits for it. */
static int meet(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *at;
	int fd, one = 1, error = getaddrinfo(host, PORT, &hints, &at), met = -1;

	if (error) {
		fprintf(stderr, "verbs: %s: %s\n", host ? host : PORT, gai_strerror(error));
		return -1;
	}
	fd = socket(at->ai_family, at->ai_socktype, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (host)
		met = connect(fd, at->ai_addr, at->ai_addrlen) ? -1 : fd;
	else if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, 1))
		met = accept(fd, NULL, NULL);
	if (met < 0)
		perror("verbs: no connection");
	if (met != fd)
		close(fd);
	freeaddrinfo(at);
	return met;
}

static int send_all(int fd, const void *data, size_t length)
{
	return send(fd, data, length, MSG_NOSIGNAL) == (ssize_t)length ? 0 : -EPIPE;
}

static int receive(int fd, void *data, size_t length)
{
	return recv(fd, data, length, MSG_WAITALL) == (ssize_t)length ? 0 : -EPIPE;
}

/* This end writes each round to the next buffer of the other one, and hears whether that was seen there. */
static int client(int fd, char *buffers[], const struct end *other)
{
	struct peerdma_cached *hold;
	char round, seen;
	int ret = 0;

	for (int i = 0; i < rounds && !ret; i++) {
		buffer_fill(buffers[i % BUFFERS], i);
		ret = peerdma_cache_get(cache, buffers[i % BUFFERS], LENGTH, &hold);
		if (ret)
			break;
		ret = write_one(hold, buffers[i % BUFFERS], other->addr[i % BUFFERS], other->rkey[i % BUFFERS]);
		peerdma_cache_put(cache, hold);
		round = (char)i;
		if (!ret)
			ret = send_all(fd, &round, 1) || receive(fd, &seen, 1) || seen != round ? -EIO : 0;
	}
	return ret;
}

/* holds: the other end writes to the buffers as long as they are held. */
static int server(int fd, char *buffers[], struct peerdma_cached *holds[])
{
	char round;
	int ret = 0;

	for (int i = 0; i < rounds && !ret; i++) {
		ret = receive(fd, &round, 1);
		if (!ret)
			ret = staged(holds[i % BUFFERS], buffers[i % BUFFERS], PEERDMA_FROM_DEVICE);
		if (!ret)
			ret = buffer_is(buffers[i % BUFFERS], round) ? send_all(fd, &round, 1) : -EIO;
	}
	return ret;
}

static int between_machines(const char *host, char *buffers[], struct end *own)
{
	struct peerdma_cached *holds[BUFFERS] = { NULL };
	const struct peerdma_mr *mr;
	struct end other;
	int fd = meet(host), ret = fd < 0 ? -ENOTCONN : 0;

	for (int i = 0; i < BUFFERS && !ret; i++) {
		ret = peerdma_cache_get(cache, buffers[i], LENGTH, &holds[i]);
		if (!ret)
			ret = mr_of(holds[i], &mr);
		if (!ret) {
			own->addr[i] = (uintptr_t)buffers[i];
			own->rkey[i] = mr->rkey;
		}
	}
	if (!ret)
		ret = send_all(fd, own, sizeof(*own)) || receive(fd, &other, sizeof(other)) || connect_queue(&other) ? -EIO : 0;
	/* Neither writes before both can be written to. */
	if (!ret)
		ret = send_all(fd, "", 1) || receive(fd, &(char){ 0 }, 1) ? -EPIPE : 0;
	if (!ret)
		ret = host ? client(fd, buffers, &other) : server(fd, buffers, holds);
	for (int i = 0; i < BUFFERS; i++)
		if (holds[i])
			peerdma_cache_put(cache, holds[i]);
	close(fd);
	if (!ret)
		printf("%d transfers %s\n", rounds, host ? "seen by the other machine" : "from the other machine");
	return ret;
}

/* ---- one machine ---- */

static int within(char *buffers[], const struct end *own)
{
	int wrong = connect_queue(own);

	for (int i = 0; i < rounds && !wrong; i++) {
		buffer_fill(buffers[i % BUFFERS], i);
		wrong = copy(buffers[(i + 1) % BUFFERS], buffers[i % BUFFERS]) || !buffer_is(buffers[(i + 1) % BUFFERS], i);
	}
	if (wrong)
		return wrong;

	/* The MR goes, and what comes to be at its address gets its own. */
	buffer_put(buffers[0]);
	buffers[0] = buffer_get();
	buffer_fill(buffers[0], 1);
	return copy(buffers[1], buffers[0]) || !buffer_is(buffers[1], 1);
}

int main(int argc, char **argv)
{
	struct peerdma_cache_options options = {
		.size = sizeof(options), .flags = PEERDMA_CACHE_CALLS | PEERDMA_CACHE_STAGING,
	};
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma *ctx;
	char *buffers[BUFFERS];
	struct end own = { .queue = 0 };
	const char *host = NULL;
	int two = 0, wrong = 0, option;

	while ((option = getopt(argc, argv, "sc:n:")) != -1) {
		if (option == '?')
			return 2;
		if (option == 'n') {
			rounds = atoi(optarg);
			continue;
		}
		two = 1;
		host = optarg;
	}
	argc -= optind - 1;
	argv += optind - 1;
	if (argc > 1 && !strcmp(argv[1], "gpu")) {
		gpu = 1;
		argc--;
		argv++;
	}
	if (open_device(argc > 1 ? argv[1] : NULL) || (gpu && gpu_begin())) {
		fprintf(stderr, "verbs: no %s%s%s\n", device ? "GPU" : "RDMA device", argc > 1 ? " " : "", argc > 1 ? argv[1] : "");
		return 77;
	}
	domain = ibv_alloc_pd(device);
	completions = ibv_create_cq(device, 4, NULL, NULL, 0);
	if (!domain || !completions || create_queue(&own)) {
		perror("verbs: the device cannot be used");
		return 1;
	}
	if (peerdma_open(&ctx, 0) || peerdma_cache_open(ctx, &options, &cache))
		goto failed;
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i] = buffer_get();
		if (!buffers[i])
			goto failed;
	}
	if ((two ? between_machines(host, buffers, &own) : within(buffers, &own)) || say(buffers[1]) ||
	    peerdma_cache_counters(cache, &c))
		goto failed;
	printf("%d transfers, %llu pins made, %llu gets found one; %llu ended with its memory\n", rounds + !two,
	       (unsigned long long)c.misses, (unsigned long long)c.hits, (unsigned long long)(c.invalidations + c.stale));
	peerdma_cache_close(cache);
	ibv_destroy_qp(queue);
	ibv_destroy_cq(completions);
	wrong = ibv_dealloc_pd(domain);		/* -EBUSY if an MR were left */
	ibv_close_device(device);
	peerdma_close(ctx);
	return wrong || (!two && (c.misses != BUFFERS + 1 || c.invalidations + c.stale != 1));
failed:
	fprintf(stderr, "verbs: a transfer failed: %s\n", *peerdma_last_error() ? peerdma_last_error() : "other bytes arrived");
	return 1;
}
