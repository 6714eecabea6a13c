// SPDX-License-Identifier: MIT
/* remote.c - see remote.h. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../fpga/src/sysfs.h"
#include "kernel.h"
#include "remote.h"

#define MARK		0xa5
#define SETTLE_MS	300	/* longer than any packet can be in flight */
#define TRIES		150	/* to connect, a fifth of a second apart */

/* ---- the socket ---- */

static bool all(int fd, void *data, size_t length, bool out)
{
	char *p = data;

	while (length) {
		ssize_t n = out ? send(fd, p, length, MSG_NOSIGNAL) : recv(fd, p, length, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		length -= (size_t)n;
	}
	return true;
}

bool remote_order(int fd, const struct order *order, struct why *why)
{
	struct order copy = *order;

	if (all(fd, &copy, sizeof(copy), true))
		return true;
	why_set(why, "side B is gone");
	return false;
}

bool remote_answer(int fd, struct answer *answer, struct why *why)
{
	if (!all(fd, answer, sizeof(*answer), false)) {
		why_set(why, "side B is gone");
		return false;
	}
	if (!answer->ok)
		why_set(why, "side B: %s", answer->why);
	return answer->ok;
}

bool remote_answered(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

bool remote_ask(int fd, const struct order *order, struct answer *answer, struct why *why)
{
	return remote_order(fd, order, why) && remote_answer(fd, answer, why);
}

static struct addrinfo *resolve(const char *host, const char *port, struct why *why)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE };
	struct addrinfo *found = NULL;
	int error = getaddrinfo(host, port, &hints, &found);

	if (error)
		why_set(why, "%s, port %s: %s", host ? host : "this machine", port, gai_strerror(error));
	return error ? NULL : found;
}

int remote_listen(const char *port, struct why *why)
{
	struct addrinfo *at = resolve(NULL, port, why);
	int fd, client, on = 1;

	if (!at)
		return -1;
	fd = socket(at->ai_family, at->ai_socktype, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	client = bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 1) ? -1 : accept(fd, NULL, NULL);
	if (client < 0)
		why_set(why, "port %s: %s", port, strerror(errno));
	freeaddrinfo(at);
	close(fd);
	return client;
}

int remote_connect(const char *host, const char *port, struct why *why)
{
	struct addrinfo *at = resolve(host, port, why);
	int fd = -1;

	for (int i = 0; at && fd < 0 && i < TRIES; i++) {
		fd = socket(at->ai_family, at->ai_socktype, 0);
		if (fd < 0 || !connect(fd, at->ai_addr, at->ai_addrlen))
			break;
		why_set(why, "%s, port %s: %s", host, port, strerror(errno));
		close(fd);
		fd = -1;
		sleep_ms(200);
	}
	if (at)
		freeaddrinfo(at);
	return fd;
}

/* ---- side B ---- */

/* State of side B between orders. */
struct job {
	struct side *side;
	uint64_t copied;	/* the GPU's count when the memory was registered */
	uint64_t marked;	/* the memory allocated anew; 0: none */
	uint64_t dma;		/* DMA address of the registered memory */
};

void remote_hello(struct side *s, struct answer *a)
{
	gethostname(a->host, sizeof(a->host) - 1);
	strcpy(a->gpu, s->gpu.pci);
	strcpy(a->adapter, s->adapter);
	strcpy(a->adapter_pci, s->adapter_pci);
	a->translates = kernel_iommu_translates(s->adapter);
}

static bool do_register(struct job *job, const struct order *o, struct answer *a)
{
	struct side *s = job->side;

	if (!side_register(s, o->way, o->length, &a->translation) ||
	    !gpu_set(&s->gpu, s->addr, 0, s->length, &s->why) || !side_copied(s, &job->copied))
		return false;
	job->dma = a->translation.dma;
	a->base = side_base(s);
	a->rkey = s->mr->rkey;
	return true;
}

static bool do_arrived(struct job *job, struct answer *a)
{
	if (!side_stage(job->side, false) || !side_copied(job->side, &a->copied))
		return false;
	a->copied -= job->copied;
	return true;
}

/* Returns a copy of its bytes, or NULL and why. */
static unsigned char *bytes_of(struct side *s, uint64_t addr)
{
	unsigned char *bytes = malloc(s->length);

	if (bytes && gpu_read(&s->gpu, bytes, addr, s->length, &s->why))
		return bytes;
	if (!bytes)
		why_set(&s->why, "no memory");
	free(bytes);
	return NULL;
}

static bool do_digest(struct job *job, struct answer *a)
{
	unsigned char *bytes = bytes_of(job->side, job->side->addr);

	if (bytes)
		digest(bytes, job->side->length, a->digest);
	free(bytes);
	return bytes;
}

static bool do_free(struct job *job, const struct order *o, struct answer *a)
{
	struct side *s = job->side;
	uint64_t addr = s->addr, began;

	if (o->ignore_stop && !module_param_set("peerdma_hca", "ignore_stop", "1")) {
		why_set(&s->why, "peerdma_hca's ignore_stop cannot be set");
		return false;
	}

	kernel_trace_clear();
	began = now_ns();
	if (!side_free(s))
		return false;
	a->free_ns = now_ns() - began;
	a->unmapped = kernel_unmapped(job->dma);
	if (!gpu_alloc(&s->gpu, s->length, &job->marked, &s->why) ||
	    !gpu_set(&s->gpu, job->marked, MARK, s->length, &s->why))
		return false;
	a->same = job->marked == addr;
	return true;
}

static bool do_look(struct job *job, struct answer *a)
{
	unsigned char *bytes;

	sleep_ms(SETTLE_MS);
	module_param_set("peerdma_hca", "ignore_stop", "0");
	bytes = bytes_of(job->side, job->marked);
	if (!bytes)
		return false;
	a->changed = 0;
	for (size_t i = 0; i < job->side->length; i++)
		a->changed += bytes[i] != MARK;
	free(bytes);
	return true;
}

static bool do_end(struct job *job)
{
	uint64_t marked = job->marked;

	job->marked = 0;
	return side_end(job->side) && (!marked || gpu_free(&job->side->gpu, marked, &job->side->why));
}

static bool obey(struct job *job, const struct order *o, struct answer *a)
{
	struct side *s = job->side;

	switch (o->what) {
	case ORDER_HELLO:
		remote_hello(s, a);
		return true;
	case ORDER_QUEUE:
		if (!side_queue(s) || !side_connect(s, &o->address))
			return false;
		a->address = s->own;
		return true;
	case ORDER_REGISTER:
		return do_register(job, o, a);
	case ORDER_ARRIVED:
		return do_arrived(job, a);
	case ORDER_DIGEST:
		return do_digest(job, a);
	case ORDER_FREE:
		return do_free(job, o, a);
	case ORDER_LOOK:
		return do_look(job, a);
	case ORDER_END:
		return do_end(job);
	case ORDER_COUNT:
		return side_counts(s, &a->counts);
	default:
		return true;
	}
}

void remote_serve(struct side *s, int fd)
{
	struct job job = { .side = s };
	struct order order;

	do {
		struct answer answer = { 0 };

		if (!all(fd, &order, sizeof(order), false))
			break;
		answer.ok = obey(&job, &order, &answer);
		if (!answer.ok)
			snprintf(answer.why, sizeof(answer.why), "%.255s", s->why.text);
		if (!all(fd, &answer, sizeof(answer), true))
			break;
	} while (order.what != ORDER_BYE);
	do_end(&job);
}
