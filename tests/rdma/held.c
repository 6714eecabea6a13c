// SPDX-License-Identifier: MIT
/*
 * held.c - answers to a read wait at the requester, because the dma-buf that they are written to cannot be mapped.  However many
 * there are, they take up little memory.  No queue pair's end waits for them, not even that of the other end.  Once the dma-buf
 * can be mapped, the read goes on, and has all its bytes.  And a region that no request needs any more is not mapped again: others
 * of the same dma-buf would wait for it.
 *
 *	mover_fd BYTES held ADAPTER BYTES
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "memory.h"
#include "now.h"
#include "pair.h"

#define SOON 5.0	/* seconds */
#define SHORT (1UL << 20)
#define PACKET 1024UL
#define REGIONS 8

static int control;
static struct pair p;
static struct memory host;
static struct ibv_mr *subject_mr, *host_mr;

/* In KiB. */
static long available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	long n = -1;

	while (file && n < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %ld", &n) != 1)
			n = -1;
	MUST(n >= 0, "/proc/meminfo");
	fclose(file);
	return n;
}

static void command(const char *text)
{
	MUST(write(control, text, strlen(text)) == (ssize_t)strlen(text), "%s", text);
}

static void destroy(int which)
{
	double begin = now();

	errno = ibv_destroy_qp(p.qp[which]);
	MUST(!errno, "ibv_destroy_qp");
	p.qp[which] = NULL;
	MUST(now() - begin <= SOON, "destroying queue pair %d took %.1f s", which, now() - begin);
}

/* Posts a read whose answers are held, until let_go().  Returns how much memory they take up, in KiB. */
static long hold(size_t size)
{
	struct request r = { .opcode = IBV_WR_RDMA_READ, .local = subject_mr, .length = (uint32_t)size,
			     .remote_addr = host.addr, .rkey = host_mr->rkey };
	struct ibv_wc wc;
	long before;

	/* No memory for the mapping, for long. */
	command("refuse map 1000000 12");
	command("move");
	before = available();
	MUST(!pair_post(&p, 0, &r), "posting a read");
	sleep(1);
	MUST(!ibv_poll_cq(p.cq[0], 1, &wc), "a read into memory that is not there: %s", ibv_wc_status_str(wc.status));
	return before - available();
}

static void let_go(void)
{
	command("refuse map 0 12");
}

/*
 * Waits for the read, for as long as packets arrive: the answers that did not wait are requested again only behind the others, and
 * on a slow kernel these take a while.
 */
static enum ibv_wc_status wait_for_all(const unsigned char *subject, size_t size)
{
	const unsigned char *original = (const unsigned char *)(uintptr_t)host.addr;
	long had, received = pair_packets(&p);
	struct ibv_wc wc;
	size_t at = 0;
	double end;

	do {
		for (end = now() + SOON; now() < end; usleep(1000))
			if (ibv_poll_cq(p.cq[0], 1, &wc))
				return wc.status;
		had = received;
		received = pair_packets(&p);
	} while (received > had);
	while (at < size && !memcmp(subject + at, original + at, PACKET))
		at += PACKET;
	die("the read ends after %zu of %zu bytes", at, size);
}

static void little_memory(int fd, size_t size)
{
	const unsigned char *subject = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	enum ibv_wc_status status;
	long taken;

	MUST(subject != MAP_FAILED, "mmap of the dma-buf");
	taken = hold(size);
	printf("%ld KiB for the answers to a read of %zu KiB\n", taken, size / 1024);
	/* Without a bound they took 773 MB of a read of 32 MiB. */
	if (getenv("PEERDMA_PATIENCE"))
		printf("not compared: on a kernel with KASAN, freed packets stay in its quarantine, of a 32nd of the memory\n");
	else if (taken > (long)(size / 1024))
		die("the answers take up %ld KiB", taken);
	let_go();
	status = wait_for_all(subject, size);
	MUST(status == IBV_WC_SUCCESS, "the read: %s", ibv_wc_status_str(status));
	MUST(!memcmp(subject, (void *)(uintptr_t)host.addr, size), "other bytes were read");
	munmap((void *)(uintptr_t)subject, size);
}

/* How often the dma-buf was mapped. */
static long maps(void)
{
	char text[4096] = "";
	const char *line;

	MUST(pread(control, text, sizeof(text) - 1, 0) > 0, "reading the buffer's state");
	line = strstr(text, "\nmaps ");
	return line ? atol(line + 6) : -1;
}

static void not_needed(const char *adapter, int fd)
{
	struct ibv_mr *mrs[REGIONS];
	struct pair pairs[REGIONS];
	long before, made;
	int i, which;

	for (i = 0; i < REGIONS; i++) {
		pair_open(&pairs[i], adapter, 0);
		mrs[i] = ibv_reg_dmabuf_mr(pairs[i].pd, 0, PACKET, 0, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		MUST(mrs[i], "the dma-buf cannot be registered");
		pair_connect(&pairs[i]);
	}
	command("delay 1000");
	command("move");
	before = maps();
	for (i = 0; i < REGIONS; i++) {
		struct request r = { .opcode = IBV_WR_RDMA_WRITE, .local = mrs[i], .length = 8, .rkey = mrs[i]->rkey };

		MUST(!pair_post(&pairs[i], 0, &r), "posting a write");
	}
	for (i = 0; i < REGIONS; i++)
		for (which = 0; which < 2; which++) {
			MUST(!ibv_destroy_qp(pairs[i].qp[which]), "ibv_destroy_qp");
			pairs[i].qp[which] = NULL;
		}
	for (i = 0; i < REGIONS; i++) {
		MUST(!ibv_dereg_mr(mrs[i]), "ibv_dereg_mr");
		pair_close(&pairs[i]);
	}
	made = maps() - before;
	printf("%ld of %d regions were mapped again for queue pairs that have ended\n", made, REGIONS);
	MUST(made <= REGIONS / 2, "regions are mapped that no request needs");
	command("delay 0");
}

int main(int argc, char **argv)
{
	const char *fd = getenv("MOVER_FD"), *name = getenv("MOVER_CONTROL");
	size_t size = argc == 3 ? strtoul(argv[2], NULL, 0) : 0, i;
	int which;

	MUST(size && fd && name, "usage: mover_fd BYTES held ADAPTER BYTES");
	control = open(name, O_RDWR);
	memory_alloc(&host, MEMORY_HOST, size);
	for (i = 0; i < size; i += sizeof(uint32_t))
		*(uint32_t *)(uintptr_t)(host.addr + i) = (uint32_t)i * 2654435761U;
	pair_open(&p, argv[1], 0);
	/* Nothing is asked for again because of a timeout. */
	p.timeout = 0;
	pair_connect(&p);
	host_mr = memory_register(&host, p.pd);
	subject_mr = ibv_reg_dmabuf_mr(p.pd, 0, size, 0, atoi(fd), IBV_ACCESS_LOCAL_WRITE);
	MUST(subject_mr, "the dma-buf cannot be registered");
	little_memory(atoi(fd), size);
	p.timeout = 14;	/* 67 ms */
	for (which = 0; which < 2; which++) {
		pair_connect(&p);
		/* A long read's answers take a while to be sent, even if no queue pair takes them. */
		hold(size < SHORT ? size : SHORT);
		destroy(which);
		let_go();
		destroy(!which);
	}
	MUST(!ibv_dereg_mr(subject_mr) && !ibv_dereg_mr(host_mr), "ibv_dereg_mr");
	not_needed(argv[1], atoi(fd));
	return 0;
}
